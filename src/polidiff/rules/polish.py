"""Coordinate ascent of clauses under the true prices: one feature's cells at a time, the best feature first.

For feature j the rows that matter satisfy all other conditions; the best segment of their histogram replaces the
present cells of j. Adding, moving and dropping a condition are all this one move, and the value never falls.
"""

from __future__ import annotations

import numpy as np

from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.rules.pricing import Clauses
from polidiff.rules.problem import Problem, priced


def polish(problem: Problem, prices: FloatArray, masks: BoolArray, *, steps: int = 12) -> Clauses:
    """Clauses whose value no change of a single feature improves (or `steps` changes later); equal ones once."""
    from polidiff.rules.kernels import ascend

    codes, price = priced(problem, prices)
    masks, (d, width) = masks.copy(), problem.grid.full.shape
    known, totals = np.ascontiguousarray(problem.grid.literals(masks)), np.empty(len(masks))
    costs = np.array([problem.literal_cost, 1e-9 * max(problem.clause_cost, 1e-3)])
    room = np.empty((d, width)), np.zeros((d, width), dtype=np.bool_), np.empty(d, dtype=np.int64)
    ascend((codes, price, problem.grid.told, costs), masks, known, room, totals, steps)
    values = totals - problem.clause_cost - problem.literal_cost * known.sum(axis=1)
    kept = _first_of_equals(masks)
    return Clauses(masks[kept], values[kept])


def clause_values(problem: Problem, prices: FloatArray, masks: BoolArray) -> FloatArray:
    """Value of each clause under the prices."""
    return np.asarray(problem.covers(masks) @ prices - problem.clause_prices(masks), dtype=np.float64)


def _first_of_equals(masks: BoolArray) -> IntArray:
    seen: dict[bytes, int] = {}
    for k, mask in enumerate(masks):
        seen.setdefault(mask.tobytes(), k)
    return np.array(list(seen.values()), dtype=np.int64)
