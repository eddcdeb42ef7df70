"""Weighted estimates against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff.evaluation.logged.weighting import weighted_estimates
from polidiff.worlds.log_rows import END, LoggedRows


def rows(gains, episode):
    episode = np.asarray(episode)
    follow = np.where(np.append(np.diff(episode) > 0, True), END, np.arange(len(episode)) + 1)
    values = np.asarray(gains, dtype=float)[:, None]
    return LoggedRows(
        np.zeros(len(episode), dtype=int), np.zeros(len(episode), dtype=int), episode, follow, values, None
    )


LOGGED = rows([1.0, 2.0, 4.0], [0, 0, 1])
RATIO = np.array([2.0, 0.5, 3.0])


def test_estimates_agree_with_hand_computed_values():
    # episode 0: weights 2 and 1, sum 3; episode 1: weight 3, sum 4
    nothing = np.zeros((3, 1))
    found = weighted_estimates(LOGGED, RATIO, nothing, nothing)
    assert found.estimates["IS"] == pytest.approx([(1 * 3 + 3 * 4) / 2])
    assert found.estimates["PDIS"] == pytest.approx([(2 * 1 + 1 * 2 + 3 * 4) / 2])
    assert found.estimates["WIS"] == pytest.approx([(1 * 3 + 3 * 4) / (1 + 3)])
    assert found.estimates["DR"] == pytest.approx(found.estimates["PDIS"])
    # step 0: weights 2 and 3; step 1: 1 and, kept by the ended episode, 3
    assert found.estimates["WDR"] == pytest.approx([(2 * 1 + 3 * 4) / 5 + 1 * 2 / 4])
    assert found.effective == pytest.approx((1 + 3) ** 2 / (1 + 9))


def test_doubly_robust_values_agree_with_hand_computed_ones():
    q, v = np.array([[5.0], [1.0], [2.0]]), np.array([[4.0], [1.5], [3.0]])
    found = weighted_estimates(LOGGED, RATIO, q, v)
    first = 4.0 + 2 * (1 + 1.5 - 5.0) + 1 * (2.0 - 1.0)
    second = 3.0 + 3 * (4.0 - 2.0)
    assert found.estimates["DR"] == pytest.approx([(first + second) / 2])
    assert found.estimates["WDR"] == pytest.approx([3.5 + (2 * -2.5 + 3 * 2.0) / 5 + 1 * 1.0 / 4])


def test_discounted_sums_are_discounted_by_step():
    nothing = np.zeros((3, 1))
    found = weighted_estimates(LOGGED, RATIO, nothing, nothing, discount=0.5)
    assert found.estimates["PDIS"] == pytest.approx([(2 * 1 + 0.5 * 1 * 2 + 3 * 4) / 2])


def test_the_logging_policy_has_weight_one_everywhere():
    nothing = np.zeros((3, 1))
    found = weighted_estimates(LOGGED, np.ones(3), nothing, nothing)
    np.testing.assert_array_equal(found.weights, 1.0)
    for name in ("IS", "PDIS", "WIS", "DR", "WDR"):
        assert found.estimates[name] == pytest.approx([3.5])
    assert found.effective == pytest.approx(2.0)


def test_doubly_robust_with_exact_values_has_no_variance_where_nothing_is_random():
    # two steps that pay 1 and 2 whatever is done
    log = rows([1.0, 2.0, 1.0, 2.0], [0, 0, 1, 1])
    exact = np.array([[3.0], [2.0], [3.0], [2.0]])
    found = weighted_estimates(log, np.array([0.3, 2.0, 1.7, 0.0]), exact, exact)
    assert found.estimates["DR"] == pytest.approx([3.0])
    assert found.errors["DR"] == pytest.approx([0.0])
    assert found.estimates["WDR"] == pytest.approx([3.0])


def test_weighted_importance_sampling_stays_within_the_observed_sums():
    rng = np.random.default_rng(0)
    for _ in range(50):
        log = rows(rng.normal(size=12), np.repeat(np.arange(4), 3))
        found = weighted_estimates(log, rng.exponential(size=12), np.zeros((12, 1)), np.zeros((12, 1)))
        sums = log.gains[:, 0].reshape(4, 3).sum(axis=1)
        assert sums.min() - 1e-9 <= found.estimates["WIS"][0] <= sums.max() + 1e-9


def test_the_standard_error_of_wdr_is_near_that_of_repeated_logs():
    rng = np.random.default_rng(1)
    estimates, errors = [], []
    for _ in range(300):
        log = rows(rng.normal(1.0, 1.0, size=200), np.repeat(np.arange(100), 2))
        ratio = rng.choice([0.5, 1.5], size=200)
        found = weighted_estimates(log, ratio, np.zeros((200, 1)), np.zeros((200, 1)))
        estimates.append(found.estimates["WDR"][0])
        errors.append(found.errors["WDR"][0])
    assert np.mean(errors) == pytest.approx(np.std(estimates), rel=0.12)
