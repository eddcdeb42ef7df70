"""A log in which something has not happened yet does not show that it never will."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, check, explain

STATES = ["ward", ["age"]]


def trial(rows, seed=0, deaths=0.0, *, declared=True):
    rng = np.random.default_rng(seed)
    drug = np.where(np.arange(rows) % 2, "new", "old")
    died = (rng.random(rows) < np.where(drug == "new", deaths, 0.0)).astype(int)
    table = pl.DataFrame({"ward": ["A"] * rows, "age": rng.integers(20, 90, rows), "drug": drug, "died": died})
    died_of = Outcome("died", "died", prefer="less", range=(0, 1) if declared else None)
    return lambda state: Log(table, state=state, action="drug", outcomes=[died_of])


@pytest.mark.parametrize("state", STATES)
def test_no_death_among_few_is_not_no_difference(state):
    explanation = explain(trial(40)(state), "always:old", "always:new")
    verdict = explanation.verdicts[0]
    assert verdict.direction == "unknown"
    assert verdict.difference.high == pytest.approx(3 / 20), "rule of three: 20 rows with each drug"
    assert not check(explanation, keep="died<=current").passed
    assert len(explanation.regions) == 1, "the policies act otherwise, whatever came of it so far"


@pytest.mark.parametrize("state", STATES)
def test_without_a_declared_range_nothing_bounds_what_was_not_seen(state):
    verdict = explain(trial(40, declared=False)(state), "always:old", "always:new").verdicts[0]
    assert verdict.direction == "unknown"
    assert verdict.difference.high == np.inf


@pytest.mark.parametrize("state", STATES)
def test_a_drug_that_kills_one_in_thirty_is_inside_the_interval(state):
    for seed in range(8):
        verdict = explain(trial(40, seed, 0.03)(state), "always:old", "always:new").verdicts[0]
        assert verdict.direction != "same"
        assert verdict.difference.low <= 0.03 <= verdict.difference.high


def test_where_outcomes_come_by_chance_another_action_is_a_difference_in_every_state():
    rng = np.random.default_rng(0)
    ages, drug = rng.integers(20, 30, 600), rng.choice(["old", "new"], 600)
    died = (rng.random(600) < 0.01).astype(int)
    table = pl.DataFrame({"age": ages.astype(str), "drug": drug, "died": died})
    log = Log(table, state="age", action="drug", outcomes=[Outcome("died", "died", prefer="less", range=(0, 1))])
    text = str(explain(log, "always:old", "always:new"))
    assert "act the same" not in text
