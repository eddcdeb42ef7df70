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
from polidiff.records.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of the staircase, from few to many changes."""

    left: FloatArray  # (t,) changes at the left end
    right: FloatArray  # (t,) changes at the right end
    beat: FloatArray  # (t,) return that a plan in the step must exceed, tolerance included

    @classmethod
    def of(cls, archive: Archive, budget: float | None) -> Steps:
        """All steps; with a budget, only what would be better within it: more return, or as much with fewer changes."""
        tolerance = archive.tolerance
        if budget is None:
            return cls(archive.changes[:-1], archive.changes[1:], archive.returns[:-1] + tolerance.returns)
        within = archive.changes <= budget + tolerance.changes
        c, v = archive.changes[within][-1], archive.returns[within][-1]
        fewer = v - 2 * tolerance.returns
        left = np.array([-1.0, c])
        return cls(left, np.array([c - 2 * tolerance.changes, budget]), np.array([fewer, v + tolerance.returns]))


def surviving(steps: Steps, total: FloatArray, price: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """(b, t) by how much a node may beat each step of its window; −∞ outside it."""
    inside = (steps.right > low[:, None]) & (steps.left < high[:, None])
    excess = total[:, None] + price[:, None] * steps.right - steps.beat
    return np.asarray(np.where(inside, excess, -np.inf))


def reprice(
    problem: FrontierProblem, steps: Steps, family: Family, parent: IntArray, nodes: Nodes, done: Completions
) -> tuple[Nodes, list[Completions]]:
    """The nodes that may still beat a step, each with its window and the price that leaves the least slack.

    Also gives the completions met at other prices: a node that takes one over no longer covers it by its children.
    """
    met: list[Completions] = []
    excess = surviving(steps, nodes.total, nodes.price, nodes.low, nodes.high)
    changes, returns = done.changes, done.returns
    for side in (1, -1):
        alive = np.flatnonzero((excess > 0).any(axis=1))
        if not alive.size:
            break
        nodes, excess, parent = nodes.take(alive), excess[alive], parent[alive]
        changes, returns = changes[alive], returns[alive]
        there = (excess > 0) & ((steps.right > changes[:, None]) if side > 0 else (steps.right <= changes[:, None]))
        price = _side_price(steps, there, nodes.price, changes, returns, side)
        rows = np.flatnonzero(there.any(axis=1) & (np.abs(price - nodes.price) > 1e-9 * nodes.price))
        if not rows.size:
            continue
        tried = complete(
            problem, family, parent[rows], nodes.choice[rows], price[rows], nodes.fixed[rows], nodes.active[rows]
        )
        met.append(tried.take(tried.real))
        other = tried.total[:, None] + price[rows, None] * steps.right - steps.beat
        excess[rows] = np.where(other <= 0, -np.inf, excess[rows])
        nodes = _better_price(nodes, rows, tried, price[rows], excess, other)
    keep = np.flatnonzero((excess > 0).any(axis=1))
    nodes, hit = nodes.take(keep), excess[keep] > 0
    if not len(nodes):
        return nodes, met
    first, last = hit.argmax(axis=1), hit.shape[1] - 1 - hit[:, ::-1].argmax(axis=1)
    return replace(nodes, low=steps.left[first], high=steps.right[last]), met


def _side_price(
    steps: Steps, there: BoolArray, price: FloatArray, changes: FloatArray, returns: FloatArray, side: int
) -> FloatArray:
    """The price at which the completion's own point just fails to beat the steps on one side, met half way."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (steps.beat - returns[:, None]) / (steps.right - changes[:, None])
    if side > 0:
        just = np.where(there, slope, np.inf).min(axis=1)
        return np.asarray(np.where(np.isfinite(just), (np.clip(just, 0.0, price) + price) / 2, price))
    just = np.where(there & np.isfinite(slope), slope, -np.inf).max(axis=1)
    return np.asarray(np.where(np.isfinite(just), (np.clip(just, price, 3 * price) + price) / 2, price))


def _better_price(
    nodes: Nodes, rows: IntArray, tried: Completions, price: FloatArray, excess: FloatArray, other: FloatArray
) -> Nodes:
    """Take the tried price where it leaves less slack over the surviving steps."""
    open_steps = excess[rows] > 0
    own = np.where(open_steps, excess[rows], -np.inf).max(axis=1, initial=-np.inf)
    new = np.where(open_steps, other, -np.inf).max(axis=1, initial=-np.inf)
    better = tried.feasible & (new < own)
    index = rows[better]
    total, prices, choice = nodes.total.copy(), nodes.price.copy(), nodes.choice.copy()
    total[index], prices[index], choice[index] = tried.total[better], price[better], tried.choice[better]
    return replace(nodes, total=total, price=prices, choice=choice)
