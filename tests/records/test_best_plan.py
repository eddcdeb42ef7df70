"""Which plan of a frontier is the best: never one that is not shown to gain, never a dominated one."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from polidiff.records.outcome import Interval
from polidiff.records.plan import Frontier

from ..report.samples import frontier as sample

values = st.floats(-10, 10, allow_nan=False)


def with_plans(plans) -> Frontier:
    return dataclasses.replace(sample(), plans=tuple(plans))


def judged(lows) -> Frontier:
    """A first plan that changes nothing, and one for each lower bound of a gain."""
    first = dataclasses.replace(sample().plans[0], gain=None, model_gap=0.0)
    others = [
        dataclasses.replace(sample().plans[-1], changes=float(k + 1), gain=Interval(low + 1, low, low + 2, 0.95))
        for k, low in enumerate(lows)
    ]
    return with_plans([first, *others])


@given(st.lists(values, max_size=6))
def test_the_best_judged_plan_has_the_highest_lower_bound_or_changes_nothing(lows):
    frontier = judged(lows)
    best = frontier.best
    if max(lows, default=0.0) <= 0:
        assert best is frontier[0]
    else:
        assert best.gain.low == max(lows)
        assert all(plan.gain.low < best.gain.low for plan in frontier.plans[1 : frontier.plans.index(best)])


@given(st.lists(st.tuples(values, st.booleans()), max_size=6))
def test_a_plan_that_is_shown_to_gain_and_to_keep_its_guards_goes_before_one_that_is_not(bounds):
    plain = judged([low for low, _ in bounds])
    kept = [True, *(shown for _, shown in bounds)]
    frontier = with_plans(dataclasses.replace(plan, kept=k) for plan, k in zip(plain, kept, strict=True))
    sure = [low for low, shown in bounds if shown and low > 0]
    if sure:
        assert frontier.best.kept
        assert frontier.best.gain.low == max(sure)
    else:
        assert frontier.plans.index(frontier.best) == plain.plans.index(plain.best)


def test_the_text_says_which_plan_is_not_shown_to_keep_the_guards():
    plain = judged([0.5, 1.5])
    surest = "the surest to gain that is shown to keep the guards"
    text = str(with_plans([*plain.plans[:2], dataclasses.replace(plain[2], kept=False)]))
    assert surest in text
    assert "not shown to keep the guards: plan 2" in text
    broken = [dataclasses.replace(plan, kept=False, warnings=("this plan is in doubt",)) for plan in plain.plans[1:]]
    text = str(with_plans([plain[0], *broken]))
    assert surest not in text
    assert "plan 2 is in doubt" in text


@given(st.lists(values, min_size=1, max_size=6))
def test_the_best_exact_plan_returns_most_with_the_fewest_changes(returns):
    plan = dataclasses.replace(sample().plans[0], gain=None, model_gap=None)
    frontier = with_plans(
        dataclasses.replace(plan, changes=float(k), expected_return=value) for k, value in enumerate(returns)
    )
    assert frontier.best.expected_return == max(returns)
    assert frontier.best.changes == returns.index(max(returns))


def test_a_gain_without_a_bound_is_not_shown():
    assert judged([float("-inf")]).best.changes == judged([]).best.changes


def test_the_text_does_not_sell_plans_that_lose():
    text = str(judged([-0.5, -0.1]))
    assert text.startswith("2 plans; none is shown to gain over the current policy")
    assert "certified" not in text
    assert "the surest to gain returns" in str(judged([-0.5, 0.1]))
