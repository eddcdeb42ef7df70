"""Intervals of how true rules are: they count episodes, and nothing wrong seen is no proof."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from polidiff.regions.describe import fidelity, fidelity_intervals, ratio_interval


@pytest.mark.parametrize("count", [5, 13, 50, 1000])
def test_with_nothing_wrong_the_lower_end_is_near_that_of_clopper_and_pearson(count):
    """Clopper and Pearson (1934): :math:`(\\alpha/2)^{1/n}` of n right answers, :math:`\\alpha^{1/n}` on one side."""
    low = ratio_interval(np.full(count, 7.0), np.full(count, 7.0), 0.95).low
    both_sides, one_side = 0.025 ** (1 / count), 0.05 ** (1 / count)
    assert both_sides - 0.08 < low < one_side + 0.002


@given(st.integers(2, 40), st.integers(1, 50), st.integers(0, 2**32 - 1))
def test_more_visits_of_the_same_episodes_tell_no_more(count, times, seed):
    rng = np.random.default_rng(seed)
    whole = rng.integers(1, 9, count).astype(float)
    part = rng.binomial(whole.astype(int), 0.8).astype(float)
    one, more = (ratio_interval(factor * part, factor * whole, 0.95) for factor in (1, times))
    assert (one.low, one.high) == pytest.approx((more.low, more.high))
    assert 0 <= one.low <= one.estimate <= one.high <= 1


@given(st.integers(1, 40), st.floats(0.5, 0.99))
def test_another_episode_that_is_all_right_never_lowers_the_lower_end(count, level):
    lows = [ratio_interval(np.ones(n), np.ones(n), level).low for n in (count, count + 1)]
    assert lows[0] <= lows[1]


@pytest.mark.parametrize(("count", "true", "alike"), [(13, 0.9, 1.0), (50, 0.8, 0.3), (200, 0.97, 0.3)])
def test_intervals_cover_where_visits_of_an_episode_are_alike(count, true, alike):
    """400 samples of beta-binomial episodes of unequal length; .95 is promised, .92 is two standard errors below."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(400):
        size = np.maximum(1, rng.lognormal(2.5, 0.8, count)).astype(int)
        spread = (1 - alike) / alike
        chance = rng.random(count) < true if alike == 1 else rng.beta(true * spread, (1 - true) * spread, count)
        told = ratio_interval(rng.binomial(size, chance).astype(float), size.astype(float), 0.95)
        held += told.contains(true)
    assert held >= 0.92 * 400
    naive = stats.binomtest(int(size.sum() * true), int(size.sum())).proportion_ci().low
    assert told.width > 2 * (true - naive), "rows that count for themselves would promise too much"


def test_intervals_surround_the_measures_themselves():
    rng = np.random.default_rng(1)
    episode, truth = np.repeat(np.arange(20), 10), rng.integers(0, 2, 200)
    told = np.where(rng.random(200) < 0.2, 1 - truth, truth)
    weight = rng.random(200)
    measured = fidelity(told, truth, weight)
    right = (told == truth) & (truth > 0)
    intervals = fidelity_intervals(told > 0, truth > 0, right, weight, episode, 0.9)
    for name in ("precision", "recall", "f1"):
        assert intervals[name].estimate == pytest.approx(getattr(measured, name))
        assert intervals[name].low < getattr(measured, name) < intervals[name].high
