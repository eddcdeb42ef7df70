"""Rules chosen from many: against enumeration, against scikit-learn's trees, and what people can read."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from polidiff.divergence import Divergence
from polidiff.records.action import Action, Swap
from polidiff.records.rule import Condition, Rule, first_match
from polidiff.regions import describe
from polidiff.regions.describe import (
    MOST_CONDITIONS,
    MOST_RULES,
    WELL_TOLD,
    as_pairs,
    best_told,
    fidelity,
    held_out_visits,
    rule_lists,
    visits_of,
)
from polidiff.regions.rule_choice import DOUBT, Pool, best_lists, known_lists, shortened
from polidiff.rules.learners import as_learner, tree_rules


def f1_of(listed, X, label, weight):
    told = np.array([*(k for _, k in listed), 0])[first_match([rule for rule, _ in listed], X)]
    return fidelity(told, label, weight).f1


def random_case(seed):
    rng = np.random.default_rng(seed)
    X, label = rng.uniform(size=(60, 2)), rng.integers(0, 3, size=60)
    rules = []
    for _ in range(5):
        low, high = np.sort(rng.uniform(size=2))
        rules.append((Rule((Condition("x", int(rng.integers(2)), low=low, high=high),)), int(rng.integers(1, 3))))
    return tuple(rules), X, label, rng.uniform(size=60)


@pytest.mark.parametrize("seed", range(40))
def test_lists_tell_what_they_claim_and_come_near_the_best_of_all_lists(seed):
    rules, X, label, weight = random_case(seed)
    pool = Pool.of([rules], X, label, weight, price=0.0)
    for size, listed in enumerate(best_lists(pool, [], 3)):
        told = f1_of(listed, X, label, weight)
        assert pool.worth([pool.rules.index(entry) for entry in listed]) == pytest.approx(told)
        best = max(f1_of(some, X, label, weight) for some in permutations(pool.rules, size))
        assert told >= (best if size == 1 else 0.9 * best) - 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_a_known_list_is_never_beaten_by_what_is_chosen(seed):
    rules, X, label, weight = random_case(seed)
    pool = Pool.of([rules], X, label, weight, price=0.0)
    for known in permutations(pool.rules, 3):
        assert f1_of(best_lists(pool, [known], 3)[3], X, label, weight) >= f1_of(known, X, label, weight) - 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_of_known_lists_the_best_that_is_short_enough_is_taken_unchanged(seed):
    rules, X, label, weight = random_case(seed)
    known = [some for size in (1, 3) for some in permutations(rules, size)]
    for size, listed in enumerate(known_lists(Pool.of([rules], X, label, weight, price=0.0), known, 4)):
        told = [f1_of(some, X, label, weight) for some in ((), *known) if len(some) <= size]
        assert listed in ((), *known)
        assert f1_of(listed, X, label, weight) == pytest.approx(max(told))


@pytest.mark.parametrize("seed", range(10))
def test_what_a_doubted_rule_tells_rightly_counts_less_the_fewer_visits_it_covers(seed):
    rules, X, label, _ = random_case(seed)
    pool = Pool.of([rules], X, label, np.full(60, 0.5), price=0.0)
    for (rule, told), own in zip(pool.rules, pool.doubted(60).own, strict=True):
        covered, right = rule.covers(X).sum(), (rule.covers(X) & (label == told)).sum()
        assert own.sum() == pytest.approx(0.5 * right * covered / (covered + DOUBT), abs=1e-3)


def test_visits_that_made_no_rules_decide_how_lists_are_chosen():
    """From few visits in 25 dimensions the list that fits best is often not the one that tells most of others."""
    names, taken = tuple(f"x{j}" for j in range(25)), []
    for seed in range(4):
        divergence = wide_divergence(seed, rows=240)
        held, visits = held_out_visits(divergence.episode, 0), visits_of(divergence, as_pairs(divergence))
        ways, _, _ = rule_lists(visits.take(~held), as_learner(), names, MOST_RULES, 0)
        path, points = best_told(ways, visits.take(held))
        told = [sum(f1_of(some, visits.features[held], visits.label[held], np.ones(held.sum())) for some in way)
                for way in ways]  # fmt: skip
        assert sum(point.f1 for point in points) == pytest.approx(max(told))
        taken.append(ways.index(path))
        shown = describe(divergence, tuple(Action(name) for name in "abcde"), names, has_features=True).tradeoff
        assert [point.f1 for point in shown] == [point.f1 for point in dict(zip(path, points, strict=True)).values()]
    assert len(set(taken)) > 1


@pytest.mark.parametrize("seed", range(5))
def test_nested_trees_are_those_that_scikit_learn_grows(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4))
    label = (X[:, 0] > 0).astype(int) + (X[:, 1] * X[:, 2] > 0.5)
    for leaves, listed in enumerate(tree_rules(X, label, np.ones(300), seed=0), start=2):
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0).fit(X, label)
        told = np.array([*(k for _, k in listed), 0])[first_match([rule for rule, _ in listed], X)]
        assert np.array_equal(told, tree.predict(X))


def wide_divergence(seed, features=25, rows=2000):
    """A slanted border in many dimensions, told badly by short rules; four swaps of four actions."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    label = np.where(X[:, :6].sum(axis=1) > 1.5, 1 + (X[:, 6] > 0) + 2 * (X[:, 7] > 0), 0)
    swaps = tuple(Swap("a", name) for name in ("b", "c", "d", "e"))
    share = np.full(rows, 1 / rows)
    episode = np.arange(rows) // 40
    zero = np.zeros(rows, dtype=int)
    sure = np.ones(rows)
    return Divergence(X, X, label, swaps, zero, zero, share, share, episode, zero.astype(float), (sure, sure))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_in_many_dimensions_rules_tell_as_much_as_a_tree_with_as_many_leaves(seed):
    divergence = wide_divergence(seed)
    names = tuple(f"x{j}" for j in range(25))
    told = describe(divergence, tuple(Action(name) for name in "abcde"), names, has_features=True)
    held, X, label = told.held_out, divergence.features, divergence.label
    assert all(len(rule.conditions) <= MOST_CONDITIONS for rule in told.rules)
    for leaves in range(2, 25):
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0).fit(X[~held], label[~held])
        ends = tree.tree_.children_left < 0
        naming = int((ends & (tree.tree_.value[:, 0].argmax(axis=1) > 0)).sum())
        f1 = fidelity(tree.predict(X[held]), label[held], np.ones(held.sum())).f1
        assert max(point.f1 for point in told.tradeoff if point.rules <= naming) >= f1 - 0.01


