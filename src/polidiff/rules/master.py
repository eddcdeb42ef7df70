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


class Master:
    """Clauses so far, the groups of positives they tell apart, and the linear program over both."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.masks: list[BoolArray] = []
        self.costs: list[float] = []
        self._known: set[bytes] = set()
        self._weight = problem.weight[: problem.positives]
        self._group: IntArray = np.zeros(problem.positives, dtype=np.int64)
        self._member = np.zeros((16, 16), dtype=np.bool_)  # groups × clauses, grown by doubling
        self._mass = np.array([self._weight.sum()])
        self._program = GrowingProgram(maximise=True)
        self._program.add_columns([1.0], low=0.0, high=self._mass)

    @property
    def member(self) -> BoolArray:
        """(groups, clauses) which clause covers which group."""
        return self._member[: len(self._mass), : len(self.masks)]

    def add(self, mask: BoolArray) -> bool:
        """Take a clause in; False if it is there already."""
        key = mask.tobytes()
        if key in self._known:
            return False
        self._known.add(key)
        covered = self.problem.covers(mask)
        negative = float(self.problem.weight[self.problem.positives :][covered[self.problem.positives :]].sum())
        cost = negative + float(self.problem.clause_prices(mask[None])[0])
        self._split(covered[: self.problem.positives])
        self.masks.append(mask)
        self.costs.append(cost)
        column = self._member[: len(self._mass), len(self.masks) - 1].astype(np.float64)
        self._program.add_rows(column[None], row_high=cost)
        return True

    def cover(self, most: int | None) -> Cover:
        """What the integer choice needs to know: at most `most` clauses."""
        return Cover(self.member.astype(np.float64), self._mass, np.array(self.costs), most)

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

    def _split(self, covered: BoolArray) -> None:
        groups, clause = len(self._mass), len(self.masks)
        all_rows = np.bincount(self._group, minlength=groups)
        inside = np.bincount(self._group[covered], minlength=groups)
        parts = np.flatnonzero((inside > 0) & (inside < all_rows))
        self._reserve(groups + len(parts), clause + 1)
        self._member[:groups, clause] = (inside > 0) & (inside == all_rows)
        if not len(parts):
            return
        renamed = np.arange(groups)
        renamed[parts] = groups + np.arange(len(parts))
        self._group = np.where(covered, renamed[self._group], self._group)
        self._member[groups : groups + len(parts), :clause] = self._member[parts, :clause]
        self._member[groups : groups + len(parts), clause] = True
        self._mass = np.bincount(self._group, weights=self._weight, minlength=groups + len(parts))
        self._program.set_bounds(parts, low=0.0, high=self._mass[parts])
        rows = self._member[parts, :clause].T.astype(np.float64)
        self._program.add_columns(np.ones(len(parts)), low=0.0, high=self._mass[groups:], matrix=rows)

    def _reserve(self, groups: int, clauses: int) -> None:
        have = self._member.shape
        if groups > have[0] or clauses > have[1]:
            larger = np.zeros((max(have[0], 2 * groups), max(have[1], 2 * clauses)), dtype=np.bool_)
            larger[: have[0], : have[1]] = self._member
            self._member = larger
