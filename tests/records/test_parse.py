"""Conditions, guards and cases as people write them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polidiff.errors import ParseError
from polidiff.explanation.words import rule_text
from polidiff.records.parse import Guard, parse_case, parse_guard, parse_rule, parse_rules
from polidiff.records.rule import Condition, Rule
from tests.strategies import NAMES, condition_text, rules

PLAIN = ("x", "y", "blood pressure")


@given(st.lists(rules, min_size=1, max_size=3))
def test_rules_written_out_are_read_back(written):
    text = " or ".join(" and ".join(condition_text(part) for part in rule.conditions) for rule in written)
    assert parse_rules(text, NAMES) == tuple(written)


short = st.integers(-999, 499).map(lambda number: number / 10)  # text shows three digits of what is below 100
large = st.integers(10_000, 999_999).map(float)
WARDS = ("ward 03", "ward 07", "north", "not known")
KNOWN = {"x": (), "y": (), "blood pressure": (), "ward": WARDS}


@st.composite
def printed_conditions(draw: st.DrawFn) -> Condition:
    """A condition that our text tells whole: bounds of few digits, at most seven categories, missing or not."""
    missing = draw(st.booleans())
    if draw(st.booleans()):
        values = tuple(draw(st.lists(st.sampled_from(WARDS), unique=True)))
        return Condition("ward", 3, values=values, missing=missing or not values)
    column, low, width = draw(st.integers(0, 2)), draw(short | large), draw(st.none() | st.integers(1, 500))
    high = math.inf if width is None else low + width if low >= 100 else round(low + width / 10, 1)
    return Condition((*PLAIN, "ward")[column], column, low, high, missing=missing)


@given(st.lists(st.lists(printed_conditions(), max_size=3), min_size=1, max_size=2))
def test_the_text_shown_to_people_is_read_back(parts):
    rules = tuple(Rule(tuple(conditions)) for conditions in parts)
    assert parse_rules(" or ".join(map(rule_text, rules)), (*PLAIN, "ward"), KNOWN) == rules


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("x < 1", 0.999, 1.0),
        ("x <= 1", 1.0, 1.001),
        ("x ≤ 1", 1.0, 1.001),
        ("x > 1", 1.001, 1.0),
        ("x >= 1", 1.0, 0.999),
        ("1 < x", 1.001, 1.0),
        ("1 <= x <= 2", 2.0, 2.001),
        ("-1.5e1 <= x < -2", -15.0, -2.0),
        ("x = 3", 3.0, 3.5),
        ("x in {1, 2}", 2.0, 3.0),
        ("x is missing", math.nan, 1.0),
        ("x is not missing", 1.0, math.nan),
        ('"x" < 1, x > 0', 0.5, 0.0),
    ],
)
def test_what_a_condition_covers(text, inside, outside):
    assert parse_rule(text, ["x"]).covers(np.array([[inside], [outside]])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "expected the name of a feature; came the end"),
        ("x", 2, "expected < or <= or > or >= or =; came the end"),
        ("x <", 4, "expected a number; came the end"),
        ("x < tall", 5, "expected a number; came 'tall'"),
        ("x < 1 y < 2", 7, "expected 'and', 'or' or the end; came 'y'"),
        ("x < 1 and z > 2", 11, "'z' is not the name of a feature"),
        ("blood presure > 2", 1, "did you mean 'blood pressure'"),
        ("x in {1, 2", 11, "expected ',' or '}'; came the end"),
        ("x is not sad", 10, "expected 'and', 'or' or the end; came 'sad'"),
        ("2 <= x < 1", 10, "expected a bound above the lower one; came '1'"),
        ('x < 1 and "y', 11, "cannot read '\"'"),
        ("x < __import__('os')", 5, "expected a number"),
    ],
)
def test_errors_name_the_column(text, column, message):
    with pytest.raises(ParseError, match=message.replace("(", r"\(")) as caught:
        parse_rules(text, PLAIN)
    assert caught.value.column == column
    assert f"at column {column} of " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_second_rule_where_one_is_expected_is_found_at_its_or():
    with pytest.raises(ParseError, match="expected 'and' or the end; came 'or'") as caught:
        parse_rule("x < 1 or y < 2", PLAIN)
    assert caught.value.column == 7


def test_text_of_unreasonable_length_or_no_text_is_refused():
    with pytest.raises(ParseError, match="at most 10000 characters; came 40000"):
        parse_rules("x<1," * 10_000, PLAIN)
    with pytest.raises(ParseError, match="expected text"):
        parse_rules(3, PLAIN)


@given(st.text(alphabet="xyz <>=≤≥{},+-()\"'0123456789.e andorismt", max_size=40))
def test_any_text_is_read_or_refused_with_a_column_inside_it(text):
    column = 1
    try:
        parse_rules(text, PLAIN)
    except ParseError as error:
        column = error.column
    assert 1 <= column <= len(text) + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mortality<=current+0.01", ("mortality", "<=", 0.01, True)),
        ("mortality <= current - 0.01", ("mortality", "<=", -0.01, True)),
        ("mortality<=current-0.01", ("mortality", "<=", -0.01, True)),
        ("mortality <= current − 0.01", ("mortality", "<=", -0.01, True)),
        ("mortality ≥ current", ("mortality", ">=", 0.0, True)),
        ("hours on pressors < 12", ("hours on pressors", "<=", 12.0, False)),
        ('"hours on pressors" >= -3', ("hours on pressors", ">=", -3.0, False)),
    ],
)
def test_guards(text, expected):
    assert parse_guard(text, ["mortality", "hours on pressors"]) == Guard(*expected, text)


@pytest.mark.parametrize(
    ("text", "column"),
    [("mortality = 3", 11), ("mortality <= current 3 4", 24), ("cost <= 3", 1), ("mortality <=", 13)],
)
def test_guards_that_cannot_be_read(text, column):
    with pytest.raises(ParseError) as caught:
        parse_guard(text, ["mortality"])
    assert caught.value.column == column


def test_cases():
    assert parse_case("map = 60, sex=female and 'blood pressure' == -4", ["map", "sex", "blood pressure"]) == {
        "map": 60.0,
        "sex": "female",
        "blood pressure": -4.0,
    }
    with pytest.raises(ParseError, match="expected '='; came '<'"):
        parse_case("map < 60", ["map"])
    with pytest.raises(ParseError, match="expected ',' or the end; came 'lactate'"):
        parse_case("map = 60 lactate = 4", ["map", "lactate"])


def test_a_case_may_lack_a_value():
    known = {"map": (), "sex": ("female", "male"), "scan": ("done", "missing")}
    case = parse_case("map=missing, sex = Missing, scan=missing", list(known), known)
    assert math.isnan(case["map"])
    assert math.isnan(case["sex"])
    assert case["scan"] == "missing"  # a word that the feature may be
    with pytest.raises(ParseError, match="expected a number; came 'unknown'"):
        parse_case("map=unknown", list(known), known)
