"""Plans from a log without a reward: what they improve is named, in its own sign, and said once."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, evaluate, explain, improve
from polidiff.errors import InfeasibleError, InvalidOutcomeError
from polidiff.explanation.plan_text import plan_answers, plan_verdicts
from polidiff.report.plans import plan_cards


@pytest.fixture(scope="module")
def log():
    """One decision each; treating saves 20 in 100 and costs 10."""
    rng = np.random.default_rng(0)
    state, treated = rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)
    rows = {
        "state": np.array(["mild", "fair", "grave"])[state],
        "action": np.array(["wait", "treat"])[treated],
        "died": (rng.random(3000) < 0.5 - 0.2 * treated).astype(float),
        "cost": 10.0 * treated + rng.normal(5.0, 1.0, 3000),
    }
    outcomes = [
        Outcome("mortality", "died", prefer="less", range=(0, 1)),
        Outcome("cost", "cost", prefer="less", range=(0, 30)),
    ]
    return Log(pl.DataFrame(rows), state="state", action="action", outcomes=outcomes)


@pytest.fixture(scope="module")
def plans(log):
    return improve(log, "log")


def test_text_and_page_name_what_is_improved_in_its_own_sign(plans):
    best = plans.best
    assert (plans.objective, plans.sign) == ("mortality", -1.0)
    assert best.expected_return == pytest.approx(-best.outcomes["mortality"].estimate)
    assert best.gain.low > 0  # truly 0.1: half were treated already
    text, card = str(plans), plan_cards(best, plans)[1]
    assert "mortality (less is better)" in text.splitlines()[0]
    assert "bound" not in text
    assert "−0." not in text.splitlines()[0]
    assert (card.label, card.value[0] != "−") == ("mortality (less is better)", True)


def test_the_gain_and_the_difference_of_what_is_improved_are_one_interval(plans):
    best, verdict = plans.best, plan_verdicts(plans, plans.best)[0]
    difference = verdict.difference
    assert (difference.low, difference.high) == (-best.gain.high, -best.gain.low)
    assert (verdict.outcome, verdict.direction, verdict.valence) == ("mortality", "less", "better")
    answers = {answer.question: answer.text for answer in plan_answers(plans)}
    assert plans.knee is best  # the page, the text and the patch choose alike
    assert answers["Is it better?"].startswith("In the record, in part: less mortality")


def test_nothing_that_only_the_model_says_is_told_of_the_current_policy(plans):
    assert plans.current_return == plans[0].expected_return
    assert not any(plan.adoption for plan in plans)
    assert "judged by the other half" in plans.methods.evaluation


def test_a_guard_that_no_plan_keeps_is_refused_with_the_best_there_is(log):
    with pytest.raises(InfeasibleError, match=r"at most 2 states keeps .*the best is 0\.\d+ for"):
        improve(log, "log", max_states=2, keep="mortality<=current-0.5")


def test_without_its_only_rule_a_plan_is_the_current_policy():
    rng = np.random.default_rng(1)
    age, treated = rng.normal(60.0, 10.0, 1500), rng.integers(0, 2, 1500)
    gain = treated * np.where(age > 60, 1.0, -1.0) + rng.normal(0.0, 1.0, 1500)
    rows = pl.DataFrame({"age": age, "action": np.array(["wait", "treat"])[treated], "gain": gain})
    found = improve(Log(rows, state=["age"], action="action", reward="gain", return_range=(-6, 6)), "log", max_rules=1)
    assert len(found[-1].rules) == 1
    assert found[-1].without(0) == pytest.approx(found.current_return)


@pytest.mark.parametrize(
    ("state", "options"),
    [
        ("state", {}),
        (["x", "y"], {"max_rules": 1}),
        (["x", "y"], {"candidates": [lambda rows: np.zeros(len(rows), int)]}),
    ],
)
def test_nothing_is_searched_for_before_it_is_said_which_way_is_better(state, options):
    rng = np.random.default_rng(1)
    rows = {name: rng.integers(0, 3, 200) for name in ("state", "x", "y", "action", "event")}
    aimless = [Outcome("event", "event"), Outcome("y", "y", prefer="less")]
    for more in ({}, {"reward": "x", "include_return": False}):
        log = Log(pl.DataFrame(rows), state=state, action="action", outcomes=aimless, **more)
        with pytest.raises(
            InvalidOutcomeError, match=r"'event'.* does not say which\. Hint: .*\"less\".*\"more\""
        ) as told:
            improve(log, "log", **options)
        assert "\n" not in str(told.value)
    told = Log(pl.DataFrame(rows), state="state", action="action", reward="x", outcomes=aimless)
    assert improve(told, "log").objective == "return"  # more of a reward is better


def test_outcomes_asked_for_at_the_door_are_read_from_their_own_columns(log):
    table = log.source.frame().with_columns(pl.lit(1.0).alias("gain")).collect()
    other = Log(table, state="state", action="action", reward="gain")  # as many outcomes, and another column
    asked = [Outcome("cost", "cost", prefer="less", range=(0, 30))]
    told = evaluate(other, "log", outcomes=asked)
    assert told.outcomes["cost"].estimate == pytest.approx(table["cost"].mean())
    assert explain(other, "log", "always:treat", outcomes=asked).verdicts[0].difference.estimate > 4
