"""The restricted master program, with equal rows merged, and the choice of whole clauses from it.

The dual of the restricted master has one variable per group of positives that the same clauses cover:

.. math:: \\max \\sum_g \\mu_g \\quad \\text{s.t.} \\quad \\sum_{g \\in k} \\mu_g \\le c_k \\; \\forall k,
          \\quad 0 \\le \\mu_g \\le p_g,

where :math:`c_k` is the price of clause k with its false positives and :math:`p_g` the weight of a group. A new clause
is a new row; a group that it covers in part is split in two. Merging is exact: rows of a group share their dual per
weight.

Which clauses to keep is the integer master over the clauses that were generated:

.. math:: \\min \\sum_g p_g \\xi_g + \\sum_k c_k z_k \\quad \\text{s.t.} \\quad \\xi_g + \\sum_{k \\ni g} z_k \\ge 1,
          \\; z \\in \\{0, 1\\}, \\; \\textstyle\\sum_k z_k \\le K

Greedy adding, dropping and swapping comes first; the integer program starts from it, without the columns that the
linear program proves useless (reduced cost above the distance between the two objectives).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from polidiff.optimize import GrowingProgram, Limits, Program, Solution, solve
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.rules.grid import Problem

AT_ONCE = 30  # clauses taken in by one step, so that a group and its covering clauses fit a 64-bit key
ROUNDINGS = 10  # random roundings of the linear program that start a local search


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
        solution = self._program.solve()
        return solution if solution.values is None else replace(solution, values=_in_units(solution.values))

    def prices(self, solution: Solution) -> FloatArray:
        """(n,) price of every row of the problem under the duals."""
        assert solution.values is not None
        prices = -self.problem.weight
        share = np.clip(solution.values / self._mass, 0.0, 1.0)
        prices[: self.problem.positives] = _in_units(self._weight * share[self._group])
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


def _in_units(prices: FloatArray) -> FloatArray:
    """Whole numbers of 2⁻³⁰, far below any weight that counts: sums are exact, so that every machine finds the same."""
    return np.asarray(np.rint(prices * 2.0**30) * 2.0**-30)


@dataclass(frozen=True, eq=False)
class Cover:
    """Groups of positives with their weights, clauses with their prices, and which covers which."""

    member: FloatArray  # (groups, clauses) 0 or 1
    mass: FloatArray  # (groups,)
    cost: FloatArray  # (clauses,)
    most: int | None = None  # clauses allowed

    def value(self, chosen: BoolArray) -> float:
        """Objective of a choice."""
        missed = self.member[:, chosen].sum(axis=1) == 0
        return float(self.mass[missed].sum() + self.cost[chosen].sum())


@dataclass(frozen=True, eq=False)
class Choice:
    """Chosen clauses; `bound` is below every choice from these clauses (not from all clauses)."""

    chosen: IntArray
    value: float
    bound: float


def choose(cover: Cover, master: Solution, *, limits: Limits, columns: int, start: IntArray | None = None) -> Choice:
    """A good choice; the best over these clauses if at most `columns` of them can matter and no limit is hit.

    `master` solves the linear program over the clauses.
    """
    assert master.values is not None
    assert master.objective is not None
    relaxed, reduced = master.objective, np.maximum(cover.cost - master.values @ cover.member, 0.0)
    chosen = _best_start(cover, master, start)
    value = cover.value(chosen)
    slack = value - relaxed
    if slack <= 1e-7 * max(value, 1.0):
        return Choice(np.flatnonzero(chosen), value, relaxed)
    kept = np.flatnonzero((reduced <= slack + 1e-9) | chosen)
    if len(kept) > columns:
        return Choice(np.flatnonzero(chosen), value, relaxed)
    smaller = Cover(cover.member[:, kept], cover.mass, cover.cost[kept], cover.most)
    answer = solve(_program(smaller), start=_point(smaller, chosen[kept]), limits=limits)
    bound = relaxed if answer.bound is None else max(relaxed, min(answer.bound, value))
    if answer.values is None or answer.objective is None or answer.objective > value:
        return Choice(np.flatnonzero(chosen), value, bound)
    return Choice(kept[answer.values[: len(kept)] > 0.5], answer.objective, bound)


def _best_start(cover: Cover, master: Solution, start: IntArray | None) -> BoolArray:
    """The best of several local searches: from nothing, from `start`, from roundings of the linear program."""
    assert master.duals is not None
    share = np.clip(master.duals, 0.0, 1.0)
    rank = np.arange(len(share))
    starts = [rank < 0, *(share > level for level in (0.1, 0.3, 0.5)), np.isin(rank, [] if start is None else start)]
    draws = np.random.default_rng(0).random((ROUNDINGS, len(share)))
    starts += list(draws < share)
    allowed = len(share) if cover.most is None else cover.most
    seen = {each.tobytes(): each for each in starts if each.sum() <= allowed}
    return min((improve(cover, each) for each in seen.values()), key=cover.value)


def improve(cover: Cover, chosen: BoolArray) -> BoolArray:
    """Add, drop or swap the clause that helps most until none does.

    Adding c earns the groups of c that nothing covers, less its cost; dropping o loses the groups that only o covers;
    swapping is both, plus those groups of o that c covers.
    """
    chosen = chosen.copy()
    weighed = cover.member * cover.mass[:, None]
    step = 1e-9 * max(1.0, float(cover.mass.sum()))
    for _ in range(4 * len(cover.cost) + 8):
        own = np.flatnonzero(chosen)
        count = cover.member[:, own].sum(axis=1)
        add = weighed[count == 0].sum(axis=0) - cover.cost
        add[own] = -np.inf
        only = count == 1
        shared = cover.member[only][:, own].T @ weighed[only]  # (own, clauses) groups that one covers alone
        lost = shared[np.arange(len(own)), own] - cover.cost[own]
        swap = add + shared - lost[:, None]
        full = cover.most is not None and len(own) >= cover.most
        gains = np.array([-np.inf if full else add.max(initial=-np.inf), *-lost, *swap.max(axis=1, initial=-np.inf)])
        best = int(gains.argmax())
        if gains[best] <= step:
            break
        if best > 0:
            chosen[own[(best - 1) % len(own)]] = False
        if best == 0 or best > len(own):
            chosen[(add if best == 0 else swap[best - 1 - len(own)]).argmax()] = True
    return chosen


def _program(cover: Cover) -> Program:
    groups, clauses = cover.member.shape
    matrix = sparse.hstack([sparse.csr_array(cover.member), sparse.eye_array(groups)], format="csr")
    low = np.ones(groups)
    if cover.most is not None:
        count = sparse.csr_array(np.r_[-np.ones(clauses), np.zeros(groups)][None])
        matrix, low = sparse.vstack([matrix, count], format="csr"), np.r_[low, -cover.most]
    whole = np.r_[np.ones(clauses, dtype=np.bool_), np.zeros(groups, dtype=np.bool_)]
    return Program.of(np.r_[cover.cost, cover.mass], matrix, row_low=low, high=1.0, integer=whole)


def _point(cover: Cover, chosen: BoolArray) -> FloatArray:
    missed = cover.member[:, chosen].sum(axis=1) == 0
    return np.concatenate([chosen, missed]).astype(np.float64)
