"""What is recognised as what, and what is not; and that nothing is imported for it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from polidiff import Discretised, as_policy
from polidiff.errors import InvalidPolicyError
from polidiff.policies import CallablePolicy, GreedyPolicy, TablePolicy
from polidiff.policies.model_io import as_probabilities


def test_a_table_policy_brings_in_no_library():
    script = (
        "import sys, polidiff; polidiff.as_policy([[1.0, 0.0], [0.5, 0.5]]).probabilities([0, 1]); "
        "print(sorted({'torch', 'gymnasium', 'stable_baselines3', 'pandas', 'sklearn', 'onnxruntime', 'ray', 'd3rlpy'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_policy_is_itself():
    policy = as_policy(np.array([0, 1]))
    assert as_policy(policy) is policy
    assert isinstance(policy, TablePolicy)
    assert isinstance(as_policy(lambda s: s), CallablePolicy)


def test_greedy_takes_the_most_probable_action():
    policy = as_policy(np.array([[0.4, 0.6], [0.5, 0.5]]), greedy=True)
    assert isinstance(policy, GreedyPolicy)
    assert policy.probabilities([0, 1]).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("obj", [3, {"a": 1}, object()])
def test_something_else_is_refused(obj):
    with pytest.raises(InvalidPolicyError, match="expected a policy, a table, a model, a file or a function"):
        as_policy(obj)


def test_nothing_is_refused_with_the_way_out_for_a_plan_read_from_a_file():
    with pytest.raises(InvalidPolicyError, match="a plan read from a file has no policy; got NoneType"):
        as_policy(None)


@pytest.mark.parametrize("seed", range(5))
def test_logits_are_read_without_overflow_and_up_to_a_constant(seed):
    logits = np.random.default_rng(seed).normal(size=(20, 4)) * 300
    table = as_probabilities(logits, 20, output="logits")
    assert np.isfinite(table).all()
    assert table.sum(axis=1) == pytest.approx(np.ones(20))
    assert as_probabilities(logits + 1e3, 20, output="logits") == pytest.approx(table)


def test_rounding_of_single_precision_is_taken_out():
    table = np.full((1, 3), 1 / 3, dtype=np.float16)
    assert as_probabilities(table, 1).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("answer", "options", "message"),
    [
        (np.zeros((3, 2, 2)), {}, "answered with shape"),
        (np.zeros(2), {"n_actions": 2}, "must answer 3 states"),
        (np.zeros((3, 4)), {"n_actions": 2}, "must give 2 numbers per state"),
        (np.full((3, 2), np.nan), {"output": "logits"}, "finite numbers"),
        (np.zeros((3, 2)), {"output": "action"}, "Discretised"),
        (np.array([0.2, 0.4, 1.0]), {"n_actions": 2}, "Discretised"),
        (np.array([0, 5, 1]), {"n_actions": 2}, "for state number 1 it returned 5"),
        (np.array([0, 1, 1]), {}, "n_actions="),
        (np.array([0, 1, 1]), {"output": "logits", "n_actions": 2}, "was to give logits"),
        (np.array([[2.0, 1.0]] * 3), {}, "output='logits'"),
    ],
)
def test_bad_answers_are_told(answer, options, message):
    with pytest.raises(InvalidPolicyError, match=message):
        as_probabilities(answer, 3, **options)


def test_levels_are_the_nearest_in_units_of_their_span():
    bins = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1000.0]])
    policy = Discretised(lambda states: states, bins)
    table = policy.probabilities(np.array([[0.9, 400.0], [0.4, 10.0], [0.2, 700.0]]))
    assert table.argmax(axis=1).tolist() == [1, 0, 2]


def test_a_function_of_one_state_can_have_levels():
    policy = Discretised(lambda state: np.tanh(state[0]), [-1.0, 0.0, 1.0])
    states = np.linspace(-3, 3, 7)[:, None] + np.zeros((7, 7))  # as many states as features
    expected = np.abs(np.tanh(states[:, :1]) - [[-1, 0, 1]]).argmin(axis=1)
    assert np.array_equal(policy.probabilities(states).argmax(axis=1), expected)


def test_bad_levels_are_refused():
    with pytest.raises(InvalidPolicyError, match="at least two levels"):
        Discretised(lambda s: s, [1.0])
    with pytest.raises(InvalidPolicyError, match="bounded action_space"):
        Discretised(lambda s: s, 5)
    with pytest.raises(InvalidPolicyError, match="levels have 2 numbers each"):
        Discretised(lambda s: s, np.zeros((3, 2)) + np.arange(3)[:, None]).probabilities(np.zeros((4, 1)))
    with pytest.raises(InvalidPolicyError, match="expected a model or a function"):
        Discretised(3.0, [0.0, 1.0]).probabilities(np.zeros((4, 1)))
