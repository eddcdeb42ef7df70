r"""Branch and bound for the proof: no plan was missed.

A *node* is a set of policies: some decisions are fixed, some pairs ruled out. Its best completion at price
:math:`\lambda` bounds every policy of the set,

.. math:: J_R \le U_\lambda(c) = \max_\pi (J_R - \lambda J_C) + \lambda c \quad \text{with } c = J_C ,

so a node is done when every step of the staircase lies above its bounds. Branching is on states that the fixed
decisions surely reach, so no behaviour is met twice and unreached states keep their action. With the visits
:math:`\underline{x}(s)` that the fixed decisions alone guarantee, taking pair (s, a) loses at least
:math:`\underline{x}(s)\,[V(s) - Q(s,a)]`; pairs that lose more than the slack are ruled out without being solved.

Nodes are handled in batches; every completion starts from the expected visits of its parent's (`values.py`).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np

from polidiff.frontier.archive import Archive
from polidiff.frontier.bounds import Steps, reprice, surviving
from polidiff.frontier.clock import Clock
from polidiff.frontier.completion import EXIT, Family, complete, family_of
from polidiff.frontier.nodes import Nodes, join
from polidiff.frontier.problem import FrontierProblem
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

BATCH_NUMBERS = 1_500_000  # numbers held at once in the expected visits of a batch
MOST_OPEN = 100_000  # open nodes beyond which the deepest come first
DEEP = 1e300  # rank of nodes that go by depth: before all that go by gain, the last pushed first


@dataclass(frozen=True, eq=False)
class Search:
    """What the search found, and what it left open."""

    archive: Archive
    open: Nodes | None  # nodes not handled when a limit was met; None: everything is proven
    nodes: int


def branch_and_bound(
    problem: FrontierProblem,
    archive: Archive,
    roots: Nodes,
    clock: Clock,
    *,
    most: int,
    budget: float | None = None,
    slack: float = 0.0,
    ends: bool = True,
) -> Search:
    """Handle nodes until none is open or a limit is met.

    What could beat a step by no more than `slack` is left open; `ends` says that the archive holds the plan with the
    fewest changes and the one with the most return.
    """
    waiting, handled, waived = Waiting(first=slack > 0), 0, list[Nodes]()
    waiting.push(roots, np.full(len(roots), np.inf))
    size = max(8, min(128, BATCH_NUMBERS // problem.n_states**2))
    while len(waiting):
        if handled >= most or clock.over():
            return Search(archive, join(waiting.rest() + waived), handled)
        batch, small = _within(waiting.pop(size), Steps.of(archive, budget, ends=ends), slack)
        waived += [small] if len(small) else []
        handled += len(batch)
        archive, children = _expand(problem, archive, batch, budget, ends)
        if children is not None:
            steps = Steps.of(archive, budget, ends=ends)
            waiting.push(children, surviving(steps, *children.bounding()).max(axis=1, initial=-np.inf))
    return Search(archive, join(waived) if waived else None, handled)


class Waiting:
    """Open nodes: those that could beat a step by most come first, or else the deepest.

    The former brings the gap down soonest, the latter keeps few nodes open; beyond `MOST_OPEN` it is always the latter.
    """

    def __init__(self, first: bool) -> None:
        self.first = first
        self.heap: list[tuple[float, int, Nodes, FloatArray]] = []
        self.count = self.pushed = 0

    def __len__(self) -> int:
        return self.count

    def push(self, nodes: Nodes, excess: FloatArray) -> None:
        """Add nodes, with what each could beat a step by."""
        order = np.argsort(excess, kind="stable")
        self._add(nodes.take(order), excess[order])

    def _add(self, nodes: Nodes, excess: FloatArray) -> None:
        self.pushed += 1
        self.count += len(nodes)
        by_gain = self.first and self.count < MOST_OPEN
        rank = -float(excess[-1]) if by_gain else -DEEP
        heapq.heappush(self.heap, (rank, -self.pushed, nodes, excess))

    def pop(self, size: int) -> Nodes:
        """Up to `size` nodes, the first in line."""
        taken: list[Nodes] = []
        while self.heap and size > 0:
            _, _, nodes, excess = heapq.heappop(self.heap)
            self.count -= len(nodes)
            if len(nodes) > size:
                self._add(nodes.take(slice(0, len(nodes) - size)), excess[: len(nodes) - size])
                nodes = nodes.take(slice(len(nodes) - size, None))
            taken.append(nodes)
            size -= len(nodes)
        return join(taken)

    def rest(self) -> list[Nodes]:
        """Everything that waits."""
        return [nodes for _, _, nodes, _ in self.heap]


def _within(nodes: Nodes, steps: Steps, slack: float) -> tuple[Nodes, Nodes]:
    """Nodes worth opening, and those that could beat a step by no more than `slack`."""
    excess = surviving(steps, *nodes.bounding()).max(axis=1, initial=-np.inf)
    return nodes.take(excess > slack), nodes.take((excess > 0) & (excess <= slack))


def _expand(
    problem: FrontierProblem, archive: Archive, nodes: Nodes, budget: float | None, ends: bool
) -> tuple[Archive, Nodes | None]:
    """Children of some nodes that may still beat the archive, and the archive with their completions."""
    if not len(nodes):
        return archive, None
    steps = Steps.of(archive, budget, ends=ends)
    slack = surviving(steps, *nodes.bounding()).max(axis=1)
    family = family_of(problem, nodes.choice, nodes.price, nodes.tilt)
    parent, made = _Chain(problem, nodes, family, slack).run()
    if not len(parent):
        return archive, None
    done = complete(problem, family, parent, made.choice, made.price, made.tilt, made.fixed, made.active)
    archive = archive.with_points(done.changes[done.real], done.returns[done.real], done.choice[done.real])
    kept = made.take(done.feasible)
    done = done.take(done.feasible)
    kept = replace(kept, choice=done.choice, total=done.total)
    kept, met = reprice(problem, Steps.of(archive, budget, ends=ends), family, parent[done.origin], kept, done)
    for other in met:
        archive = archive.with_points(other.changes, other.returns, other.choice)
    return archive, kept if len(kept) else None


class _Chain:
    """The states of each node taken one after the other, the least decisive first, and the children that gives.

    After its children are made, a state is fixed to the completion's pair: children are disjoint, and together with
    the completion they are the node. A small loss first: what is left then loses much, and is bounded tightly.
    """

    def __init__(self, problem: FrontierProblem, nodes: Nodes, family: Family, slack: FloatArray) -> None:
        self.problem, self.nodes, self.slack = problem, nodes, slack
        self.fixed, self.active = nodes.fixed.copy(), nodes.active.copy()
        self.chosen = nodes.choice[:, problem.state] == np.arange(problem.n_pairs)
        self.offered = self.active & ~self.chosen & (problem.action != EXIT)
        self.losses = family.losses
        self.exits = problem.action[nodes.choice] == EXIT
        self.parents: list[IntArray] = []
        self.parts: list[Nodes] = []

    def run(self) -> tuple[IntArray, Nodes]:
        """Rows of the parents, and the children with the pair they try in place of the completion's."""
        running = np.arange(len(self.nodes))
        while running.size:
            running = self._step(running)
        if not self.parents:
            return np.zeros(0, dtype=np.int64), self.nodes.take(slice(0, 0))
        return np.concatenate(self.parents), join(self.parts)

    def _step(self, running: IntArray) -> IntArray:
        """Fix what cannot pay, branch once per node; returns the nodes that have more to branch on."""
        least, reached = self._price(running)
        idle = reached & np.isinf(least)
        self.fixed[running] |= idle
        sorted_out = np.where(reached & ~idle, least, np.inf)
        state = sorted_out.argmin(axis=1)
        branching = np.isfinite(sorted_out[np.arange(len(running)), state])
        if branching.any():
            self._make(running[branching], state[branching])
        dead = (self.exits[running] & self.fixed[running]).any(axis=1)
        return np.asarray(running[(branching | idle.any(axis=1)) & ~dead])

    def _price(self, running: IntArray) -> tuple[FloatArray, BoolArray]:
        """(b, S) how decisive each surely reached state is, by its best offered pair; pairs beyond the slack go.

        Loss per visit times the root of the visits: by the loss alone, states that are hardly visited come first and
        their combinations are all tried before anything that matters.
        """
        problem = self.problem
        visits = sure_visits(problem, self.nodes.choice[running], self.fixed[running])
        reached = (visits > 1e-13) & ~self.fixed[running]
        loss = visits[:, problem.state] * self.losses[running]
        ruled_out = reached[:, problem.state] & (loss > self.slack[running, None]) & ~self.chosen[running]
        self.active[running] &= ~ruled_out
        self.offered[running] &= ~ruled_out
        rank = np.sqrt(visits)[:, problem.state] * self.losses[running]
        masked = np.where(self.offered[running], rank, np.inf)
        return np.minimum.reduceat(masked, problem.first[:-1], axis=1), reached

    def _make(self, going: IntArray, state: IntArray) -> None:
        here = self.offered[going] & (self.problem.state[None, :] == state[:, None])
        which, pair = np.nonzero(here)
        self.fixed[going, state] = True
        origin = going[which]
        child = self.nodes.take(origin)
        choice = child.choice.copy()
        choice[np.arange(len(pair)), self.problem.state[pair]] = pair
        self.parents.append(origin)
        self.parts.append(replace(child, choice=choice, fixed=self.fixed[origin], active=self.active[origin]))


def sure_visits(problem: FrontierProblem, choices: IntArray, fixed: BoolArray) -> FloatArray:
    """(b, S) visits that the fixed decisions alone guarantee; the walk stops at the first state not fixed."""
    width = int(fixed.sum(axis=1).max(initial=0))
    start = np.broadcast_to(problem.initial, choices.shape)
    if width == 0:
        return np.asarray(start)
    rows = np.arange(len(choices))[:, None]
    where = np.argsort(~fixed, axis=1, kind="stable")[:, :width]
    live = fixed[rows, where]
    moves = problem.dense[choices[rows, where]] * live[:, :, None]
    inner = np.take_along_axis(moves, np.broadcast_to(where[:, None, :], (len(choices), width, width)), axis=2)
    system = np.eye(width) - inner * live[:, None, :]
    inflow = np.where(live, start[rows, where], 0.0)
    visits = np.linalg.solve(system.transpose(0, 2, 1), inflow[:, :, None])[:, :, 0]
    return np.asarray(start + np.einsum("bk,bks->bs", visits, moves))
