r"""A bound on one rule of at most two conditions, over all boxes at once.

Let V be the value of the best plan that may make move m or keep in any state, and :math:`\ell(s, \cdot) \ge 0` what a
choice loses there in one step. A rule "m in box B" returns

.. math:: J_B = J^* - \sum_s d_B(s)\, \ell(s, [s \in B]) \le J^* - \sum_s \underline d(s)\, \ell(s, [s \in B]),

where :math:`\underline d(s)` is the least number of visits to s under any such plan. The right-hand side is a constant
plus a sum over the states of the box, so that its maximum over all boxes of two features comes from cumulated sums.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from polidiff.frontier.rule_plans.lists import Problem
from polidiff.frontier.rule_plans.values import best_choices, point_at
from polidiff.records.arrays import FloatArray, IntArray

ROUNDS = 40  # of the iteration for least visits; any number gives a valid bound


def one_rule_bound(problem: Problem) -> float:
    """No rule of at most two conditions returns more; for dense models in which every plan ends."""
    assert problem.model.dense
    assert not problem.model.loops
    return max((_move_bound(problem, move) for move in range(problem.keep)), default=-np.inf)


def _move_bound(problem: Problem, move: int) -> float:
    model = problem.model
    keep = model.keep
    made = np.where(problem.row[move] >= 0, problem.row[move], keep)
    allowed = np.zeros(len(model.state_of), dtype=np.bool_)
    allowed[keep], allowed[made] = True, True
    found = best_choices(model, allowed, keep)
    assert found is not None, "every plan ends"
    best, rows = found
    point = point_at(model, rows)
    visits = least_visits(model.transitions[keep], model.transitions[made], model.initial)
    outside = visits * (point.ahead[keep] - point.values)
    inside = visits * (point.ahead[made] - point.values)
    return min(best, best + float(outside.sum()) + _largest_sum(problem, inside - outside))


def least_visits(one: FloatArray, other: FloatArray, initial: FloatArray) -> FloatArray:
    """(n,) a lower bound on the visits to each state under any plan that chooses between two rows in every state."""
    least = np.zeros((len(initial), len(initial)))
    for _ in range(ROUNDS):
        least = np.minimum(one @ least, other @ least)
        least[np.diag_indices(len(initial))] += 1.0
    return np.asarray(initial @ least)


def _largest_sum(problem: Problem, weight: FloatArray) -> float:
    """Largest sum of weights over a box of at most two conditions; 0 for the empty box."""
    codes, sizes = problem.finder.codes, problem.cells.sizes
    columns = range(len(sizes))
    pairs = combinations(columns, 2) if len(sizes) > 1 else [(0, 0)]
    return max(0.0, *(_largest_of_pair(codes, sizes, weight, a, b) for a, b in pairs))


def _largest_of_pair(codes: IntArray, sizes: IntArray, weight: FloatArray, a: int, b: int) -> float:
    shape = (int(sizes[a]), int(sizes[b]))
    cells = np.bincount(codes[:, a] * shape[1] + codes[:, b], weights=weight, minlength=shape[0] * shape[1])
    sums = np.zeros((shape[0] + 1, shape[1] + 1))
    sums[1:, 1:] = cells.reshape(shape).cumsum(axis=0).cumsum(axis=1)
    low, high = np.triu_indices(shape[0] + 1, 1)
    bands = sums[high] - sums[low]  # (intervals of a, cumulated over b)
    return float((bands - np.minimum.accumulate(bands, axis=1)).max())
