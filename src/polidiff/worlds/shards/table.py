"""Sums per distinct (block, state, action, successor), in memory that grows with what was met, not with what could be.

Some millions of rows at a time are sorted by key and summed, which makes a run; runs are merged when they have become
longer than what was merged before. Sorting and merging go through memory in order, where a hash table would jump about
in it for every row.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from polidiff.errors import InvalidLogError
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.memory import free_memory
from polidiff.worlds.shards.kernels import merge, quick, sealed
from polidiff.worlds.shards.keys import Sizes
from polidiff.worlds.shards.stretch import Entries
from polidiff.worlds.shards.waiting import Run, Waiting

MOST_IN_RUNS = 1 << 25  # numbers (0.27 GB), if no more were merged before

T = TypeVar("T", IntArray, FloatArray)


class Counted:
    """Transitions and starts, counted and summed in the order in which they are added."""

    def __init__(self, blocks: int, outcomes: int) -> None:
        self.sizes = Sizes(blocks)
        self._width = 1 + 2 * outcomes
        self._waiting = Waiting(outcomes)
        self._runs: list[Run] = []  # the first is what was merged before

    def fits(self, states: int, actions: int) -> bool:
        """Whether there is room for so many labels."""
        return self.sizes.holding(states, actions) == self.sizes

    def reserve(self, states: int, actions: int) -> None:
        """Make room for so many labels."""
        old, self.sizes = self.sizes, self.sizes.holding(states, actions)
        if old != self.sizes:
            waiting = self._waiting.keys
            waiting[:] = self.sizes.keys(*old.parts(waiting))
            self._runs = [run._replace(keys=self.sizes.keys(*old.parts(run.keys))) for run in self._runs]

    def add_rows(self, keys: IntArray, gains: FloatArray) -> None:
        """Count a row of each key, with (K, n) what it adds to each outcome."""
        begin = 0
        while begin < len(keys):
            begin += self._waiting.add(keys[begin:], gains[:, begin:])
            if self._waiting.full:
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

    def _sum_rows(self) -> None:
        run = self._waiting.summed()
        if run is not None:
            self._add_run(run)

    def _add_run(self, run: Run) -> None:
        self._runs.append(run)
        most = max(MOST_IN_RUNS // (1 + self._width), len(self._runs[0].keys))
        if sum(len(run.keys) for run in self._runs[1:]) >= most:
            self._merge()

    def _merge(self) -> None:
        """All runs as one: each with its neighbour, until there is one left."""
        if len(self._runs) > 1:
            check_room(sum(len(run.keys) for run in self._runs), self._width, free_memory())
        while len(self._runs) > 1:
            runs, self._runs = self._runs[::-1], []
            while runs:
                run = runs.pop()
                self._runs.append(_together(run, runs.pop()) if runs else run)


def _together(one: Run, other: Run) -> Run:
    """Two runs as one."""
    most = len(one.keys) + len(other.keys)
    found, table = np.empty(most, dtype=np.int64), np.empty((most, one.sums.shape[1]))
    used = quick(merge, most)(*map(sealed, (*one, *other)), found, table)
    return Run(_trimmed(found, used), _trimmed(table, used))


def check_room(transitions: int, width: int, free: float | None) -> None:
    """An error if so many distinct transitions would not fit into memory, told before they are put together."""
    need = 8.0 * transitions * (1 + width)
    if free is not None and need > free:
        raise InvalidLogError(
            f"up to {transitions} distinct (block, state, action, next state) need about {need / 1e9:.3g} GB; "
            f"{free / 1e9:.3g} GB are free. Hint: make states coarser, or describe them by features (state=[...])"
        )


def _trimmed(part: T, used: int) -> T:
    """What is used of an array; a copy where that gives back much memory."""
    return part[:used] if 2 * used > len(part) else part[:used].copy()
