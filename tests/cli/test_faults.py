"""Bad input: one line, exit 2, nothing written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from polidiff.cli.study import line_of
from tests.report import samples

BAD = [
    ("outcom = 1\n", "line 1: unknown key 'outcom'; did you mean outcomes?"),
    ("[policies]\ncurent = 'a'\n", "line 2: unknown key 'curent' in [policies]; did you mean current?"),
    ("[policies]\ncurrent = 3\n", "line 2: policies.current must be a text in quotes; got 3"),
    ("[options]\nlevel = 'high'\n", "line 2: options.level must be a number; got 'high'"),
    ("[options]\nseed = true\n", "line 2: options.seed must be a whole number from 0 to 2¹²⁸; got True"),
    ("[options]\nseed = -1\n", "line 2: options.seed must be a whole number from 0 to 2¹²⁸; got -1"),
    ("[world.lgo]\npath = 'x'\n", "line 1: unknown world 'lgo'; did you mean log?"),
    ("[world.log]\npath = 'x'\naction = 'a'\n", "line 1: [world.log] needs 'state', a text or a list of texts"),
    ("[world.log]\npath='x'\n[world.table]\npath='y'\n", "expected one world of [world.log], [world.gymnasium]"),
    ("[policies]\ncurrent = 'a'\n", "expected one world of"),
    ("[[outcomes]]\nname = 'a'\ncolumn = 'c'\n[[outcomes]]\nname = 'b'\n", "line 4: outcome 'b' needs one of column"),
    (
        "[[outcomes]]\nname = 'a'\ncolumn = 'c'\nconstant = 1\n",
        "needs one of column, info, array, function, constant; came",
    ),
    ("[[outcomes]]\ncolumn = 'c'\n", "line 1: an outcome needs a 'name'"),
    ("[outcomes]\nname = 'a'\n", "outcomes must be written as [[outcomes]]"),
    ("[improve]\nkeep = 3\n", "line 2: improve.keep must be a text or a list of texts; got 3"),
    ("title = ''\n", "line 1: title must be a text in quotes; got ''"),
    ("a = [\n", "is not TOML"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_a_study_with_a_slip_names_the_place_and_the_way_out(polidiff, tmp_path, text, message):
    path = tmp_path / "study.toml"
    path.write_text(text, encoding="utf-8")
    ran = polidiff("explain", path, "--report", tmp_path / "x.html")
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert os.listdir(tmp_path) == ["study.toml"]


def test_lines_are_those_of_the_key():
    text = '# x\n[world.log]\npath = "a"\n\n[[outcomes]]\nname = "a"\n[[outcomes]]\nname = "b"\n'
    assert line_of(text, ("world", "log", "path")) == 3
    assert line_of(text, ("outcomes", 1, "name")) == 8
    assert line_of(text, ("outcomes", 1, "column")) == 7
    assert line_of(text, ("policies",)) is None


FAULTS = [
    (["explain", "missing.toml"], "cannot read the study missing.toml: No such file"),
    (["explain", "--seed", "1"], "expected one world of"),
    (
        ["explain", "--env", "CartPole-v1", "--log", "x.csv"],
        "--env is about one kind of world and --log about another; give one",
    ),
    (["explain", "--env", "CartPole-v1", "--state", "x"], "--env is about one kind of world and --state about another"),
    (["report", "missing.json", "-o", "x.html"], "there is no file 'missing.json'. Hint: polidiff explain"),
    (
        ["explain", "bad\udcff.toml"],
        "expected names in UTF-8; got 'bad\\udcff.toml'. Hint: set LANG=C.UTF-8, or rename the file",
    ),
    (["demo", "chain", "-o", "bad\udcff.json"], "expected names in UTF-8"),
    (["explian"], "no command 'explian'; did you mean explain?"),
    (
        ["explain", "--world", "os:getcwd", "--current", "a.npy", "--proposed", "b.npy"],
        "nothing was run. Hint: allow it",
    ),
    (["explain", "--world", "polidiff.domains.chain:wrld", "--current", "a"], "has no 'wrld'; did you mean world?"),
    (["explain", "--world", "polidiff.domains.chain:world", "--proposed", "a.npy"], "names no current policy"),
    (
        ["explain", "--world", "polidiff.domains.chain:world", "--current", "log", "--proposed", "a.npy"],
        "estimated from",
    ),
    (["demo", "chain", "-o", "x.pdf"], "a result is saved as one of"),
]


@pytest.mark.parametrize(("arguments", "message"), FAULTS)
def test_bad_usage_leaves_with_two_and_says_why(polidiff, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    ran = polidiff(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert os.listdir(tmp_path) == []


def test_a_page_that_cannot_be_written_says_so(polidiff, tmp_path):
    samples.plain().save(tmp_path / "diff.json")
    ran = polidiff("report", tmp_path / "diff.json", "-o", tmp_path / "no" / "x.html")
    assert ran.code == 2
    assert "cannot write" in ran.err
    assert os.listdir(tmp_path) == ["diff.json"]


@pytest.mark.parametrize(("name", "room"), [("x.html", 0), ("x.md", 0), ("x.md", 1), ("x.md", 2)])
def test_a_full_disk_leaves_no_half_file_and_no_pictures_without_their_text(
    polidiff, tmp_path, monkeypatch, name, room
):
    samples.plain().save(tmp_path / "diff.json")
    fits = iter([True] * room)

    def full(handle: int) -> None:
        if not next(fits, False):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    ran = polidiff("report", tmp_path / "diff.json", "-o", tmp_path / name)
    assert ran.code == 2
    assert "No space left on device" in ran.err
    assert os.listdir(tmp_path) == ["diff.json"]


def test_killed_before_the_last_moment_leaves_no_half_page(tmp_path):
    samples.plain().save(tmp_path / "diff.json")
    (tmp_path / "x.html").write_text("the page of yesterday")
    code = (
        "import os, signal\n"
        "os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from polidiff.cli.main import run\n"
        "run(['report', 'diff.json', '-o', 'x.html'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "x.html").read_text() == "the page of yesterday"


def test_an_old_a_new_and_a_foreign_result_are_told_apart(polidiff, tmp_path):
    path = tmp_path / "diff.json"
    document = samples.plain().to_dict()
    cases = {
        "this explanation has version 99; this polidiff reads up to 1. Hint: update polidiff": {
            **document,
            "version": 99,
        },
        "the version of this explanation must be a positive integer": {**document, "version": 0},
        "unknown schema 'polidiff/novel'": {**document, "schema": "polidiff/novel"},
        'expected a polidiff result with a "schema" entry': {"a": 1},
        "explanation.regions must be a list": {**document, "regions": 3},
    }
    for message, content in cases.items():
        path.write_text(json.dumps(content))
        ran = polidiff("report", path, "-o", tmp_path / "x.html")
        assert ran.code == 2
        assert message in ran.err
    path.write_text(json.dumps(document)[:500])
    assert "the file may be cut off" in polidiff("report", path, "-o", tmp_path / "x.html").err


def test_a_result_of_version_one_is_read_and_drawn(polidiff, tmp_path):
    path = tmp_path / "diff.json"
    samples.plain().save(path)
    assert json.loads(path.read_text())["version"] == 1
    assert polidiff("report", path, "-o", tmp_path / "x.html").code == 0


def test_a_frontier_is_no_answer_to_a_question(polidiff, tmp_path):
    samples.frontier().save(tmp_path / "plans.json")
    ran = polidiff("ask", tmp_path / "plans.json", "when", "E")
    assert ran.code == 2
    assert "expected the result of explain" in ran.err


def test_faults_of_our_own_leave_with_seventy_and_a_trace(polidiff, monkeypatch, tmp_path):
    def broken(path: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("polidiff.api.load", broken)
    ran = polidiff("report", tmp_path / "x.json", "-o", tmp_path / "x.html")
    assert ran.code == 70
    assert "a bug" in ran.err


@pytest.mark.parametrize("command", ["explain", "improve", "check"])
def test_a_command_without_arguments_shows_the_ways_to_call_it(polidiff, command):
    ran = polidiff(command)
    assert ran.code == 2
    assert ran.err.count(f"  polidiff {command} ") == 3


@pytest.mark.parametrize("command", ["improve", "check"])
def test_an_unknown_outcome_is_told_before_any_work(polidiff, study, monkeypatch, command):
    def works(*_, **__):
        raise AssertionError("work began")

    monkeypatch.setattr("polidiff.explanation.compose.compose", works)
    monkeypatch.setattr("polidiff.frontier.improve.improve", works)
    ran = polidiff(command, study, "--keep", "lenth<=current")
    assert ran.code == 2
    assert "'lenth' is not the name of an outcome" in ran.err


def test_a_patch_never_puts_an_action_in_its_own_place(polidiff, tmp_path):
    from polidiff.records.patch import Edit, Patch
    from polidiff.records.rule import Condition, Rule

    low = Rule((Condition("map", 0, high=55.0),))
    Patch((Edit(low, 1, 1), Edit(Rule(), 1, 0)), ("none", "pressor"), ("map",)).save(tmp_path / "p.json")
    shown = polidiff("patch", "show", tmp_path / "p.json").out
    assert shown.splitlines() == [
        "1. pressor stays where map < 55, whatever follows",
        "2. none instead of pressor everywhere else",
    ]
    assert "pressor -> pressor" not in polidiff("patch", "show", tmp_path / "p.json", "--as", "sql").out
