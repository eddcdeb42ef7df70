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
    codes: AnyArray  # (n, d) cell of each row
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
        for clause, feature in zip(*np.nonzero(self.grid.literals(masks)), strict=True):
            inside[clause] &= masks[clause, feature][self.codes[:, feature]]
        return inside

    def clause_prices(self, masks: BoolArray) -> FloatArray:
        """c0 + c1 · literals of each clause."""
        return np.asarray(
            self.clause_cost + self.literal_cost * self.grid.literals(masks).sum(axis=-1), dtype=np.float64
        )


def priced(problem: Problem, prices: FloatArray) -> tuple[AnyArray, FloatArray]:
    """Codes (m, d) and prices (m,) of the rows whose price is not 0."""
    live = np.flatnonzero(prices)
    return (problem.codes, prices) if len(live) == problem.rows else (problem.codes[live], prices[live])


def make_problem(
    grid: Grid, codes: AnyArray, positive: BoolArray, weight: FloatArray, *, clause_cost: float, literal_cost: float
) -> Problem:
    """Merge equal rows of codes (d, n), positives first, in an order that depends on the set of rows only."""
    order, starts = _distinct(codes, positive)
    mass = np.add.reduceat(weight[order], starts) if len(order) else np.empty(0)
    first = order[starts] if len(order) else order
    merged = np.ascontiguousarray(codes[:, first].T)
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
