"""Rule plans from feature rows pass through the same doubts as verdicts on the same log do."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, evaluate, explain, improve

COUNT = 900


def log_of(rng, action, outcome, **options):
    """One decision a row, with two features that nothing depends on."""
    x, z = rng.normal(size=(2, len(action))).round(2)
    frame = pl.DataFrame({"x": x, "z": z, "site": np.where(x > 0, "east", "west"), "arm": action, "y": outcome})
    return Log(frame, action="arm", reward="y", **{"state": ["x", "z"], "return_range": (0.0, 1.0), **options})


def test_where_neighbours_are_alike_plans_count_stretches_of_the_log():
    rng = np.random.default_rng(7)
    arm = np.repeat(rng.choice(["A", "B"], 30), 30)
    luck = np.repeat(rng.beta(1, 1, 30), 30)  # of a clinic, with one arm that does nothing
    log = log_of(rng, arm, (rng.random(COUNT) < luck).astype(int))
    plan, verdict = improve(log, "log", max_rules=1).plans[1], explain(log, "log", "always:B").verdicts[0]
    counted = "Rests on 900 decisions, counted as 32 stretches of the log"
    assert plan.rests_on.startswith(counted)
    assert verdict.rests_on.startswith(counted)
    assert plan.gain.low < 0 < plan.gain.high


@pytest.mark.parametrize("steps", [1, 2])
def test_where_the_world_changed_plans_span_what_both_halves_say(steps):
    rng = np.random.default_rng(0)
    arm, early = rng.choice(["A", "B"], COUNT), np.arange(COUNT) < 0.75 * COUNT
    y = (rng.random(COUNT) < 0.5 + np.where(arm == "B", np.where(early, 0.45, -0.45), 0.0)).astype(int)
    row = np.arange(COUNT)
    frame = pl.DataFrame({"x": rng.normal(size=COUNT), "arm": arm, "y": y, "who": row // steps, "t": row % steps})
    end = frame.with_columns(end=pl.col("t") == steps - 1)
    columns = {"episode": "who", "step": "t", "terminated": "end", "truncated": False} if steps > 1 else {}
    log = Log(end, state=["x"], action="arm", reward="y", return_range=(0.0, float(steps)), **columns)
    frontier = improve(log, "log", max_rules=1)
    plan = frontier.plans[1]
    assert plan.gain.estimate > 0
    assert plan.gain.low < 0
    assert "drift (failed)" in plan.rests_on
    assert any("of the log do not say the same" in warning for warning in plan.warnings)
    assert frontier.best is frontier[0]


@pytest.mark.parametrize("state", [["x", "z"], "site"])
def test_what_too_rare_an_event_would_cost_is_said_of_plans_too(state):
    rng = np.random.default_rng(0)
    arm = rng.choice(["A", "B"], COUNT)
    y = (5 + 10 * (arm == "B") + rng.normal(0, 4, COUNT)).round(2)
    log = log_of(rng, arm, y, return_range=(-20_000.0, 100.0), probability=0.5, state=state)
    frontier = improve(log, "log", max_rules=1)
    assert frontier.best.gain.low > 0
    assert "speaks against it: rare events (doubtful)" in frontier.best.rests_on
    rare = next(a for a in frontier.assumptions if a.name == "rare events")
    assert rare.status == "doubtful"
    assert "the declared range does not rule it out" in rare.consequence


@pytest.mark.parametrize("declared", [(0.0, 1.0), None])
def test_what_next_to_nobody_tried_may_be_anything_within_the_declared_range(declared):
    rng = np.random.default_rng(20)
    x = rng.normal(size=COUNT)
    treated = rng.random(COUNT) < np.where(x > -0.3, 0.5, 0.0)
    y = rng.random(COUNT) < 0.5 + treated * np.where(x > -0.3, 0.18, -0.45)
    frame = pl.DataFrame({"x": x, "arm": np.where(treated, "treat", "wait"), "y": y.astype(int)})
    log = Log(frame, state=["x"], action="arm", reward="y", return_range=declared)
    verdict = explain(log, "log", "always:treat").verdicts[0]
    now, anything = verdict.current, (-np.inf, np.inf) if declared is None else declared
    assert verdict.direction == "unknown"
    assert (verdict.difference.low, verdict.difference.high) == (anything[0] - now.high, anything[1] - now.low)
    assert (verdict.proposed.low, verdict.proposed.high) == anything
    assert verdict.difference.low < -0.116 - 1e-9  # the truth
    judged = evaluate(log, "always:treat").outcomes["return"]
    assert (judged.low, judged.high) == anything


@pytest.mark.parametrize("state", [["x", "z"], "site"])
def test_what_the_current_policy_brings_is_told_of_the_whole_log_and_plans_add_to_it(state):
    rng = np.random.default_rng(1)
    arm = rng.choice(["A", "B"], COUNT, p=[0.7, 0.3])
    y = (rng.random(COUNT) < 0.3 + 0.4 * (arm == "B")).astype(int)
    frontier = improve(log_of(rng, arm, y, state=state), "log", ["always:B"])
    now, best = frontier.plans[0], frontier.best
    assert now.expected_return == pytest.approx(y.mean())
    assert best.expected_return == pytest.approx(y.mean() + best.gain.estimate)
    assert best.outcomes["return"].low < 0.7 < best.outcomes["return"].high <= 1.0
