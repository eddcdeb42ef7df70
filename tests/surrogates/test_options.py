"""Options that meet: what goes together binds together, what does not is refused in one line."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Simulator, improve
from polidiff.domains import chain, frozen_lake, navigation
from polidiff.errors import InvalidOptionError
from polidiff.policies import Policy
from polidiff.worlds.log_converters import simulated_log

LAKE, CURRENT = frozen_lake.world(4), frozen_lake.current(4)


def rows_log(count=400):
    rng = np.random.default_rng(0)
    act, x = rng.integers(0, 2, count), rng.random(count)
    frame = pl.DataFrame({"x": x, "act": act, "r": act * x})
    return Log(frame, state=["x"], action="act", reward="r", return_range=(0, 1))


@pytest.mark.parametrize("budget", [0.01, 5.0, 13.0])
def test_a_budget_binds_plans_of_rules(budget):
    free = improve(LAKE, CURRENT, max_rules=1)
    plans = improve(LAKE, CURRENT, max_rules=1, budget=budget)
    assert all(plan.changes <= budget + 1e-9 for plan in plans)
    assert plans.best.expected_return <= free.best.expected_return
    if free.best.changes <= budget:
        assert plans.best.expected_return == pytest.approx(free.best.expected_return)


def test_rules_prescribe_only_what_candidates_do():
    candidate = np.where(np.arange(LAKE.n_states) % 2 == 0, 0, CURRENT)
    plans = improve(LAKE, CURRENT, [candidate], max_rules=2)
    edits = [edit for plan in plans for edit in plan.patch.changing]
    assert edits
    assert all(edit.proposed == candidate[state] for edit in edits for state in edit.states)


@pytest.mark.parametrize(
    ("options", "word"),
    [({"max_states": 1}, "max_states"), ({"change_cost": 2.0}, "change_cost"), ({"unit": "total"}, "unit")],
)
@pytest.mark.parametrize(
    ("world", "current"),
    [(LAKE, CURRENT), (Simulator(navigation.world().env), navigation.current), (rows_log(), "log")],
    ids=["table", "simulator", "log"],
)
def test_limits_that_count_states_are_refused_with_rules(world, current, options, word):
    with pytest.raises(InvalidOptionError, match=word) as caught:
        improve(world, current, max_rules=1, **options)
    assert "\n" not in str(caught.value)


def test_a_plans_policy_is_a_policy_in_every_kind_of_world():
    log = simulated_log(chain.world(0.1), np.full((12, 2), 0.5), 400, seed=1)
    frontiers = [
        improve(chain.world(0.1), chain.current()),
        improve(LAKE, CURRENT, max_rules=1),
        improve(log, np.zeros(12, dtype=int)),
        improve(rows_log(), lambda rows: np.zeros(len(rows), dtype=int), [lambda rows: np.ones(len(rows), dtype=int)]),
        improve(rows_log(), "log", max_rules=1),
        improve(navigation.world(), navigation.current, [navigation.proposed_1], max_rules=1),
    ]
    for frontier in frontiers:
        assert all(isinstance(plan.policy, Policy) for plan in frontier)
        assert all(plan.gain is None for plan in frontier if not plan.patch.edits)


@pytest.mark.slow
def test_short_episodes_are_learned_from_with_fewer_cells():
    """Blackjack ends after one or two decisions; standing on 15 and more is worth 0.28 over hitting below 20."""
    plans = improve(Simulator("Blackjack-v1"), lambda s: (np.asarray(s)[:, 0] < 20).astype(int), max_rules=1)
    (rule,) = plans.best.rules
    assert rule.move == "stick"
    assert plans.best.gain.low > 0.15


def test_where_no_choice_was_seen_often_enough_the_current_policy_stays_and_a_sentence_says_so():
    plans = improve(navigation.world(), navigation.current, max_rules=1, min_support=10**9)
    assert len(plans) == 1
    assert plans.best.changes == 0
    assert any("No action was played at least 1000000000 times" in warning for warning in plans.warnings)


@pytest.mark.parametrize("state", ["place", ["x"]])
def test_a_share_of_visits_stands_behind_rules_only(state):
    rng = np.random.default_rng(0)
    columns = {"place": rng.choice(["a", "b"], 200), "act": rng.choice(["go", "stay"], 200)}
    frame = pl.DataFrame({"x": rng.random(200), "reward": rng.random(200), **columns})
    log = Log(frame, state=state, action="act", reward="reward")
    with pytest.raises(InvalidOptionError, match=r"min_support counts the records behind a decision here.*got 0\.05"):
        improve(log, "log", ["always:go"], min_support=0.05)


def test_of_regions_within_a_budget_only_the_best_plan_was_sought():
    low, high = (lambda states: np.zeros(len(states), dtype=int)), (lambda states: np.asarray(states[:, 0] > 0.5) * 1)
    log, half = rows_log(), lambda states: np.asarray(states[:, 0] < 0.2) * 1
    everything = improve(log, low, [high, half])
    within = improve(log, low, [high, half], budget=everything.best.changes - 0.01)
    assert 0 < within.best.changes < everything.best.changes
    with pytest.raises(InvalidOptionError, match="only the best plan within a budget of"):
        within.at(within.best.changes / 2)
    assert "within the budget of 0.01 but the current policy" in str(improve(log, low, [high, half], budget=0.01))
