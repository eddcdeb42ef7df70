"""Plans that were played stand in the order of what they then cost, and a table that they deny says nothing of them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polidiff.frontier.improve import _concluded
from polidiff.records.outcome import Interval
from polidiff.records.plan import Frontier
from tests.report import samples

REDUCTION = SimpleNamespace(notes=lambda plans: (), assumptions=tuple)


def played(gains: list[float], costs: list[float], gap: float) -> Frontier:
    """The sample frontier, with plans judged so; its table promises `gap` more for each."""
    base = samples.frontier()
    nothing, *plans = base.plans[: len(gains) + 1]
    judged = [
        replace(plan, gain=Interval(gain, gain - 0.5, gain + 0.5, 0.95), changes=cost, model_gap=gap)
        for plan, gain, cost in zip(plans, gains, costs, strict=True)
    ]
    return replace(base, plans=(replace(nothing, model_gap=0.0), *judged), unit="expected")


@given(st.lists(st.floats(0.1, 9), min_size=2, max_size=2))
def test_plans_are_in_the_order_of_what_they_cost(costs):
    frontier = _concluded(REDUCTION, 0, played([1.0, 2.0], costs, 0.0))
    assert [plan.changes for plan in frontier.plans[1:]] == sorted(costs)
    for budget in costs:
        assert frontier.at(budget).changes == max(cost for cost in [0.0, *costs] if cost <= budget + 1e-9)


@pytest.mark.parametrize(("gap", "told"), [(0.0, True), (0.6, True), (0.9, False), (-3.0, False)])
def test_a_table_that_promises_something_else_does_not_value_single_changes(gap, told):
    frontier = _concluded(REDUCTION, 0, played([1.0, 2.0], [1.0, 2.0], gap))
    notes = [note for note in frontier.warnings if "not told" in note]
    assert (frontier.ledger is not None) == told == (notes == [])
    assert all(bool(plan.adoption) <= told for plan in frontier.plans)
    if not told:
        promised = f"{2 + gap:+.3g}".replace("-", "−")
        assert f"promises {promised} for the largest of them, where it is +2, between +1.5 and +2.5" in notes[0]
        assert "What each change is worth" not in str(frontier)
