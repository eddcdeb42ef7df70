"""A bound below every set of clauses on the grid, and the best set where it can be reached.

The restricted master is not a bound: clauses that were never generated may lower it. It becomes one when exact pricing
finds no clause of positive value. Then every clause of an optimal set has a reduced cost of at most the distance
between the best set known and the master, so an integer program over those clauses proves the optimum.

When exact pricing has to stop and no clause is worth more than δ, the duals divided by
:math:`1 + \\delta / c_{\\min}` are feasible for all clauses (Farley), and

.. math:: \\frac{z_{LP}}{1 + \\delta / c_{\\min}} \\le z^*, \\quad c_{\\min} = \\text{the price of the cheapest clause}.

Exact pricing enumerates every clause above a value, or bounds those not reached. Clauses are built feature by feature.
With prices :math:`r` a partial clause that covers positives of price p and has L literals can end at no more than

.. math:: p - c_0 - c_1 L,

so it is cut when that is below the threshold. Two dominated kinds are never built: segments whose outermost cell holds
no positive (shrinking it loses nothing and costs nothing), and clauses that cover the same rows with more literals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from polidiff.optimize import Limits, Solution
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.rules.grid import Axis, Problem
from polidiff.rules.master import Choice, Master, choose

MOST_CATEGORIES = 8  # of one feature, above which its sets are not enumerated


@dataclass(frozen=True)
class ProofOptions:
    """How much work a proof may take."""

    budget: int = 20_000  # partial clauses with their segments, per level of the enumeration
    rows: int = 2_000  # distinct rows, above which no proof is tried
    rounds: int = 100  # of exact pricing
    added: int = 20  # clauses taken in per round
    columns: int = 5_000  # clauses in the last integer program
    nodes: int = 500  # of that program


def prove(
    problem: Problem, master: Master, choice: Choice, options: ProofOptions, *, limits: Limits, most: int | None
) -> tuple[Choice, float | None]:
    """The choice, improved where exact pricing finds better clauses, and a bound below every choice (None: none)."""
    solution = master.solve()
    grown = False
    for _ in range(options.rounds):
        rules = _price(problem, master, solution, 1e-7 * max(problem.clause_cost, 1e-6 * problem.weight.sum()), options)
        if rules.open is not None:
            return choice, _farley(problem, solution, rules.open)
        if not len(rules.values):
            break
        best = np.argsort(-rules.values, kind="stable")[: options.added]
        grown |= master.add(rules.masks[best]) > 0
        solution = master.solve()
    else:
        return choice, None
    if grown:
        choice = choose(master.cover(most), solution, limits=limits, columns=options.columns, start=choice.chosen)
    return _close(problem, master, choice, solution, options, limits, most)


def _close(
    problem: Problem,
    master: Master,
    choice: Choice,
    solution: Solution,
    options: ProofOptions,
    limits: Limits,
    most: int | None,
) -> tuple[Choice, float]:
    """Take in every clause that a better choice could use, and choose among them."""
    relaxed = solution.objective or 0.0
    slack = choice.value - relaxed
    if slack <= 1e-7 * max(choice.value, 1.0):
        return choice, min(relaxed, choice.value)
    rules = _price(problem, master, solution, -slack - 1e-7 * max(choice.value, 1.0), options)
    if rules.open is not None or len(rules.values) > options.columns:
        return choice, relaxed
    master.add(rules.masks)
    closed = choose(master.cover(most), master.solve(), limits=limits, columns=options.columns, start=choice.chosen)
    return closed, min(max(relaxed, closed.bound), closed.value)


def _price(problem: Problem, master: Master, solution: Solution, threshold: float, options: ProofOptions) -> Enumerated:
    return enumerate_clauses(problem, master.prices(solution), threshold=threshold, budget=options.budget)


def _farley(problem: Problem, solution: Solution, worth: float) -> float:
    negative = float(problem.weight[problem.positives :].sum())
    cheapest = problem.clause_cost + min(problem.literal_cost, negative)
    scale = 1.0 + max(worth, 0.0) / cheapest if cheapest > 0 else np.inf
    return float((solution.objective or 0.0) / scale)


@dataclass(frozen=True, eq=False)
class Enumerated:
    """Clauses above a threshold, without dominated ones."""

    masks: BoolArray  # (K, d, width)
    values: FloatArray  # (K,)
    open: float | None  # None: these are all; else no clause that was not reached is worth more than this


@dataclass(frozen=True, eq=False)
class _Partial:
    rows: BoolArray  # (K, n) covered so far
    chosen: IntArray  # (K, features so far) segment of each feature
    literals: IntArray  # (K,)


@dataclass(frozen=True, eq=False)
class _Segments:
    masks: BoolArray  # (S, cells)
    literals: IntArray  # (S,)
    border: BoolArray  # (S, cells) cells that must hold a positive


def enumerate_clauses(problem: Problem, prices: FloatArray, *, threshold: float, budget: int) -> Enumerated:
    """Every clause whose value under the prices exceeds `threshold`, unless more than `budget` partial ones are met."""
    tables = [_segments_of(axis) for axis in problem.grid.axes]
    known = [(j, table) for j, table in enumerate(tables) if table is not None]
    if len(known) < len(tables):
        return _unfinished(problem, float(prices[prices > 0].sum()) - problem.clause_cost)
    known.sort(key=lambda item: len(item[1].literals))
    nodes = _Partial(
        np.ones((1, problem.rows), dtype=np.bool_), np.zeros((1, 0), dtype=np.int64), np.zeros(1, np.int64)
    )
    for j, table in known:
        if len(nodes.literals) * len(table.literals) > budget:
            earned = nodes.rows @ np.maximum(prices, 0.0)
            return _unfinished(
                problem, float((earned - problem.literal_cost * nodes.literals).max()) - problem.clause_cost
            )
        nodes = _extend(problem, prices, nodes, j, table, threshold)
    values = nodes.rows @ prices - problem.clause_cost - problem.literal_cost * nodes.literals
    kept = np.flatnonzero(values > threshold)
    return Enumerated(_masks(problem, known, nodes.chosen[kept]), values[kept], None)


def _unfinished(problem: Problem, bound: float) -> Enumerated:
    return Enumerated(np.empty((0, *problem.grid.full.shape), dtype=np.bool_), np.empty(0), bound)


def _extend(
    problem: Problem, prices: FloatArray, nodes: _Partial, j: int, table: _Segments, threshold: float
) -> _Partial:
    """Children of all nodes that may still exceed the threshold."""
    positives, cells = problem.positives, table.masks.shape[1]
    cell = np.eye(cells)[problem.codes[:positives, j]]  # (positives, cells)
    held = nodes.rows[:, :positives].astype(np.float64)
    earned = (held * prices[:positives]) @ cell @ table.masks.T  # (K, S)
    literals = nodes.literals[:, None] + table.literals
    useful = earned - problem.clause_cost - problem.literal_cost * literals > threshold
    useful &= ((held @ cell == 0) @ table.border.T.astype(np.float64)) == 0
    node, segment = np.nonzero(useful)
    rows = nodes.rows[node] & table.masks[:, problem.codes[:, j]][segment]
    chosen = np.column_stack([nodes.chosen[node], segment])
    return _without_twins(_Partial(rows, chosen, literals[node, segment]))


def _without_twins(nodes: _Partial) -> _Partial:
    """Of the nodes that cover the same rows, the one with the fewest literals."""
    if not len(nodes.literals):
        return nodes
    packed = np.packbits(nodes.rows, axis=1)
    keys = np.ascontiguousarray(packed).view([("", packed.dtype)] * packed.shape[1]).ravel()
    order = np.argsort(nodes.literals, kind="stable")
    first = order[np.sort(np.unique(keys[order], return_index=True)[1])]
    return _Partial(nodes.rows[first], nodes.chosen[first], nodes.literals[first])


def _masks(problem: Problem, known: list[tuple[int, _Segments]], chosen: IntArray) -> BoolArray:
    masks = np.zeros((len(chosen), *problem.grid.full.shape), dtype=np.bool_)
    for place, (j, table) in enumerate(known):
        masks[:, j, : table.masks.shape[1]] = table.masks[chosen[:, place]]
    return masks


def _segments_of(axis: Axis) -> _Segments | None:
    if axis.cuts is not None:
        return _interval_segments(axis.values, axis.missing)
    return _set_segments(axis.values, axis.cells, axis.crowded) if axis.cells <= MOST_CATEGORIES else None


@lru_cache(maxsize=256)
def _interval_segments(values: int, missing: bool) -> _Segments:
    """Everything, then all intervals of so many values, each with and without the missing ones."""
    cells = values + int(missing)
    rank = np.arange(cells)
    low, high = np.triu_indices(values)
    sides = (low > 0).astype(np.int64) + (high < values - 1)
    inside = (rank >= low[:, None]) & (rank <= high[:, None])
    ends = ((rank == low[:, None]) & (low > 0)[:, None]) | ((rank == high[:, None]) & (high < values - 1)[:, None])
    masks, literals, border = [rank[None] >= 0], [np.zeros(1, np.int64)], [rank[None] < 0]
    for absent in (False, True) if missing else (False,):
        kept = (sides > 0) | (absent != missing)
        cell = (rank == values) & absent
        masks.append(inside[kept] | cell)
        literals.append(np.maximum(sides[kept], 1))
        border.append(ends[kept] | cell)
    if missing and values:
        masks.append(rank[None] == values)
        literals.append(np.ones(1, np.int64))
        border.append(rank[None] == values)
    return _Segments(np.concatenate(masks), np.concatenate(literals), np.concatenate(border))


@lru_cache(maxsize=256)
def _set_segments(values: int, cells: int, crowded: bool) -> _Segments:
    allowed = [k for k in range(cells) if not (crowded and k == values - 1)]
    full = np.ones(cells, dtype=np.bool_)
    sets = [np.isin(np.arange(cells), some) for size in range(1, cells) for some in combinations(allowed, size)]
    return _Segments(np.array([full, *sets]), np.array([0, *[1] * len(sets)]), np.array([~full, *sets]))
