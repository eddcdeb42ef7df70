r"""Edges of the hull of a small table, proven by a plain search in depth.

At the price :math:`\lambda` of an edge every plan that beats a corner of the staircase below it, more than :math:`v_i`
with fewer than :math:`c_{i+1}` changes, has :math:`v - \lambda c > \min_i (v_i - \lambda c_{i+1})`. A node fixes
decisions in states that are surely reached; its bound is that of the best completion. On tables of a few dozen states a
compiled node costs a microsecond, so that thousands of them take less time than one round of the batched branch and
bound, whose bounds are far better. What this search does not finish is left to that one.
"""

from __future__ import annotations

import numpy as np

from polidiff.frontier.hull import Hull
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.staircase import Archive
from polidiff.frontier.visits import fundamental
from polidiff.records.arrays import BoolArray

MOST_STATES = 40
WORK = 4_000_000  # nodes of an edge times the square of the number of states
KEPT = 64  # plans that an edge may add
STRICT = 1e-11  # gains below this share of the values are rounding


def is_small(problem: FrontierProblem) -> bool:
    """Whether plain search is worth trying: few states, no guards."""
    return problem.n_states <= MOST_STATES and not len(problem.limits)


def prove_small(problem: FrontierProblem, hull: Hull, archive: Archive) -> tuple[Archive, BoolArray, int]:
    """The archive with what was found, which edges (E,) are left open, and how many nodes it took.

    Every policy of the problem must end.
    """
    from polidiff.frontier.kernels import descend

    n, slack = problem.n_states, archive.tolerance.returns
    choices, inverses = np.empty((n + 1, n), dtype=np.int64), np.empty((n + 1, n, n))
    values, found, plans = np.empty((n + 1, n)), np.empty((KEPT, 2)), np.empty((KEPT, n), dtype=np.int64)
    order, tried = np.empty((2, n + 1), dtype=np.int64)
    sure, work = np.empty(n, dtype=np.bool_), np.empty(n)
    table = (problem.state, problem.first, problem.initial)
    rows = problem.transitions
    moves = (rows.indptr.astype(np.uint32), rows.indices.astype(np.uint32), rows.data)
    left, nodes = np.zeros(len(hull.prices), dtype=np.bool_), 0
    every = fundamental(problem, hull.choices[: len(hull.prices)])
    for edge, price in enumerate(hull.prices):
        weight = problem.reward - price * problem.cost
        choices[0], inverses[0] = hull.choices[edge], every[edge]
        values[0] = inverses[0] @ weight[choices[0]]
        low, high, beaten = archive.corners(hull.changes[edge], hull.changes[edge + 1])
        if not len(low):
            continue
        limits = float(price), float((beaten - price * high).min()) + slack / 2
        strict = STRICT * max(1.0, float(np.abs(values[0]).max()))
        looked, kept, whole = descend(
            *moves, weight, problem.cost, *table, *limits, strict, WORK // n**2, choices, inverses, values,
            order, tried, np.zeros(n, dtype=np.bool_), sure, work, np.column_stack([low, high, beaten + slack]),
            found, plans,
        )  # fmt: skip
        nodes += looked
        left[edge] = not whole
        archive = archive.with_points(found[:kept, 0], found[:kept, 1], plans[:kept])
    return archive, left, nodes
