r"""The rows of one policy of a large table, copied from those of all pairs: evaluation by sweeps, and better pairs.

Evaluation solves :math:`v = w + P v` by Gauss–Seidel sweeps, to the last state and back. With :math:`y_k` the values
after the k-th pair of sweeps and :math:`r_k` what it moved, the next pair starts from

.. math:: v_{k+1} = y_k - \sum_i g_i (y_i - y_{i-1}), \qquad g = \arg\min \|r_k - \sum_i g_i (r_i - r_{i-1})\|

over the last two pairs (Anderson's mixing, of depth 2). That takes out the one slow direction that a table with few
ends has. Where a mixture moves more than the pair before it, the memory is dropped: plain sweeps go on, and they
converge for every policy that ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from polidiff.records.arrays import BoolArray, FloatArray

SLOW = 0.5  # what a pair of sweeps may leave of the move before it, or sweeps go back as well
PAIRS_OF_SWEEPS = 400  # after which an evaluation goes to Krylov's method, and then to a factorisation


class SparseRows:
    """All pairs of a table, and the rows of the policy that is followed now."""

    def __init__(self, transitions: Any, first: Any) -> None:
        self.starts, self.index = transitions.indptr.astype(np.uint32), transitions.indices.view(np.uint32)
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
        self.space = np.zeros((8, count))
        self.back = False  # whether every second sweep goes back

    def follow(self, choice: Any) -> None:
        """Make a policy the one that is followed; only rows that differ are copied."""
        from polidiff.frontier.sparse_kernels import copy_rows

        states = np.flatnonzero(choice != self.choice)
        self.choice[states] = choice[states]
        own = (self.own_starts, self.own_ends, self.own_index, self.own_chance)
        copy_rows(self.starts, self.index, self.chance, states, self.choice, *own)

    def settle(self, weight: FloatArray, values: FloatArray, target: float) -> None:
        """Bring values (S,) to those of the policy, in place, until a sweep moves none by more than the target."""
        before, moved, after, work = self.space[:4]
        memory = [(self.space[4], self.space[5]), (self.space[6], self.space[7])]  # of steps and of moves
        depth, slow, last = 0, 0, np.inf
        for _ in range(PAIRS_OF_SWEEPS):
            np.copyto(before, values)
            self._sweep(weight, values, False)
            largest = self._sweep(weight, values, self.back)
            if largest <= target:
                return
            slow += largest > SLOW * last
            if slow > 2 and not self.back:
                self.back = True
                depth = 0
            depth = 0 if largest > 2.0 * last else depth
            last = largest
            memory.reverse()
            steps, moves = memory[0]
            np.subtract(values, after, out=steps)
            np.copyto(after, values)
            np.subtract(values, before, out=work)
            np.subtract(work, moved, out=moves)
            np.copyto(moved, work)
            for share, step in zip(_mixture(memory, moved, depth), (memory[0][0], memory[1][0]), strict=False):
                np.multiply(step, share, out=work)
                np.subtract(values, work, out=values)
            depth = min(depth + 1, 2)
        values[:] = self._apart(weight, target)

    def _sweep(self, weight: FloatArray, values: FloatArray, back: bool) -> float:
        from polidiff.frontier.sparse_kernels import sweep

        return sweep(self.own_starts, self.own_ends, self.own_index, self.own_chance, weight, values, back)

    def improve(
        self, weight: FloatArray, values: FloatArray, margins: Margins, strict: float, sweeping: bool
    ) -> tuple[Any, float]:
        """A policy with better pairs where a margin has expired, None if there are none; and the largest gain.

        `sweeping` values are updated on the way, and later states see it; else all are judged by the values given.
        """
        from polidiff.frontier.sparse_kernels import improve

        choice, written = self.choice.copy(), values if sweeping else self.space[0]
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

    def _apart(self, weight: FloatArray, target: float) -> FloatArray:
        """The values where sweeps take too long: Krylov's method, and where that fails a factorisation."""
        system = sparse.csc_matrix(sparse.eye_array(len(weight)) - self.moves())
        found, _ = linalg.bicgstab(system, weight, rtol=0.0, atol=target, maxiter=500)
        if not np.abs(weight - system @ found).max() <= 10 * target:
            found = linalg.splu(system).solve(weight)
        return np.asarray(found)


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


def _mixture(memory: list[tuple[FloatArray, FloatArray]], moved: FloatArray, depth: int) -> list[float]:
    """How much of the last steps to take back; none without a memory."""
    if depth == 0:
        return []
    (_, new), (_, old) = memory
    square, along = float(new @ new), float(new @ moved)
    if depth == 2:
        cross, older, back = float(new @ old), float(old @ old), float(old @ moved)
        area = square * older - cross * cross
        if area > 1e-12 * square * older:
            return [(along * older - back * cross) / area, (back * square - along * cross) / area]
    return [along / square] if square > 0 else []
