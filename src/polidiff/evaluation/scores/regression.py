r"""Regressions of what follows a decision: a ridge on features and actions, then boosted trees on what it leaves.

.. math:: m_a(x) = \beta^\top c(x) + \gamma_a^\top o(x) + \text{trees}(x) + \text{trees}_a(x)

with :math:`c` squares and products of the features and :math:`o` the features themselves. Penalties and the number of
trees are those with the least loss on a quarter of the rows; with nothing but noise no tree is left. Bins and questions
are as many as the rows allow, so that a border in the world is found where there are rows enough to see it. Once the
questions of the trees are drawn, the fitted values are *linear* in what is fitted: other outcomes and the sweeps of a
fitted evaluation cost a product and a pass, not a search. All of it is numpy and loops of our own: the verdicts that
rest on it do not move with the version of a library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray

FEWEST_BINS, MOST_BINS = 24, 120  # of a feature: about the root of the rows
FEWEST_LEVELS, MOST_LEVELS = 3, 5  # questions of a tree
ROWS_PER_LEAF = 600  # of all rows, where trees ask more questions than the fewest
RATE = 0.25
SHRINK = 5.0  # rows at the mean that every leaf is thought to have besides its own
TREES = 150
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
class Columns:
    """How features become columns and bins, learned from some rows and then the same for any others."""

    varied: IntArray  # (k,) features that are not the same everywhere
    middle: FloatArray  # (k,)
    spread: FloatArray  # (k,)
    pairs: tuple[IntArray, IntArray]  # (q,) each, features that are multiplied
    product_middle: FloatArray  # (q,)
    product_spread: FloatArray  # (q,)
    borders: tuple[FloatArray, ...]  # of the bins of each varied feature

    @classmethod
    def of(cls, x: FloatArray) -> Columns:
        """Standardised features within three deviations, their products if they are few, and bins of equal size."""
        varied = np.flatnonzero(np.ptp(x, axis=0) > 0) if len(x) else np.zeros(0, dtype=np.int64)
        some = x[:, varied]
        many = not 0 < len(varied) <= MOST_MULTIPLIED
        one, other = np.triu_indices(0 if many else len(varied))
        plain = cls(varied, some.mean(axis=0), some.std(axis=0) + 1e-12, (one, other), np.zeros(0), np.zeros(0), ())
        z = plain.standardised(x)
        products = z[:, one] * z[:, other]
        spread = products.std(axis=0)
        kept = spread > 1e-9
        return replace(
            plain, pairs=(one[kept], other[kept]), product_middle=products.mean(axis=0)[kept],
            product_spread=spread[kept], borders=tuple(bin_borders(column) for column in some.T),
        )  # fmt: skip

    def standardised(self, x: FloatArray) -> FloatArray:
        """(n, k) features within three deviations."""
        z = x[:, self.varied] - self.middle
        z /= self.spread
        return np.clip(z, -3.0, 3.0, out=z)

    def basis(self, x: FloatArray) -> FloatArray:
        """(n, p) 1, the features, then their products."""
        z, (one, other) = self.standardised(x), self.pairs
        products = (z[:, one] * z[:, other] - self.product_middle) / self.product_spread
        return np.hstack([np.ones((len(x), 1)), z, products])

    def bins(self, x: FloatArray) -> AnyArray:
        """(k, n) bin of every value."""
        found = np.empty((len(self.varied), len(x)), dtype=np.uint8)
        for j, (feature, borders) in enumerate(zip(self.varied, self.borders, strict=True)):
            found[j] = np.searchsorted(borders, x[:, feature], side="left")
        return found


def bin_borders(column: FloatArray) -> FloatArray:
    """Upper ends of the bins of a feature but the last; they hold equal shares of the rows."""
    count = int(np.clip(np.sqrt(len(column)), FEWEST_BINS, MOST_BINS))
    ordered = np.sort(column)
    values = ordered[np.append(True, np.diff(ordered) > 0)] if len(ordered) else ordered
    if len(values) <= count:
        return np.asarray(values[:-1])
    places = (len(column) * np.arange(1, count) + count - 1) // count - 1  # quantiles, by whole numbers only
    return np.unique(ordered[places])


@dataclass(frozen=True, eq=False)
class Design:
    """What regressions see of the rows."""

    columns: Columns
    basis: FloatArray  # (n, p) 1, the features, then their products
    own: int  # leading columns of the basis that every action has a coefficient of its own for
    bins: AnyArray  # (d, n) for trees
    levels: int  # questions of a tree
    actions: IntArray  # (n,)
    n_actions: int

    @property
    def linear(self) -> int:
        """Columns that are 1 or a feature."""
        return 1 + len(self.columns.varied)

    def at(self, x: FloatArray) -> Design:
        """Other rows (m, d), seen in the same way; what was done there is not asked for."""
        nothing = np.zeros(len(x), dtype=np.int64)
        return replace(self, basis=self.columns.basis(x), bins=self.columns.bins(x), actions=nothing)

    def without_actions(self) -> Design:
        """The same rows for what does not depend on the decision."""
        return replace(self, own=0, actions=np.zeros_like(self.actions), n_actions=1)


def design_of(x: FloatArray, actions: IntArray, n_actions: int) -> Design:
    """Rows (n, d) as regressions see them."""
    columns = Columns.of(x)
    basis, linear = columns.basis(x), 1 + len(columns.varied)
    room = min(MOST_COLUMNS, len(x) / ROWS_PER_COLUMN)
    own = next((size for size in (basis.shape[1], linear) if n_actions * size <= room), 1)
    levels = int(np.clip(np.log2(max(len(x) / ROWS_PER_LEAF, 1)), FEWEST_LEVELS, MOST_LEVELS))
    return Design(columns, basis, own, columns.bins(x), levels, np.asarray(actions), n_actions)


class RegressionRows:
    """What regressions on the same rows share, whatever their targets: rows by action, moments and factorisations."""

    def __init__(self, design: Design, rows: IntArray, held: BoolArray) -> None:
        """`held` (n,) are rows that choose penalties and the number of trees."""
        fit, test = rows[~held[rows]], rows[held[rows]]
        if not len(fit) or not len(test):
            fit = test = rows
        self.fit, self.test, self.design = fit, test, design
        self.fit_parts, self.test_parts, self.parts = (_by_action(design, some) for some in (fit, test, rows))
        moments = [part.basis.T @ part.basis for part in self.fit_parts]
        owns = OWN_PENALTIES if design.own else OWN_PENALTIES[:1]
        pairs = [(common, own) for common in COMMON_PENALTIES for own in owns]
        self.candidates = {penalty: _solver(design, moments, penalty) for penalty in pairs}
        self._moments = [part.basis.T @ part.basis for part in self.parts]
        self._solvers: dict[tuple[float, float], Solver] = {}

    def solver(self, penalty: tuple[float, float]) -> Solver:
        """The ridge on all rows with the penalties that were chosen."""
        if penalty not in self._solvers:
            self._solvers[penalty] = _solver(self.design, self._moments, penalty)
        return self._solvers[penalty]


class ActionRegression:
    """Penalties and trees drawn once, on some rows and for one target; then a linear map from targets to values."""

    def __init__(self, shared: RegressionRows, target: FloatArray) -> None:
        """`target` (n,) chooses penalties and draws the questions."""
        self.design = design = shared.design
        penalty, solution = _best_ridge(shared, target)
        left = np.zeros_like(target)
        for part, coefficients in zip(shared.parts, solution.T, strict=True):
            left[part.rows] = target[part.rows] - part.basis @ coefficients
        common = _drawn(design, left, shared.fit, shared.test)
        leaves = leaves_of(design.bins, common)
        left -= _sums(leaves, _fit_leaves(leaves, shared.fit, left[shared.fit]))
        single = [
            _drawn(design, left, mine.rows, check.rows) if len(mine.rows) >= FEWEST_ROWS and len(check.rows)
            else common[:0]
            for mine, check in zip(shared.fit_parts, shared.test_parts, strict=True)
        ]  # fmt: skip
        self.questions = [common, *single]  # those of all actions, then of each
        self.leaves = [leaves, *(leaves_of(design.bins, questions) for questions in single)]
        self.parts, self.solve = shared.parts, shared.solver(penalty)

    def __call__(self, target: FloatArray, at: Design | None = None) -> FloatArray:
        """(n, A) values of every action in every row, or `at` others, given the targets (n,) of the fitted rows."""
        solution = self.solve([part.basis.T @ target[part.rows] for part in self.parts])
        rows = np.concatenate([part.rows for part in self.parts])
        ridge = [part.basis @ coefficients for part, coefficients in zip(self.parts, solution.T, strict=True)]
        left = target[rows] - np.concatenate(ridge)
        worths, begin = [_fit_leaves(self.leaves[0], rows, left)], 0
        for leaves, part in zip(self.leaves[1:], self.parts, strict=True):
            worths.append(_fit_leaves(leaves, part.rows, left[begin : begin + len(part.rows)]))
            begin += len(part.rows)
        found = self.leaves if at is None else [leaves_of(at.bins, questions) for questions in self.questions]
        values = (self.design if at is None else at).basis @ solution
        values += _sums(found[0], worths[0])[:, None]
        for a, (leaves, worth) in enumerate(zip(found[1:], worths[1:], strict=True)):
            if len(leaves):
                values[:, a] += _sums(leaves, worth)
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


def _best_ridge(shared: RegressionRows, target: FloatArray) -> tuple[tuple[float, float], FloatArray]:
    """The penalties with the least loss on rows not fitted, and the coefficients (p, A) that they give."""
    sides = [part.basis.T @ target[part.rows] for part in shared.fit_parts]

    def loss(solution: FloatArray) -> float:
        left = [target[part.rows] - part.basis @ solution[:, a] for a, part in enumerate(shared.test_parts)]
        return float(sum((column**2).sum() for column in left))

    solutions = {penalty: solve(sides) for penalty, solve in shared.candidates.items()}
    best = min(solutions, key=lambda penalty: loss(solutions[penalty]))
    return best, solutions[best]


def _drawn(design: Design, left: FloatArray, fit: IntArray, test: IntArray) -> IntArray:
    """Questions (trees, levels, 2) of the trees that explain what is `left`."""
    if not len(design.bins) or not len(fit):
        return np.zeros((0, design.levels, 2), dtype=np.int64)
    return draw_questions(design, left, fit[:: -(-len(fit) // ROWS_FOR_QUESTIONS)], test)


def draw_questions(design: Design, left: FloatArray, fit: IntArray, test: IntArray, *, most: int = TREES) -> IntArray:
    """(trees, levels, 2) questions of as many trees as lower the loss on the rows `test`, at most so many."""
    grower, rest, check = TreeGrower(design.bins[:, fit], design.levels), left[fit].copy(), left[test].copy()
    other = np.ascontiguousarray(design.bins[:, test])
    drawn: list[IntArray] = []
    losses = [float((check**2).sum())]
    weight = np.ones(len(fit))
    while len(drawn) < most and len(losses) - 1 - int(np.argmin(losses)) < PATIENCE:
        question, node, leaf = grower.grow(rest, weight)
        rest -= RATE * leaf[node]
        check -= RATE * leaf[leaves_of(other, question[None])[0]]
        drawn.append(question)
        losses.append(float((check**2).sum()))
    return np.array(drawn[: int(np.argmin(losses))], dtype=np.int64).reshape(-1, design.levels, 2)


class TreeGrower:
    """Trees over the same binned rows, with the room that growing them needs."""

    def __init__(self, bins: AnyArray, levels: int) -> None:
        self.bins, self.levels = np.ascontiguousarray(bins), levels
        room = (1 << levels) * (int(self.bins.max(initial=0)) + 1)
        self.sums, self.mass = np.zeros(room), np.zeros(room)

    def grow(self, slope: FloatArray, weight: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        """The questions (levels, 2), the leaf of every row, and the shrunken mean of every leaf."""
        from polidiff.evaluation.kernels import grow_tree

        question = np.zeros((self.levels, 2), dtype=np.int64)
        node, leaf = np.zeros(len(slope), dtype=np.int64), np.zeros(1 << self.levels)
        grow_tree(self.bins, slope, weight, SHRINK, question, node, self.sums, self.mass, leaf)
        return question, node, leaf


def leaves_of(bins: AnyArray, questions: IntArray) -> AnyArray:
    """(trees, n) leaf of every row."""
    from polidiff.evaluation.kernels import find_leaves

    leaves = np.zeros((len(questions), bins.shape[1]), dtype=np.uint8)
    find_leaves(bins, questions, leaves)
    return leaves


def _fit_leaves(leaves: AnyArray, rows: IntArray, residual: FloatArray) -> FloatArray:
    """(trees, leaves) what the trees make of the residuals (m,) of some rows; these become what is left."""
    from polidiff.evaluation.kernels import fit_leaves

    worth = np.zeros((len(leaves), 1 << MOST_LEVELS))
    if len(leaves):
        fit_leaves(leaves, np.ascontiguousarray(rows), residual, RATE, SHRINK, worth, np.zeros(1 << MOST_LEVELS))
    return worth


def _sums(leaves: AnyArray, worth: FloatArray) -> FloatArray:
    """(n,) what the leaves (trees, n) of each row are worth together."""
    from polidiff.evaluation.kernels import add_leaves

    total = np.zeros(leaves.shape[1])
    if len(leaves):
        add_leaves(leaves, worth, total)
    return total
