r"""The staircase of non-dominated plans, and which of its steps an open node may still beat, at which price.

A step from (c₁, v₁) to (c₂, v₂) is beaten by a plan with fewer than c₂ changes and more return than v₁: its corner is
(c₂, v₁). A node with bound :math:`U_\lambda` may beat it only if :math:`U_\lambda(c_2) > v_1`. One price bounds
tightly near the changes of its own completion; steps to the right want a lower price, steps to the left a higher one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polidiff.frontier.completion import Completions, Family, Nodes, complete
from polidiff.frontier.problem import FrontierProblem
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

BEYOND = 1.25  # how far past that price: on 30 x 4 this takes 40 % of the nodes that half way to it does


@dataclass(frozen=True)
class Tolerance:
    """Differences below these are rounding."""

    changes: float
    returns: float


@dataclass(frozen=True, eq=False)
class Archive:
    """Plans in increasing order of changes and of return; none is as good as another in both."""

    changes: FloatArray  # (n,) increasing
    returns: FloatArray  # (n,) increasing
    choices: IntArray  # (n, S)
    tolerance: Tolerance

    def __len__(self) -> int:
        return len(self.changes)

    def improves(self, changes: FloatArray, returns: FloatArray) -> BoolArray:
        """Which points no plan of the archive matches within tolerance in both changes and return."""
        position = np.searchsorted(self.changes, changes + self.tolerance.changes, side="right")
        best = np.concatenate([[-np.inf], self.returns])[position]
        return np.asarray(returns > best + self.tolerance.returns)

    def ties(self, changes: FloatArray, returns: FloatArray) -> tuple[BoolArray, IntArray]:
        """Which points equal a plan of the archive but for rounding, and the row of that plan."""
        if not len(self):
            return np.zeros(len(changes), dtype=np.bool_), np.zeros(len(changes), dtype=np.int64)
        row = np.searchsorted(self.changes, changes - self.tolerance.changes).clip(max=len(self) - 1)
        tied = np.abs(self.changes[row] - changes) <= self.tolerance.changes
        return tied & (np.abs(self.returns[row] - returns) <= self.tolerance.returns), row

    def with_points(self, changes: FloatArray, returns: FloatArray, choices: IntArray) -> Archive:
        """The archive with the points that improve it, less those they dominate; of equal ones as `_rank` says."""
        tied, row = self.ties(changes, returns)
        tied[tied] = _before(choices[tied], self.choices[row[tied]], self.choices[:1])
        new = tied | self.improves(changes, returns)
        if not new.any():
            return self
        c = np.concatenate([self.changes, changes[new]])
        v = np.concatenate([self.returns, returns[new]])
        every = np.concatenate([self.choices, choices[new].astype(self.choices.dtype)])
        order = self._order(c, v, every)
        keep = _staircase(c[order], v[order], self.tolerance)
        chosen = order[keep]
        return Archive(c[chosen], v[chosen], every[chosen], self.tolerance)

    def _order(self, changes: FloatArray, returns: FloatArray, choices: IntArray) -> IntArray:
        """Fewest changes first, then most return; plans that are equal but for rounding by `_rank`."""
        c, v = np.round(changes / self.tolerance.changes), np.round(returns / self.tolerance.returns)
        order = np.lexsort((-v, c))
        new = (np.diff(c[order], prepend=-np.inf) != 0) | (np.diff(v[order], prepend=-np.inf) != 0)
        starts = np.flatnonzero(new)
        lengths = np.diff(starts, append=len(order))
        for start, length in zip(starts[lengths > 1], lengths[lengths > 1], strict=True):
            run = order[start : start + length]
            run[:] = run[np.lexsort(_rank(choices[run], choices[order[:1]]).T[::-1])]
        return order

    def renumbered(self, choices: IntArray) -> Archive:
        """The same points with their policies in other numbers."""
        return replace(self, choices=choices)

    def within(self, budget: float) -> Archive:
        """The first plan and the last within a budget."""
        last = int((self.changes <= budget + self.tolerance.changes).sum()) - 1
        rows = np.unique([0, last]) if last >= 0 else np.zeros(0, dtype=np.int64)
        return Archive(self.changes[rows], self.returns[rows], self.choices[rows], self.tolerance)


def new_archive(changes: FloatArray, returns: FloatArray, choices: IntArray) -> Archive:
    """An archive of some points, with tolerances to the scale of the numbers."""
    tolerance = Tolerance(
        1e-9 * max(1.0, float(np.abs(changes).max(initial=0.0))),
        1e-9 * max(1.0, float(np.abs(returns).max(initial=0.0))),
    )
    empty = Archive(changes[:0], returns[:0], choices[:0], tolerance)
    return empty.with_points(changes, returns, choices)


def _rank(choices: IntArray, first: IntArray) -> IntArray:
    """(b, 1 + 2 S) keys of equal plans, the first counts most: fewest changed states, the lowest ones, lowest actions.

    What is changed is told by the plan with the fewest changes, `first` (1, S).
    """
    same = choices == first
    return np.column_stack([(~same).sum(axis=1), same, choices])


def _before(choices: IntArray, others: IntArray, first: IntArray) -> BoolArray:
    """(b,) which plans come before others that equal them but for rounding."""
    apart = _rank(choices, first) - _rank(others, first)
    return np.asarray(np.take_along_axis(apart, (apart != 0).argmax(axis=1)[:, None], axis=1)[:, 0] < 0)


def _staircase(changes: FloatArray, returns: FloatArray, tolerance: Tolerance) -> IntArray:
    """Indices of non-dominated points of a list in order of changes, more return first among equals."""
    before = np.concatenate([[-np.inf], np.maximum.accumulate(returns)[:-1]])
    kept = np.flatnonzero(returns > before + tolerance.returns)
    follows = np.append(changes[kept][1:] - changes[kept][:-1] > tolerance.changes, True)
    return np.asarray(kept[follows])


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of the staircase, from few to many changes."""

    left: FloatArray  # (t,) changes at the left end
    right: FloatArray  # (t,) changes at the right end
    beat: FloatArray  # (t,) return that a plan in the step must exceed, tolerance included

    @classmethod
    def of(cls, archive: Archive, budget: float | None, *, ends: bool = True) -> Steps:
        """All steps; with a budget, only what would be better within it: more return, or as much with fewer changes.

        Without `ends` the first plan need not have the fewest changes, nor the last the most return: there is then
        also a step before the first and one after the last plan.
        """
        tolerance = archive.tolerance
        left, right = archive.changes[:-1], archive.changes[1:]
        beat = archive.returns[:-1] + tolerance.returns
        if budget is not None:
            last = int((archive.changes <= budget + tolerance.changes).sum()) - 1
            if last < 0:
                return cls(np.array([-1.0]), np.array([budget]), np.array([-np.inf]))
            c, v = archive.changes[last], archive.returns[last]
            left, right = np.array([-1.0, c]), np.array([c - 2 * tolerance.changes, budget])
            return cls(left, right, np.array([v - 2 * tolerance.returns, v + tolerance.returns]))
        if ends:
            return cls(left, right, beat)
        first = archive.changes[:1] if len(archive) else np.array([np.inf])
        return cls(
            np.concatenate([[-1.0], left, archive.changes[-1:]]),
            np.concatenate([first - 2 * tolerance.changes, right, np.full(len(archive.changes[-1:]), np.inf)]),
            np.concatenate([[-np.inf], beat, archive.returns[-1:] + tolerance.returns]),
        )

    def windows(self, low: FloatArray, high: FloatArray) -> Windows:
        """The steps that lie between `low` and `high` changes, for each of some nodes."""
        first = np.searchsorted(self.right, low, side="right")
        last = np.searchsorted(self.left, high, side="left")
        index = first[:, None] + np.arange(int((last - first).max(initial=0)))
        inside = index < last[:, None]
        index = np.minimum(index, len(self.right) - 1)
        return Windows(index, np.minimum(self.right[index], high[:, None]), np.where(inside, self.beat[index], np.inf))

    def excess(self, nodes: Nodes) -> FloatArray:
        """(b,) the most by which a node may still beat a step."""
        return np.asarray(
            self.windows(nodes.low, nodes.high).excess(nodes.total, nodes.price).max(axis=1, initial=-np.inf)
        )


