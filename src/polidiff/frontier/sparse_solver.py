r"""Policy iteration at any price of a change on sparse rows: memory is linear in the number of transitions.

The iteration looks at one column, the return less the price of the changes, solved from that of the policy before it.
Early rounds need no more than the sign of the largest advantages, so they are solved loosely; the last one is believed
only after a tight solve. Changes and return are solved apart at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from polidiff.errors import UnboundedReturnError
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.values import always_ends, ending_choice, ends_everywhere
from polidiff.frontier.walk import unbounded_message
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

TIGHT = 1e-11  # relative residual of an evaluation that is believed
LOOSE, NEAR = 1e-3, 1e-6  # of one that only finds the next switches: many of them, or few
FEW = 1e-3  # share of states
STRICT = 1e-8  # advantage, relative to the values, above which a switch counts as a gain
LOOSE_ROUNDS = 8  # after which evaluations are exact, so that policy iteration cannot circle


@dataclass(frozen=True, eq=False)
class Vertex:
    """The best policy at some price."""

    changes: float
    returns: float
    choice: IntArray  # (S,)
    values: FloatArray  # (S, 2) changes and return from each state on


class SparseSolver:
    """Policy iteration at any price on sparse rows."""

    def __init__(self, problem: FrontierProblem) -> None:
        self.problem, self.rounds = problem, 0
        self.lines: list[tuple[float, float]] = []  # price, and the most that return less price times changes can be
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

    def best(self, price: float, start: Vertex, held: BoolArray | None = None) -> Vertex:
        """The best policy at a price, by policy iteration from a vertex's; `held` states keep their decision."""
        weight = self.problem.reward - price * self.problem.cost
        choice, priced = self._iterate(weight, start.choice.astype(np.int64), _priced(start.values, price), held)
        changes = start.values[:, 0]
        found = self._vertex(choice, np.stack([changes, priced + price * changes], axis=1))
        self.lines += [] if held is not None else [(price, found.returns - price * found.changes)]
        return found

    def optimum(self) -> tuple[IntArray, FloatArray]:
        """The best policy without any price, and its return from each state on."""
        start = ending_choice(self.problem, self.problem.base)
        return self._iterate(self.problem.reward, start, np.zeros(self.problem.n_states), solved=False)

    def _iterate(
        self,
        weight: FloatArray,
        choice: IntArray,
        values: FloatArray,
        held: BoolArray | None = None,
        solved: bool = True,
    ) -> tuple[IntArray, FloatArray]:
        """Policy iteration on what decisions weigh; `solved` says whether `values` are those of `choice`."""
        tight, began = solved, self.rounds
        if not solved and self.loops:
            values, tight = self._column(choice, weight, values, TIGHT), True
        while True:
            self.rounds += 1
            best, better = self._switches(weight + self.problem.transitions @ values, values, choice)
            if held is not None:
                better &= ~held
            if not better.any():
                if tight:
                    return choice, values
                values, tight = self._column(choice, weight, values, TIGHT), True
                continue
            choice = np.where(better, best, choice)
            if self.loops and not ends_everywhere(self.problem, choice):
                raise UnboundedReturnError(unbounded_message(self.problem, choice))
            few = better.mean() < FEW
            tight = self.loops or self.rounds > began + LOOSE_ROUNDS or (few and solved)
            values = self._column(choice, weight, values, TIGHT if tight else NEAR if few else LOOSE)

    def bound(self, changes: FloatArray) -> FloatArray:
        """No policy with at most so many changes returns more: the lowest of the lines at the prices tried."""
        prices, totals = np.array(self.lines).T[:, :, None]
        return np.asarray((totals + prices * changes).min(axis=0))

    def _switches(self, quality: FloatArray, values: FloatArray, choice: IntArray) -> tuple[IntArray, BoolArray]:
        first = self.problem.first[:-1]
        if self.even:
            rank = quality.reshape(-1, self.even).argmax(axis=1)
            best = first + rank
        else:
            table = quality[self.problem.padded]
            best = self.problem.padded[np.arange(len(first)), table.argmax(axis=1)]
        better = (best != choice) & (quality[best] > values + STRICT * (1.0 + np.abs(values)))
        return best, better

    def _vertex(self, choice: IntArray, guess: FloatArray) -> Vertex:
        """The policy with changes and return from each state on."""
        columns = [self._column(choice, self.weights[:, k], guess[:, k], TIGHT) for k in range(2)]
        values = np.stack(columns, axis=1)
        changes, returns = self.problem.initial @ values
        return Vertex(float(changes), float(returns), choice.astype(np.int32), values)

    def _column(self, choice: IntArray, weight: FloatArray, guess: FloatArray, residual: float) -> FloatArray:
        """(S,) what decisions weigh from each state on, to a residual relative to what one of them brings."""
        moves, target = self.problem.transitions[choice], weight[choice]
        size, scale = len(target), float(np.linalg.norm(target))
        if scale == 0.0:
            return np.zeros(size)
        system = linalg.LinearOperator((size, size), matvec=lambda x: x - moves @ x, dtype=np.float64)
        found, _ = linalg.bicgstab(system, target, x0=guess, rtol=residual, atol=0.0, maxiter=500)
        off = np.linalg.norm(found - moves @ found - target)  # what the iteration believes of itself may be wrong
        if not off <= 10 * residual * scale:
            found = linalg.splu((sparse.eye_array(size) - moves).tocsc()).solve(target)
        return np.asarray(found)


def _priced(values: FloatArray, price: float) -> FloatArray:
    return np.asarray(values[:, 1] - price * values[:, 0])
