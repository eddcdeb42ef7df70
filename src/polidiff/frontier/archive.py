"""Mutually non-dominated plans: the staircase of changes against return that the search climbs."""

from __future__ import annotations

from dataclasses import dataclass

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

    def with_points(self, changes: FloatArray, returns: FloatArray, choices: IntArray) -> Archive:
        """The archive with the points that improve it, less those they dominate."""
        new = self.improves(changes, returns)
        if not new.any():
            return self
        c = np.concatenate([self.changes, changes[new]])
        v = np.concatenate([self.returns, returns[new]])
        every = np.concatenate([self.choices, choices[new].astype(self.choices.dtype)])
        order = np.lexsort((-v, c))
        keep = _staircase(c[order], v[order], self.tolerance)
        chosen = order[keep]
        return Archive(c[chosen], v[chosen], every[chosen], self.tolerance)

    def corners(self, low: float, high: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Steps between `low` and `high` changes: left end, right end, and the return that a point in it must beat."""
        inside = (self.changes[1:] > low + self.tolerance.changes) & (self.changes[:-1] < high - self.tolerance.changes)
        index = np.flatnonzero(inside)
        return self.changes[index], np.minimum(self.changes[index + 1], high), self.returns[index]


def new_archive(changes: FloatArray, returns: FloatArray, choices: IntArray) -> Archive:
    """An archive of some points, with tolerances to the scale of the numbers."""
    tolerance = Tolerance(
        1e-9 * max(1.0, float(np.abs(changes).max(initial=0.0))),
        1e-9 * max(1.0, float(np.abs(returns).max(initial=0.0))),
    )
    empty = Archive(changes[:0], returns[:0], choices[:0], tolerance)
    return empty.with_points(changes, returns, choices)


def _staircase(changes: FloatArray, returns: FloatArray, tolerance: Tolerance) -> IntArray:
    """Indices of non-dominated points of a list in order of changes, more return first among equals."""
    before = np.concatenate([[-np.inf], np.maximum.accumulate(returns)[:-1]])
    kept = np.flatnonzero(returns > before + tolerance.returns)
    follows = np.append(changes[kept][1:] - changes[kept][:-1] > tolerance.changes, True)
    return np.asarray(kept[follows])
