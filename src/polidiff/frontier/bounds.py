r"""Which steps of the staircase a node may still beat, and at which price that is best seen.

A step from (c₁, v₁) to (c₂, v₂) is beaten by a plan with fewer than c₂ changes and more return than v₁: its corner is
(c₂, v₁). A node with bound :math:`U_\lambda` may beat it only if :math:`U_\lambda(c_2) > v_1`. One price bounds
tightly near the changes of its own completion; steps to the right want a lower price, steps to the left a higher one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polidiff.frontier.archive import Archive
from polidiff.frontier.completion import Completions, Family, complete
from polidiff.frontier.nodes import Nodes
from polidiff.frontier.problem import FrontierProblem
from polidiff.records.arrays import FloatArray, IntArray

BEYOND = 1.25  # how far past that price: on 30 x 4 this takes 40 % of the nodes that half way to it does


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

    def corners(self, high: FloatArray) -> FloatArray:
        """(b, t) the changes at which nodes that end at `high` are bounded."""
        return np.asarray(np.minimum(self.right[None, :], high[:, None]))


def bound_at(total: FloatArray, price: FloatArray, changes: FloatArray) -> FloatArray:
    """(b, t) what a node returns at most with that many changes; a price of 0 needs no limit on them."""
    return np.asarray(total[:, None] + np.where(price[:, None] > 0, price[:, None] * changes, 0.0))


def surviving(steps: Steps, total: FloatArray, price: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """(b, t) by how much a node may beat each step of its window; −∞ outside it."""
    inside = (steps.right > low[:, None]) & (steps.left < high[:, None])
    with np.errstate(invalid="ignore"):
        excess = bound_at(total, price, steps.corners(high)) - steps.beat
    return np.asarray(np.where(inside, excess, -np.inf))


def reprice(
    problem: FrontierProblem, steps: Steps, family: Family, parent: IntArray, nodes: Nodes, done: Completions
) -> tuple[Nodes, list[Completions]]:
    """The nodes that may still beat a step, each with its window and the price that leaves the least slack.

    Also gives the completions met at other prices: a node that takes one over no longer covers it by its children.
    """
    met: list[Completions] = []
    excess = surviving(steps, *nodes.bounding())
    changes, guarded = done.changes, done.guarded
    for side in (1, -1, 0) if len(problem.limits) else (1, -1):
        alive = np.flatnonzero((excess > 0).any(axis=1))
        if not alive.size:
            break
        nodes, excess, parent = nodes.take(alive), excess[alive], parent[alive]
        changes, guarded = changes[alive], guarded[alive]
        price, tilt, rows = _another(problem, steps, nodes, excess, changes, guarded, side)
        if not rows.size:
            continue
        some = nodes.take(rows)
        tried = complete(problem, family, parent[rows], some.choice, price[rows], tilt[rows], some.fixed, some.active)
        met.append(tried.take(tried.real))
        other = surviving(steps, tried.total, price[rows], some.low, some.high)
        excess[rows] = np.where(other <= 0, -np.inf, excess[rows])
    keep = np.flatnonzero((excess > 0).any(axis=1))
    nodes, hit = nodes.take(keep), excess[keep] > 0
    if not len(nodes):
        return nodes, met
    first, last = hit.argmax(axis=1), hit.shape[1] - 1 - hit[:, ::-1].argmax(axis=1)
    low, high = np.maximum(nodes.low, steps.left[first]), np.minimum(nodes.high, steps.right[last])
    return replace(nodes, low=low, high=high), met


def _another(
    problem: FrontierProblem,
    steps: Steps,
    nodes: Nodes,
    excess: FloatArray,
    changes: FloatArray,
    guarded: FloatArray,
    side: int,
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Another price for the steps on one side, or other prices of the guards (side 0); and the nodes to try it on."""
    if side == 0:
        over = guarded > problem.limits
        tilt = np.where(over, 1.5 * nodes.tilt + 0.1 * nodes.tilt.max(axis=1, keepdims=True), 0.5 * nodes.tilt)
        return nodes.price, tilt, np.flatnonzero((nodes.tilt > 0).any(axis=1))
    corner = steps.corners(nodes.high)
    there = (excess > 0) & ((corner > changes[:, None]) if side > 0 else (corner <= changes[:, None]))
    anchor = nodes.total + nodes.price * changes
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (steps.beat - anchor[:, None]) / (corner - changes[:, None])
    slope[~np.isfinite(slope)] = np.nan
    price = _side_price(np.where(there, slope, np.nan), nodes.price, side)
    return price, nodes.tilt, np.flatnonzero(there.any(axis=1) & (np.abs(price - nodes.price) > 1e-9 * nodes.price))


def _side_price(slope: FloatArray, price: FloatArray, side: int) -> FloatArray:
    """The price at which the completion's own point just fails to beat the steps on one side, and a little more."""
    if side > 0:
        just = np.fmin.reduce(slope, axis=1, initial=np.inf)
        return np.asarray(np.where(np.isfinite(just), np.clip(just, 0.0, price) / BEYOND, price))
    just = np.fmax.reduce(slope, axis=1, initial=-np.inf)
    return np.asarray(np.where(np.isfinite(just), np.clip(just, price, 10 * price) * BEYOND, price))
