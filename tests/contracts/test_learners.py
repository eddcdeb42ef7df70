"""What every learner of regions must do; a new one joins by a line. Libraries that are not installed are skipped."""

from __future__ import annotations

import importlib.util
from itertools import pairwise

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from polidiff import explain
from polidiff.domains import navigation
from polidiff.errors import InvalidOptionError
from polidiff.options import CLASSIFIERS
from polidiff.records.rule import first_match
from polidiff.rules import RuleClassifier
from polidiff.rules.learners import as_learner, learn_rules, nested

LIBRARIES = ("wittgenstein", "imodels", "pystreed", "pycontree")
OBJECTS = {
    "RuleClassifier": RuleClassifier(clause_cost=1e-3),
    "DecisionTreeClassifier": DecisionTreeClassifier(max_depth=4, random_state=0),
}
LEAST = {"wittgenstein": 0.9, "imodels": 0.75, "pystreed": 0.9}  # ten bins, single thresholds, twelve bounds
NAVIGATION = {"wittgenstein": 0.5, "imodels": 0.0, "pystreed": 0.5, "pycontree": 0.8}  # trees of depth three


def needs(name):
    missing = name in LIBRARIES and importlib.util.find_spec(name) is None
    return pytest.param(name, marks=pytest.mark.skipif(missing, reason=f"{name} is not installed"))


@pytest.fixture(params=[*map(needs, CLASSIFIERS), *OBJECTS])
def learner(request):
    return as_learner(OBJECTS.get(request.param, request.param))


def boxes(seed=0, rows=1500):
    X = np.random.default_rng(seed).random((rows, 2))
    first, second = (X[:, 0] < 0.3) & (X[:, 1] >= 0.6), (X[:, 0] >= 0.7) & (X[:, 1] < 0.4)
    return X, np.where(first, 1, np.where(second, 2, 0)), np.full(rows, 1 / rows)


def told(listed, X):
    return np.array([*(label for _, label in listed), 0])[first_match([rule for rule, _ in listed], X)]


def test_planted_boxes_are_told_by_rules_with_labels(learner):
    X, label, weight = boxes()
    listed, _ = learn_rules((learner.make, *learner.finer)[-1](0), X, label, weight, seed=0)
    assert {k for _, k in listed} <= {1, 2}
    fresh, truth, _ = boxes(seed=1)
    assert (told(listed, fresh) == truth).mean() >= LEAST.get(learner.name, 0.98)


def test_the_same_seed_gives_the_same_rules(learner):
    X, label, weight = boxes(rows=600)
    assert len({learn_rules(learner.make(3), X, label, weight, seed=3)[0] for _ in range(2)}) == 1


def test_rows_that_count_for_nothing_teach_nothing(learner):
    X, label, weight = boxes(rows=800)
    wrong = X[:, 0] > 0.5
    weight = np.where(wrong, 0.0, weight)
    listed, _ = learn_rules((learner.make, *learner.finer)[-1](0), X, np.where(wrong, 1, label), weight, seed=0)
    alone, _ = learn_rules((learner.make, *learner.finer)[-1](0), X[~wrong], label[~wrong], weight[~wrong], seed=0)
    away = told(listed, X)[~wrong]
    assert (away == label[~wrong]).mean() >= (told(alone, X[~wrong]) == label[~wrong]).mean() - 0.03


def test_shorter_lists_are_parts_of_longer_ones(learner):
    X, label, weight = boxes()
    listed, _ = learn_rules((learner.make, *learner.finer)[-1](0), X, label, weight, seed=0)
    lists = nested(listed, X, label, weight)
    assert [len(rules) for rules in lists] == list(range(len(listed) + 1))
    assert lists[-1] == listed
    assert all(set(short) < set(long) for short, long in pairwise(lists))


def test_one_label_needs_no_search(learner):
    X, _, weight = boxes(rows=50)
    assert learn_rules(learner.short(0), X, np.zeros(50, dtype=int), weight, seed=0)[0] == ()


def test_the_navigation_difference_is_told_and_the_result_says_by_what(learner):
    world, current, proposed = navigation.world(), navigation.current, navigation.proposed_2
    given = OBJECTS.get(learner.name, learner.name)
    found = explain(world, current, proposed, classifier=given, starts=200, max_steps=20_000)
    assert found.methods.classifier == learner.name
    assert all(region.current != region.proposed for region in found.regions)
    assert found.quality.f1 >= NAVIGATION.get(learner.name, 0.95)
    assert learner.name == "rules" or f"regions learned by {learner.name}" in str(found)


def test_the_conjunctive_form_pays_less_for_reading_where_its_first_rules_tell_too_little():
    told = explain(navigation.world(), navigation.proposed_1, navigation.proposed_2, classifier="rules cnf", starts=200)
    assert (len(told.regions), round(told.quality.f1, 3)) == (5, 1.0)  # as the default form finds them


def test_a_tree_is_read_as_it_predicts_with_missing_values_too():
    rng = np.random.default_rng(0)
    X = rng.random((2000, 3))
    X[rng.random((2000, 3)) < 0.2] = np.nan
    label = np.where(np.isnan(X[:, 0]), 1, np.where(X[:, 1] < 0.5, 2, 0))
    tree = DecisionTreeClassifier(max_leaf_nodes=12, random_state=0)
    listed, _ = learn_rules(tree, X, label, np.full(2000, 1 / 2000), seed=0)
    assert (told(listed, X) == tree.predict(X)).all()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("forest", "classifier must be one of 'rules', 'rules cnf', 'tree'"),
        (DecisionTreeClassifier, "or an estimator with fit; got <class"),
        (3, "or an estimator with fit; got 3"),
    ],
)
def test_what_is_no_learner_is_refused(given, words):
    with pytest.raises(InvalidOptionError, match=words):
        explain(navigation.world(), navigation.current, navigation.proposed_2, classifier=given)


def test_what_has_no_rules_and_words_for_a_learner_of_numbers_are_refused():
    from sklearn.linear_model import LogisticRegression

    X, label, weight = boxes(rows=60)
    with pytest.raises(InvalidOptionError, match="no rules can be read off LogisticRegression"):
        learn_rules(LogisticRegression(), X, label, weight, seed=0)
    with_a_gap = np.where(np.arange(60)[:, None] == 7, np.nan, X)
    with pytest.raises(InvalidOptionError, match="takes no missing values; 1 of 60 rows have some"):
        learn_rules(LogisticRegression(), with_a_gap, label, weight, seed=0)
    with pytest.raises(InvalidOptionError, match="LogisticRegression cannot be fitted: Unknown label type"):
        learn_rules(LogisticRegression(), X, X[:, 0], weight, seed=0)
    words = np.array([["a", 1.0], ["b", 2.0]], dtype=object)
    with pytest.raises(InvalidOptionError, match="takes numbers only; a feature holds 'a'"):
        learn_rules(DecisionTreeClassifier(), words, np.array([0, 1]), np.ones(2), seed=0)


@pytest.mark.skipif(importlib.util.find_spec("wittgenstein") is not None, reason="wittgenstein is installed")
def test_a_library_that_is_not_installed_is_named():
    with pytest.raises(InvalidOptionError, match="needs the package wittgenstein, which is not installed"):
        as_learner("wittgenstein").short(0)
