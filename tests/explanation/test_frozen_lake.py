"""A stochastic task: slippery FrozenLake 8x8, a naive policy against the optimum."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff import Simulator, TabularMDP, explain
from polidiff.evaluation.exact import best_policy, exact_evaluator, finite_horizon_values
from polidiff.evaluation.simulator import paired_outcomes
from polidiff.evaluation.verdicts import judge_groups
from polidiff.policies import as_policy
from polidiff.worlds.steppers import TableStepper

HORIZON = 100


class LakeModel:
    """The table as a vectorised model, so that many repetitions are cheap."""

    n_actions = 4
    horizon = HORIZON

    def __init__(self, table):
        self.table = table

    def reset(self, count, rng):
        return np.zeros(count, dtype=np.int64)

    def step(self, states, actions, rng):
        stepper = TableStepper(self.table, np.array(states), (int(rng.integers(2**31)),))
        live = np.flatnonzero(~self.table.absorbing[states])
        step = stepper.step(actions[live], live)
        rewards = np.zeros(len(states))
        rewards[live] = (step.next_states == 63).astype(float)
        return stepper.states, rewards, self.table.absorbing[stepper.states]


@pytest.fixture(scope="module")
def lake():
    gymnasium = pytest.importorskip("gymnasium")
    table = TabularMDP.from_gymnasium(gymnasium.make("FrozenLake-v1", map_name="8x8", is_slippery=True))
    naive = np.where(table.features[:, 1] < 7, 2, 1)
    return table, naive, best_policy(table).actions


def simulator(table):
    return Simulator(
        LakeModel(table),
        actions=["left", "down", "right", "up"],
        features=lambda s: np.stack([s // 8, s % 8], axis=1).astype(float),
        feature_names=["row", "column"],
    )


def test_the_table_is_told_in_a_few_rules_that_recover_the_return(lake):
    told = explain(*lake)
    assert len(told.regions) <= 6
    assert told.quality.f1 >= 0.95
    assert told.quality.completeness["return"] >= 0.9
    assert {v.direction for v in told.verdicts} == {"more"}
    assert told.lead == "complete"
    assert "told whole (right in 9" in str(told)


@pytest.mark.slow
def test_the_simulator_is_told_with_intervals_that_hold_the_exact_difference(lake):
    table, naive, best = lake
    told = explain(simulator(table), naive, best, max_steps=200_000)
    exact = [finite_horizon_values(exact_evaluator(table, p), table.rewards, HORIZON)[0] for p in (naive, best)]
    assert told.verdicts[0].difference.contains(exact[1] - exact[0])
    assert told.quality.f1 >= 0.95
    assert told.quality.completeness["return"] >= 0.9


@pytest.mark.slow
def test_paired_intervals_cover_as_often_as_they_claim_and_the_family_holds(lake):
    """1,000 repetitions: pointwise coverage .93–.97; family-wise error at most .05 + 2 standard errors."""
    table, naive, best = lake
    world = simulator(table)
    policies = [as_policy(p, n_actions=4) for p in (naive, best)]
    exact = [finite_horizon_values(exact_evaluator(table, p), table.rewards, HORIZON)[0] for p in (naive, best)]
    truth = exact[1] - exact[0]
    repetitions, groups = 1000, 5
    pointwise, family = 0, 0
    for seed in range(repetitions):
        judged, _ = paired_outcomes(world, *policies, episodes=500, seed=(seed, 33))
        members = [np.arange(500) % groups == g for g in range(groups)]
        shown = judge_groups(judged, members, [False] * groups, world.outcomes, 0.95, groups)
        pointwise += sum(v[0].pointwise.contains(truth) for v in shown)
        family += any(not v[0].difference.contains(truth) for v in shown)
    assert 0.93 <= pointwise / (repetitions * groups) <= 0.97
    assert family / repetitions <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / repetitions)


def test_changes_are_said_to_be_in_no_region_only_where_some_are():
    pytest.importorskip("gymnasium")
    lake = TabularMDP.from_gymnasium("FrozenLake-v1")
    current = np.array([0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0])
    proposed = current.copy()
    proposed[[2, 14]] = 0, 2
    share = {}
    for most in (1, 2):
        found = explain(lake, current, proposed, max_rules=most)
        assert len(found.regions) == most
        share[most] = [note for note in found.warnings if "in none of the regions" in note]
    assert share == {1: ["27 % of the decisions that change are in none of the regions told."], 2: []}


def test_no_rule_found_is_not_told_as_a_small_difference():
    moves = np.stack([np.eye(5)[[1, 2, 3, 4, 4]], np.eye(5)[[4] * 5]], axis=1)
    world = TabularMDP(
        moves, np.tile([1.0, 0.0], (5, 1)), [0.25] * 4 + [0], absorbing=[4], features=[[0.0], [0], [1], [1], [2]]
    )
    found = explain(world, [1, 0, 0, 0, 0], [1, 1, 0, 0, 0], classifier="tree")
    assert not found.regions
    assert "no rule was found that tells where they differ" in str(found)
    assert "tolerance" not in str(found)
