"""Sums per distinct (block, state, action, successor), in memory that grows with what was met, not with what could be.

A million rows at a time are sorted by key and summed, which makes a run; runs are merged when they have become longer
than what was merged before. Sorting numbers, and merging one range of keys after the other, stays within a processor's
cache, where a hash table would jump through memory for every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from polidiff.errors import InvalidLogError
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.memory import free_memory
from polidiff.worlds.shards.kernels import quick, total
from polidiff.worlds.shards.keys import Sizes, in_order
from polidiff.worlds.shards.stretch import Entries

MOST_WAITING = 1 << 20  # rows
MOST_IN_RUNS = 1 << 25  # numbers (0.27 GB), if no more were merged before
RANGE = 1 << 15  # keys of one run that are merged at a time

T = TypeVar("T", IntArray, FloatArray)


class Run(NamedTuple):
    """Sums of distinct keys, which rise."""

    keys: IntArray  # (m,)
    sums: FloatArray  # (m, 1 + 2 K) count, then sum and square of each outcome


class Counted:
    """Transitions and starts, counted and summed in the order in which they are added."""

    def __init__(self, blocks: int, outcomes: int) -> None:
        self.sizes = Sizes(blocks)
        self._width = 1 + 2 * outcomes
        self._keys, self._gains = np.empty(0, dtype=np.int64), np.empty((0, outcomes))
        self._rows = 0  # that wait there to be summed
        self._runs: list[Run] = []  # the first is what was merged before

    def fits(self, states: int, actions: int) -> bool:
        """Whether there is room for so many labels."""
        return self.sizes.holding(states, actions) == self.sizes

    def reserve(self, states: int, actions: int) -> None:
        """Make room for so many labels."""
        old, self.sizes = self.sizes, self.sizes.holding(states, actions)
        if old != self.sizes:
            waiting = self._keys[: self._rows]
            waiting[:] = self.sizes.keys(*old.parts(waiting))
            self._runs = [run._replace(keys=self.sizes.keys(*old.parts(run.keys))) for run in self._runs]

    def add_rows(self, keys: IntArray, gains: FloatArray) -> None:
        """Count a row of each key, with (K, n) what it adds to each outcome."""
        begin = 0
        while begin < len(keys):
            self._make_room(len(keys) - begin)
            end = min(len(keys), begin + len(self._keys) - self._rows)
            place = slice(self._rows, self._rows + end - begin)
            self._keys[place], self._gains[place] = keys[begin:end], gains[:, begin:end].T
            self._rows, begin = place.stop, end
            if self._rows == MOST_WAITING:
                self._sum_rows()

    def add(self, keys: IntArray, sums: FloatArray) -> None:
        """Add what was counted elsewhere: (n, 1 + 2 K) count, then sum and square of each outcome."""
        falls = np.flatnonzero(keys[1:] < keys[:-1]) + 1
        if len(falls) > 1:
            ordered = Entries(keys, self.sizes, sums).in_order()
            keys, sums, falls = ordered.keys, ordered.sums, falls[:0]
        for begin, end in zip([0, *falls], [*falls, len(keys)], strict=True):
            if end > begin:
                self._add_run(Run(keys[begin:end], np.ascontiguousarray(sums[begin:end])))

    def entries(self) -> Entries:
        """Everything that was counted, in the order of keys."""
        self._sum_rows()
        self._merge()
        keys, sums = self._runs[0] if self._runs else (np.zeros(0, dtype=np.int64), np.zeros((0, self._width)))
        return Entries(keys, self.sizes, sums)

    def _make_room(self, rows: int) -> None:
        """Room for more rows to wait, for so many if that is not too many."""
        if self._rows == len(self._keys):
            wanted = min(MOST_WAITING, max(2 * self._rows, rows))
            keys, gains = np.empty(wanted, dtype=np.int64), np.empty((wanted, self._gains.shape[1]))
            keys[: self._rows], gains[: self._rows] = self._keys[: self._rows], self._gains[: self._rows]
            self._keys, self._gains = keys, gains

    def _sum_rows(self) -> None:
        """What waits as a run, each key's rows summed in the order in which they came."""
        if self._rows:
            keys, order = in_order(self._keys[: self._rows])
            distinct = 1 + np.count_nonzero(keys[1:] != keys[:-1])
            run = Run(np.empty(distinct, dtype=np.int64), np.empty((distinct, self._width)))
            quick(total, len(keys))(keys, self._gains[order], True, *run)
            self._rows = 0
            self._add_run(run)

    def _add_run(self, run: Run) -> None:
        self._runs.append(run)
        most = max(MOST_IN_RUNS // (1 + self._width), len(self._runs[0].keys))
        if sum(len(run.keys) for run in self._runs[1:]) >= most:
            self._merge()

    def _merge(self) -> None:
        """All runs as one, the sums of each key added in the order of the runs."""
        if len(self._runs) < 2:
            return
        most = sum(len(run.keys) for run in self._runs)
        check_room(most, self._width, free_memory())
        found, table, used = np.empty(most, dtype=np.int64), np.empty((most, self._width)), 0
        for parts in _ranges(self._runs):
            keys, order = in_order(np.concatenate([part.keys for part in parts]))
            sums = np.concatenate([part.sums for part in parts])[order]
            used += quick(total, most)(keys, sums, False, found[used:], table[used:])
        self._runs = [Run(_trimmed(found, used), _trimmed(table, used))]


def check_room(transitions: int, width: int, free: float | None) -> None:
    """An error if so many distinct transitions would not fit into memory, told before they are put together."""
    need = 8.0 * transitions * (1 + width)
    if free is not None and need > free:
        raise InvalidLogError(
            f"up to {transitions} distinct (block, state, action, next state) need about {need / 1e9:.3g} GB; "
            f"{free / 1e9:.3g} GB are free. Hint: make states coarser, or describe them by features (state=[...])"
        )


def _ranges(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """What each run has in one range of keys after the other; few enough keys to be sorted in a processor's cache."""
    limits = np.unique(np.concatenate([run.keys[RANGE::RANGE] for run in runs]))
    places = [[0, *np.searchsorted(run.keys, limits).tolist(), len(run.keys)] for run in runs]
    for k in range(len(limits) + 1):
        pairs = zip(runs, places, strict=True)
        yield [Run(run.keys[at[k] : at[k + 1]], run.sums[at[k] : at[k + 1]]) for run, at in pairs]


def _trimmed(part: T, used: int) -> T:
    """What is used of an array; a copy where that gives back much memory."""
    return part[:used] if 2 * used > len(part) else part[:used].copy()
