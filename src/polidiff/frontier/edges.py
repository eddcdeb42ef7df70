r"""Branch and bound along the edges of hulls: the proof where policies can circle and prices alone bound badly.

A *node* is the set of policies over some pairs, between two numbers of changes. The upper hull of its points is walked
as the hull of the whole problem is (`hull.py`): every vertex is a policy, and two neighbours differ in one state. Where
an edge from :math:`(c_1, v_1)` to :math:`(c_2, v_2)` lies above the staircase, a policy mixed in that one state would
beat every plan known, and no policy of the node returns more than

.. math:: v_1 + \lambda\,(c - c_1), \qquad \lambda = \frac{v_2 - v_1}{c_2 - c_1} .

So the node is split there: one child per action of that state, over the changes where the edge is above. A child starts
at the parent's policy and price; few decisions switch before its own bound is known.

Of the policies that behave alike one ends from every state, so a set of pairs without such a policy holds no plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from polidiff.errors import UnboundedReturnError
from polidiff.frontier.branch import Proof
from polidiff.frontier.completion import Nodes
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.staircase import Archive, Steps
from polidiff.frontier.visits import PolicyWalk, unbounded_message
from polidiff.optimize import Clock
from polidiff.progress import report
from polidiff.records.arrays import BoolArray, IntArray
from polidiff.worlds.checks import ending_choice

REFRESH = 300  # switches between two fresh factorisations
FAR = 0.4  # share of the states from which a policy is factorised rather than walked to
TOLD = 256  # nodes between two reports of progress


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """Policies over some pairs between two numbers of changes, and a line that none of them is above."""

    choice: IntArray  # (S,) a policy over the active pairs, to start from
    active: BoolArray  # (pairs,)
    price: float
    total: float  # return of the line at no changes
    low: float
    high: float
    excess: float  # by how much the line is above the staircase


@dataclass(frozen=True, eq=False, slots=True)
class Vertex:
    """A policy on the hull of a node."""

    changes: float
    returns: float
    choice: IntArray  # (S,)


class CompiledWalk(PolicyWalk):
    """As `PolicyWalk`, over some pairs only, with compiled switches."""

    def __init__(self, problem: FrontierProblem, choice: IntArray) -> None:
        moves = problem.transitions.tocsr()
        self.moves = (moves.indptr.astype(np.int64), moves.indices.astype(np.int64), moves.data.astype(np.float64))
        super().__init__(problem, choice)

    def refresh(self) -> None:
        """Factorise afresh."""
        super().refresh()
        self.inverse, self.values = np.ascontiguousarray(self.inverse), np.ascontiguousarray(self.values)
        self.weights = np.ascontiguousarray(self.weights)
        self.stale = 0

    def vertex(self) -> Vertex:
        """Where the walk is."""
        changes, returns = self.problem.initial @ self.values
        return Vertex(float(changes), float(returns), self.choice.copy())

    def goto(self, choice: IntArray) -> bool:
        """Take all decisions of a policy; False, with the walk anywhere, if it never ends."""
        from polidiff.frontier.kernels import follow

        most = min(int(FAR * len(choice)), REFRESH - self.stale)
        made = follow(self.inverse, self.values, self.weights, *self.moves, self.choice, choice, most)
        self.stale += max(made, 0)
        if made < 0:
            if not self.problem.ends(choice):
                self.refresh()
                return False
            self.choice = choice.copy()
            self.refresh()
        return True

    def start(self, node: Node) -> bool:
        """Take the policy of a node, or one near it that ends from every state; False if the node has none."""
        problem = self.problem
        if self.goto(node.choice):
            return True
        choice = ending_choice(problem.links, problem.state, problem.leaks, node.choice, node.active)
        return self.goto(choice)

    def step(self, active: BoolArray, side: int, *, price: float = 0.0, most: int = 1) -> bool:
        """On to the next vertex with more changes (side 1) or fewer (−1), or nearer to the best at a price (0).

        False where there is none. A switch that gains and never ends is part of a loop that pays for ever.
        """
        from polidiff.frontier.kernels import advance

        state, arrays = self.problem.state, (self.inverse, self.values, self.weights)
        made, blocked = advance(*arrays, *self.moves, state, self.choice, active, side, price, most)
        self.stale += made
        if blocked >= 0:
            self.choice[self.problem.state[blocked]] = blocked
            if not self.problem.ends(self.choice):
                raise UnboundedReturnError(unbounded_message(self.problem, self.choice))
        if blocked >= 0 or self.stale >= REFRESH:
            self.refresh()
        return bool(made or blocked >= 0)

    def optimise(self, active: BoolArray, price: float) -> None:
        """The best policy over the active pairs at a price."""
        while self.step(active, 0, price=price, most=REFRESH):
            pass


class _Search:
    """The staircase as it grows, and the walk that the nodes share."""

    def __init__(self, problem: FrontierProblem, archive: Archive, budget: float | None) -> None:
        self.problem, self.archive, self.budget = problem, archive, budget
        self.steps = Steps.of(archive, budget)
        self.walk = CompiledWalk(problem, archive.choices[0].astype(np.int64))

    def met(self) -> Vertex:
        """Where the walk is; a plan that the archive lacks joins it."""
        vertex, archive = self.walk.vertex(), self.archive
        before = int(archive.changes.searchsorted(vertex.changes + archive.tolerance.changes, side="right")) - 1
        if before < 0 or vertex.returns > archive.returns[before] + archive.tolerance.returns:
            point = np.array([vertex.changes]), np.array([vertex.returns]), vertex.choice[None]
            self.archive = archive.with_points(*point)
            self.steps = Steps.of(self.archive, self.budget)
        return vertex

    def above(self, price: float, total: float, low: float, high: float) -> tuple[float, float, float]:
        """The changes between which a line is above the staircase, and by how much; by 0 where it is nowhere."""
        from polidiff.frontier.kernels import above_steps

        steps, apart = self.steps, self.archive.tolerance.changes
        return above_steps(steps.left, steps.right, steps.beat, price, total, low, high, apart)

    def vertices(self, node: Node) -> list[Vertex]:
        """The hull of a node over its changes, fewest first; nothing where one price rules all of it out."""
        walk = self.walk
        if not walk.start(node):
            return []
        walk.optimise(node.active, node.price)
        found = [middle := self.met()]
        if self.above(node.price, middle.returns - node.price * middle.changes, node.low, node.high)[2] <= 0:
            return []
        while found[-1].changes < node.high and walk.step(node.active, 1):
            found.append(self.met())
        if middle.changes > node.low:
            walk.goto(middle.choice)
        while found[0].changes > node.low and walk.step(node.active, -1):
            found.insert(0, self.met())
        return found

    def children(self, node: Node) -> list[Node]:
        """Per edge that is above the staircase: one node for every pair of the state in which its ends differ."""
        made: list[Node] = []
        for left, right in pairwise(self.vertices(node)):
            if right.changes - left.changes <= self.archive.tolerance.changes:
                continue
            price = (right.returns - left.returns) / (right.changes - left.changes)
            total = left.returns - price * left.changes
            window = self.above(price, total, max(left.changes, node.low), min(right.changes, node.high))
            if window[2] > 0:
                made += self._split(node, left, right, price, total, window)
        return sorted(made, key=lambda child: child.excess)

    def _split(
        self, node: Node, left: Vertex, right: Vertex, price: float, total: float, window: tuple[float, float, float]
    ) -> list[Node]:
        state = int(np.argmax(left.choice != right.choice))
        pairs = np.arange(self.problem.first[state], self.problem.first[state + 1])
        made = []
        for pair in pairs[node.active[pairs]]:
            active, choice = node.active.copy(), left.choice.copy()
            active[pairs] = False
            active[pair], choice[state] = True, pair
            made.append(Node(choice, active, price, total, *window))
        return made


def edge_search(
    problem: FrontierProblem,
    archive: Archive,
    roots: Nodes,
    clock: Clock,
    *,
    most: int,
    budget: float | None = None,
    slack: float = 0.0,
    span: float = 1.0,
) -> Proof:
    """Handle nodes until none is open or a limit is met; arguments as of `branch.branch_and_bound`."""
    search, handled, waived = _Search(problem, archive, budget), 0, list[Node]()
    waiting = [
        Node(roots.choice[i], roots.active[i], roots.price[i], roots.total[i], roots.low[i], roots.high[i], np.inf)
        for i in range(len(roots))
    ]
    while waiting:
        if handled >= most or clock.over():
            return Proof(search.archive, _as_nodes(problem, waiting + waived), handled)
        node = waiting.pop()
        node = Node(
            node.choice, node.active, node.price, node.total, *search.above(node.price, node.total, node.low, node.high)
        )
        if node.excess <= slack:
            waived += [node] if node.excess > 0 else []
            continue
        handled += 1
        if handled % TOLD == 0:
            report("frontier", 0.0, f"gap {node.excess / span:.2%}, {len(search.archive):,} plans")
        waiting += search.children(node)
    return Proof(search.archive, _as_nodes(problem, waived) if waived else None, handled)


def _as_nodes(problem: FrontierProblem, nodes: list[Node]) -> Nodes:
    """Open nodes as arrays."""
    active = np.array([node.active for node in nodes])
    return Nodes(
        choice=np.array([node.choice for node in nodes]),
        price=np.array([node.price for node in nodes]),
        tilt=np.zeros((len(nodes), 0)),
        total=np.array([node.total for node in nodes]),
        fixed=np.logical_and.reduceat(active, problem.first[:-1], axis=1),
        active=active,
        low=np.array([node.low for node in nodes]),
        high=np.array([node.high for node in nodes]),
        visits=np.zeros((len(nodes), problem.n_states)),
    )
