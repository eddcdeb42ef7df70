"""Objectives and bounds against enumeration of all sets of clauses on tiny problems."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from polidiff.rules import RuleClassifier, RuleWarning


def enumerated_optimum(
    X: np.ndarray, positive: np.ndarray, weight: np.ndarray, *, clause_cost: float, literal_cost: float
) -> float:
    """Least objective over all sets of up to four conjunctions of values of binary features."""
    share = weight / weight.sum()
    clauses = []
    for literals in itertools.product((None, 0, 1), repeat=X.shape[1]):
        cover = np.ones(len(X), dtype=bool)
        for j, value in enumerate(literals):
            if value is not None:
                cover &= X[:, j] == value
        count = sum(value is not None for value in literals)
        clauses.append((cover, clause_cost + literal_cost * count + share[cover & ~positive].sum()))
    best = share[positive].sum()
    for size in range(1, 5):
        for chosen in itertools.combinations(clauses, size):
            missed = positive & ~np.any([cover for cover, _ in chosen], axis=0)
            best = min(best, share[missed].sum() + sum(cost for _, cost in chosen))
    return float(best)


@pytest.mark.parametrize("form", ["dnf", "cnf"])
@pytest.mark.parametrize("seed", range(30))
def test_on_tiny_problems_the_objective_is_the_enumerated_optimum_and_the_bound_proves_it(seed: int, form: str) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 30)), int(rng.integers(1, 4))
    X, y, weight = rng.integers(0, 2, (n, d)).astype(float), rng.integers(0, 2, n), rng.integers(1, 4, n).astype(float)
    y[:2] = 0, 1
    costs = {
        "clause_cost": float(rng.choice([1e-3, 0.01, 0.03])),
        "literal_cost": float(rng.choice([3e-4, 0.01, 0.02])),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuleWarning)
        model = RuleClassifier(form=form, **costs).fit(X, y, sample_weight=weight)
    described = y != model.default_class_ if form == "dnf" else y == model.default_class_  # clauses deny the others
    optimum = enumerated_optimum(X, described, weight, **costs)
    assert model.objective_ == pytest.approx(optimum, abs=1e-9)
    assert model.bound_ is not None
    assert model.bound_ <= optimum + 1e-9
    assert model.gap_ == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_a_bound_from_a_proof_cut_short_is_still_below_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    X, y, weight = rng.integers(0, 2, (40, 3)).astype(float), rng.integers(0, 2, 40), np.ones(40)
    costs = {"clause_cost": 0.01, "literal_cost": 0.01}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuleWarning)
        model = RuleClassifier(**costs, proof_budget=4).fit(X, y)
    optimum = enumerated_optimum(X, y != model.default_class_, weight, **costs)
    assert model.bound_ is not None
    assert 0 < model.bound_ < optimum
    assert model.objective_ >= optimum - 1e-9


def test_without_a_proof_there_is_no_bound() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((300, 3))
    y = (X[:, 0] < 0.5).astype(int)
    model = RuleClassifier(proof_budget=0).fit(X, y)
    assert model.bound_ is None
    assert model.gap_ is None
    assert RuleClassifier().fit(X, y).bound_ is None  # 300 values in 64 cells: the grid is not all there is


def test_the_objective_is_the_formula_of_the_docstring() -> None:
    rng = np.random.default_rng(1)
    X = rng.random((400, 3))
    y = ((X[:, 0] < 0.4) ^ (rng.random(400) < 0.2)).astype(int)
    weight = rng.random(400)
    model = RuleClassifier(clause_cost=2e-3, literal_cost=1e-3).fit(X, y, sample_weight=weight)
    told = next(label for _, label in model.decision_list_)
    rules = [rule for rule, _ in model.decision_list_]
    covers = np.array([rule.covers(X) for rule in rules])
    loss = weight[(y == told) & ~covers.any(axis=0)].sum() + (covers[:, y != told] * weight[y != told]).sum()
    reading = 2e-3 * len(rules) + 1e-3 * sum(rule.literals for rule in rules)
    assert model.objective_ == pytest.approx(loss / weight.sum() + reading)


@pytest.mark.parametrize("seed", range(12))
def test_a_class_in_conjunctive_form_is_told_where_every_clause_holds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.random(300), rng.choice(["a", "b", "c"], 300), rng.integers(0, 3, 300)]).astype(object)
    X[:, 0], X[:, 2] = X[:, 0].astype(float), X[:, 2].astype(float)
    X[rng.random(300) < 0.1, 2] = np.nan
    y = ((X[:, 0].astype(float) < 0.6) & ((X[:, 1] == "b") | (X[:, 2].astype(float) > 0))).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuleWarning)
        model = RuleClassifier(form="cnf", default_class=0, clause_cost=1e-3).fit(X, y)
    holds = np.ones(300, dtype=bool)
    for clause in model.clauses_[1]:
        holds &= np.any([condition.covers(X[:, condition.column]) for condition in clause], axis=0)
    assert ((model.predict(X) == 1) == holds).all()
    assert (holds == (y == 1)).mean() > 0.97
    assert sum(rule.covers(X) for rule, _ in model.decision_list_).max() == 1  # the rules it comes to are disjoint
