"""Streams that are closed, full or old: a command's code stands, and nothing ends in a trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from polidiff.cli.main import run

START = "import sys; from polidiff.cli.main import main; sys.argv = ['polidiff', *sys.argv[1:]]; main()"


def ran(arguments, folder, **more):
    environment = {**os.environ, **more.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-c", START, *map(str, arguments)],
        cwd=folder, env=environment, stderr=subprocess.PIPE, check=False, **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """The result of explain, to be checked without working it out again."""
    from polidiff import explain
    from polidiff.domains import chain

    folder = tmp_path_factory.mktemp("streams")
    explain(chain.world(), chain.current(), chain.proposed()).save(folder / "diff.json")
    return folder


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["check", "diff.json", "--keep", "trajectory length<=current+5"], 0),
        (["check", "diff.json", "--keep", "trajectory length<=current"], 1),
        (["check", "diff.json", "--json"], 1),
        (["check", "diff.json", "--keep", "length<=current"], 2),
        (["explain", "--help"], 0),
    ],
)
def test_a_reader_that_has_gone_does_not_change_the_code(result, arguments, code):
    reading, writing = os.pipe()
    os.close(reading)
    done = ran(arguments, result, stdout=writing)
    os.close(writing)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr
    assert b"Broken pipe" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_told_in_one_line(result):
    with open("/dev/full", "wb") as full:
        done = ran(["check", "diff.json", "--keep", "trajectory length<=current+5"], result, stdout=full)
    assert done.returncode == 2
    assert done.stderr == b"polidiff: the result cannot be written to stdout: No space left on device\n"


def test_no_stdout_at_all_is_silence(result):
    line = f'exec >&-; {sys.executable} -c "{START}" check diff.json'
    done = subprocess.run(["sh", "-c", line], cwd=result, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"")


def test_no_stderr_at_all_is_no_fault(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    assert run(["demo", "chain"]) == 0
    assert "s5" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_characters_that_a_terminal_does_not_know_are_replaced(result, encoding):
    asked = ["ask", "diff.json", "when", "action 1"]
    done = ran(asked, result, stdout=subprocess.PIPE, env={"PYTHONIOENCODING": encoding})
    assert (done.returncode, done.stderr) == (0, b"")
    assert "newly in s1" in done.stdout.decode(encoding)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8"])
def test_json_is_whole_on_every_terminal(result, encoding):
    made = {"title": "from → to"}
    (result / "patch.json").write_text(
        json.dumps({"schema": "polidiff/patch", "version": 1, "edits": [], "actions": [made["title"]],
                    "feature_names": []}), encoding="utf-8",
    )  # fmt: skip
    shown = ran(["patch", "show", "patch.json", "--json"], result, stdout=subprocess.PIPE,
                env={"PYTHONIOENCODING": encoding})  # fmt: skip
    assert json.loads(shown.stdout.decode(encoding))["actions"] == ["from → to"]
