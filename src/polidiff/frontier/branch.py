r"""Branch and bound for the proof that no plan was missed.

A *node* is the set of policies over some pairs, between two numbers of changes, with a line that none of them returns
more than. It is done when the line lies nowhere above the staircase. A `Search` says how a node is bounded and split:
along the edges of its hull (`EdgeSearch`), or by a linear program where outcomes are guarded (`guarded.py`).

The upper hull of a node's points is walked as the hull of the whole problem is (`hull.py`): every vertex is a policy,
and two neighbours differ in one state. Where an edge from :math:`(c_1, v_1)` to :math:`(c_2, v_2)` lies above the
staircase, a policy mixed in that one state would beat every plan known, and no policy of the node returns more than

.. math:: v_1 + \lambda\,(c - c_1), \qquad \lambda = \frac{v_2 - v_1}{c_2 - c_1} .

So the node is split there: one child per action of that state, over the changes where the edge is above. A child starts
at the parent's policy and price; few decisions switch before its own bound is known.

A policy that takes pair (s, a) loses at least :math:`\underline{x}(s)\,[V(s) - Q(s,a)]` at the edge's price, with
:math:`\underline{x}` the visits that states with one pair left alone guarantee. What loses more than the edge is above
the staircase is ruled out, which may leave other states with one pair.

Of the policies that behave alike one ends from every state, so a set of pairs without such a policy holds no plan.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.staircase import Archive, Growing, Steps
from polidiff.frontier.visits import PolicyWalk, Vertex
from polidiff.progress import Clock, report
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

MOST_FLAGS = 100_000_000  # active pairs of all open nodes beyond which the deepest come first
TOLD = 32  # nodes between two reports of progress


@dataclass(eq=False, slots=True)
class Node:
    """Policies over some pairs between two numbers of changes, and a line that none of them is above.

    Plans found meanwhile leave less of it to be handled: its ends and its excess are what is known by now.
    """

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
        self.problem, self.budget, self.ends, self.tolerance = problem, budget, ends, archive.tolerance
        self.plans = Growing(archive)
        self.steps = Steps.of(archive, budget, ends=ends)

    def children(self, node: Node) -> list[Node]:
        """Sets that hold every policy of a node that may still beat a step, the most promising last."""
        raise NotImplementedError

    def add(self, plan: Vertex) -> None:
        """A plan that the archive lacks joins it."""
        if self.plans.add(plan.changes, plan.returns, plan.choice):
            self.steps = Steps.of(self.plans.points, self.budget, ends=self.ends)

    def above(self, price: float, total: float, low: float, high: float) -> tuple[float, float, float]:
        """The changes between which a line is above the staircase, and by how much; by 0 where it is nowhere."""
        return self.steps.above(price, total, low, high, self.tolerance.changes)

    def split(self, node: Node, state: int, choice: IntArray) -> list[Node]:
        """One node for every active pair of a state, near a policy."""
        pairs = np.arange(self.problem.first[state], self.problem.first[state + 1])
        made = []
        for pair in pairs[node.active[pairs]]:
            active, own = node.active.copy(), choice.copy()
            active[pairs] = False
            active[pair], own[state] = True, pair
            made.append(Node(own, active, node.price, node.total, node.low, node.high, node.excess))
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
                return Proof(search.plans.archive, [node for *_, node in waiting] + waived, handled)
            node = heapq.heappop(waiting)[-1]
            node.low, node.high, excess = search.above(node.price, node.total, node.low, node.high)
            node.excess = excess
            if excess <= allowed:
                waived += [node] if excess > 0 else []
                continue
            if handled % TOLD == 0 and np.isfinite(excess):
                gap = f"gap {excess / span:.2%}" if allowed > 0 else f"{len(search.plans):,} plans"
                report("frontier", min(1.0, allowed / excess), gap)
            handled += 1
            widest = allowed > 0 and len(waiting) * len(node.active) < MOST_FLAGS
            for child in search.children(node):
                heapq.heappush(waiting, (-child.excess if widest else -np.inf, -next(number), child))
    return Proof(search.plans.archive, waived, handled)


def open_bounds(left: Sequence[Node], changes: FloatArray) -> FloatArray:
    """(n,) the most that a plan in an open node returns with at most `changes` changes; −∞ where none can be."""
    price, total, low, high = (np.array([getattr(n, of) for n in left]) for of in ("price", "total", "low", "high"))
    bounds = total[:, None] + price[:, None] * np.minimum(changes[None, :], high[:, None])
    return np.asarray(np.where(low[:, None] < changes[None, :], bounds, -np.inf).max(axis=0))


class EdgeSearch(Search):
    """Bounds and splits nodes along their hulls; all nodes share one walk."""

    def __init__(self, problem: FrontierProblem, archive: Archive, budget: float | None) -> None:
        super().__init__(problem, archive, budget)
        self.walk = PolicyWalk(problem, archive.choices[0])

    def children(self, node: Node) -> list[Node]:
        """Per edge that is above the staircase: one node for every pair of the state in which its ends differ."""
        walk = self.walk
        if not walk.goto(node.choice) and not walk.goto(self.problem.ending_choice(node.choice, node.active)):
            return []
        walk.optimise(node.active, node.price)
        middle = self._met()
        if self.above(node.price, middle.returns - node.price * middle.changes, node.low, node.high)[2] <= 0:
            return []
        made: list[Node] = []
        vertex = middle
        while vertex.changes < node.high and walk.step(node.active, 1):
            left, vertex = vertex, self._met()
            made += self._across(node, left, vertex)
        vertex = middle
        if vertex.changes > node.low:
            walk.goto(middle.choice)
        while vertex.changes > node.low and walk.step(node.active, -1):
            right, vertex = vertex, self._met()
            made += self._across(node, vertex, right)
        return sorted(made, key=lambda child: child.excess)

    def _met(self) -> Vertex:
        vertex = self.walk.vertex()
        self.add(vertex)
        return vertex

    def _across(self, node: Node, left: Vertex, right: Vertex) -> list[Node]:
        """Children where an edge is above the staircase; the walk is at one of its ends."""
        from polidiff.frontier.walk_kernels import rule_out

        if right.changes - left.changes <= self.tolerance.changes:
            return []
        price = (right.returns - left.returns) / (right.changes - left.changes)
        total = left.returns - price * left.changes
        ends = max(left.changes, node.low), min(right.changes, node.high)
        low, high, excess = self.above(price, total, *ends)
        if excess <= 0:
            return []
        problem, walk, active = self.problem, self.walk, node.active.copy()
        rule_out(walk.arrays, walk.rows, problem.state, problem.first, problem.initial, active, price, excess)
        inside = Node(left.choice, active, price, total, low, high, excess)
        return self.split(inside, int(np.argmax(left.choice != right.choice)), left.choice)
