"""Leaves of trees as rules: they cover what the tree puts there, in bounds that a person would write."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from polidiff.explanation.words import rule_text
from polidiff.records.parse import parse_rules
from polidiff.records.rule import Condition, Rule
from polidiff.rules import RuleClassifier
from polidiff.rules.learners import leaf_rules


@given(seed=st.integers(0, 2**16), most=st.integers(2, 20), scale=st.sampled_from([1.0, 7.0, 1e6]))
def test_each_leaf_is_told_exactly_and_whole_numbers_in_whole_numbers(seed, most, scale):
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.integers(0, most, 60) * scale, rng.normal(size=60)], axis=1)
    tree = DecisionTreeClassifier(max_leaf_nodes=6, random_state=0).fit(rows, rng.integers(0, 3, 60))
    found = tree.apply(rows)
    for rule, leaf in leaf_rules(tree, rows, ("count", "size"), np.arange(tree.tree_.node_count)):
        assert (rule.covers(rows) == (found == leaf)).all()
        bounds = [b for c in rule.conditions if c.feature == "count" for b in (c.low, c.high) if np.isfinite(b)]
        assert all(bound == round(bound) for bound in bounds)


def test_a_bound_between_zero_and_next_to_nothing_is_read_as_zero():
    speed, moves = np.array([-0.01, 0.0, 3e-7, 0.02]).repeat(50), np.array([0, 0, 1, 1]).repeat(50)
    (rule,) = RuleClassifier(default_class=0).fit(speed[:, None], moves).rules_[1]
    text = rule_text(rule).replace("x0", "speed")
    assert text == "speed > 0"
    assert (parse_rules(text, ["speed"])[0].covers(speed[:, None]) == (moves == 1)).all()
    assert rule_text(Rule((Condition("speed", 0, high=rule.conditions[0].low),))) == "speed ≤ 0"


@given(seed=st.integers(0, 2**16))
def test_siblings_that_are_told_the_same_are_one_rule(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, 2))
    tree = DecisionTreeClassifier(max_leaf_nodes=8, random_state=0).fit(rows, rng.integers(0, 4, 60))
    told = rng.integers(0, 2, tree.tree_.node_count)
    rules = leaf_rules(tree, rows, ("count", "size"), told)
    covers = np.array([rule.covers(rows) for rule, _ in rules])
    assert (covers.sum(axis=0) == 1).all()
    assert (np.array([label for _, label in rules])[covers.argmax(axis=0)] == told[tree.apply(rows)]).all()
    assert leaf_rules(tree, rows, ("count", "size"), np.ones_like(told)) == ((Rule(), 1),)


@pytest.mark.parametrize("values", [[0, 1], [0, 1, 2, 5], [-3, 0, 4], list(range(300))])
def test_rules_about_whole_numbers_have_whole_bounds(values):
    rng = np.random.default_rng(0)
    rows = np.stack([rng.choice(values, 500), rng.normal(size=500)], axis=1).astype(float)
    told = RuleClassifier().fit(rows, (rows[:, 0] >= np.median(values)) & (rows[:, 1] > 0)).rules_
    conditions = [c for rules in told.values() for rule in rules for c in rule.conditions if c.column == 0]
    bounds = [bound for c in conditions for bound in (c.low, c.high)]
    assert bounds
    assert all(bound == round(bound) for bound in bounds if np.isfinite(bound))