@pytest.mark.parametrize("seed", range(8))
def test_the_best_few_rules_are_not_the_first_few_of_a_long_list(seed):
    """Four boxes that lie over each other, told perfectly by many rules: few tell as much as trees of few leaves."""
    rng = np.random.default_rng(seed)
    rows, label = rng.integers(0, 12, (400, 2)).astype(float), np.zeros(400, dtype=int)
    for k in range(4):
        low, high = np.sort(rng.integers(0, 13, (2, 2)), axis=0)
        label[((rows >= low) & (rows < high)).all(axis=1)] = 1 + k % 2
    share, zero, sure = np.full(400, 1 / 400), np.zeros(400, dtype=int), np.ones(400)
    swaps, nowhere = (Swap("a", "b"), Swap("a", "c")), np.full(400, -1)
    where = Divergence(rows, rows, label, swaps, zero, zero, share, share, nowhere, zero.astype(float), (sure, sure))
    for most in (1, 2, 3):
        told = describe(where, tuple(map(Action, "abc")), ("x", "y"), has_features=True, max_rules=most)
        trees = [listed for listed in tree_rules(rows, label, share, seed=0) if len(listed) <= most]
        best = max((f1_of(listed, rows, label, share) for listed in trees), default=0.0)
        assert next(point.f1 for point in told.tradeoff if point.chosen) >= min(best, WELL_TOLD) - 0.01


def test_rules_that_are_too_long_are_shortened_by_what_matters_least_and_the_cost_is_said():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(6000, 6))
    label = (X > 0.3).all(axis=1).astype(int)
    rule = Rule(tuple(Condition(f"x{j}", j, low=0.3 if j else 0.01) for j in range(6)))
    short, _ = shortened((rule, 1), X, label, np.ones(6000), 5)
    assert 0 not in [condition.column for condition in short.conditions]
    share, zero = np.full(6000, 1 / 6000), np.zeros(6000, dtype=int)
    episode = np.arange(6000) // 40
    sure, first = np.ones(6000), zero.astype(float)
    where = Divergence(X, X, label, (Swap("a", "b"),), zero, zero, share, share, episode, first, (sure, sure))
    names = tuple(f"x{j}" for j in range(6))
    told = describe(where, (Action("a"), Action("b")), names, has_features=True, max_rules=1)
    assert [len(rule.conditions) for rule in told.rules] == [MOST_CONDITIONS]
    assert "more than 4 conditions are left out" in told.notes[0]


@pytest.mark.parametrize("by_code", [False, True])
def test_rules_name_many_words_only_where_fewer_do_not_tell_as_much(by_code):
    rng = np.random.default_rng(0)
    code, advice, age = rng.integers(0, 60, 3000), rng.integers(0, 3, 3000), rng.integers(20, 90, 3000)
    not_followed = rng.random(3000) < np.where(code < 6, 0.5, 0.12)  # 54 codes would say it hardly better
    label = np.where(code % 2 == 0, 1, 0) if by_code else np.where(not_followed, 0, advice)
    X = np.column_stack([np.array([f"Z{c:02}" for c in code], dtype=object), advice.astype(str).astype(object), age])
    share, zero, sure = np.full(3000, 1 / 3000), np.zeros(3000, dtype=int), np.ones(3000)
    swaps = (Swap("a", "b"),) if by_code else (Swap("a", "b"), Swap("a", "c"))
    where = Divergence(X, X, label, swaps, zero, zero, share, share, np.arange(3000), zero.astype(float), (sure, sure))
    told = describe(where, tuple(map(Action, "abc")), ("code", "advice", "age"), has_features=True)
    named = [condition for rule in told.rules for condition in rule.conditions]
    assert max(len(condition.values or ()) for condition in named) == (30 if by_code else 1)
    chosen = next(point for point in told.tradeoff if point.chosen)
    assert chosen.f1 == 1 if by_code else chosen.f1 > 0.9
