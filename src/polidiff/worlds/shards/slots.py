"""Numbers for keys that lie between 0 and a span: the key itself if the span is small, else one after the other."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from polidiff.records.arrays import AnyArray, IntArray

LARGEST_IDENTITY = 1 << 22  # keys that may be their own number
LARGEST_TABLE = 1 << 27  # keys that a table of 4 bytes each may span; memory is taken only where keys fall


class Slots(Protocol):
    """Keys and their numbers."""

    def of(self, keys: AnyArray) -> AnyArray:
        """Numbers of the keys, new ones for those not met before."""

    def in_order(self) -> tuple[AnyArray, AnyArray]:
        """The keys in rising order and the number of each. Some may not have been met."""

    @property
    def size(self) -> int:
        """One more than the largest number."""


def slots_for(span: int) -> Slots:
    """Slots for keys from 0 to below `span`."""
    if span <= LARGEST_IDENTITY:
        return OwnSlots(span)
    return TableSlots(span) if span <= LARGEST_TABLE else SortedSlots()


class OwnSlots:
    """Every key is its own number."""

    def __init__(self, span: int) -> None:
        self.size = span

    def of(self, keys: AnyArray) -> AnyArray:
        """The keys."""
        return keys

    def in_order(self) -> tuple[AnyArray, AnyArray]:
        """All possible keys."""
        keys = np.arange(self.size)
        return keys, keys


class TableSlots:
    """One place for every possible key.

    >>> TableSlots(10).of(np.array([7, 3, 7])).tolist()
    [1, 0, 1]
    """

    def __init__(self, span: int) -> None:
        self._number = np.zeros(span, dtype=np.int32)  # from 1 on; 0: not met
        self.size = 0

    def of(self, keys: AnyArray) -> AnyArray:
        """Numbers of the keys."""
        number = self._number.take(keys, mode="wrap")  # keys lie inside; not to check that is faster
        new = number == 0
        if new.any():
            fresh = _distinct(keys[new])
            self._number[fresh] = np.arange(self.size + 1, self.size + 1 + len(fresh), dtype=np.int32)
            self.size += len(fresh)
            number[new] = self._number[keys[new]]
        number -= 1
        return number

    def in_order(self) -> tuple[AnyArray, AnyArray]:
        """The keys that were met."""
        keys = np.flatnonzero(self._number)
        return keys, self._number[keys] - 1


class SortedSlots:
    """Keys too far apart for a table.

    >>> slots = SortedSlots()
    >>> slots.of(np.array([7_000_000_000, 3])).tolist(), slots.of(np.array([5, 3])).tolist()
    ([1, 0], [2, 0])
    """

    def __init__(self) -> None:
        self._sorted = np.zeros(0, dtype=np.int64)
        self._number = np.zeros(0, dtype=np.int64)  # of each sorted key

    def of(self, keys: AnyArray) -> AnyArray:
        """Numbers of the keys."""
        distinct, inverse = np.unique(keys, return_inverse=True)
        place = np.searchsorted(self._sorted, distinct)
        known = np.zeros(len(distinct), dtype=np.bool_)
        inside = place < len(self._sorted)
        known[inside] = self._sorted[place[inside]] == distinct[inside]
        fresh = distinct[~known]
        if len(fresh):
            size = len(self._number)
            numbers = np.concatenate([self._number, np.arange(size, size + len(fresh))])
            joined = np.concatenate([self._sorted, fresh])
            order = np.argsort(joined, kind="stable")
            self._sorted, self._number = joined[order], numbers[order]
        found: IntArray = self._number[np.searchsorted(self._sorted, distinct)][inverse]
        return found

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self._number)

    def in_order(self) -> tuple[AnyArray, AnyArray]:
        """The keys that were met."""
        return self._sorted, self._number


def _distinct(keys: AnyArray) -> AnyArray:
    """Sorted, each once; by sorting, which is faster here than a hash table."""
    found = np.sort(keys)
    return found[np.append(True, found[1:] != found[:-1])] if len(found) else found