@dataclass(frozen=True, eq=False)
class Windows:
    """The steps that each of some nodes may beat, from few to many changes; short rows are filled up."""

    index: IntArray  # (b, w) numbers of steps
    corner: FloatArray  # (b, w) changes at which the node is bounded
    beat: FloatArray  # (b, w) return that a plan must exceed; infinite where a row is filled up

    def take(self, rows: IntArray) -> Windows:
        """Those of some nodes."""
        return Windows(self.index[rows], self.corner[rows], self.beat[rows])

    def excess(self, total: FloatArray, price: FloatArray) -> FloatArray:
        """(b, w) by how much a node may beat each step; a price of 0 needs no limit on changes."""
        with np.errstate(invalid="ignore"):
            reach = np.where(price[:, None] > 0, price[:, None] * self.corner, 0.0)
            excess = total[:, None] + reach - self.beat
        return np.asarray(np.where(np.isposinf(self.beat), -np.inf, excess))


def reprice(
    problem: FrontierProblem, steps: Steps, family: Family, parent: IntArray, nodes: Nodes, done: Completions
) -> tuple[Nodes, Completions]:
    """The nodes that may still beat a step, each with its window, once other prices have ruled steps out.

    Also gives the plans met at other prices. A node keeps its own price: taking over the price with the least slack
    multiplied the nodes of some tables by a hundred.
    """
    windows = steps.windows(nodes.low, nodes.high)
    excess = windows.excess(nodes.total, nodes.price)
    alive = np.flatnonzero((excess > 0).any(axis=1))
    nodes, parent, done, windows, excess = (
        nodes.take(alive),
        parent[alive],
        done.take(alive),
        windows.take(alive),
        excess[alive],
    )
    sides = (1, -1, 0) if len(problem.limits) else (1, -1)
    price, tilt, rows = zip(*(_another(problem, windows, nodes, excess, done, side) for side in sides), strict=True)
    row, prices, tilts = np.concatenate(rows), np.concatenate(price), np.concatenate(tilt)
    some = nodes.take(row)
    tried = complete(problem, family, parent[row], some.choice, prices, tilts, some.fixed, some.active)
    beaten = windows.take(row).excess(tried.total, prices) > 0
    open_ = excess > 0
    np.logical_and.at(open_, row, beaten)
    return _narrowed(steps, nodes, windows, open_), tried.take(tried.real)


