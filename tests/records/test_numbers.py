"""Digits of numbers for people: those that an interval carries, and no powers of ten."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from polidiff.records.numbers import GROUPS, interval_numbers, number
from polidiff.records.outcome import Interval


def read(text: str) -> float:
    """The number that a text says."""
    return float(text.replace("−", "-").replace("±", "").replace(GROUPS, ""))


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e7), st.floats(0, 1))
def test_an_interval_is_told_in_the_digits_that_its_width_carries(low, width, share):
    interval = Interval(low + share * width, low, low + width, 0.95)
    texts = interval_numbers(interval)
    largest = max(abs(interval.low), abs(interval.high))
    for text, value in zip(texts, (interval.estimate, interval.low, interval.high), strict=True):
        assert "e" not in text
        assert abs(read(text) - value) <= max(width / 20, largest / 2000, 0.5 * (largest >= 1000)) * (1 + 1e-9) + (
            width if texts[1] == texts[2] else 0.0
        )
        carried = max(0, 1 - math.floor(math.log10(interval.width)))
        near_nothing = min(abs(interval.low), abs(interval.high)) < width / 10 or (
            text == texts[0] and abs(interval.estimate) < width / 10  # told to one digit rather than as zero
        )
        assert len(text.partition(".")[2]) <= carried or near_nothing


@given(st.floats(0.001, 1.0), st.floats(0, 1), st.floats(0.01, 1e5))
def test_an_estimate_is_told_to_its_first_digit_at_least_however_wide_its_interval(share, below, width):
    estimate = share * width
    told = read(interval_numbers(Interval(estimate, estimate - below * width, estimate + (1 - below) * width, 0.95))[0])
    assert abs(told - estimate) <= 0.5 * estimate * (1 + 1e-9)


@given(st.floats(1e-6, 1e6), st.floats(1, 1e6))
def test_a_bound_beyond_zero_is_never_told_as_zero_where_four_digits_can_say_it(low, width):
    interval = Interval(low + width / 2, low, low + width, 0.95)
    if low > 1e-3 * interval.high:
        assert interval_numbers(interval)[1] != "0"


@given(st.floats(-1e15, 1e15))
def test_no_number_for_people_has_an_exponent(value):
    assert "e" not in number(value)
