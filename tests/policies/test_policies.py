"""Tables and functions as policies, and how one action is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polidiff import as_policy
from polidiff.errors import InvalidPolicyError
from polidiff.policies import choose, top_actions
from tests.strategies import SEEDS


@given(SEEDS, st.integers(1, 5))
def test_the_top_action_is_the_most_probable_and_ties_go_as_told(seed, n_actions):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 3, size=(20, n_actions)) + 1e-10 * rng.random((20, n_actions))
    prefer = rng.integers(n_actions, size=20)
    best = table.max(axis=1)
    for row, top, preferred, wish in zip(table, top_actions(table), top_actions(table, prefer), prefer, strict=True):
        tied = [a for a in range(n_actions) if row[a] >= row.max() - 1e-9]
        assert top == tied[0]
        assert preferred == (wish if wish in tied else tied[0])
    assert (table[np.arange(20), top_actions(table)] >= best - 1e-9).all()


def test_an_action_is_drawn_by_inverting_the_distribution():
    policy = as_policy(np.array([[0.2, 0.5, 0.3]]))
    luck = np.array([0.0, 0.19, 0.2, 0.69, 0.7, 0.999])
    assert choose(policy, np.zeros(6, dtype=int), lambda: luck).tolist() == [0, 0, 1, 1, 2, 2]


def test_a_certain_policy_needs_no_luck():
    def no_luck():
        raise AssertionError("asked for luck")

    assert choose(as_policy([1, 0]), np.array([0, 1, 0]), no_luck).tolist() == [1, 0, 1]
    assert choose(as_policy(lambda s: s * 0, n_actions=2), np.array([0, 1]), no_luck).tolist() == [0, 0]


class Counted:
    """Counts its calls after the first, which finds out how it wants to be called."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, states):
        self.calls += 1
        return self.function(states)


@pytest.mark.parametrize(
    "function",
    [lambda X: (X[:, 0] > 0).astype(int), lambda X: np.column_stack([X[:, 0] > 0, X[:, 0] <= 0]).astype(float)],
    ids=["actions", "probabilities"],
)
def test_a_function_is_called_once_for_all_states(function):
    counted = Counted(function)
    policy = as_policy(counted, n_actions=2)
    batch = np.random.default_rng(0).normal(size=(50, 2))
    choose(policy, batch, lambda: np.full(50, 0.5))
    counted.calls = 0
    choose(policy, batch, lambda: np.full(50, 0.5))
    assert counted.calls == 1


BATCH = np.random.default_rng(1).normal(size=(40, 3))


@pytest.mark.parametrize(
    ("function", "batched"),
    [
        (lambda X: (X[:, 0] > 0).astype(int), True),
        (lambda X: np.array([[0.5, 0.5]] * len(X)), True),
        (lambda x: int(x[0] > 0), False),
        (lambda x: (x > 0)[0], False),  # runs on a batch too, and means something else there
        (lambda x: [0.25, 0.75], False),
        (lambda x: 1, False),
    ],
)
def test_whether_a_function_takes_a_batch_is_found_out_once(function, batched):
    policy = as_policy(function, n_actions=2)
    table = policy.probabilities(BATCH)
    assert policy._batched is batched
    assert table.shape == (40, 2)
    one_by_one = np.concatenate([policy.probabilities(BATCH[i : i + 1]) for i in range(40)])
    assert (table == one_by_one).all()


def test_a_function_of_state_indices():
    assert top_actions(as_policy(lambda s: s % 2, n_actions=2).probabilities(np.arange(5))).tolist() == [0, 1, 0, 1, 0]
    lookup = {0: 1, 1: 0}
    assert top_actions(as_policy(lambda s: lookup[int(s)], n_actions=2).probabilities(np.arange(2))).tolist() == [1, 0]


def test_always_the_most_probable_action():
    assert as_policy([[0.4, 0.6], [0.5, 0.5]], greedy=True).probabilities([0, 1]).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([[0.5, 0.6]], r"row 0 sums to 1.1 \(1 of 1 rows are off\)"),
        ([[1.5, -0.5]], "probabilities ≥ 0; row 0 has -0.5"),
        ([[np.nan, 1.0]], "finite probabilities; row 0"),
        ([0, 2], r"actions must be between 0 and 1; state 1 has 2 \(1 of 2 states are off\)"),
        ([0.5, 1.0], "must hold action indices; entry 0 is"),
        ([[[1.0]]], r"got shape \(1, 1, 1\)"),
        ([[1.0, 0.0, 0.0]], r"must have 2 columns, one per action; got shape \(1, 3\)"),
        (["north"], "a policy table must hold numbers"),
        (None, "None|NoneType"),
    ],
)
def test_tables_that_are_no_policy(policy, message):
    with pytest.raises(InvalidPolicyError, match=message) as caught:
        as_policy(policy, n_actions=2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda X: np.zeros((len(X), 3)) + 1 / 3, "must return 2 probabilities per state; got 3"),
        (lambda X: np.full(len(X), 2), "must return actions 0 to 1; for state number 0 it returned"),
        (lambda X: np.full(len(X), 0.5), "must return actions 0 to 1; for state number 0 it returned"),
        (lambda X: np.zeros((len(X), 2)), "must sum to 1; row 0 sums to 0"),
    ],
)
def test_functions_that_answer_something_else(function, message):
    with pytest.raises(InvalidPolicyError, match=message):
        as_policy(function, n_actions=2).probabilities(BATCH)


def test_a_function_that_later_returns_the_wrong_length_is_caught():
    policy = as_policy(lambda X: np.zeros(min(len(X), 10), dtype=int), n_actions=2)
    with pytest.raises(InvalidPolicyError, match=r"for 40 states it returned shape \(10,\)"):
        policy.probabilities(BATCH)


def test_a_table_asked_about_a_state_it_does_not_have_names_it():
    with pytest.raises(InvalidPolicyError, match="a table policy of 2 states was asked about state -1"):
        as_policy([0, 1]).probabilities([0, -1])


def test_a_function_alone_does_not_tell_how_many_actions_there_are():
    with pytest.raises(InvalidPolicyError, match=r"as_policy\(\.\.\., n_actions=\)"):
        _ = as_policy(lambda s: s).n_actions
