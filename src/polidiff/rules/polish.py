"""Coordinate ascent of clauses under the true prices: one feature's cells at a time, the best feature first.

For feature j the rows that matter satisfy all other conditions; the best segment of their histogram replaces the
present cells of j. Adding, moving and dropping a condition are all this one move, and the value never falls.
"""

from __future__ import annotations

import numpy as np

from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.rules.pricing import Clauses
from polidiff.rules.problem import Priced, Problem
from polidiff.rules.segments import best_segments


def polish(problem: Problem, prices: FloatArray, masks: BoolArray, *, steps: int = 12) -> Clauses:
    """Clauses whose value no change of a single feature improves (or `steps` changes later); equal ones once."""
    priced = Priced.of(problem, prices)
    masks = masks[_first_of_equals(masks)]
    open_ = np.arange(len(masks))
    for _ in range(steps):
        if not len(open_):
            break
        gains = _feature_gains(priced, masks[open_])
        best = best_segments(problem.grid, gains, problem.literal_cost)
        present = masks[open_].transpose(2, 0, 1)
        worth = _worth(problem, gains, best) - _worth(problem, gains, present)
        feature = worth.argmax(axis=1)
        better = worth[np.arange(len(open_)), feature] > 1e-9 * max(problem.clause_cost, 1e-3)
        open_, feature, best = open_[better], feature[better], best[:, better]
        masks[open_, feature] = best[:, np.arange(len(open_)), feature].T
        kept = _first_of_equals(masks)
        if len(kept) < len(masks):
            open_ = np.flatnonzero(np.isin(kept, open_))
            masks = masks[kept]
    return Clauses(masks, clause_values(problem, prices, masks))


def clause_values(problem: Problem, prices: FloatArray, masks: BoolArray) -> FloatArray:
    """Value of each clause under the prices."""
    return np.asarray(problem.covers(masks) @ prices - problem.clause_prices(masks), dtype=np.float64)


def _first_of_equals(masks: BoolArray) -> IntArray:
    seen: dict[bytes, int] = {}
    for k, mask in enumerate(masks):
        seen.setdefault(mask.tobytes(), k)
    return np.array(list(seen.values()), dtype=np.int64)


def _worth(problem: Problem, gains: FloatArray, cells: BoolArray) -> FloatArray:
    kept = (cells * gains).sum(axis=0)
    return np.asarray(kept - problem.literal_cost * problem.grid.literals(cells.transpose(1, 2, 0)), dtype=np.float64)


def _feature_gains(priced: Priced, masks: BoolArray) -> FloatArray:
    """(width, K, d) prices per cell of each feature, over rows that satisfy the conditions on all other features."""
    d, width = priced.problem.grid.full.shape
    clause, feature = priced.problem.grid.conditions(masks)
    failed = np.zeros((len(masks), len(priced.price)), dtype=np.int8)
    fails = ~masks[clause, feature][np.arange(len(clause))[:, None], priced.codes[feature]]
    if len(clause):
        starts = np.flatnonzero(np.r_[True, clause[1:] != clause[:-1]])
        failed[clause[starts]] = np.add.reduceat(fails, starts, axis=0, dtype=np.int8)
    node, row = np.nonzero(failed == 0)
    gains = priced.histograms(node, row, len(masks))
    condition, near = np.nonzero(fails & (failed == 1)[clause])
    cells = priced.codes[feature[condition], near] + (clause * d + feature)[condition] * width
    beyond = np.bincount(cells, weights=priced.price[near], minlength=gains.size)
    return np.ascontiguousarray((gains + beyond.reshape(gains.shape)).transpose(2, 0, 1))
