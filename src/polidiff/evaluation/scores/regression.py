r"""Regressions of what follows a decision: a ridge on features and actions, then boosted trees on what it leaves.

.. math:: m_a(x) = \beta^\top c(x) + \gamma_a^\top o(x) + \text{trees}(x) + \text{trees}_a(x)

with :math:`c` squares and products of the features and :math:`o` the features themselves. Penalties and the number of
trees are those with the least loss on a quarter of the rows; with nothing but noise no tree is left. Once the questions
of the trees are drawn, the fitted values are *linear* in what is fitted: other outcomes and the sweeps of a fitted
evaluation cost a product and a pass, not a search. All of it is numpy and loops of our own: the verdicts that rest on
it do not move with the version of a library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray

BINS = 24
DEPTH = 3
RATE = 0.25
SHRINK = 5.0  # rows at the mean that every leaf is thought to have besides its own
TREES = 40
PATIENCE = 5  # trees that may bring nothing on held rows before growing stops
ROWS_FOR_QUESTIONS = 20_000
FEWEST_ROWS = 60  # of an action that get trees of their own
MOST_COLUMNS = 600  # of the ridge that belong to single actions
ROWS_PER_COLUMN = 20  # at least, for these
MOST_MULTIPLIED = 20  # features whose products are columns
COMMON_PENALTIES = (1.0, 10.0, 100.0)
OWN_PENALTIES = (1.0, 10.0, 100.0)
Solver: TypeAlias = Callable[[list[FloatArray]], FloatArray]


@dataclass(frozen=True, eq=False)
class Design:
    """What regressions see of the rows."""

    basis: FloatArray  # (n, p) 1, the features, then their products
    linear: int  # columns that are 1 or a feature
    own: int  # leading columns of the basis that every action has a coefficient of its own for
    bins: AnyArray  # (d, n) for trees
    actions: IntArray  # (n,)
    n_actions: int

    def without_actions(self) -> Design:
        """The same rows for what does not depend on the decision."""
        return replace(self, own=0, actions=np.zeros_like(self.actions), n_actions=1)


def design_of(x: FloatArray, actions: IntArray, n_actions: int) -> Design:
    """Standardised features within three deviations, their products if they are few, and bins of equal size."""
    x = x[:, np.ptp(x, axis=0) > 0] if len(x) else x
    z = np.clip((x - x.mean(axis=0)) / (x.std(axis=0) + 1e-12), -3.0, 3.0)
    linear = np.hstack([np.ones((len(x), 1)), z])
    basis = np.hstack([linear, _products(z)]) if 0 < x.shape[1] <= MOST_MULTIPLIED else linear
    sizes = basis.shape[1], linear.shape[1], 1
    own = next((size for size in sizes if n_actions * size <= min(MOST_COLUMNS, len(x) / ROWS_PER_COLUMN)), 1)
    return Design(basis, linear.shape[1], own, binned(x), np.asarray(actions), n_actions)


def _products(z: FloatArray) -> FloatArray:
    one, other = np.triu_indices(z.shape[1])
    products = z[:, one] * z[:, other]
    spread = products.std(axis=0)
    varied = spread > 1e-9
    return np.asarray((products - products.mean(axis=0))[:, varied] / spread[varied])


def binned(x: FloatArray, bins: int = BINS) -> AnyArray:
    """(d, n) bin of every value; bins hold equal shares of the rows, and equal values share a bin."""
    found = np.empty(x.T.shape, dtype=np.uint8)
    for j, column in enumerate(x.T):
        values = np.unique(column)
        if len(values) > bins:
            values = np.unique(np.quantile(column, np.arange(1, bins) / bins, method="inverted_cdf"))
            found[j] = np.searchsorted(values, column, side="left")
        else:
            found[j] = np.searchsorted(values, column)
    return found


class ActionRegression:
    """Penalties and trees drawn once, on some rows and for one target; then a linear map from targets to values."""

    def __init__(self, design: Design, rows: IntArray, held: BoolArray, target: FloatArray) -> None:
        """`held` (n,) are rows that choose penalties and the number of trees; `target` (n,) draws the questions."""
        self.design = design
        fit, test = rows[~held[rows]], rows[held[rows]]
        if not len(fit) or not len(test):
            fit = test = rows
        parts = [_by_action(design, some) for some in (fit, test)]
        penalty, solution = _best_ridge(design, parts[0], parts[1], target)
        left = target - (design.basis * solution[:, design.actions].T).sum(axis=1)
        self.shared, left = _draw(design.bins, left, fit, test)
        self.single = [
            _draw(design.bins, left, mine, check)[0] if len(mine) >= FEWEST_ROWS and len(check) else self.shared[:0]
            for mine, check in zip(*([part.rows for part in half] for half in parts), strict=True)
        ]
        self.parts = _by_action(design, rows)
        self.solve = _solver(design, [part.basis.T @ part.basis for part in self.parts], penalty)

    def __call__(self, target: FloatArray) -> FloatArray:
        """(n, A) values of every action in every row, given the targets (n,) of the fitted rows."""
        actions = self.design.actions
        values = self.design.basis @ self.solve([part.basis.T @ target[part.rows] for part in self.parts])
        rows = np.concatenate([part.rows for part in self.parts])
        left, added = target[rows] - values[rows, actions[rows]], np.zeros(len(values))
        _refit(self.shared, rows, left, added)
        values += added[:, None]
        begin = 0
        for a, (trees, part) in enumerate(zip(self.single, self.parts, strict=True)):
            if len(trees):
                added[:] = 0.0
                _refit(trees, part.rows, left[begin : begin + len(part.rows)], added)
                values[:, a] += added
            begin += len(part.rows)
        return values


@dataclass(frozen=True, eq=False)
class _Part:
    rows: IntArray  # (m,) of one action
    basis: FloatArray  # (m, p)


def _by_action(design: Design, rows: IntArray) -> list[_Part]:
    mine = [rows[design.actions[rows] == a] for a in range(design.n_actions)]
    return [_Part(some, design.basis[some]) for some in mine]


def _solver(design: Design, moments: list[FloatArray], penalty: tuple[float, float]) -> Solver:
    """From right sides (A of (p,)) to coefficients (p, A): one ridge for what actions share and what each adds."""
    p, q, count = design.basis.shape[1], design.own, design.n_actions
    table = np.zeros((p + count * q, p + count * q))
    for a, moment in enumerate(moments):
        own = slice(p + a * q, p + (a + 1) * q)
        table[:p, :p] += moment
        table[own, :p], table[:p, own], table[own, own] = moment[:q], moment[:, :q], moment[:q, :q]
    table[np.diag_indices(len(table))] += np.concatenate(
        [[1e-8], np.full(p - 1, penalty[0]), np.full(count * q, penalty[1])]
    )
    factor = cho_factor(table)

    def solve(sides: list[FloatArray]) -> FloatArray:
        solution = cho_solve(factor, np.concatenate([np.sum(sides, axis=0), *(side[:q] for side in sides)]))
        coefficients = np.repeat(solution[:p, None], count, axis=1)
        coefficients[:q] += solution[p:].reshape(count, q).T
        return np.asarray(coefficients)

    return solve


def _best_ridge(
    design: Design, fit: list[_Part], test: list[_Part], target: FloatArray
) -> tuple[tuple[float, float], FloatArray]:
    """The penalties with the least loss on rows not fitted, and the coefficients (p, A) that they give."""
    moments = [part.basis.T @ part.basis for part in fit]
    sides = [part.basis.T @ target[part.rows] for part in fit]
    best: tuple[float, tuple[float, float], FloatArray] | None = None
    for common in COMMON_PENALTIES:
        for own in OWN_PENALTIES if design.own else OWN_PENALTIES[:1]:
            solution = _solver(design, moments, (common, own))(sides)
            left = [target[part.rows] - part.basis @ solution[:, a] for a, part in enumerate(test)]
            loss = float(sum((column**2).sum() for column in left))
            if best is None or loss < best[0]:
                best = loss, (common, own), solution
    assert best is not None
    return best[1], best[2]


def _draw(bins: AnyArray, left: FloatArray, fit: IntArray, test: IntArray) -> tuple[AnyArray, FloatArray]:
    """(trees, n) leaves of the trees that explain what is `left`, and what they leave."""
    n = bins.shape[1]
    if not len(bins):
        return np.zeros((0, n), dtype=np.uint8), left
    stride = -(-len(fit) // ROWS_FOR_QUESTIONS)
    some = fit[::stride]
    questions = draw_questions(bins, left, some, test)
    leaves = leaves_of(bins, questions)
    added = np.zeros(n)
    _refit(leaves, fit, left[fit], added)
    return leaves, left - added


def draw_questions(bins: AnyArray, left: FloatArray, fit: IntArray, test: IntArray) -> IntArray:
    """(trees, depth, 2) questions of as many trees as lower the loss on the rows `test`."""
    grower, rest, check = TreeGrower(bins[:, fit]), left[fit].copy(), left[test].copy()
    other = np.ascontiguousarray(bins[:, test])
    drawn: list[IntArray] = []
    losses = [float((check**2).sum())]
    weight = np.ones(len(fit))
    while len(drawn) < TREES and len(losses) - 1 - int(np.argmin(losses)) < PATIENCE:
        question, node, leaf = grower.grow(rest, weight)
        rest -= RATE * leaf[node]
        check -= RATE * leaf[leaves_of(other, question[None])[0]]
        drawn.append(question)
        losses.append(float((check**2).sum()))
    return np.array(drawn[: int(np.argmin(losses))], dtype=np.int64).reshape(-1, DEPTH, 2)


class TreeGrower:
    """Trees over the same binned rows, with the room that growing them needs."""

    def __init__(self, bins: AnyArray) -> None:
        self.bins = np.ascontiguousarray(bins)
        room = (1 << DEPTH) * BINS
        self.sums, self.mass = np.zeros(room), np.zeros(room)

    def grow(self, slope: FloatArray, weight: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        """The questions (depth, 2), the leaf of every row, and the shrunken mean of every leaf."""
        from polidiff.evaluation.scores.tree_kernels import grow_tree

        question = np.zeros((DEPTH, 2), dtype=np.int64)
        node, leaf = np.zeros(len(slope), dtype=np.int64), np.zeros(1 << DEPTH)
        grow_tree(self.bins, slope, weight, SHRINK, question, node, self.sums, self.mass, leaf)
        return question, node, leaf


def leaves_of(bins: AnyArray, questions: IntArray) -> AnyArray:
    """(trees, n) leaf of every row."""
    from polidiff.evaluation.scores.tree_kernels import find_leaves

    leaves = np.zeros((len(questions), bins.shape[1]), dtype=np.uint8)
    find_leaves(bins, questions, leaves)
    return leaves


def _refit(leaves: AnyArray, rows: IntArray, residual: FloatArray, added: FloatArray) -> None:
    """Add to (n,) what the trees make of the residuals (m,) of some rows; these become what is left."""
    from polidiff.evaluation.scores.tree_kernels import refit_leaves

    if len(leaves):
        room = np.zeros(1 << DEPTH), np.zeros(1 << DEPTH)
        refit_leaves(leaves, np.ascontiguousarray(rows), residual, RATE, SHRINK, added, *room)