def _narrowed(steps: Steps, nodes: Nodes, windows: Windows, hit: BoolArray) -> Nodes:
    """The nodes with open steps, with windows no wider than these."""
    keep = np.flatnonzero(hit.any(axis=1))
    nodes, hit, index = nodes.take(keep), hit[keep], windows.index[keep]
    if not len(nodes):
        return nodes
    own = np.arange(len(keep))
    first, last = index[own, hit.argmax(axis=1)], index[own, hit.shape[1] - 1 - hit[:, ::-1].argmax(axis=1)]
    low, high = np.maximum(nodes.low, steps.left[first]), np.minimum(nodes.high, steps.right[last])
    return replace(nodes, low=low, high=high)


def _another(
    problem: FrontierProblem, windows: Windows, nodes: Nodes, excess: FloatArray, done: Completions, side: int
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Another price for the steps on one side, or other prices of the guards (side 0); and the nodes to try it on."""
    if side == 0:
        over = done.guarded > problem.limits
        tilt = np.where(over, 1.5 * nodes.tilt + 0.1 * nodes.tilt.max(axis=1, keepdims=True), 0.5 * nodes.tilt)
        rows = np.flatnonzero((nodes.tilt > 0).any(axis=1))
        return nodes.price[rows], tilt[rows], rows
    ahead = windows.corner - done.changes[:, None]
    there = (excess > 0) & ((ahead > 0) if side > 0 else (ahead <= 0))
    anchor = nodes.total + nodes.price * done.changes
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (windows.beat - anchor[:, None]) / ahead
    slope = np.where(there & np.isfinite(slope), slope, np.nan)
    price = _side_price(slope, nodes.price, side)
    rows = np.flatnonzero(there.any(axis=1) & (np.abs(price - nodes.price) > 1e-9 * nodes.price))
    return price[rows], nodes.tilt[rows], rows


def _side_price(slope: FloatArray, price: FloatArray, side: int) -> FloatArray:
    """The price at which the completion's own point just fails to beat the steps on one side, and a little more."""
    if side > 0:
        just = np.fmin.reduce(slope, axis=1, initial=np.inf)
        return np.asarray(np.where(np.isfinite(just), np.clip(just, 0.0, price) / BEYOND, price))
    just = np.fmax.reduce(slope, axis=1, initial=-np.inf)
    return np.asarray(np.where(np.isfinite(just), np.clip(just, price, 10 * price) * BEYOND, price))
