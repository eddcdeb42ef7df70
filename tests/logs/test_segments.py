"""One decision per row: every region is a segment, judged by its own rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, explain
from polidiff.explanation.said import render
from polidiff.records.rule import first_match

OFFERS = ("none", "coupon", "premium")
COST = np.array([0.0, 5.0, 12.0])


def lift(age, spend, action):
    """What an offer adds to the chance of a sale."""
    return np.where(action == 1, 0.3 * (age < 35), np.where(action == 2, -0.1 * (spend < 50), 0.0))


def proposed(states):
    age, spend = states[:, 0].astype(float), states[:, 1].astype(float)
    return np.where(age < 35, 1, np.where(spend < 50, 2, 0))


def offers_log(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    age, spend = rng.integers(18, 80, n), rng.uniform(0, 100, n)
    action = rng.choice(3, n, p=[0.6, 0.2, 0.2])
    sold = rng.random(n) < 0.3 + lift(age, spend, action)
    frame = pl.DataFrame(
        {"age": age, "spend": spend, "offer": np.array(OFFERS)[action], "sold": sold, "cost": COST[action]}
    )
    return Log(
        frame,
        state=["age", "spend"],
        action="offer",
        actions=list(OFFERS),
        reward="sold",
        return_name="sales",
        return_range=(0, 1),
        outcomes=[Outcome("cost", "cost", prefer="less", range=(0, 12))],
    )


@pytest.fixture(scope="module")
def log():
    return offers_log()


@pytest.fixture(scope="module")
def told(log):
    return explain(log, "log", proposed)


def test_every_region_is_a_segment_with_its_own_verdicts(told):
    assert [sentence.path for sentence in told.sentences] == [(region.id,) for region in told.regions]
    assert [sentence.start for sentence in told.sentences] == [region.rule for region in told.regions]
    assert sum(sentence.share for sentence in told.sentences) == pytest.approx(1.0)  # the log mixes everywhere


def test_what_the_log_already_does_is_no_change(log, told):
    assert told.changes == pytest.approx((log.rows.actions != proposed(log.rows.states)).mean())


def test_the_intervals_of_all_segments_hold_the_truth(log, told):
    states = log.rows.states
    age, spend = states[:, 0].astype(float), states[:, 1].astype(float)
    chances = np.array([0.6, 0.2, 0.2])
    written = sum(chances[a] * lift(age, spend, np.full(len(age), a)) for a in range(3))
    truth = {"sales": lift(age, spend, proposed(states)) - written, "cost": COST[proposed(states)] - chances @ COST}
    where = first_match([region.rule for region in told.regions], states)
    for k, sentence in enumerate(told.sentences):
        for verdict in sentence.verdicts:
            assert verdict.difference.contains(truth[verdict.outcome][where == k].mean())


def test_who_loses_is_named_by_segment(told):
    losing = {(entry.outcome, str(entry.start)) for entry in told.worse_off}
    assert losing == {
        (verdict.outcome, str(sentence.start))
        for sentence in told.sentences
        for verdict in sentence.verdicts
        if verdict.valence == "worse"
    }
    assert any(outcome == "sales" for outcome, _ in losing)


def test_the_text_speaks_of_decisions_not_of_paths(told):
    text = render(told)
    assert "of decisions." in text.splitlines()[0]
    assert "no single path" not in text
    assert "per episode" not in text


@pytest.mark.parametrize("chance", [None, 0.5])
def test_chance_borders_of_a_random_log_are_no_regions(chance):
    rng = np.random.default_rng(2)
    x, z, a = rng.uniform(0, 10, 1500), rng.normal(size=1500), rng.integers(0, 2, 1500)
    frame = pl.DataFrame({"x": x, "z": z, "a": np.array(["A", "B"])[a], "r": (a == (x > 5)) + rng.normal(size=1500)})
    log = Log(frame, state=["x", "z"], action="a", reward="r", probability=chance)
    told = explain(log, "log", lambda states: (states[:, 0] >= 5).astype(int))
    assert {(region.current, region.proposed) for region in told.regions} == {("A", "A"), ("B", "B")}
    assert len(told.regions) == 2
    for region in told.regions:
        taken = a[region.rule.covers(np.column_stack([x, z]))] == "AB".index(region.current)
        assert (region.shift.current, region.shift.proposed) == (pytest.approx(taken.mean()), 1.0)


def test_the_order_of_the_rows_changes_nothing_that_is_said():
    rng = np.random.default_rng(3)
    x, ward = rng.normal(size=600).round(2), rng.choice(["a", "b", "c"], 600)
    treated = (rng.random(600) < 1 / (1 + np.exp(-x))).astype(int)
    gain = x + treated * (x > 0) + rng.normal(size=600)
    frame = pl.DataFrame({"x": x, "ward": ward, "arm": treated.astype(str), "gain": gain})
    logs = [
        Log(part, state=["x", "ward"], action="arm", reward="gain")
        for part in (frame, frame.sample(fraction=1.0, shuffle=True, seed=1))
    ]
    assert len({str(explain(log, "log", "always:1")) for log in logs}) == 1
