import numpy as np
import pytest

from polidiff.evaluation.assumptions.confounding_one_step import largest_scale
from polidiff.evaluation.assumptions.log_checks import hidden_reasons


def decided(n, slope, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, (rng.random(n) < 1 / (1 + np.exp(-slope * x[:, 1]))).astype(int)


def test_the_measurement_behind_the_decision_is_named_with_its_strength():
    x, actions = decided(4000, 1.0)
    name, strength = largest_scale(x, actions, ("age", "pressure", "sex"))
    assert name == "pressure"
    # hiding it leaves even odds: the log-odds move by |x|, whose 90 % quantile is 1.645
    assert strength == pytest.approx(np.exp(1.645), rel=0.15)


def test_decisions_by_the_toss_of_a_coin_name_nothing():
    assert [largest_scale(*decided(1000, 0.0, seed), ("a", "b", "c")) for seed in range(10)].count(None) >= 9


def test_texts_and_gaps_are_measurements_too():
    x, actions = decided(2000, 2.0)
    mixed = np.empty((2000, 2), dtype=object)
    mixed[:, 0] = np.where(x[:, 1] > 0, "high", "low")
    mixed[:, 1] = np.where(np.arange(2000) % 9 == 0, None, x[:, 0])
    assert largest_scale(mixed, actions, ("pressure", "age"))[0] == "pressure"
    assert largest_scale(x[:50], actions[:50], ("a", "b", "c")) is None


def test_the_scale_stands_beside_the_strength():
    assert hidden_reasons(1.6, None, ("pressure", 4.2)).endswith(
        "For scale: hiding 'pressure', the recorded measurement that matters most for the decision, changes them up to "
        "4.2 times for nine people in ten."
    )
