"""From ends and standard errors to intervals: laws that hold for every value, range and level."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from polidiff.evaluation.logged.bounds import Noise, interval_bounds

shares = st.floats(0.0, 1.0)
deviations = st.floats(1e-6, 0.5)


def bounds(values, deviation, limits=(0.0, 1.0), alpha=0.05, freedom=1e9):
    """Bounds around known values (q,) with one deviation."""
    values = np.asarray(values)
    spread = np.full(values.shape, deviation)
    many = np.full(values.shape, freedom)
    return interval_bounds(values, values, (spread, spread), many, alpha=alpha, limits=limits, bent=True)


@given(shares, deviations)
def test_bounds_hold_the_value_and_stay_within_the_range(value, deviation):
    low, high = bounds([value], deviation)
    assert 0.0 <= low[0] <= value + 1e-8
    assert value - 1e-8 <= high[0] <= 1.0


@given(deviations)
def test_a_larger_value_never_has_a_lower_bound(deviation):
    low, high = bounds(np.linspace(0, 1, 401), deviation)
    assert (np.diff(low) >= -1e-9).all()
    assert (np.diff(high) >= -1e-9).all()


@given(shares, deviations)
def test_turning_the_range_around_turns_the_interval_around(value, deviation):
    low, high = bounds([value], deviation)
    other_low, other_high = bounds([1 - value], deviation)
    np.testing.assert_allclose([low[0], high[0]], [1 - other_high[0], 1 - other_low[0]], atol=1e-7)


@given(shares, deviations, st.floats(-50, 50), st.floats(0.1, 50))
def test_bounds_do_not_depend_on_the_unit(value, deviation, shift, span):
    low, high = bounds([value], deviation)
    moved = bounds([shift + span * value], span * deviation, limits=(shift, shift + span))
    np.testing.assert_allclose(moved, (shift + span * low, shift + span * high), atol=1e-6 * span + 1e-9)


def test_a_share_is_held_as_often_as_claimed_over_all_binomial_counts():
    n, counts = 40, np.arange(41)
    for truth in (0.1, 0.3, 0.5, 0.8):
        found = [bounds([k / n], np.sqrt((k / n * (1 - k / n) * n + 2 * 0.25) / (n + 2) / n)) for k in counts]
        held = np.array([low[0] <= truth <= high[0] for low, high in found])
        assert 0.92 <= stats.binom.pmf(counts, n, truth)[held].sum() <= 0.985


@given(st.lists(st.floats(0.0, 3.0), min_size=5, max_size=5).filter(lambda visits: sum(visits) > 0.1))
def test_decisions_that_speak_for_several_steps_have_their_own_degrees_of_freedom_at_whatever_steps(visits):
    noise = Noise(np.full(5, 0.2), np.full(5, 0.2**2 / 7.0), copies=5)
    np.testing.assert_allclose(noise.freedom(np.array([visits])), 7.0)
    np.testing.assert_allclose(noise.variance(np.array([visits]) ** 2 * 0.2), 0.2 * sum(visits) ** 2)
