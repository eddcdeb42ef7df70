"""Branch and bound for the proof that no plan was missed.

A *node* is the set of policies over some pairs, between two numbers of changes, with a line that none of them returns
more than. It is done when the line lies nowhere above the staircase. A `Search` says how a node is bounded and split:
along the edges of its hull (`edges.py`), or by a linear program where outcomes are guarded (`guarded.py`).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from polidiff.frontier.policy_walk import Vertex
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.staircase import Archive, Steps
from polidiff.optimize import Clock
from polidiff.progress import report
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

MOST_FLAGS = 100_000_000  # active pairs of all open nodes beyond which the deepest come first
TOLD = 32  # nodes between two reports of progress


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """Policies over some pairs between two numbers of changes, and a line that none of them is above."""

    choice: IntArray  # (S,) a policy over the active pairs, to start from
    active: BoolArray  # (pairs,)
    price: float
    total: float  # return of the line at no changes
    low: float
    high: float
    excess: float = np.inf  # by how much the line is above the staircase


@dataclass(frozen=True, eq=False)
class Proof:
    """What the search found, and what it left open."""

    archive: Archive
    open: list[Node]  # not handled when a limit was met; none: everything is proven
    nodes: int


class Search:
    """The staircase as it grows, and how a node is bounded and split.

    `ends` says that the archive holds the plan with the fewest changes and the one with the most return.
    """

    def __init__(self, problem: FrontierProblem, archive: Archive, budget: float | None, *, ends: bool = True) -> None:
        self.problem, self.archive, self.budget, self.ends = problem, archive, budget, ends
        self.steps = Steps.of(archive, budget, ends=ends)

    def children(self, node: Node) -> list[Node]:
        """Sets that hold every policy of a node that may still beat a step, the most promising last."""
        raise NotImplementedError

    def add(self, plan: Vertex) -> None:
        """A plan that the archive lacks joins it."""
        archive = self.archive
        before = int(archive.changes.searchsorted(plan.changes + archive.tolerance.changes, side="right")) - 1
        if before < 0 or plan.returns > archive.returns[before] + archive.tolerance.returns:
            point = np.array([plan.changes]), np.array([plan.returns]), plan.choice[None]
            self.archive = archive.with_points(*point)
            self.steps = Steps.of(self.archive, self.budget, ends=self.ends)

    def above(self, price: float, total: float, low: float, high: float) -> tuple[float, float, float]:
        """The changes between which a line is above the staircase, and by how much; by 0 where it is nowhere."""
        return self.steps.above(price, total, low, high, self.archive.tolerance.changes)

    def split(self, node: Node, state: int, choice: IntArray) -> list[Node]:
        """One node for every active pair of a state, near a policy."""
        pairs = np.arange(self.problem.first[state], self.problem.first[state + 1])
        made = []
        for pair in pairs[node.active[pairs]]:
            active, own = node.active.copy(), choice.copy()
            active[pairs] = False
            active[pair], own[state] = True, pair
            made.append(replace(node, choice=own, active=active))
        return made


def branch_and_bound(
    search: Search, roots: Sequence[Node], clock: Clock, *, most: int, slack: float = 0.0, span: float = 1.0
) -> Proof:
    """Handle nodes until none is open or a limit is met.

    What could beat a step by no more than `slack` comes last; until then those that could beat one by most come first,
    which brings the gap down soonest, and the gap is told as a share of `span`. Then it is the deepest: few stay open.
    """
    handled, number, waived = 0, itertools.count(), list(roots)
    for allowed in sorted({slack, 0.0}, reverse=True):
        waiting = [(-node.excess, -next(number), node) for node in waived]
        heapq.heapify(waiting)
        waived = []
        while waiting:
            if handled >= most or clock.over():
                return Proof(search.archive, [node for *_, node in waiting] + waived, handled)
            node = heapq.heappop(waiting)[-1]
            low, high, excess = search.above(node.price, node.total, node.low, node.high)
            node = replace(node, low=low, high=high, excess=excess)
            if excess <= allowed:
                waived += [node] if excess > 0 else []
                continue
            if handled % TOLD == 0 and np.isfinite(excess):
                gap = f"gap {excess / span:.2%}" if allowed > 0 else f"{len(search.archive):,} plans"
                report("frontier", min(1.0, allowed / excess), gap)
            handled += 1
            widest = allowed > 0 and len(waiting) * len(node.active) < MOST_FLAGS
            for child in search.children(node):
                heapq.heappush(waiting, (-child.excess if widest else -np.inf, -next(number), child))
    return Proof(search.archive, waived, handled)


def open_bounds(left: Sequence[Node], changes: FloatArray) -> FloatArray:
    """(n,) the most that a plan in an open node returns with at most `changes` changes; −∞ where none can be."""
    price, total, low, high = (np.array([getattr(n, of) for n in left]) for of in ("price", "total", "low", "high"))
    bounds = total[:, None] + price[:, None] * np.minimum(changes[None, :], high[:, None])
    return np.asarray(np.where(low[:, None] < changes[None, :], bounds, -np.inf).max(axis=0))
