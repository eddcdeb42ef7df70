"""What rules cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polidiff.errors import InvalidInputError
from polidiff.records.rule import Condition, Rule, covers_any, first_match

X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, np.nan], [np.nan, 0.0]])


@given(st.integers(0, 2**31), st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=1, max_size=4))
def test_a_rule_covers_what_each_of_its_bounds_covers(seed, bounds):
    points = np.random.default_rng(seed).normal(size=(50, len(bounds)))
    rule = Rule(tuple(Condition(f"x{j}", j, low, high) for j, (low, high) in enumerate(bounds)))
    by_hand = [all(low <= v < high for v, (low, high) in zip(row, bounds, strict=True)) for row in points]
    assert rule.covers(points).tolist() == by_hand
    assert rule.covers({f"x{j}": points[:, j] for j in range(len(bounds))}).tolist() == by_hand


def test_neighbours_share_no_point():
    left, right = Condition("x", 0, high=1.0), Condition("x", 0, low=1.0)
    assert (left.covers(X[:3, 0]) ^ right.covers(X[:3, 0])).all()


def test_missing_values_satisfy_only_conditions_that_say_so():
    assert Condition("x", 0).covers(X[:, 0]).tolist() == [True, True, True, False]
    assert Condition("x", 0, low=1.0, missing=True).covers(X[:, 0]).tolist() == [False, True, True, True]
    names = np.array(["a", None, "b"], dtype=object)
    assert Condition("x", 0, values=("a",)).covers(names).tolist() == [True, False, False]
    assert Condition("x", 0, values=(), missing=True).covers(names).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        (np.array([3, 4]), (3.5,), [False, False]),
        (np.array([3, 4]), (3.0,), [True, False]),
        (np.array([3.0, 4.0]), ("tall",), [False, False]),
        (np.array(["tall", "3"]), (3.0, "tall"), [True, False]),
        (np.array([True, False]), (True,), [True, False]),
        (np.array(["a", 3, None], dtype=object), ("a", 3.0), [True, True, False]),
    ],
)
def test_values_are_compared_as_they_are_never_cast(column, values, expected):
    assert Condition("x", 0, values=values).covers(column).tolist() == expected


def test_the_first_rule_that_covers_a_row_wins():
    rules = [Rule((Condition("x", 0, high=1.0),)), Rule((Condition("x", 0, high=2.0),))]
    assert first_match(rules, X).tolist() == [0, 1, -1, -1]
    assert covers_any(rules, X).tolist() == [True, True, False, False]
    assert Rule().covers(X).all()


def test_what_a_reader_counts():
    rule = Rule((Condition("x", 0, 0.0, 1.0), Condition("y", 1, values=("a", "b")), Condition("x", 0, missing=True)))
    assert rule.literals == 2 + 1 + 1
    assert rule.features == ("x", "y")


def test_a_feature_that_is_not_there_is_named():
    rule = Rule((Condition("map", 5, low=1.0),))
    with pytest.raises(InvalidInputError, match=r"needs column 5 \('map'\); the matrix has 2 columns"):
        rule.covers(X)
    with pytest.raises(InvalidInputError, match="needs the feature 'map'"):
        rule.covers({"x": [1.0]})


@given(st.data())
def test_rules_that_name_values_are_matched_as_one_after_the_other(drawn):
    pool = drawn.draw(st.sampled_from([["a", "b", "c", None], [1, 2.0, 3, math.nan], ["1", 1, 2, None]]))
    rows = np.array(
        [[value] for value in drawn.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=8))], dtype=object
    )
    named = [value for value in pool if value is not None and value == value]
    values = drawn.draw(
        st.lists(st.lists(st.sampled_from([*named, 5, "z"]), min_size=1, max_size=3), min_size=2, max_size=4)
    )
    rules = [Rule((Condition("x", 0, values=tuple(some)),)) for some in values]
    after = np.full(len(rows), -1)
    for index, rule in enumerate(rules):
        after[(after < 0) & rule.covers(rows)] = index
    np.testing.assert_array_equal(first_match(rules, rows), after)


def test_twenty_thousand_states_are_matched_at_once():
    names = np.array([[f"s{k}"] for k in range(20_000)], dtype=object)
    rules = [Rule((Condition("state", 0, values=(name,)),)) for name in names[:, 0]]
    np.testing.assert_array_equal(first_match(rules, names), np.arange(20_000))
