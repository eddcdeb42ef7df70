"""Rows of a log that wait until there are enough of them to be sorted by key and summed together.

Keys are sorted a digit of nine bits at a time, lowest first: they have few bits, so that this takes three or four
passes over them where comparing would take twenty, and the places that keys are dealt to stay within a processor's
cache. Equal keys stay in their order.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.shards.kernels import arrange, few, quick, total

MOST_NUMBERS = 1 << 24  # that wait, with what sorting needs (0.13 GB): four million rows with one outcome
DIGIT = 9  # bits

Pair: TypeAlias = tuple[IntArray, FloatArray]  # (n,) keys from 0 on, (n,) what they carry


class Run(NamedTuple):
    """Sums of distinct keys, which rise."""

    keys: IntArray  # (m,)
    sums: FloatArray  # (m, 1 + 2 K) count, then sum and square of each outcome


class RowBuffer:
    """Keys of rows and what each adds to K outcomes, in the order in which they come."""

    def __init__(self, outcomes: int) -> None:
        per_row = 4 if outcomes == 1 else 5 + 2 * outcomes  # key and outcomes, and what `_sorted` makes of them
        self._most = max(1, MOST_NUMBERS // per_row)
        self._rows = 0
        self._keys, self._gains = np.empty(0, dtype=np.int64), np.empty((0, outcomes))
        self._spare: Pair = np.empty(0, dtype=np.int64), np.empty(0)

    @property
    def full(self) -> bool:
        """Whether the rows are to be summed before more can be added."""
        return self._rows == self._most

    @property
    def keys(self) -> IntArray:
        """Of the rows that wait; may be written to."""
        return self._keys[: self._rows]

    def add(self, keys: IntArray, gains: FloatArray) -> int:
        """Let rows wait, with (K, n) what they add; returns how many there was room for."""
        if self._rows == len(self._keys):
            self._make_room(len(keys))
        count = min(len(keys), len(self._keys) - self._rows)
        place = slice(self._rows, self._rows + count)
        self._keys[place], self._gains[place] = keys[:count], gains[:, :count].T
        self._rows = place.stop
        return count

    def summed(self) -> Run | None:
        """Sums of the rows that waited, per key in the order in which they came; None if there were none."""
        if not self._rows:
            return None
        keys, gains = self._sorted()
        distinct = 1 + np.count_nonzero(keys[1:] != keys[:-1])
        run = Run(np.empty(distinct, dtype=np.int64), np.empty((distinct, 1 + 2 * gains.shape[1])))
        quick(total, len(keys))(keys, gains, *run)
        self._rows = 0
        return run

    def _sorted(self) -> tuple[IntArray, FloatArray]:
        """A single outcome goes along with its key; of more, or none, the place does."""
        gains = self._gains[: self._rows]
        if len(self._spare[0]) < self._rows:
            self._spare = np.empty(len(self._keys), dtype=np.int64), np.empty(len(self._keys))
        spare = self._spare[0][: self._rows], self._spare[1][: self._rows]
        if gains.shape[1] == 1:
            keys, gain = arranged((self.keys, gains[:, 0]), spare)
            return keys, gain[:, None]
        keys, place = arranged((self.keys, np.arange(self._rows, dtype=np.float64)), spare)
        return keys, gains[place.astype(np.int64)]

    def _make_room(self, rows: int) -> None:
        """Room for so many rows; if they are not the first, for all that may wait: memory is taken once it is used."""
        wanted = min(self._most, rows) if not self._rows else self._most
        keys, gains = np.empty(wanted, dtype=np.int64), np.empty((wanted, self._gains.shape[1]))
        keys[: self._rows], gains[: self._rows] = self.keys, self._gains[: self._rows]
        self._keys, self._gains = keys, gains


def in_order(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Keys in rising order, and the place that each had."""
    given = keys.copy(), np.arange(len(keys), dtype=np.float64)
    ordered, place = arranged(given, (np.empty_like(given[0]), np.empty_like(given[1])))
    return ordered, place.astype(np.int64)


def arranged(rows: Pair, spare: Pair) -> Pair:
    """Rows in the order of their keys; the arrays of both pairs are used for that, and what they held is lost."""
    keys, carried = rows
    if few(len(keys)):
        order = np.argsort(keys, kind="stable")
        return keys[order], carried[order]
    ends = np.empty(1 << DIGIT, dtype=np.int64)
    turned = quick(arrange, len(keys))(keys, carried, int(keys.max()).bit_length(), DIGIT, ends, *spare)
    return spare if turned else rows
