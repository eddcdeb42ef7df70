"""Sums per distinct (block, state, action, successor), in memory that grows with what was met, not with what could be.

A transition is one number, its key: the bits of its block, state, action and successor, in this order. A successor is a
state; after all states come END and CUT, the last two numbers that its bits can hold.

Some millions of rows at a time are sorted by key and summed. Sorting goes through memory in order, where a hash table
would jump about in it for every row (measured for four million rows: .14 s against .43 s for a sort of polars, 1.4 s
for a group-by).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from polidiff.errors import InvalidLogError
from polidiff.records.arrays import AnyArray, FloatArray, IntArray

END, CUT = -1, -2
MOST_BITS = 62
MOST_NUMBERS = 1 << 23  # that wait to be summed: two million rows with one outcome
FEW_ROWS = 5_000  # rows that are sorted in less time than it takes to load the compiler
DIGIT = 9  # bits


class Sizes(NamedTuple):
    """How many blocks of episodes, states and actions keys tell apart."""

    blocks: int
    states: int = 0
    actions: int = 0

    @property
    def bits(self) -> tuple[int, int, int, int]:
        """Of a key, those of its block, state, action and successor."""
        return _bits(self.blocks), _bits(self.states), _bits(self.actions), _bits(self.states + 2)

    def keys(self, block: AnyArray, state: AnyArray, action: AnyArray, to: AnyArray) -> IntArray:
        """Transitions as numbers; `to` is a state, CUT or END."""
        if sum(self.bits) > MOST_BITS:
            raise InvalidLogError(
                f"a log may have about 1e18 combinations of block, state, action and next state; this one has up to "
                f"2^{self.bits[1]} states and 2^{self.bits[2]} actions. Hint: state=[...] takes measurements as "
                "features"
            )
        key = block.astype(np.int64)
        for part, bits in zip((state, action, self._turned(to)), self.bits[1:], strict=True):
            key <<= bits
            key |= part
        return key

    def parts(self, keys: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Block, state, action, and the state that follows, CUT or END."""
        parts = []
        for bits in self.bits[:0:-1]:
            parts.append(keys & ((1 << bits) - 1))
            keys = keys >> bits
        to, action, state = parts
        return keys, state, action, self._turned(to)

    def _turned(self, to: AnyArray) -> AnyArray:
        """END (-1) and CUT (-2) as the last two numbers of a successor, and these as END and CUT."""
        states = (1 << self.bits[-1]) - 2
        return np.where((to < 0) | (to >= states), states - 1 - to, to)


