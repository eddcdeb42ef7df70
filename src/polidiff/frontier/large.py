r"""A certified frontier for tables too large to invert: best-first bisection of the price.

The best policy at a price :math:`\lambda` is a vertex of the hull and so proven: no plan with as few changes beats it.
Between two vertices (c₀, v₀) and (c₁, v₁) a missed plan returns at most v₁ − v₀ more than the staircase shows, so the
widest step is refined first, at the price :math:`\lambda = (v_1 - v_0)/(c_1 - c_0)`, until every step is below the
gap asked for. Each price is one policy iteration from its neighbour's policy, with both values solved iteratively on
sparse rows: memory is linear in the number of transitions.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from polidiff.errors import UnboundedReturnError
from polidiff.frontier.clock import Clock
from polidiff.frontier.hull import Hull
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.solve import Effort, Solved
from polidiff.frontier.values import always_ends, ending_choice, ends_everywhere
from polidiff.frontier.walk import unbounded_message
from polidiff.progress import report
from polidiff.records.arrays import FloatArray, IntArray

TIGHT, LOOSE = 1e-11, 1e-3  # relative residuals of an evaluation: to be believed, and to find the next switches
STRICT = 1e-8  # advantage, relative to the values, above which a switch counts as a gain
LOOSE_ROUNDS = 8  # after which evaluations are exact, so that policy iteration cannot circle
MOST_POINTS = 2_000


@dataclass(frozen=True, eq=False)
class Vertex:
    """The best policy at some price."""

    changes: float
    returns: float
    choice: IntArray  # (S,)
    values: FloatArray  # (S, 2) changes and return from each state on


@dataclass(order=True)
class _Step:
    """A step between two vertices, the widest first."""

    rank: float
    left: Vertex = field(compare=False)
    right: Vertex = field(compare=False)


def solve_large(problem: FrontierProblem, effort: Effort, clock: Clock, budget: float | None = None) -> Solved:
    """Proven plans close enough that no step between them exceeds the gap; within a budget, the best vertex."""
    solver = SparseSolver(problem)
    first = solver.cheapest()
    last = solver.best(0.0, first)
    span = max(last.returns - first.returns, 1e-9 * max(1.0, abs(last.returns)))
    wanted = max(effort.gap, 1e-9) * span
    if last.changes <= first.changes + 1e-12:
        return _result([first], 0.0, solver.rounds, False)
    done: list[_Step] = []
    steps = [_Step(first.returns - last.returns, first, last)]
    while steps and -steps[0].rank > wanted and len(steps) + len(done) < MOST_POINTS and not clock.over():
        step = heapq.heappop(steps)
        report("frontier", min(1.0, wanted / -step.rank), f"gap {-step.rank / span:.2%}")
        if budget is not None and not step.left.changes <= budget < step.right.changes:
            done.append(step)
            continue
        middle = solver.between(step.left, step.right)
        if middle is None:
            done.append(step)
            continue
        heapq.heappush(steps, _Step(step.left.returns - middle.returns, step.left, middle))
        heapq.heappush(steps, _Step(middle.returns - step.right.returns, middle, step.right))
    everything = sorted((step.left for step in [*steps, *done]), key=lambda v: v.changes)
    gap = max(-step.rank for step in [*steps, *done]) / span
    return _result([*everything, last], gap, solver.rounds, gap > effort.gap, budget)


def _result(vertices: list[Vertex], gap: float, rounds: int, stopped: bool, budget: float | None = None) -> Solved:
    changes = np.array([v.changes for v in vertices])
    returns = np.array([v.returns for v in vertices])
    choices = np.array([v.choice for v in vertices])
    hull = Hull(changes, returns, choices, rounds)
    bounds, method = returns.copy(), "prices by bisection, sparse policy iteration"
    if budget is None:
        return Solved(changes, returns, choices, bounds, gap, hull, 0, stopped, method)
    last = int((changes <= budget + 1e-12).sum()) - 1
    rows = np.unique([0, last])
    bounds[last] = max(returns[last], float(hull.bound(np.array([budget]))[0]))
    gap = (bounds[last] - returns[last]) / max(returns[-1] - returns[0], 1e-12)
    return Solved(changes[rows], returns[rows], choices[rows], bounds[rows], gap, hull, 0, gap > 1e-9, method)


class SparseSolver:
    """Policy iteration at any price on sparse rows."""

    def __init__(self, problem: FrontierProblem) -> None:
        self.problem, self.rounds = problem, 0
        self.weights = np.stack([problem.cost, problem.reward], axis=1)
        self.loops = not always_ends(problem)
        counts = np.diff(problem.first)
        self.even = int(counts[0]) if (counts == counts[0]).all() else 0

    def cheapest(self) -> Vertex:
        """The current policy, with free improvements if there are any."""
        start = ending_choice(self.problem, self.problem.base)
        vertex = self._vertex(start, np.zeros((self.problem.n_states, 2)))
        free = self.problem.cost == 0
        if int(free.sum()) == self.problem.n_states and vertex.changes < 1e-12:
            return vertex
        price = 1e4 * (1.0 + float(np.abs(vertex.values[:, 1]).max()))
        return self.best(price, vertex)

    def between(self, left: Vertex, right: Vertex) -> Vertex | None:
        """A vertex strictly between two, None if they are neighbours on the hull."""
        price = (right.returns - left.returns) / (right.changes - left.changes)
        found = self.best(price, right)
        above = found.returns - price * found.changes - (right.returns - price * right.changes)
        inside = left.changes + 1e-12 < found.changes < right.changes - 1e-12
        return found if inside and above > 1e-9 * (1.0 + abs(right.returns)) else None

    def best(self, price: float, start: Vertex) -> Vertex:
        """The best policy at a price, by policy iteration from a vertex's."""
        choice, values = start.choice.astype(np.int64), start.values
        weight = self.problem.reward - price * self.problem.cost
        tight, began = True, self.rounds
        while True:
            self.rounds += 1
            priced = values[:, 1] - price * values[:, 0]
            best, better = self._switches(weight + self.problem.transitions @ priced, priced, choice)
            if not better.any():
                if tight:
                    return self._finished(choice, values)
                values, tight = self._values(choice, values, TIGHT), True
                continue
            choice = np.where(better, best, choice)
            if self.loops and not ends_everywhere(self.problem, choice):
                raise UnboundedReturnError(unbounded_message(self.problem, choice))
            tight = self.loops or better.mean() < 1e-3 or self.rounds > began + LOOSE_ROUNDS
            values = self._values(choice, values, TIGHT if tight else LOOSE)

    def _switches(self, quality: FloatArray, values: FloatArray, choice: IntArray) -> tuple[IntArray, FloatArray]:
        first = self.problem.first[:-1]
        if self.even:
            rank = quality.reshape(-1, self.even).argmax(axis=1)
            best = first + rank
        else:
            table = quality[self.problem.padded]
            best = self.problem.padded[np.arange(len(first)), table.argmax(axis=1)]
        better = (best != choice) & (quality[best] > values + STRICT * (1.0 + np.abs(values)))
        return best, better

    def _finished(self, choice: IntArray, values: FloatArray) -> Vertex:
        changes, returns = self.problem.initial @ values
        return Vertex(float(changes), float(returns), choice.astype(np.int32), values)

    def _vertex(self, choice: IntArray, guess: FloatArray) -> Vertex:
        return self._finished(choice, self._values(choice, guess, TIGHT))

    def _values(self, choice: IntArray, guess: FloatArray, residual: float) -> FloatArray:
        """(S, 2) changes and return from each state on, to a residual relative to what a decision brings."""
        moves = self.problem.transitions[choice]
        size = moves.shape[0]
        system = linalg.LinearOperator((size, size), matvec=lambda x: x - moves @ x, dtype=np.float64)
        columns = []
        for k in range(2):
            target = self.weights[choice, k]
            scale = float(np.linalg.norm(target))
            if scale == 0.0:
                columns.append(np.zeros(size))
                continue
            found, _ = linalg.bicgstab(system, target, x0=guess[:, k], rtol=residual, atol=0.0, maxiter=500)
            off = np.linalg.norm(found - moves @ found - target)  # what the iteration believes of itself may be wrong
            if not off <= 10 * residual * scale:
                found = linalg.splu((sparse.eye_array(size) - moves).tocsc()).solve(target)
            columns.append(found)
        return np.stack(columns, axis=1)
