"""Every failure that fuzzing found, as the smallest case that shows it; each is refused, or works, and stays so.

Those in policy files are in `test_found_policies.py`.
"""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from polidiff import Log, TabularMDP, improve, load
from polidiff.cli.loading import load_policy, load_world, named
from polidiff.cli.main import run
from polidiff.cli.results import lines
from polidiff.cli.study import Study, read_study
from polidiff.errors import (
    InvalidInputError,
    InvalidLogError,
    InvalidOutcomeError,
    InvalidPolicyError,
    InvalidResultError,
    InvalidStudyError,
    InvalidWorldError,
    ParseError,
    PolidiffError,
    UntrustedFileError,
)
from polidiff.records.action import as_actions
from polidiff.records.codec import dumps, from_dict
from polidiff.records.parse import parse_rule
from polidiff.records.rule import Condition, Rule
from polidiff.report.names import shown_lines
from tests.fuzz import seeds
from tests.fuzz.commands import command
from tests.fuzz.judge import time_limit
from tests.fuzz.mutate import as_json, deep


def changed(name: str, **parts) -> dict:
    return {**seeds.results()[name], **parts}


def without(tree: dict, *path: str | int) -> dict:
    """The tree with what stands at a place taken out."""
    copied = json.loads(json.dumps(tree))
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return copied


def edited(**parts) -> dict:
    """A patch of one edit, changed."""
    tree = seeds.patches_by_hand()["table"]
    return {**tree, "edits": [{**tree["edits"][0], **parts}]}


def on(column: int) -> dict:
    return {"conditions": [{"feature": "s", "column": column, "low": 0.0, "high": 1.0}]}