@dataclass(frozen=True, eq=False)
class Entries:
    """Transitions and what was summed of each."""

    keys: IntArray  # (m,)
    sizes: Sizes  # of the keys
    sums: FloatArray  # (m, 1 + 2 K) count, then sum and square of each outcome

    @property
    def parts(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """(m,) block, state, action, and the state that follows, CUT or END."""
        return self.sizes.parts(self.keys)

    @property
    def count(self) -> FloatArray:
        """(m,) rows."""
        return self.sums[:, 0]

    def renumbered(self, state: IntArray, action: IntArray, *, before: int = 0) -> Entries:
        """The same under other numbers of states and actions, blocks turned by so many episodes; in order of keys."""
        block, old, taken, to = self.parts
        after = np.where(to < 0, to, state[np.maximum(to, 0)]) if len(to) else to
        sizes = Sizes(self.sizes.blocks, int(state.max(initial=-1)) + 1, int(action.max(initial=-1)) + 1)
        keys, order = in_order(sizes.keys((block + before) % sizes.blocks, state[old], action[taken], after))
        return Entries(keys, sizes, self.sums[order])


class TransitionCounts:
    """Transitions, counted and summed in the order in which they are added."""

    def __init__(self, blocks: int, outcomes: int) -> None:
        self._width = 1 + 2 * outcomes
        self._waiting = 0  # transitions that are not summed yet: all but those of the first of the parts
        self._parts = [Entries(np.zeros(0, dtype=np.int64), Sizes(blocks), np.zeros((0, self._width)))]

    def add_rows(self, block: AnyArray, state: AnyArray, action: AnyArray, to: AnyArray, gains: FloatArray) -> None:
        """Count rows (n,), with (K, n) what each adds to each outcome."""
        numbers = int(max(state.max(initial=-1), to.max(initial=-1))) + 1, int(action.max(initial=-1)) + 1
        sizes = Sizes(self._parts[0].sizes.blocks, *numbers)
        most = max(1, MOST_NUMBERS // (1 + self._width))
        for begin in range(0, len(block), most):
            some = slice(begin, begin + most)
            sums = np.ones((len(block[some]), self._width))
            sums[:, 1::2], sums[:, 2::2] = gains[:, some].T, gains[:, some].T ** 2
            self.add(Entries(sizes.keys(block[some], state[some], action[some], to[some]), sizes, sums))

    def add(self, entries: Entries) -> None:
        """Add what was counted elsewhere."""
        self._parts.append(entries)
        self._waiting += len(entries.keys)
        if self._waiting * (1 + self._width) >= max(MOST_NUMBERS, self._parts[0].sums.size):
            self._sum()

    def entries(self) -> Entries:
        """Everything that was counted, each transition once, in the order of keys."""
        self._sum()
        return self._parts[0]

    def _sum(self) -> None:
        """What was summed before and what waits, as one table."""
        sizes = Sizes(*map(max, zip(*(part.sizes for part in self._parts), strict=True)))
        if self._waiting:
            most = len(self._parts[0].keys) + self._waiting
            what = f"up to {most} distinct (block, state, action, next state)"
            coarser = "make states coarser, or describe them by features (state=[...])"
            check_fits(what, 8.0 * most * (1 + self._width), free_memory(), coarser)
            alike = [p.keys if p.sizes.bits == sizes.bits else sizes.keys(*p.parts) for p in self._parts]
            keys, order = in_order(np.concatenate(alike))
            sums = np.concatenate([part.sums for part in self._parts])[order]
            new = np.append(True, keys[1:] != keys[:-1])
            place = np.cumsum(new) - 1
            summed: FloatArray = np.column_stack([np.bincount(place, column).astype(np.float64) for column in sums.T])
            self._parts, self._waiting = [Entries(keys[new], sizes, summed)], 0


def check_fits(what: str, need: float, free: float | None, hint: str) -> None:
    """An error, told before anything is put together, if what needs so many bytes would not fit into memory."""
    if free is not None and need > free:
        raise InvalidLogError(f"{what} need about {need / 1e9:.3g} GB; {free / 1e9:.3g} GB are free. Hint: {hint}")


def free_memory() -> float | None:
    """Bytes that can still be had; None where nobody says."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def _bits(count: int) -> int:
    """Bits that tell so many things apart."""
    return max(1, (count - 1).bit_length())


def in_order(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Keys (from 0 on) in rising order, equal ones in the order in which they came, and the place that each had."""
    if len(keys) <= FEW_ROWS or not np.any(keys[1:] < keys[:-1]):
        order = np.argsort(keys, kind="stable")
        return keys[order], order
    rows, spare = (keys.copy(), np.arange(len(keys))), (np.empty_like(keys), np.empty(len(keys), dtype=np.int64))
    ends = np.empty(1 << DIGIT, dtype=np.int64)
    turned = _compiled_arrange()(*rows, int(keys.max()).bit_length(), DIGIT, ends, *spare)
    return spare if turned else rows


@cache
def _compiled_arrange() -> Callable[..., bool]:
    from polidiff.compiled import loops

    return loops(arrange)


def arrange(keys, carried, bits, digit, ends, other_keys, other_carried):  # type: ignore[no-untyped-def]
    """Sort keys of so many bits, with one number that each carries; equal keys stay in their order.

    Digit by digit of `digit` bits from the lowest, from one pair of arrays into the other and back; returns whether the
    last was sorted into the others. `ends` has a place for each value of a digit.
    """
    rows, mask, shift, turned = len(keys), (1 << digit) - 1, 0, False
    while shift < bits:
        for d in range(mask + 1):
            ends[d] = 0
        for i in range(rows):
            ends[(keys[i] >> shift) & mask] += 1
        place = 0
        for d in range(mask + 1):
            place, ends[d] = place + ends[d], place
        for i in range(rows):
            key = keys[i]
            d = (key >> shift) & mask
            place = ends[d]
            ends[d] = place + 1
            other_keys[place] = key
            other_carried[place] = carried[i]
        keys, carried, other_keys, other_carried = other_keys, other_carried, keys, carried
        shift, turned = shift + digit, not turned
    return turned
