"""Which clauses to keep: the integer master over the clauses that were generated.

.. math:: \\min \\sum_g p_g \\xi_g + \\sum_k c_k z_k \\quad \\text{s.t.} \\quad \\xi_g + \\sum_{k \\ni g} z_k \\ge 1,
          \\; z \\in \\{0, 1\\}, \\; \\textstyle\\sum_k z_k \\le K

Greedy adding, dropping and swapping comes first; the integer program starts from it, without the columns that the
linear program proves useless (reduced cost above the distance between the two objectives).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from polidiff.optimize import Limits, Program, Solution, solve
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

ROUNDINGS = 10  # random roundings of the linear program that start a local search


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
