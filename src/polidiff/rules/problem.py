"""One class against the rest on a grid: the binary problem that column generation solves.

.. math:: \\min_{K} \\; \\sum_{i \\in P} w_i [i \\text{ not covered}]
          + \\sum_{k \\in K} \\Big( \\sum_{i \\in N} w_i [k \\text{ covers } i] + c_0 + c_1 |k| \\Big)

with positives P, negatives N, clauses K and :math:`|k|` literals of a clause. Weights and costs are kept in the unit of
the weights, so that whole-number weights add up exactly, whatever the order of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.rules.grid import Grid


@dataclass(frozen=True, eq=False)
class Problem:
    """Distinct rows of codes with their weights, positives first."""

    grid: Grid
    codes: AnyArray  # (d, n) cell of each row
    weight: FloatArray  # (n,) > 0
    positives: int  # rows before this one are positive
    clause_cost: float  # in the unit of the weights
    literal_cost: float

    @property
    def rows(self) -> int:
        """How many distinct rows there are."""
        return len(self.weight)

    @property
    def gain(self) -> FloatArray:
        """(n,) what covering a row earns when nothing else covers it."""
        signed = -self.weight
        signed[: self.positives] *= -1
        return signed

    def covers(self, masks: BoolArray) -> BoolArray:
        """(K, n) which rows each clause covers."""
        inside = np.ones((len(masks), self.rows), dtype=np.bool_)
        clause, feature = self.grid.conditions(masks)
        if len(clause):
            fits = masks[clause, feature][np.arange(len(clause))[:, None], self.codes[feature]]
            starts = np.flatnonzero(np.r_[True, clause[1:] != clause[:-1]])
            inside[clause[starts]] = np.logical_and.reduceat(fits, starts, axis=0)
        return inside

    def clause_prices(self, masks: BoolArray) -> FloatArray:
        """c0 + c1 · literals of each clause."""
        return np.asarray(
            self.clause_cost + self.literal_cost * self.grid.literals(masks).sum(axis=-1), dtype=np.float64
        )


@dataclass(frozen=True, eq=False)
class Priced:
    """The rows of a problem that have a price other than 0."""

    problem: Problem
    price: FloatArray  # (m,) > 0 for positives, < 0 for negatives
    codes: AnyArray  # (d, m)
    flat: IntArray  # (m, d) cell numbered over all features

    @classmethod
    def of(cls, problem: Problem, prices: FloatArray) -> Priced:
        """The rows of `problem` under prices of shape (n,)."""
        live = np.flatnonzero(prices)
        codes = problem.codes[:, live]
        offset = np.arange(len(codes), dtype=np.int64) * problem.grid.full.shape[1]
        return cls(problem, prices[live], codes, codes.T + offset)

    @property
    def share(self) -> float:
        """Prices of positives among all prices."""
        return float(self.price[self.price > 0].sum() / np.abs(self.price).sum())

    def histograms(self, node: IntArray, row: IntArray, nodes: int) -> FloatArray:
        """(nodes, d, width) summed prices per cell over the pairs (node, row)."""
        d, width = self.problem.grid.full.shape
        cells = self.flat[row]
        cells += (node * (d * width))[:, None]
        sums = np.bincount(cells.ravel(), weights=np.repeat(self.price[row], d), minlength=nodes * d * width)
        return sums.astype(np.float64, copy=False).reshape(nodes, d, width)


def make_problem(
    grid: Grid, codes: AnyArray, positive: BoolArray, weight: FloatArray, *, clause_cost: float, literal_cost: float
) -> Problem:
    """Merge equal rows and put positives first, in an order that depends on the set of rows only."""
    order, starts = _distinct(codes, positive)
    mass = np.add.reduceat(weight[order], starts) if len(order) else np.empty(0)
    first = order[starts] if len(order) else order
    merged = np.ascontiguousarray(codes[:, first])
    return Problem(grid, merged, mass, int(positive[first].sum()), clause_cost, literal_cost)


def _distinct(codes: AnyArray, positive: BoolArray) -> tuple[IntArray, IntArray]:
    """An order that brings equal rows together, and where each run starts."""
    factors = np.random.default_rng(0).integers(1, 2**62, size=len(codes), dtype=np.uint64) | np.uint64(1)
    key = np.zeros(codes.shape[1], dtype=np.uint64)
    for factor, row in zip(factors, codes, strict=True):
        key ^= (row.astype(np.uint64) + np.uint64(1)) * factor
        key *= np.uint64(0x9E3779B97F4A7C15)
    order = np.lexsort((key, ~positive))
    key, kind = key[order], positive[order]
    return order, np.flatnonzero(np.r_[True, (key[1:] != key[:-1]) | (kind[1:] != kind[:-1])][: len(order)])
