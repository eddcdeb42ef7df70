"""A grid of cells per feature: weighted quantiles of numbers, one cell per category, one cell for "missing".

With cuts :math:`t_1 < \\dots < t_m` a number falls in cell :math:`\\#\\{k : t_k \\le x\\}`; a clause is a set of
allowed cells for every feature: an interval of neighbouring cells for numbers, any set for categories.
Bounds that people read are the shortest decimals between two neighbouring samples.

One class against the rest on a grid: the binary problem that column generation solves.

.. math:: \\min_{K} \\; \\sum_{i \\in P} w_i [i \\text{ not covered}]
          + \\sum_{k \\in K} \\Big( \\sum_{i \\in N} w_i [k \\text{ covers } i] + c_0 + c_1 |k| \\Big)

with positives P, negatives N, clauses K and :math:`|k|` literals of a clause. Weights and costs are kept in the unit of
the weights, so that whole-number weights add up exactly, whatever the order of the rows.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.rule import ABOVE_ZERO, Condition, Rule, missing_entries
from polidiff.rules.lists import Table

TINY = 1e-4  # a number that nobody reads beside 0
LARGEST = 254  # cells of one feature, so that a code fits a byte


@dataclass(frozen=True, eq=False)
class Axis:
    """The cells of one feature."""

    name: str
    column: int
    cuts: FloatArray | None  # ascending, numbers only
    categories: tuple[str | float | int | bool, ...]  # categories only
    missing: bool  # whether the cell after the values stands for "missing"
    crowded: bool = False  # whether the last value cell holds all categories without a cell of their own
    complete: bool = True  # whether every distinct value has a cell of its own

    @property
    def values(self) -> int:
        """Cells that stand for values."""
        return len(self.categories) + int(self.crowded) if self.cuts is None else len(self.cuts) + 1

    @property
    def cells(self) -> int:
        """All cells."""
        return self.values + int(self.missing)

    def encode(self, column: AnyArray) -> AnyArray:
        """Cell of each entry."""
        if self.cuts is None:
            order = {None: self.values} | {value: code for code, value in enumerate(self.categories)}
            other = len(self.categories)
            return np.array([order.get(value, other) for value in column.tolist()], dtype=np.int64)
        codes = np.searchsorted(self.cuts, column.astype(np.float64, copy=False), side="right")
        if self.missing:
            codes[missing_entries(column)] = self.values
        return codes

    def condition(self, allowed: BoolArray) -> Condition | None:
        """Allowed cells as a condition, None when everything is allowed."""
        allowed = allowed[: self.cells]
        if allowed.all():
            return None
        absent = bool(self.missing and allowed[self.values])
        inside = np.flatnonzero(allowed[: self.values])
        if self.cuts is None:
            return Condition(self.name, self.column, values=tuple(self.categories[k] for k in inside), missing=absent)
        if not len(inside):
            return Condition(self.name, self.column, values=(), missing=True)
        low = self.cuts[inside[0] - 1] if inside[0] > 0 else -math.inf
        high = self.cuts[inside[-1]] if inside[-1] < self.values - 1 else math.inf
        return Condition(self.name, self.column, low=float(low), high=float(high), missing=absent)


@dataclass(frozen=True, eq=False)
class Grid:
    """The axes, and what vectorised code needs to know about their cells."""

    axes: tuple[Axis, ...]
    full: BoolArray  # (d, width) which cells exist
    layout: IntArray  # (d, 4) values, missing, ordered, the cell that cannot be named (-1: none): what kernels read

    @property
    def values(self) -> IntArray:
        """(d,) cells that stand for values."""
        return self.layout[:, 0]

    @property
    def complete(self) -> bool:
        """Whether every rule over the data has an equal on this grid."""
        return all(axis.complete for axis in self.axes)

    def encode(self, table: Table) -> AnyArray:
        """Codes of shape (d, n)."""
        return np.stack([axis.encode(table.columns[axis.column]).astype(np.uint8) for axis in self.axes])

    def rule(self, mask: BoolArray) -> Rule:
        """Allowed cells (d, width) as a rule."""
        conditions = (axis.condition(allowed) for axis, allowed in zip(self.axes, mask, strict=True))
        return Rule(tuple(condition for condition in conditions if condition is not None))

    def literals(self, masks: BoolArray) -> IntArray:
        """Comparisons that a reader makes, for masks of shape (..., d, width): shape (..., d)."""
        last = masks[..., np.arange(len(self.axes)), self.values - 1]
        ends = 2 - masks[..., 0].astype(np.int64) - last
        valued = masks & (np.arange(self.full.shape[1]) < self.values[:, None])
        counted = np.where(self.layout[:, 2] & valued.any(axis=-1), np.maximum(ends, 1), 1)
        return counted * (masks != self.full).any(axis=-1)


def make_grid(table: Table, weight: FloatArray, max_bins: int) -> Grid:
    """Cells that hold about equal weight."""
    axes = tuple(
        (_categories if table.categorical[j] else _quantiles)(table.names[j], j, table.columns[j], weight, max_bins)
        for j in range(len(table.columns))
    )
    cells = np.array([axis.cells for axis in axes])
    layout = [
        (axis.values, axis.missing, axis.cuts is not None, axis.values - 1 if axis.crowded else -1) for axis in axes
    ]
    return Grid(axes, np.arange(cells.max()) < cells[:, None], np.array(layout, dtype=np.int64))


def numbered_grid(sizes: IntArray) -> Grid:
    """A grid whose features are cells already, so many of each."""
    axes = tuple(Axis(str(j), j, np.arange(0.5, size - 1), (), False) for j, size in enumerate(sizes.tolist()))
    layout = [(axis.values, False, True, -1) for axis in axes]
    return Grid(axes, np.arange(sizes.max()) < sizes[:, None], np.array(layout, dtype=np.int64))


def _quantiles(name: str, j: int, column: AnyArray, weight: FloatArray, max_bins: int) -> Axis:
    absent = missing_entries(column)
    numbers = column[~absent].astype(np.float64, copy=False)
    if not len(numbers):
        return Axis(name, j, np.empty(0), (), bool(absent.any()))
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] > ordered[:-1]])
    levels = ordered[starts]
    mass = np.add.reduceat(weight[~absent][order], starts)
    bins = min(max_bins, LARGEST)
    if len(levels) <= bins:
        chosen = np.arange(1, len(levels))
    else:
        below = np.cumsum(mass) - mass / 2
        chosen = np.unique(np.searchsorted(below, np.arange(1, bins) / bins * mass.sum()))
        chosen = chosen[(chosen > 0) & (chosen < len(levels))]
    left, right = levels[chosen - 1], levels[chosen]
    middle = left + (right - left) / 2
    middle = np.ceil(middle) if (levels == np.floor(levels)).all() else middle
    cuts = np.where(middle > left, middle, right)
    return Axis(name, j, cuts, (), bool(absent.any()), complete=len(levels) <= bins)


def _categories(name: str, j: int, column: AnyArray, weight: FloatArray, max_bins: int) -> Axis:
    entries = column.tolist()
    levels = sorted(set(entries) - {None}, key=str)
    code = {value: k for k, value in enumerate(levels)} | {None: len(levels)}
    inverse = np.array([code[value] for value in entries], dtype=np.int64)
    mass = np.bincount(inverse, weights=weight, minlength=len(levels) + 1)[: len(levels)]
    kept = np.sort(np.argsort(-mass, kind="stable")[: LARGEST - 1])
    values = tuple(levels[k] for k in kept)
    crowded = len(kept) < len(levels)
    return Axis(name, j, None, values, None in entries, crowded=crowded, complete=not crowded)


def readable_bound(below: float, above: float) -> float:
    """The shortest decimal t with below < t ≤ above; among equally short ones the nearest to the middle.

    >>> readable_bound(0.19996, 0.2004), readable_bound(3, 4), readable_bound(0.11, 0.92), readable_bound(97, 250)
    (0.2, 4.0, 0.5, 200.0)
    >>> readable_bound(-math.inf, 0.7), readable_bound(-0.2, 0.7)
    (0.7, 0.0)
    >>> readable_bound(0.0, 3e-7) == ABOVE_ZERO  # read as "> 0"
    True
    """
    if not (math.isfinite(below) and math.isfinite(above)) or not below < above:
        return above
    middle = below + (above - below) / 2
    if below < 0 <= above:
        return 0.0
    if below == 0 and above < TINY:
        return ABOVE_ZERO
    exponent = math.floor(math.log10(max(abs(below), abs(above)))) + 1
    for digits in range(-exponent, min(18 - exponent, sys.float_info.max_10_exp)):
        bound = _nearest_multiple(below, middle, above, digits)
        if bound is not None:
            return bound
    return middle if below < middle else above


def _nearest_multiple(below: float, middle: float, above: float, digits: int) -> float | None:
    scale = 10.0**digits
    first = math.floor(below * scale)
    last = math.ceil(above * scale)
    if last - first > 1000:
        first, last = math.floor(middle * scale), math.ceil(middle * scale)
    multiples = (round(k / scale, max(digits, 0)) for k in range(first, last + 1))
    inside = [bound for bound in multiples if below < bound <= above]
    return min(inside, key=lambda bound: (abs(bound - middle), bound)) if inside else None


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
        literals = self.grid.literals(masks).sum(axis=-1).astype(np.float64)
        return np.asarray(self.clause_cost + self.literal_cost * literals)


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