CONTRADICTIONS = {
    "a verdict of an outcome that is not there": (changed("plain", outcomes=[]), "'return' is not an outcome"),
    "a path over a region that is not there": (changed("plain", regions=[]), "'S_1' is not a region of this result"),
    "two outcomes of one name": (
        changed("plain", outcomes=seeds.results()["plain"]["outcomes"][:1] * 2),
        "is used twice",
    ),
    "a result told whole without its text": (
        changed("plain", lead="complete", forms={}),
        'forms must hold "complete policy"',
    ),
    "a sampled state without its features": (
        changed("plain", sample=[{"values": [], "share": 1.0, "current": "N", "proposed": "N"}]),
        "sample[0].values must hold 2 values",
    ),
    "a frontier without plans": (changed("frontier", plans=[]), "plans must hold at least one plan"),
    "a plan without an outcome of the others": (
        without(seeds.results()["frontier"], "plans", 1, "outcomes", "return"),
        "plans[1].outcomes must be those of the first plan",
    ),
    "a ledger whose order has no returns": (
        without(seeds.results()["frontier"], "ledger", "running", 0),
        "ledger.running must hold one return for each",
    ),
    "an edit of an action without a name": (edited(proposed=2), "proposed must be one of the 2 actions named; got 2"),
    "an edit of an action before the first": (edited(current=-1), "current must be one of the 2 actions"),
    "an edit of a state before the first": (edited(states=[-1]), "states must be numbers of states, from 0 up"),
    "an edit of a state beyond all": (edited(states=[2**63]), "states must be numbers of states"),
    "a probability of two": (edited(shift={"current": 0.0, "proposed": 2.0}), "shift must hold probabilities"),
    "a column before the first": (edited(rule=on(-1)), "the column of a condition counts from 0; got -1"),
    "a column beyond all": (edited(rule=on(10**30)), "counts from 0"),
    "a number of 400 digits": (changed("plain", changes=10**400), "at most 308 digits"),
    "a whole number of 50 digits": (edited(current=10**50), "at most 38 digits"),
    "a study nested without end": (
        changed("plain", methods={**seeds.results()["plain"]["methods"], "study": {"a": deep(60)}}),
        "must not be nested more than 50 deep",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_result_that_contradicts_itself_is_refused_with_the_place(name):
    tree, message = CONTRADICTIONS[name]
    with pytest.raises(InvalidResultError) as caught:
        from_dict(tree)
    assert message in str(caught.value)


FILES = {
    "a number of five thousand digits": b'{"a": ' + b"9" * 5_000 + b"}",
    "half of a character": as_json(changed("plain", warnings=["\ud800"])),
    "half of a character as a name": as_json({"\udc00": 1}),
    "a thousand brackets": b"[" * 1_000 + b"]" * 1_000,
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_json_reads_but_no_result_holds_is_refused(name, tmp_path):
    path = tmp_path / "result.json"
    path.write_bytes(FILES[name])
    with pytest.raises(InvalidResultError):
        load(path)


def test_a_result_larger_than_the_limit_is_refused_before_it_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("polidiff.records.codec.MOST_BYTES", 1_000)
    path = tmp_path / "result.json"
    path.write_bytes(as_json(seeds.results()["plain"]))
    with pytest.raises(InvalidResultError, match=r"is larger than 0\.001 MB"):
        load(path)


@pytest.mark.parametrize("share", ["inf", "nan", 1e308])
def test_a_share_that_is_no_number_is_told_as_unknown(share):
    tree = seeds.results()["chain"]
    regions = [{**tree["regions"][0], "precision": share}, *tree["regions"][1:]]
    assert "right in unknown" in str(from_dict({**tree, "regions": regions}))


def test_json_on_a_terminal_does_not_move_the_cursor_and_reads_the_same():
    record = from_dict(changed("plain", warnings=["\x9b31m \u202e \x1b[2J"]))
    text = dumps(record)
    assert not set("\x9b\u202e\x1b") & set(text)
    assert from_dict(json.loads(text)).warnings == ("\x9b31m \u202e \x1b[2J",)


def test_words_lie_within_no_bounds():
    bounds = Rule((Condition("x", 0, low=0.0),))
    assert bounds.covers({"x": np.array(["word", "1"])}).tolist() == [False, False]
    assert bounds.covers({"x": np.array(["word", 1.0, None], dtype=object)}).tolist() == [False, True, False]


def test_a_word_for_a_number_is_refused_when_asking_about_a_case(tmp_path):
    (tmp_path / "diff.json").write_bytes(as_json(seeds.results()["plain"]))
    assert command(["ask", str(tmp_path / "diff.json"), "case", "x=abc, y=1"], {2}) == 2


LONG = (
    "a " * 4_900,
    "x" * 9_000,
    "x < 1 and " * 900,
    "'" + "é" * 9_000 + "' < 1",
    "{" * 9_000,
    "x in {" + "1," * 4_000,
)


@pytest.mark.parametrize("text", LONG)
def test_a_long_text_is_refused_at_once_and_shown_in_part(text):
    with pytest.raises(ParseError) as caught, time_limit(1.0):
        parse_rule(text, ["x", "blood pressure", "f" * 5_000])
    assert len(str(caught.value)) < 1_100


@pytest.mark.parametrize("text", ["x < 1e999", "x = -1e999", "1e999 < x"])
def test_a_number_beyond_all_numbers_is_refused(text):
    with pytest.raises(ParseError, match=r"expected a number below 1\.8e308"):
        parse_rule(text, ["x"])


def studied(tmp_path, text: str) -> Study:
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    read = read_study(tmp_path / "study.toml", {})
    return Study(read.values, seeds.folder(), read.source)


TABLE = '[world.table]\npath = "chain.npz"\n'
STUDIES = {
    "a horizon for a table": (
        '[world.gymnasium]\nid = "FrozenLake-v1"\nexact = true\nhorizon = 5',
        "a horizon goes with a simulator",
    ),
    "nothing to tell about": (f"{TABLE}include_return = false", "tells about nothing"),
    "a path with a zero": ('[world.table]\npath = "a\\u0000b"', "is no path"),
    "a path of a user who is not there": ('[world.table]\npath = "~no-such-user/x"', "is no path"),
    "a path with an endless part": (f'[world.table]\npath = "{"f" * 300}"', "a part is too long"),
    "a level that is no number": (f"{TABLE}[options]\nlevel = nan", "options.level must be a number; got nan"),
    "a count beyond all counts": (f"{TABLE}[options]\nstarts = {10**30}", "options.starts must be a whole number"),
    "options that the function does not take": (
        '[world.function]\nname = "polidiff.domains.chain:world"\noptions = {no = 1}',
        "failed with these options: TypeError",
    ),
    "options that the environment does not take": (
        '[world.gymnasium]\nid = "FrozenLake-v1"\nexact = true\noptions = {no = 1}',
        "'FrozenLake-v1' failed with these options: TypeError",
    ),
    "an environment of a version that is gone": (
        '[world.gymnasium]\nid = "FrozenLake-v0"',
        "'FrozenLake-v0' is not a registered environment",
    ),
    "options named as our own arguments": (
        '[world.function]\nname = "polidiff.domains.chain:world"\noptions = {function = 1, name = 2}',
        "failed with these options: TypeError",
    ),
    "words for the levels of an action": (
        '[world.gymnasium]\nid = "FrozenLake-v1"\nexact = true\nactions = {left = "a", down = "b"}',
        "'left' is 'a'",
    ),
    "a margin beyond all numbers": (
        f'{TABLE}[[outcomes]]\nname = "length"\nconstant = 1.0\nmargin = 1{"0" * 400}',
        "margin of outcome 'length'",
    ),
    "a range beyond all numbers": (
        f'{TABLE}[[outcomes]]\nname = "length"\nconstant = 1.0\nrange = [0, 1{"0" * 400}]',
        "range of outcome 'length'",
    ),
    "a constant beyond all numbers": (
        f'{TABLE}[[outcomes]]\nname = "length"\nconstant = -1{"0" * 400}',
        "constant must be a number below 1.8e308",
    ),
    "a value nested without end": (f"title = {'[' * 400}{']' * 400}", "title must be a text"),
    "a key nested without end": (f"{'.'.join('a' * 3_000)} = 1", "unknown key 'a'"),
    "brackets without end": (f"title = {'[' * 100_000}", "is not TOML"),
    "a name of ten thousand letters": (f"{'t' * 10_000} = 1", "unknown key"),
    "text for a table of numbers": ('[world.table]\npath = "text.npz"', "must hold numbers; it holds <U1"),
    "complex numbers for a table": ('[world.table]\npath = "complex.npz"', "must hold numbers; it holds complex128"),
}  # fmt: skip


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_that_cannot_be_meant_is_refused(name, tmp_path):
    text, message = STUDIES[name]
    chain = seeds.table_arrays()
    np.savez(seeds.folder() / "text.npz", **{**chain, "rewards": np.array(["a"])})
    np.savez(seeds.folder() / "complex.npz", **{**chain, "rewards": chain["rewards"] * 1j})
    with pytest.raises((InvalidStudyError, InvalidWorldError, InvalidOutcomeError)) as caught, time_limit(5.0):
        load_world(studied(tmp_path, text))
    assert message in str(caught.value)


def test_a_study_larger_than_a_megabyte_is_refused(tmp_path):
    (tmp_path / "study.toml").write_bytes(b"#" * 1_000_001)
    with pytest.raises(InvalidStudyError, match="is larger than 1 MB"):
        read_study(tmp_path / "study.toml", {})


def test_options_of_an_exact_environment_are_heeded(tmp_path):
    text = '[world.gymnasium]\nid = "FrozenLake-v1"\nexact = true\noptions = {is_slippery = false}\n'
    assert set(load_world(studied(tmp_path, text)).transitions.data) == {1.0}


@pytest.mark.parametrize("name", ["polidiff.domains.icu_sepsis:Path", "polidiff.domains.chain:TabularMDP"])
def test_only_what_a_domain_defines_itself_runs_without_trust(name):
    with pytest.raises(InvalidStudyError, match="has no"):
        named(name, trust=False)
    with pytest.raises(UntrustedFileError):
        named("os:getcwd", trust=False)


def test_a_table_for_feature_states_is_refused(tmp_path):
    study = studied(tmp_path, seeds.toml_of(seeds.STUDIES["features"]))
    policy = load_policy(Study({**study.values, "policies": {"current": "two.json"}}, study.folder), "current",
                         load_world(study))  # fmt: skip
    with pytest.raises(InvalidPolicyError, match="answers numbers of states"):
        policy.probabilities(load_world(study).starts)


HOSTILE = "x\nimport os\x1b[2J\u202e"


def test_a_line_end_in_the_name_of_an_action_does_not_become_a_line_of_code():
    patch = from_dict({**seeds.patches_by_hand()["table"], "actions": [HOSTILE, "b"]})
    for form in ("text", "python", "sql"):
        told = "\n".join(lines(patch, form))
        assert len(told.splitlines()) == (4 if form == "sql" else 1)  # CASE, WHEN, ELSE, END
        assert "\x1b" not in told


def test_names_do_nothing_to_the_terminal(tmp_path, capsys):
    tree = json.loads(json.dumps(seeds.results()["chain"]).replace('"0"', json.dumps(HOSTILE)))
    (tmp_path / "diff.json").write_bytes(as_json(tree))
    for words in (["when", HOSTILE], ["case", "s1"], ["why-not", HOSTILE, "--in", "S_0"]):
        command(["ask", str(tmp_path / "diff.json"), *words], {0, 2})
    command(["check", str(tmp_path / "diff.json")], {0, 1})
    assert shown_lines(f"a\n{HOSTILE}") == "a\nx\nimport os⟨U+001B⟩[2J⟨U+202E⟩"


def test_a_message_is_one_line_of_readable_length_whatever_it_quotes():
    text = str(InvalidInputError("no column " + HOSTILE + "f" * 10_000 + ". Hint: look"))
    assert text.startswith("no column x import os\\x1b[2J\\u202e")
    assert text.endswith("Hint: look")
    assert len(text) < 1_100
    assert text.isprintable()
    assert str(PolidiffError()) == ""


@pytest.mark.parametrize(("name", "ending", "code"), [("check", ".json", 0), ("case", ".md", 2), ("check", ".png", 2)])
def test_results_that_are_not_drawn_are_written_as_json_or_refused(name, ending, code, tmp_path):
    (tmp_path / "result.json").write_bytes(as_json(seeds.results()[name]))
    assert command(["report", str(tmp_path / "result.json"), "-o", str(tmp_path / f"made{ending}")], {0, 2}) == code


LOG = {"state": "s", "action": "a", "reward": "r"}


def test_a_log_without_rows_is_refused(tmp_path):
    pl.DataFrame({"s": [0], "a": [0], "r": [0.0]}).clear().write_parquet(tmp_path / "log.parquet")
    with pytest.raises(InvalidLogError, match="it has no rows"):
        Log(str(tmp_path / "log.parquet"), **LOG)


@pytest.mark.parametrize("what", ["states", "actions"])
def test_a_billion_names_are_not_made(what):
    with pytest.raises(InvalidLogError, match=f"there may be at most 10000000 {what}"):
        Log(pl.DataFrame({"s": [0], "a": [0], "r": [0.0]}), **LOG, **{what: 10**9})


def test_fifty_thousand_actions_are_compared_at_once():
    with time_limit(2.0):
        assert len(as_actions([f"dose {number}" for number in range(50_000)], 50_000)) == 50_000


def test_an_edit_that_does_not_fit_is_a_line_and_not_a_warning_of_python(tmp_path, capsys):
    (tmp_path / "patch.json").write_bytes(as_json(edited(states=[0, 1])))
    np.save(tmp_path / "policy.npy", np.array([1, 1]))
    words = [
        "patch",
        "apply",
        str(tmp_path / "patch.json"),
        str(tmp_path / "policy.npy"),
        "-o",
        str(tmp_path / "x.json"),
    ]
    assert run(words) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("polidiff: an edit replaces 'a' in 2 states; in state 0 the policy takes 'b'")
    assert len(said) == 2


def test_rewards_whose_sums_are_no_numbers_are_refused():
    arrays = seeds.table_arrays()
    given = {name: arrays[name] for name in ("transitions", "initial", "absorbing")}
    with pytest.raises(InvalidWorldError, match="rewards must be at most 1e\\+100 in size"):
        TabularMDP(given["transitions"], np.full(arrays["rewards"].shape, 1e308), given["initial"],
                   absorbing=given["absorbing"])  # fmt: skip


def test_a_csv_file_that_is_refused_does_not_warn_about_its_endless_rewards_first(tmp_path):
    rows = ["1,0,0,0,1e308,false", "1,1,1,1,1e308,", "1,2,2,0,1e308,", "2,0,0,1,1e308,", "2,1,1,0,1e308,"]
    (tmp_path / "log.csv").write_text("\n".join(["e,t,s,a,r,end", *rows]) + "\n")
    with pytest.raises(InvalidLogError, match="column 'end' must have a value in every row"):
        Log(tmp_path / "log.csv", state="s", action="a", reward="r", episode="e", step="t", terminated="end")


def test_rewards_whose_sum_is_beyond_all_numbers_are_refused_without_a_warning():
    with pytest.raises(InvalidLogError, match=r"beyond ±1e\+100 in row 1 below the names and 1 more"):
        Log(pl.DataFrame({"s": [0, 0], "a": [0, 0], "r": [1e308, 1e308]}), **LOG)


def test_more_changes_allowed_than_there_are_states_is_no_error():
    arrays = seeds.table_arrays()
    given = {name: arrays[name] for name in ("transitions", "rewards", "initial", "absorbing")}
    world = TabularMDP(**given)
    wide, all_of_them = (
        improve(world, np.zeros(world.n_states, dtype=int), max_states=most, budget=2) for most in (27, world.n_states)
    )
    assert [plan.expected_return for plan in wide] == [plan.expected_return for plan in all_of_them]


def test_quotes_in_the_name_of_a_column_are_read_as_quotes_in_its_rows_are(tmp_path):
    (tmp_path / "log.csv").write_text('"3"" pipe",a,r\n"2"" long",go,1\n"3"" long",stay,0\n')
    log = Log(tmp_path / "log.csv", state='3" pipe', action="a", reward="r")
    assert [*log.states] == ['2" long', '3" long']
