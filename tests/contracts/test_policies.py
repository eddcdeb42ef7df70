"""What every policy must do; a new kind joins by a line."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff import as_policy
from polidiff.domains import navigation
from polidiff.policies import GreedyPolicy, PatchedPolicy, Policy, choose, difference
from polidiff.records.patch import Edit, Patch
from polidiff.records.rule import Condition, Rule

STATES = np.arange(4)
POINTS = np.random.default_rng(0).uniform(0, 1, size=(30, 2))
MIXED = np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
WEST = Patch((Edit(Rule((Condition("x", 0, high=0.3),)), 1, 0),), navigation.ACTIONS, ("x", "y"))

CASES = {
    "actions of a table": (lambda: as_policy([0, 1, 1, 0]), STATES),
    "probabilities of a table": (lambda: as_policy(MIXED), STATES),
    "greedy": (lambda: GreedyPolicy(as_policy(MIXED)), STATES),
    "patched table": (lambda: difference([0, 1, 1, 0], [1, 1, 0, 0]).apply([0, 1, 1, 0]), STATES),
    "function of a batch": (lambda: as_policy(navigation.current, n_actions=3), POINTS),
    "function of one state": (lambda: as_policy(lambda x: int(x[0] > 0.5), n_actions=3), POINTS),
    "function with probabilities": (lambda: as_policy(lambda X: np.full((len(X), 3), 1 / 3), n_actions=3), POINTS),
    "patched by rule": (lambda: PatchedPolicy(as_policy(navigation.current, n_actions=3), WEST), POINTS),
}


@pytest.fixture(params=CASES)
def case(request):
    make, states = CASES[request.param]
    return make(), states


def test_it_is_a_policy_and_is_taken_as_one(case):
    policy, _ = case
    assert isinstance(policy, Policy)
    assert as_policy(policy, n_actions=policy.n_actions).n_actions == policy.n_actions


def test_rows_are_distributions_over_all_actions(case):
    policy, states = case
    table = policy.probabilities(states)
    assert table.shape == (len(states), policy.n_actions)
    assert (table >= 0).all()
    assert table.sum(axis=1) == pytest.approx(1.0)


def test_a_state_is_answered_alike_alone_and_among_others(case):
    policy, states = case
    together = policy.probabilities(states)
    assert (np.concatenate([policy.probabilities(states[i : i + 1]) for i in range(len(states))]) == together).all()
    assert (policy.probabilities(states[::-1]) == together[::-1]).all()


def test_no_states_are_answered_with_no_rows(case):
    policy, states = case
    assert policy.probabilities(states[:0]).shape == (0, policy.n_actions)


def test_asking_changes_nothing(case):
    policy, states = case
    kept = states.copy()
    first = policy.probabilities(states).copy()
    answer = policy.probabilities(states)
    if answer.flags.writeable:
        answer[:] = -1
    assert (policy.probabilities(states) == first).all()
    assert (states == kept).all()


def test_chosen_actions_have_positive_probability(case):
    policy, states = case
    luck = np.random.default_rng(1).random(len(states))
    chosen = choose(policy, states, lambda: luck)
    assert (policy.probabilities(states)[np.arange(len(states)), chosen] > 0).all()
