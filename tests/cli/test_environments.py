"""`--env`: exact where an environment carries its table, and every key of a study from the command line."""

import json

import numpy as np
import pytest

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
