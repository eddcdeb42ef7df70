"""Guards of plans from logs with discrete states are kept where plans are judged, as a plain loop counts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, improve
from polidiff.errors import InfeasibleError
from polidiff.explanation.plan_text import plan_verdicts

STATES, ROWS = 4, 480


def coin_log(seed):
    """One decision a row; action 1 pays where the state is even, and harm is a coin that nothing moves."""
    rng = np.random.default_rng(seed)
    state, action = rng.integers(0, STATES, ROWS), rng.integers(0, 2, ROWS)
    pay = np.where(state % 2 == 0, 1.0, -0.5) * action + rng.normal(0, 0.2, ROWS)
    frame = pl.DataFrame({"state": state, "action": action, "pay": pay, "harm": rng.integers(0, 2, ROWS)})
    harm = Outcome("harm", "harm", prefer="less", range=(0, 1))
    return Log(frame, state="state", action="action", reward="pay", return_range=(-3, 3), outcomes=[harm])


def harm_of(log, choices):
    """Harm of the log's policy with these choices, by a loop over the half that judges; starts are those of all."""
    rows, k = log.rows, [outcome.name for outcome in log.outcomes].index("harm")
    total = 0.0
    for s in range(STATES):
        here = [i for i in range(ROWS) if rows.states[i] == s]
        judging = [i for i in here if rows.turn[i] % 2 == 1 and rows.actions[i] == choices.get(s, rows.actions[i])]
        total += len(here) / ROWS * sum(rows.gains[i, k] for i in judging) / len(judging)
    return total


def logged_harm(log):
    """What the current policy brings, which is told of the whole log."""
    return log.rows.gains[:, [outcome.name for outcome in log.outcomes].index("harm")].mean()


def test_no_plan_is_shown_that_breaks_its_guard_in_the_half_that_judges():
    left_out = shown = 0
    for seed in range(6):
        log = coin_log(seed)
        frontier = improve(log, "log", keep="harm<=current")
        for plan in frontier:
            harm = harm_of(log, plan.patch.choices)
            assert plan.outcomes["harm"].estimate == pytest.approx(logged_harm(log) + harm - harm_of(log, {}))
            assert harm <= harm_of(log, {}) + 1e-9
            shown += bool(plan.patch.edits)
        assert frontier.best in frontier.plans
        broken = [text for text in frontier.warnings if "break what is to be kept" in text]
        left_out += len(broken)
        if broken:
            assert broken[0] in str(frontier)  # nothing in it is taken for the name of a small group
            assert "not judged" not in str(frontier)
    assert left_out > 2  # a coin that chose well judges badly about half of the time
    assert shown > 1


def test_a_guard_that_is_kept_by_the_estimate_only_is_said_not_to_be_shown():
    frontier = improve(coin_log(0), "log", keep="harm<=current+0.02")
    assert len(frontier) > 1
    assert all(any("not shown to keep harm<=current+0.02:" in text for text in plan.warnings) for plan in frontier[1:])
    number = frontier.plans.index(frontier.best)
    assert f"plan {number} is not shown to keep harm<=current+0.02:" in str(frontier)
    assert [plan.kept for plan in frontier] == [True] + [False] * (len(frontier) - 1)
    assert all(plan.kept for plan in improve(coin_log(0), "log", keep="harm<=current+0.5"))


def test_where_only_the_choosing_half_keeps_a_guard_nothing_is_promised():
    for seed in range(12):
        log = coin_log(seed)
        try:
            improve(log, "log", keep="harm<=0.45")
        except InfeasibleError as error:
            if "on data that did not choose it" in str(error):
                return
    pytest.fail("no log of twelve kept the guard in one half only")


def test_where_the_current_policy_breaks_the_guard_plans_are_compared_with_it():
    rng = np.random.default_rng(3)
    state, action = rng.integers(0, STATES, ROWS), rng.integers(0, 2, ROWS)
    pay, harm = action + rng.normal(0, 0.2, ROWS), np.where(action == 1, 0, rng.integers(0, 2, ROWS))
    frame = pl.DataFrame({"state": state, "action": action, "pay": pay, "harm": harm})
    outcome = Outcome("harm", "harm", prefer="less", range=(0, 1))
    log = Log(frame, state="state", action="action", reward="pay", return_range=(-3, 3), outcomes=[outcome])
    frontier = improve(log, "log", keep="harm<=current-0.1")
    first = frontier.plans[0]
    assert (first.changes, first.breaks) == (0.0, ("harm<=current-0.1",))
    assert first.outcomes["harm"].estimate == pytest.approx(logged_harm(log))
    assert frontier.best is not first
    assert len(frontier) > 1
    offered = len(frontier.plans) - 1
    assert f"{offered} plans; the surest to gain that is shown to keep the guards returns" in str(frontier)
    for plan in frontier.eligible:
        verdict = next(verdict for verdict in plan_verdicts(frontier, plan) if verdict.outcome == "harm")
        assert verdict.difference.estimate == pytest.approx(harm_of(log, plan.patch.choices) - harm_of(log, {}))
        assert verdict.difference.estimate <= -0.1
