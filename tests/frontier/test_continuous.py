"""Plans over regions of the paper's navigation, judged in the true world."""

from __future__ import annotations

import pytest

from polidiff import check, improve
from polidiff.domains import navigation
from polidiff.errors import InfeasibleError, InvalidOptionError, InvalidPolicyError, ParseError

STAY, REWARD = "stay in the desired region", "collected reward"


@pytest.fixture(scope="module")
def frontier():
    return improve(navigation.world(), navigation.current, [navigation.proposed_1, navigation.proposed_2])


def test_budgets_and_returns_are_the_golden_ones(frontier):
    assert [plan.changes for plan in frontier] == pytest.approx([0, 1, 2, 3], abs=1e-9)
    golden = [9.9895, 14.9885, 21.9895, 21.9905]
    assert [plan.expected_return for plan in frontier] == pytest.approx(golden, abs=5e-4)
    assert all(plan.gap < 1e-9 for plan in frontier)
    assert not any(plan.proven for plan in frontier), "a proof speaks of the table, not of the world"


def test_the_gap_between_table_and_world_is_small_and_told(frontier):
    assert all(plan.model_gap is not None and abs(plan.model_gap) < 1e-3 for plan in frontier)


def test_two_changes_stay_longer_in_the_desired_region_than_the_optimum(frontier):
    stays = [plan.outcomes[STAY].estimate for plan in frontier]
    assert stays == pytest.approx([9.5, 9.5, 5.5, 1], abs=0.02)


def test_plans_change_the_regions_that_the_paper_names(frontier):
    told = [[(e.current, e.proposed) for e in plan.patch.edits] for plan in frontier]
    east, north, south = 0, 1, 2
    assert told == [[], [(east, north)], [(east, north), (south, east)], [(east, north), (south, east), (south, east)]]


def test_the_ledger_tells_needs_conflicts_and_shapley_values(frontier):
    first, second, third = (
        "east → north where x < 0.1 and 0.2 ≤ y < 0.3",
        "south → east where 0.1 ≤ x < 0.2 and y ≥ 0.3",
        "south → east where 0.5 ≤ x < 0.6 and y ≥ 0.3",
    )
    entries = {entry.change: entry for entry in frontier.ledger.entries}
    assert entries[second].needs == (first,)
    assert entries["north → east where x < 0.1 and y < 0.1"].conflicts == (first,)
    assert set(frontier.ledger.order) <= set(entries)
    shares = [entries[name].shapley.estimate for name in (first, second, third)]
    assert shares == pytest.approx([8.4998, 3.5008, 0.0003], abs=2e-4)


def test_adoption_of_the_largest_plan_follows_the_golden_curve(frontier):
    curve = {point.share: point.expected_return for point in frontier.best.adoption}
    golden = {0.25: 11.677, 0.5: 14.239, 0.75: 17.677, 1.0: 21.9905}
    assert {share: curve[share] for share in golden} == pytest.approx(golden, abs=2e-3)


def test_a_plan_is_explained_when_asked(frontier):
    told = frontier.at(1).explanation
    assert [(r.current, r.proposed) for r in told.regions] == [("east", "north")]
    assert check(told, keep=[f"{REWARD}>=current"]).passed


def test_one_region_only():
    plans = improve(navigation.world(), navigation.current, [navigation.proposed_1, navigation.proposed_2], max_rules=1)
    assert max(len(plan.patch) for plan in plans) == 1
    assert plans.best.expected_return == pytest.approx(14.9885, abs=5e-4)


def test_frozen_conditions_are_never_touched():
    plans = improve(navigation.world(), navigation.current, [navigation.proposed_2], freeze="x >= 0.5")
    assert all(edit.rule.covers(navigation_points(0.55, 0.35)).sum() == 0 for p in plans for edit in p.patch.edits)
    assert plans.best.expected_return == pytest.approx(21.9895, abs=5e-4)


def navigation_points(x, y):
    import numpy as np

    return np.array([[x, y]])


def test_a_guard_that_cannot_hold_is_named():
    with pytest.raises(InfeasibleError, match="stay"):
        improve(navigation.world(), navigation.current, [navigation.proposed_2], keep=f'"{STAY}" >= 100')


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"candidates": None}, InvalidOptionError, "needs candidates"),
        ({"candidates": [navigation.current]}, InvalidOptionError, "act like the current policy"),
        ({"candidates": [lambda s: 7]}, InvalidPolicyError, "actions 0 to 2"),
        ({"budget": -1.0}, InvalidOptionError, "budget"),
        ({"unit": "total"}, InvalidOptionError, "unit"),
        ({"freeze": "x <"}, ParseError, "column 4"),
    ],
)
def test_bad_input_is_one_clear_line(options, error, words):
    arguments = {"candidates": [navigation.proposed_2], **options}
    with pytest.raises(error, match=words) as caught:
        improve(navigation.world(), navigation.current, **arguments)
    assert "\n" not in str(caught.value)
