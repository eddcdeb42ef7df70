r"""Policy iteration at any price of a change on sparse rows: memory is linear in the number of transitions.

The iteration looks at one column, the return less the price of the changes. Early rounds need no more than the sign of
the larger advantages, so their policies are evaluated only to a share of the largest gain found; the last one is
believed only after a tight evaluation that leaves no gain. Its visits, swept in the same way over the transposed rows,
then give its changes and return, and whatever else is asked of it.

Where every policy ends, the rounds may start from any values and switch while they sweep; else only strict gains on
the exact values of a policy are taken, so that a switch which never ends proves a loop that pays for ever.

The rows of one policy are copied from those of all pairs. Evaluation solves :math:`v = w + P v` by Gauss–Seidel sweeps,
to the last state and back. With :math:`y_k` the values after the k-th pair of sweeps and :math:`r_k` what it moved, the
next pair starts from

.. math:: v_{k+1} = y_k - \sum_i g_i (y_i - y_{i-1}), \qquad g = \arg\min \|r_k - \sum_i g_i (r_i - r_{i-1})\|

over the last two pairs (Anderson's mixing, of depth 2). That takes out the one slow direction that a table with few
ends has. Where a mixture moves more than the pair before it, the memory is dropped: plain sweeps go on, and they
converge for every policy that ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from polidiff.errors import UnboundedReturnError
from polidiff.evaluation.exact import solver
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.visits import MOST_ROUNDS, check_settled, unbounded_message
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray

TIGHT = 1e-11  # largest move, relative to what one decision weighs, of an evaluation that is believed
LOOSE = 0.05  # share of the largest gain to which a policy is evaluated that only finds the next switches
STRICT = 1e-8  # advantage, relative to the values, above which a switch counts as a gain
LOOSE_ROUNDS = 40  # after which evaluations are tight, so that policy iteration cannot circle
PAIRS_OF_SWEEPS = 400  # after which an evaluation goes to the solver of linear systems
RESIDUAL = 1e-12  # by which visits may miss their equations, relative to the most visits, and a tenth of their sum less
SWEPT = (0.5, 0.02)  # of the residual: the largest move after which sweeps end, and if that was too early
MOST_VISITS = 50_000_000  # numbers: visits of plans that are kept for those who ask more of the plans


@dataclass(frozen=True, eq=False)
class Vertex:
    """The best policy at some price."""

    price: float
    changes: float
    returns: float
    ranks: IntArray  # (S,) which of its pairs each state takes, in as few bytes as they need
    visits: FloatArray | None  # (S,) expected; None where too many plans would hold them


class SparseSolver:
    """Policy iteration at any price on sparse rows."""

    def __init__(self, problem: FrontierProblem) -> None:
        self.problem, self.rounds = problem, 0
        self.lines: list[tuple[float, float]] = []  # price, and the most that return less price times changes can be
        self.loops = not problem.leaks.all() and not problem.always_ends
        self.rows = SparseRows(problem.transitions, problem.first)
        self.swept, self.kept = SweptVisits(problem.transitions, problem.initial), 0
        self.small = np.min_scalar_type(int(np.diff(problem.first).max(initial=1)) - 1)
        most = max(2, problem.transitions.nnz // (3 * problem.n_states))  # no more numbers than the transitions hold
        self.recent: deque[tuple[float, FloatArray]] = deque(maxlen=most)  # price, and values at it and visits (2, S)

    def choice(self, vertex: Vertex) -> IntArray:
        """(S,) the pairs of a vertex."""
        return np.asarray(self.problem.first[:-1] + vertex.ranks, dtype=np.int32)

    def cheapest(self) -> Vertex:
        """The current policy, with free improvements if there are any."""
        start = self.problem.ending_choice(self.problem.base)
        weight, values = self.problem.reward[start], np.zeros(self.problem.n_states)
        self.rows.follow(start)
        self.rows.settle(weight, values, TIGHT * float(np.abs(weight).max(initial=0.0)))
        price = 1e4 * (1.0 + float(np.abs(values).max()))
        vertex = self._vertex(price, start, values, self.problem.initial)
        free = self.problem.cost == 0
        if int(free.sum()) == self.problem.n_states and vertex.changes < 1e-12:
            return vertex
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
        values, near = self._guess(price)
        choice = self._iterate(weight, self.choice(start), values, held)
        found = self._vertex(price, choice, values, near)
        self.lines += [] if held is not None else [(price, found.returns - price * found.changes)]
        return found

    def optimum(self) -> tuple[IntArray, FloatArray]:
        """The best policy without any price, and its return from each state on."""
        values = np.zeros(self.problem.n_states)
        start = self.problem.ending_choice(self.problem.base) if self.loops else self.problem.first[:-1]
        return self._iterate(self.problem.reward, start, values), values

    def bound(self, changes: FloatArray) -> FloatArray:
        """No policy with at most so many changes returns more: the lowest of the lines at the prices tried."""
        prices, totals = np.array(self.lines).T[:, :, None]
        return np.asarray((totals + prices * changes).min(axis=0))

    def _iterate(
        self, weight: FloatArray, choice: IntArray, values: FloatArray, held: BoolArray | None = None
    ) -> IntArray:
        """Policy iteration on what decisions weigh; `values` become those of the policy returned."""
        rows, margins = self.rows, Margins(len(values), held)
        rows.follow(choice)
        tight = TIGHT * float(np.abs(weight).max(initial=0.0))
        target, began = np.inf, self.rounds
        if self.loops:
            rows.settle(weight[rows.choice], values, tight)
        while True:
            self.rounds += 1
            check_settled(self.rounds < began + MOST_ROUNDS)
            before = values.copy()
            better, gain = rows.improve(weight, values, margins, STRICT, sweeping=not self.loops)
            if better is None and target <= tight:
                return rows.choice.astype(np.int64)
            if better is not None:
                if self.loops and not self.problem.ends(better):
                    raise UnboundedReturnError(unbounded_message(self.problem, better))
                rows.follow(better)
            exact = self.loops or self.rounds > began + LOOSE_ROUNDS or better is None
            target = tight if exact else max(tight, LOOSE * gain)
            rows.settle(weight[rows.choice], values, target)
            margins.moved(before, values, rows.mass)

    def _guess(self, price: float) -> FloatArray:
        """(2, S) values and visits near those at a price: on the line through the nearest, on either side if known."""
        nearest = sorted(self.recent, key=lambda kept: abs(kept[0] - price))
        sides = [[kept for kept in nearest if side * (kept[0] - price) > 0] for side in (-1, 1)]
        (low, there), (high, beyond) = [sides[0][0], sides[1][0]] if all(sides) else (nearest * 2)[:2]
        share = 0.0 if low == high else max(-1.0, (price - low) / (high - low))
        return there + share * (beyond - there)

    def _vertex(self, price: float, choice: IntArray, values: FloatArray, near: FloatArray) -> Vertex:
        """A policy with its changes and return; `values` are its own at the price, `near` visits near its own."""
        _, visits = self.swept.of(choice, near)
        count, total = (float(visits @ weight[choice]) for weight in (self.problem.cost, self.problem.reward))
        self.recent.appendleft((price, np.stack([values, visits])))
        self.kept += len(visits)
        ranks = (choice - self.problem.first[:-1]).astype(self.small)
        return Vertex(price, count, total, ranks, visits if self.kept <= MOST_VISITS else None)


class SweptVisits:
    """Expected visits of policies on sparse rows, each swept from those of a policy near it.

    What that gives is believed only where it solves the policy's own system, else it is solved afresh.
    """

    def __init__(self, transitions: sparse.csr_matrix | sparse.csr_array, initial: FloatArray) -> None:
        self.starts, self.index = transitions.indptr.astype(np.uint32), transitions.indices.astype(np.uint32)
        self.chance, self.lengths = np.array(transitions.data), np.diff(transitions.indptr)
        self.initial = np.array(initial)

    def of(self, chosen: IntArray, near: FloatArray) -> tuple[BoolArray, FloatArray]:
        """(S,) the states that a policy, by the row that it takes in each, reaches, and its visits of them."""
        from polidiff.frontier.kernels import arrivals, settle

        count, size = len(self.initial), int(self.lengths[chosen].sum())
        reached, place = self.initial > 0, np.zeros(count + 1, dtype=np.uint32)
        origin, share = np.zeros(size, dtype=np.uint32), np.zeros(size)
        room = np.empty(count, dtype=np.int64)
        arrivals(self.starts, self.index, self.chance, chosen, reached, room, place, origin, share)
        visits = np.where(reached, near, 0.0)  # what is not reached may circle for ever
        into = (place[:-1], place[1:], origin, share)
        moves = sparse.csr_array((share, origin.view(np.int32), place.view(np.int32)), shape=(count, count))
        for swept in SWEPT:
            settle(*into, self.initial, visits, swept * _rounding(visits), PAIRS_OF_SWEEPS, False)
            if np.abs(self.initial + moves @ visits - visits).max(initial=0.0) <= _rounding(visits):
                return reached, np.maximum(visits, 0.0)
        inside = np.flatnonzero(reached)
        visits[inside] = solver(sparse.csr_array(moves[inside][:, inside].T), 1.0)(self.initial[inside], True)
        return reached, np.maximum(visits, 0.0)


def _rounding(visits: FloatArray) -> float:
    """What visits may miss their equations by: in long episodes little, for what they miss adds up."""
    most, length = np.abs(visits).max(initial=1.0), np.abs(visits).sum()
    return float(most * max(RESIDUAL / max(1.0, length / 10), 8 * np.finfo(np.float64).eps))


class SparseRows:
    """All pairs of a table, and the rows of the policy that is followed now."""

    def __init__(self, transitions: sparse.csr_matrix, first: IntArray) -> None:
        self.starts = transitions.indptr.astype(np.uint32)
        self.index = transitions.indices.astype(np.int32, copy=False).view(np.uint32)
        self.chance, self.first = transitions.data, first.astype(np.uint32)
        lengths = np.diff(transitions.indptr)
        count = len(first) - 1
        self.own_starts = np.zeros(count, dtype=np.uint32)
        widest = np.maximum.reduceat(lengths, first[:-1])
        np.cumsum(widest[:-1], out=self.own_starts[1:])
        self.own_ends = self.own_starts.copy()
        self.own_index = np.empty(int(widest.sum()), dtype=np.uint32)
        self.own_chance = np.empty(len(self.own_index))
        self.choice = np.full(count, len(lengths), dtype=np.uint32)
        mass = transitions @ np.ones(count)
        self.mass = float(mass.min()), float(mass.max())
        self.space = np.zeros(count)
        self.back = False  # whether every second sweep goes back

    def follow(self, choice: AnyArray) -> None:
        """Make a policy the one that is followed; only rows that differ are copied."""
        from polidiff.frontier.kernels import copy_rows

        states = np.flatnonzero(choice != self.choice)
        self.choice[states] = choice[states]
        own = (self.own_starts, self.own_ends, self.own_index, self.own_chance)
        copy_rows(self.starts, self.index, self.chance, states, self.choice, *own)

    def settle(self, weight: FloatArray, values: FloatArray, target: float) -> None:
        """Bring values (S,) to those of the policy, in place, until a sweep moves none by more than the target."""
        from polidiff.frontier.kernels import settle

        own = (self.own_starts, self.own_ends, self.own_index, self.own_chance)
        settled, self.back = settle(*own, weight, values, target, PAIRS_OF_SWEEPS, self.back)
        if not settled:
            values[:] = solver(self.moves(), 1.0)(weight, False)

    def improve(
        self, weight: FloatArray, values: FloatArray, margins: Margins, strict: float, sweeping: bool
    ) -> tuple[AnyArray | None, float]:
        """A policy with better pairs where a margin has expired, None if there are none; and the largest gain.

        `sweeping` values are updated on the way, and later states see it; else all are judged by the values given.
        """
        from polidiff.frontier.kernels import improve

        choice, written = self.choice.copy(), values if sweeping else self.space
        table = (self.starts, self.index, self.chance, self.first)
        switched, gain = improve(*table, weight, values, written, choice, margins.expiry, margins.drift, strict)
        return (choice if switched else None), gain

    def moves(self) -> sparse.csr_matrix:
        """(S, S) the rows of the policy."""
        place = np.append(self.own_starts, len(self.own_index)).astype(np.int64)
        filled = np.arange(len(self.own_index)) < np.repeat(self.own_ends, np.diff(place))
        starts = np.concatenate([[0], np.cumsum(self.own_ends - self.own_starts, dtype=np.int64)])
        shape = (len(self.choice), len(self.choice))
        return sparse.csr_matrix((self.own_chance[filled], self.own_index[filled].astype(np.int64), starts), shape)


class Margins:
    """By how much the best pair of each state led when it was last looked at, against how far values have drifted."""

    def __init__(self, count: int, held: BoolArray | None = None) -> None:
        self.expiry = np.full(count, -1.0) if held is None else np.where(held, np.inf, -1.0)
        self.drift = 0.0

    def moved(self, before: FloatArray, after: FloatArray, mass: tuple[float, float]) -> None:
        """Values moved: one pair of a state gains on another at most the largest move less the smallest, by mass."""
        np.subtract(after, before, out=before)
        least, most = float(before.min()), float(before.max())
        gain = most * (mass[1] if most > 0 else mass[0])
        self.drift += gain - least * (mass[0] if least > 0 else mass[1])
