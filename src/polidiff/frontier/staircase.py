r"""The staircase of non-dominated plans, and which of its steps a set of policies may still beat.

A step from (c₁, v₁) to (c₂, v₂) is beaten by a plan with fewer than c₂ changes and more return than v₁: its corner is
(c₂, v₁). Policies that return at most :math:`U(c)` with c changes may beat it only if :math:`U(c_2) > v_1`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polidiff.records.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Tolerance:
    """Differences below these are rounding."""

    changes: float
    returns: float


@dataclass(frozen=True, eq=False)
class Archive:
    """Plans in increasing order of changes and of return; none is as good as another in both."""

    changes: FloatArray  # (n,) increasing
    returns: FloatArray  # (n,) increasing
    choices: IntArray  # (n, S)
    tolerance: Tolerance

    def __len__(self) -> int:
        return len(self.changes)

    def improves(self, changes: FloatArray, returns: FloatArray) -> BoolArray:
        """Which points no plan of the archive matches within tolerance in both changes and return."""
        position = np.searchsorted(self.changes, changes + self.tolerance.changes, side="right")
        best = np.concatenate([[-np.inf], self.returns])[position]
        return np.asarray(returns > best + self.tolerance.returns)

    def ties(self, changes: FloatArray, returns: FloatArray) -> tuple[BoolArray, IntArray]:
        """Which points equal a plan of the archive but for rounding, and the row of that plan."""
        if not len(self):
            return np.zeros(len(changes), dtype=np.bool_), np.zeros(len(changes), dtype=np.int64)
        row = np.searchsorted(self.changes, changes - self.tolerance.changes).clip(max=len(self) - 1)
        tied = np.abs(self.changes[row] - changes) <= self.tolerance.changes
        return tied & (np.abs(self.returns[row] - returns) <= self.tolerance.returns), row

    def with_points(self, changes: FloatArray, returns: FloatArray, choices: IntArray) -> Archive:
        """The archive with the points that improve it, less those they dominate; of equal ones as `_rank` says."""
        tied, row = self.ties(changes, returns)
        tied[tied] = _before(choices[tied], self.choices[row[tied]], self.choices[:1])
        new = tied | self.improves(changes, returns)
        if not new.any():
            return self
        c = np.concatenate([self.changes, changes[new]])
        v = np.concatenate([self.returns, returns[new]])
        every = np.concatenate([self.choices, choices[new].astype(self.choices.dtype)])
        order = self._order(c, v, every)
        keep = _staircase(c[order], v[order], self.tolerance)
        chosen = order[keep]
        return Archive(c[chosen], v[chosen], every[chosen], self.tolerance)

    def _order(self, changes: FloatArray, returns: FloatArray, choices: IntArray) -> IntArray:
        """Fewest changes first, then most return; plans that are equal but for rounding by `_rank`."""
        c, v = np.round(changes / self.tolerance.changes), np.round(returns / self.tolerance.returns)
        order = np.lexsort((-v, c))
        new = (np.diff(c[order], prepend=-np.inf) != 0) | (np.diff(v[order], prepend=-np.inf) != 0)
        starts = np.flatnonzero(new)
        lengths = np.diff(starts, append=len(order))
        for start, length in zip(starts[lengths > 1], lengths[lengths > 1], strict=True):
            run = order[start : start + length]
            run[:] = run[np.lexsort(_rank(choices[run], choices[order[:1]]).T[::-1])]
        return order

    def renumbered(self, choices: IntArray) -> Archive:
        """The same points with their policies in other numbers."""
        return replace(self, choices=choices)

    def within(self, budget: float) -> Archive:
        """The first plan and the last within a budget."""
        last = int((self.changes <= budget + self.tolerance.changes).sum()) - 1
        return self._rows(np.unique([0, last]) if last >= 0 else np.zeros(0, dtype=np.int64))

    def between(self, low: float, high: float) -> Archive:
        """The plans with so many changes."""
        return self._rows(np.flatnonzero((self.changes >= low) & (self.changes <= high)))

    def _rows(self, rows: IntArray) -> Archive:
        return Archive(self.changes[rows], self.returns[rows], self.choices[rows], self.tolerance)


def empty_archive(changes: FloatArray, returns: FloatArray, choices: IntArray) -> Archive:
    """An archive without plans, with tolerances to the scale of some points."""
    sizes = (float(np.abs(numbers).max(initial=1.0)) for numbers in (changes, returns))
    return Archive(changes[:0], returns[:0], choices[:0], Tolerance(*(1e-9 * size for size in sizes)))


def new_archive(changes: FloatArray, returns: FloatArray, choices: IntArray) -> Archive:
    """An archive of some points, with tolerances to the scale of the numbers."""
    return empty_archive(changes, returns, choices).with_points(changes, returns, choices)


def _rank(choices: IntArray, first: IntArray) -> IntArray:
    """(b, 1 + 2 S) keys of equal plans, the first counts most: fewest changed states, the lowest ones, lowest actions.

    What is changed is told by the plan with the fewest changes, `first` (1, S).
    """
    same = choices == first
    return np.column_stack([(~same).sum(axis=1), same, choices])


def _before(choices: IntArray, others: IntArray, first: IntArray) -> BoolArray:
    """(b,) which plans come before others that equal them but for rounding."""
    apart = _rank(choices, first) - _rank(others, first)
    return np.asarray(np.take_along_axis(apart, (apart != 0).argmax(axis=1)[:, None], axis=1)[:, 0] < 0)


def _staircase(changes: FloatArray, returns: FloatArray, tolerance: Tolerance) -> IntArray:
    """Indices of non-dominated points of a list in order of changes, more return first among equals."""
    before = np.concatenate([[-np.inf], np.maximum.accumulate(returns)[:-1]])
    kept = np.flatnonzero(returns > before + tolerance.returns)
    follows = np.append(changes[kept][1:] - changes[kept][:-1] > tolerance.changes, True)
    return np.asarray(kept[follows])


class Growing:
    """An archive that takes one point at a time, in place: there may be a hundred thousand, and their policies stay."""

    def __init__(self, archive: Archive) -> None:
        self.tolerance, self.count, self._policies = archive.tolerance, len(archive), list(archive.choices)
        self._shape = archive.choices.shape[1:]
        self._rows = np.array([archive.changes, archive.returns, np.arange(self.count)])  # and numbers of policies

    def __len__(self) -> int:
        return self.count

    @property
    def points(self) -> Archive:
        """The points until the next one joins; their policies are numbers."""
        changes, returns, numbers = self._rows[:, : self.count]
        return Archive(changes, returns, numbers, self.tolerance)

    @property
    def archive(self) -> Archive:
        """The points with their policies, for good."""
        changes, returns, numbers = self._rows[:, : self.count].copy()
        choices = np.array([self._policies[int(i)] for i in numbers], dtype=np.int64)
        return Archive(changes, returns, choices.reshape(self.count, *self._shape), self.tolerance)

    def add(self, changes: float, returns: float, choice: IntArray) -> bool:
        """Put a point in the place of those it dominates; False, and nothing changed, if it is no better.

        >>> points = Growing(Archive(np.array([0.0, 2.0]), np.array([0.0, 1.0]), np.eye(2), Tolerance(1e-9, 1e-9)))
        >>> points.add(1.0, 1.0, np.ones(2)), points.points.changes
        (True, array([0., 1.]))
        """
        (costs, values, _), near = self._rows[:, : self.count], self.tolerance.changes
        fewer = int(costs.searchsorted(changes + near, side="right"))
        if fewer > 0 and returns - self.tolerance.returns <= values[fewer - 1]:
            return False
        first = int(costs.searchsorted(changes - near))
        last = int(values.searchsorted(returns + self.tolerance.returns, side="right"))
        count = self.count + first + 1 - last
        if count > self._rows.shape[1]:
            self._rows = np.concatenate([self._rows, np.zeros((3, count))], axis=1)
        self._rows[:, first + 1 : count] = self._rows[:, last : self.count]
        self._rows[:, first], self.count = (changes, returns, len(self._policies)), count
        self._policies.append(choice)
        return True


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of the staircase, from few to many changes."""

    left: FloatArray  # (t,) changes at the left end
    right: FloatArray  # (t,) changes at the right end
    beat: FloatArray  # (t,) return that a plan in the step must exceed
    more: float  # by how much

    @classmethod
    def of(cls, archive: Archive, budget: float | None, *, ends: bool = True) -> Steps:
        """All steps; with a budget, only what would be better within it: more return, or as much with fewer changes.

        Without `ends` the first plan need not have the fewest changes, nor the last the most return: there is then
        also a step before the first and one after the last plan.
        """
        tolerance, more = archive.tolerance, archive.tolerance.returns
        left, right, beat = archive.changes[:-1], archive.changes[1:], archive.returns[:-1]
        if budget is not None:
            last = int((archive.changes <= budget + tolerance.changes).sum()) - 1
            if last < 0:
                return cls(np.array([-1.0]), np.array([budget]), np.array([-np.inf]), more)
            c, v = archive.changes[last], archive.returns[last]
            left, right = np.array([-1.0, c]), np.array([c - 2 * tolerance.changes, budget])
            return cls(left, right, np.array([v - 3 * more, v]), more)
        if ends:
            return cls(left, right, beat, more)
        first = archive.changes[:1] if len(archive) else np.array([np.inf])
        return cls(
            np.concatenate([[-1.0], left, archive.changes[-1:]]),
            np.concatenate([first - 2 * tolerance.changes, right, np.full(len(archive.changes[-1:]), np.inf)]),
            np.concatenate([[-np.inf], archive.returns]),
            more,
        )

    def above(self, price: float, total: float, low: float, high: float, apart: float) -> tuple[float, float, float]:
        """The changes between which a line is above steps, and by how much; by 0 where it is nowhere.

        The line returns `total` without changes and `price` per change. Parts of steps no wider than `apart` between
        `low` and `high` do not count.
        """
        from polidiff.frontier.walk_kernels import above_steps

        return above_steps(self.left, self.right, self.beat, self.more, price, total, low, high, apart)

    def last(self, count: int) -> Steps:
        """The last steps."""
        rows = slice(max(0, len(self.right) - count), None)
        return Steps(self.left[rows], self.right[rows], self.beat[rows], self.more)
