"""The restricted master program, with equal rows merged, and the choice of whole clauses from it.

The dual of the restricted master has one variable per group of positives that the same clauses cover:

.. math:: \\max \\sum_g \\mu_g \\quad \\text{s.t.} \\quad \\sum_{g \\in k} \\mu_g \\le c_k \\; \\forall k,
          \\quad 0 \\le \\mu_g \\le p_g,

where :math:`c_k` is the price of clause k with its false positives and :math:`p_g` the weight of a group. A new clause
is a new row; a group that it covers in part is split in two. Merging is exact: rows of a group share their dual per
weight.
"""

from __future__ import annotations

import numpy as np

from polidiff.optimize import GrowingProgram, Solution
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.rules.choice import Cover
from polidiff.rules.problem import Problem

AT_ONCE = 30  # clauses taken in by one step, so that a group and its covering clauses fit a 64-bit key


class Master:
    """Clauses so far, the groups of positives they tell apart, and the linear program over both."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.masks = np.empty((0, *problem.grid.full.shape), dtype=np.bool_)
        self.costs: FloatArray = np.empty(0)
        self.member = np.empty((1, 0), dtype=np.bool_)  # (groups, clauses) which clause covers which group
        self._known: set[bytes] = set()
        self._weight = problem.weight[: problem.positives]
        self._group: IntArray = np.zeros(problem.positives, dtype=np.int64)
        self._mass: FloatArray = np.array([self._weight.sum()])
        self._program = GrowingProgram(maximise=True)
        self._program.add_columns([1.0], low=0.0, high=self._mass)

    def add(self, masks: BoolArray) -> int:
        """Take clauses in; how many of them were new."""
        new = []
        for k, mask in enumerate(masks):
            key = mask.tobytes()
            if key not in self._known:
                self._known.add(key)
                new.append(k)
        for first in range(0, len(new), AT_ONCE):
            self._take(masks[new[first : first + AT_ONCE]])
        return len(new)

    def cover(self, most: int | None) -> Cover:
        """What the integer choice needs to know: at most `most` clauses."""
        return Cover(self.member.astype(np.float64), self._mass, self.costs, most)

    def solve(self) -> Solution:
        """Duals of the groups as values, weights of the clauses as duals."""
        return self._program.solve()

    def prices(self, solution: Solution) -> FloatArray:
        """(n,) price of every row of the problem under the duals."""
        assert solution.values is not None
        prices = -self.problem.weight
        share = np.clip(solution.values / self._mass, 0.0, 1.0)
        prices[: self.problem.positives] = self._weight * share[self._group]
        return prices

    def _take(self, masks: BoolArray) -> None:
        positives = self.problem.positives
        covers = self.problem.covers(masks)
        costs = covers[:, positives:] @ self.problem.weight[positives:] + self.problem.clause_prices(masks)
        self._split(covers[:, :positives])
        self._program.add_rows(self.member[:, -len(masks) :].T.astype(np.float64), row_high=costs)
        self.masks = np.concatenate([self.masks, masks])
        self.costs = np.concatenate([self.costs, costs])

    def _split(self, covered: BoolArray) -> None:
        """Groups of rows that old and new clauses (K, positives) cover alike; old groups keep their place."""
        old = len(self._mass)
        bits = (1 << np.arange(len(covered), dtype=np.int64)) @ covered
        keys, first, group = np.unique((self._group << len(covered)) + bits, return_index=True, return_inverse=True)
        parent = self._group[first]
        heir = np.r_[True, parent[1:] != parent[:-1]]  # keys are sorted by parent: the first one takes its place
        place = np.where(heir, parent, old + np.cumsum(~heir) - 1)
        self._group = place[group]
        self._mass = np.bincount(self._group, weights=self._weight, minlength=old).astype(np.float64, copy=False)
        member = np.empty((len(keys), self.member.shape[1] + len(covered)), dtype=np.bool_)
        member[place, : self.member.shape[1]] = self.member[parent]
        member[place, self.member.shape[1] :] = covered[:, first].T
        self.member = member
        if len(keys) > old:
            halved = np.unique(parent[~heir])
            self._program.set_bounds(halved, low=0.0, high=self._mass[halved])
            rows = member[old:, : -len(covered)].T.astype(np.float64)
            self._program.add_columns(np.ones(len(keys) - old), low=0.0, high=self._mass[old:], matrix=rows)
