r"""Branch and bound for the proof: no plan was missed.

A *node* is a set of policies: some decisions are fixed, some pairs ruled out. Its best completion at price
:math:`\lambda` bounds every policy of the set,

.. math:: J_R \le U_\lambda(c) = \max_\pi (J_R - \lambda J_C) + \lambda c \quad \text{with } c = J_C ,

so a node is done when every step of the staircase lies above its bounds. Branching is on states that the fixed
decisions surely reach, so no behaviour is met twice and unreached states keep their action. With the visits
:math:`\underline{x}(s)` that the fixed decisions alone guarantee, taking pair (s, a) loses at least
:math:`\underline{x}(s)\,[V(s) - Q(s,a)]`; pairs that lose more than the slack are ruled out without being solved.

Nodes are handled in batches; every completion starts from the expected visits of its parent's (`visits.py`).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np

from polidiff.frontier.completion import EXIT, Family, Nodes, complete, family_of, join
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.staircase import Archive, Steps, reprice
from polidiff.frontier.visits import REFERENCES, UPDATES_FROM, Inverses
from polidiff.optimize import Clock
from polidiff.progress import report
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

MOST_OPEN = 100_000  # open nodes beyond which the deepest come first
LAYER = 8  # states branched on before sure visits are looked at again, or an eighth of all
SOLVED_UP_TO = 45  # states up to which sure visits are solved for
ROUNDS, SETTLED = 50, 1e-2  # steps of an episode over which sure visits are added up, and the growth that ends it
DEEP = 1e300  # rank of nodes that go by depth: before all that go by gain, the last pushed first


@dataclass(frozen=True, eq=False)
class Proof:
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
    span: float = 1.0,
    ends: bool = True,
) -> Proof:
    """Handle nodes until none is open or a limit is met.

    What could beat a step by no more than `slack` is left open, and until then the gap is told as a share of `span`;
    `ends` says that the archive holds the plan with the fewest changes and the one with the most return.
    """
    waiting, handled, waived = Waiting(first=slack > 0), 0, list[Nodes]()
    waiting.push(roots, np.full(len(roots), np.inf))
    size = 128 if problem.n_states < UPDATES_FROM and clock.seconds is None else REFERENCES
    inverses = Inverses(problem)
    while len(waiting):
        if handled >= most or clock.over():
            return Proof(archive, join(waiting.rest() + waived), handled)
        waiting.tell(slack, span)
        batch, small = _within(waiting.pop(size), Steps.of(archive, budget, ends=ends), slack)
        waived += [small] if len(small) else []
        handled += len(batch)
        archive, children = _expand(problem, archive, batch, budget, ends, inverses)
        if children is not None:
            steps = Steps.of(archive, budget, ends=ends)
            waiting.push(children, steps.excess(children))
    return Proof(archive, join(waived) if waived else None, handled)


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

    def tell(self, slack: float, span: float) -> None:
        """Report the gap of the first node in line, as a share of `span`, on its way down to `slack`."""
        widest = -self.heap[0][0]
        if 0 < widest < DEEP:
            report("frontier", min(1.0, slack / widest), f"gap {widest / span:.2%}")

    def rest(self) -> list[Nodes]:
        """Everything that waits."""
        return [nodes for _, _, nodes, _ in self.heap]


def _within(nodes: Nodes, steps: Steps, slack: float) -> tuple[Nodes, Nodes]:
    """Nodes worth opening, and those that could beat a step by no more than `slack`."""
    excess = steps.excess(nodes)
    return nodes.take(excess > slack), nodes.take((excess > 0) & (excess <= slack))


def _expand(
    problem: FrontierProblem, archive: Archive, nodes: Nodes, budget: float | None, ends: bool, inverses: Inverses
) -> tuple[Archive, Nodes | None]:
    """Children of some nodes that may still beat the archive, and the archive with their completions."""
    if not len(nodes):
        return archive, None
    steps = Steps.of(archive, budget, ends=ends)
    slack = steps.excess(nodes)
    family = family_of(problem, nodes.choice, nodes.price, nodes.tilt, inverses)
    parent, made = _Chain(problem, nodes, family, slack).run()
    if not len(parent):
        return archive, None
    done = complete(problem, family, parent, made.choice, made.price, made.tilt, made.fixed, made.active)
    archive = archive.with_points(done.changes[done.real], done.returns[done.real], done.choice[done.real])
    kept = made.take(done.feasible)
    done = done.take(done.feasible)
    kept = replace(kept, choice=done.choice, total=done.total)
    kept, met = reprice(problem, Steps.of(archive, budget, ends=ends), family, parent[done.origin], kept, done)
    archive = archive.with_points(met.changes, met.returns, met.choice)
    return archive, kept if len(kept) else None


class _Chain:
    """The states that a node surely reaches taken layer by layer, the most visited first, and the children that gives.

    After its children are made, a state is fixed to the completion's pair: children are disjoint, and together with
    the completion they are the node. Many visits first: what is fixed then carries most of the loss of a deviation.
    """

    def __init__(self, problem: FrontierProblem, nodes: Nodes, family: Family, slack: FloatArray) -> None:
        self.problem, self.nodes, self.slack = problem, nodes, slack
        self.fixed, self.active = nodes.fixed.copy(), nodes.active.copy()
        self.chosen = nodes.choice[:, problem.state] == np.arange(problem.n_pairs)
        self.losses, self.visits = family.losses, nodes.visits.copy()
        self.exits = problem.action[nodes.choice] == EXIT
        self.parents: list[IntArray] = []
        self.parts: list[Nodes] = []

    def run(self) -> tuple[IntArray, Nodes]:
        """Rows of the parents, and the children with the pair they try in place of the completion's."""
        running = np.arange(len(self.nodes))
        while running.size:
            running = self._layer(running)
        if not self.parents:
            return np.zeros(0, dtype=np.int64), self.nodes.take(slice(0, 0))
        return np.concatenate(self.parents), join(self.parts)

    def _layer(self, running: IntArray) -> IntArray:
        """Rule out what cannot pay, branch on the most visited states, fix them; returns the nodes that go on."""
        visits = sure_visits(self.problem, self.nodes.choice[running], self.fixed[running], self.visits[running])
        reached = (visits > 1e-13) & ~self.fixed[running]
        going = reached.any(axis=1)
        running, visits, reached = running[going], visits[going], reached[going]
        self.visits[running] = visits
        pair_state = self.problem.state
        here = reached[:, pair_state] & ~self.chosen[running]
        self.active[running] &= ~here | (visits[:, pair_state] * self.losses[running] <= self.slack[running, None])
        rank = np.argsort(np.argsort(np.where(reached, -visits, np.inf), axis=1, kind="stable"), axis=1)
        taken = reached & (rank < max(LAYER, self.problem.n_states // 8))
        gone = taken & self.exits[running]
        last = np.where(gone, rank, self.problem.n_states).min(axis=1, initial=self.problem.n_states)
        offered = here & self.active[running] & (self.problem.action != EXIT)
        offered &= taken[:, pair_state] & (rank[:, pair_state] <= last[:, None])
        self._make(running, taken, rank, *np.nonzero(offered))
        self.fixed[running] |= taken
        return np.asarray(running[~gone.any(axis=1)])

    def _make(self, running: IntArray, taken: BoolArray, rank: IntArray, row: IntArray, pair: IntArray) -> None:
        """Children that take a pair in place of the completion's, with all states before it fixed."""
        if not len(row):
            return
        state, origin = self.problem.state[pair], running[row]
        child = self.nodes.take(origin)
        choice = child.choice.copy()
        choice[np.arange(len(pair)), state] = pair
        fixed = self.fixed[origin] | (taken[row] & (rank[row] <= rank[row, state][:, None]))
        self.parents.append(origin)
        part = replace(child, choice=choice, fixed=fixed, active=self.active[origin], visits=self.visits[origin])
        self.parts.append(part)


def sure_visits(problem: FrontierProblem, choices: IntArray, fixed: BoolArray, visits: FloatArray) -> FloatArray:
    r"""(b, S) visits that the fixed decisions alone guarantee, from `visits` that are known to be sure.

    .. math:: x \leftarrow p_0 + \sum_{s \text{ fixed}} x(s)\, P_{s,\pi(s)}

    Small tables are solved. Every round is a lower bound, because the map is monotone; so on others the sum is cut
    where it hardly grows.
    """
    if not fixed.any():
        return visits
    if problem.n_states <= SOLVED_UP_TO:
        system = np.eye(problem.n_states) - (problem.dense[choices] * fixed[:, :, None]).transpose(0, 2, 1)
        start = np.broadcast_to(problem.initial[:, None], (*choices.shape, 1))
        return np.asarray(np.linalg.solve(system, start)[:, :, 0])
    rows = np.arange(len(choices))[:, None]
    for _ in range(ROUNDS):
        taken = np.zeros((len(choices), problem.n_pairs))
        taken[rows, choices] = np.where(fixed, visits, 0.0)
        arriving = problem.initial + flow(problem, taken)
        growth = float((arriving - visits).sum())
        visits = np.maximum(visits, arriving)
        if growth <= SETTLED * float(visits.sum()):
            break
    return visits


def flow(problem: FrontierProblem, taken: FloatArray) -> FloatArray:
    """(b, S) arrivals when each pair is taken so often, (b, pairs)."""
    if problem.n_states * problem.n_pairs > 400_000:
        return np.asarray((problem.arrivals @ taken.T).T)
    return np.asarray(taken @ problem.dense)
