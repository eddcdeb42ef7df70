"""Coordinate ascent of clauses under the true prices: one feature's cells at a time, the best feature first.

For feature j the rows that matter satisfy all other conditions; the best segment of their histogram replaces the
present cells of j. Adding, moving and dropping a condition are all this one move, and the value never falls.
"""

from __future__ import annotations

import numpy as np

from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.rules.pricing import Clauses
from polidiff.rules.problem import Problem
from polidiff.rules.segments import best_segments


def polish(problem: Problem, prices: FloatArray, clauses: Clauses, *, steps: int = 12) -> Clauses:
    """Clauses whose value no change of a single feature improves (or `steps` changes later)."""
    masks = clauses.masks.copy()
    live = np.flatnonzero(prices)
    open_ = np.arange(len(masks))
    for _ in range(steps):
        if not len(open_):
            break
        gains = _feature_gains(problem, prices, masks[open_], live)
        best = best_segments(problem.grid, gains, problem.literal_cost)
        worth = _worth(problem, gains, best) - _worth(problem, gains, masks[open_])
        feature = worth.argmax(axis=1)
        better = worth[np.arange(len(open_)), feature] > 1e-9 * max(problem.clause_cost, 1e-3)
        open_, feature, best = open_[better], feature[better], best[better]
        masks[open_, feature] = best[np.arange(len(open_)), feature]
    return Clauses(masks, clause_values(problem, prices, masks))


def clause_values(problem: Problem, prices: FloatArray, masks: BoolArray) -> FloatArray:
    """Value of each clause under the prices."""
    covered = np.array([prices[problem.covers(mask)].sum() for mask in masks])
    return covered - problem.clause_prices(masks) if len(masks) else np.empty(0)


def _worth(problem: Problem, gains: FloatArray, masks: BoolArray) -> FloatArray:
    kept = (masks * gains).sum(axis=-1)
    return np.asarray(kept - problem.literal_cost * problem.grid.literals(masks), dtype=np.float64)


def _feature_gains(problem: Problem, prices: FloatArray, masks: BoolArray, live: IntArray) -> FloatArray:
    """(K, d, width) prices per cell of each feature, over rows that satisfy the conditions on all other features."""
    d, width = problem.grid.full.shape
    inside, edge = [], []
    for k, mask in enumerate(masks):
        failed = np.zeros(len(live), dtype=np.uint8)
        place = np.zeros(len(live), dtype=np.int64)
        for j in np.flatnonzero((mask != problem.grid.full).any(axis=1)):
            out = ~mask[j].take(problem.codes[j].take(live))
            failed += out
            place[out] = j
        rows = live[failed == 0]
        inside.append((rows, np.full(len(rows), k)))
        once = failed == 1
        edge.append((live[once], problem.flat[live[once], place[once]] + k * d * width))
    rows, node = (np.concatenate(part) for part in zip(*inside, strict=True))
    cells = problem.flat[rows] + (node * (d * width))[:, None]
    size = len(masks) * d * width
    gains = np.bincount(cells.ravel(), weights=np.repeat(prices[rows], d), minlength=size)
    near_rows, near_cells = (np.concatenate(part) for part in zip(*edge, strict=True))
    near = np.bincount(near_cells, weights=prices[near_rows], minlength=size)
    return (gains.astype(np.float64, copy=False) + near).reshape(len(masks), d, width)
