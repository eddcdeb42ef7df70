"""`--env`: exact where an environment carries its table, and every key of a study from the command line."""

import json

import click
import numpy as np
import pytest

from polidiff.cli.options import as_study
from polidiff.cli.study import read_study
from polidiff.errors import InvalidStudyError

pytest.importorskip("gymnasium")


@pytest.fixture
def policies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.full(16, 2))
    np.save("b.npy", np.where(np.arange(16) % 4 < 2, 1, 2))


def test_an_environment_with_a_table_is_exact_and_speaks_of_rows_and_columns(polidiff, policies):
    way = ("explain", "--env", "FrozenLake-v1", "--current", "a.npy", "--proposed", "b.npy", "--json")
    told = json.loads(polidiff(*way).out)
    assert told["world"]["kind"] == "table"
    assert [feature["name"] for feature in told["world"]["features"]] == ["row", "column"]
    played = json.loads(polidiff(*way, "--horizon", "20", "--max-steps", "20000").out)
    assert played["world"]["kind"] == "simulator"
    assert [feature["name"] for feature in played["world"]["features"]] == ["row", "column"]


def test_any_key_of_a_study_can_be_set(polidiff, policies):
    keys = ("world.gymnasium.options.map_name='8x8'", "world.gymnasium.return_name=gifts", "options.level=0.9")
    np.save("a.npy", np.full(64, 2))  # a map of 8x8 has 64 states
    np.save("b.npy", np.where(np.arange(64) % 8 < 2, 1, 2))
    outcome = 'outcomes=[{name="steps", constant=1, prefer="less"}]'
    flags = [part for key in (*keys, outcome) for part in ("--set", key)]
    ran = polidiff("explain", "--env", "FrozenLake-v1", "--current", "a.npy", "--proposed", "b.npy", "--json", *flags)
    told = json.loads(ran.out)
    assert {outcome["name"] for outcome in told["outcomes"]} == {"gifts", "steps"}
    assert told["methods"]["level"] == 0.9


@pytest.mark.parametrize(("given", "hint"), [("level", "KEY=VALUE"), ("world.gymnasium.exat=true", "exact")])
def test_a_key_that_is_none_is_refused_in_a_line(polidiff, policies, given, hint):
    ran = polidiff("explain", "--env", "FrozenLake-v1", "--current", "a.npy", "--proposed", "b.npy", "--set", given)
    assert ran.code == 2
    assert hint in ran.err


STUDY = """
[world.log]
path = "a.csv"
state = ["x"]
action = "a"

[[outcomes]]
name = "cost"
column = "cost"

[[outcomes]]
name = "days"
column = "days"
"""


def _study_with(tmp_path, *given, name="study.toml"):
    (tmp_path / name).write_text(STUDY)
    return read_study(tmp_path / name, as_study({"settings": given}))


@pytest.mark.parametrize("key", ["1", "days"])
def test_a_key_of_an_outcome_is_set_by_its_number_or_by_its_name(tmp_path, key):
    outcomes = _study_with(tmp_path, f"outcomes.{key}.prefer=less").values["outcomes"]
    assert outcomes == [{"name": "cost", "column": "cost"}, {"name": "days", "column": "days", "prefer": "less"}]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["outcomes.2.prefer=less"], r"no such outcome; it has 0 \(cost\), 1 \(days\)"),
        (["outcomes.0=5"], "outcomes must be written as"),
        (["outcomes.0.prefr=less"], "did you mean prefer"),
        (["world=3"], "world must be a table"),
        (["world.log=3"], "world.log must be a table"),
        (["title=ours", "title.long=ours"], "another --set made 'ours'"),
    ],
)
def test_a_key_that_cannot_be_laid_over_a_study_is_refused_in_a_line(tmp_path, given, said):
    with pytest.raises((InvalidStudyError, click.UsageError), match=said):
        _study_with(tmp_path, *given)


def test_the_ending_of_a_file_tells_a_study_from_a_table(tmp_path):
    assert _study_with(tmp_path, name="my.csv.toml").world["action"] == "a"
    with pytest.raises(InvalidStudyError, match="is a table, not a study"):
        _study_with(tmp_path, name="my.toml.csv.gz")
