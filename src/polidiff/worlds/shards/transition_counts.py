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
    """Blocks of episodes, and how many bits of a key hold a state, an action and a successor."""

    blocks: int
    state: int = 1
    action: int = 1
    to: int = 2

    @property
    def bits(self) -> int:
        """Of a key."""
        return _bits(self.blocks) + self.state + self.action + self.to

    def holding(self, states: int, actions: int) -> Sizes:
        """As wide as so many labels need, and no narrower than this."""
        need = (_bits(states), _bits(actions), _bits(states + 2))
        wide = Sizes(self.blocks, *map(max, need, self[1:]))
        if wide.bits > MOST_BITS:
            raise InvalidLogError(
                f"a log may have about 1e18 combinations of block, state, action and next state; this one has up to "
                f"2^{wide.state} states and 2^{wide.action} actions. Hint: state=[...] takes measurements as features"
            )
        return wide

    def keys(self, block: AnyArray, state: AnyArray, action: AnyArray, to: AnyArray) -> IntArray:
        """Transitions as numbers; `to` is a state, CUT or END."""
        key = block.astype(np.int64)
        for part, bits in ((state, self.state), (action, self.action), (self._turned(to), self.to)):
            key <<= bits
            key |= part
        return key

    def parts(self, keys: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Block, state, action, and the state that follows, CUT or END."""
        to = self._turned(keys & ((1 << self.to) - 1))
        action = (keys >> self.to) & ((1 << self.action) - 1)
        rest = keys >> (self.to + self.action)
        return rest >> self.state, rest & ((1 << self.state) - 1), action, to

    def _turned(self, to: AnyArray) -> AnyArray:
        """END (-1) and CUT (-2) as the last two numbers of a successor, and these as END and CUT."""
        states = (1 << self.to) - 2
        return np.where((to < 0) | (to >= states), states - 1 - to, to)

    def translated(
        self, keys: IntArray, into: Sizes, state: IntArray, action: IntArray, *, before: int = 0
    ) -> IntArray:
        """The keys under other numbers of states and actions, and with blocks turned by so many episodes before."""
        block, old, taken, to = self.parts(keys)
        after = np.where(to < 0, to, state[np.maximum(to, 0)]) if len(keys) else to
        return into.keys((block + before) % self.blocks, state[old], action[taken], after)


@dataclass(frozen=True, eq=False)
class Entries:
    """Distinct transitions; in the order of their keys, unless they were given others."""

    keys: IntArray  # (m,)
    sizes: Sizes  # of the keys
    sums: FloatArray  # (m, 1 + 2 K) count, then sum and square of each outcome

    @property
    def count(self) -> FloatArray:
        """(m,) rows."""
        return self.sums[:, 0]

    def in_order(self) -> Entries:
        """The same with rising keys."""
        keys, order = in_order(self.keys)
        return Entries(keys, self.sizes, self.sums[order])


class TransitionCounts:
    """Transitions, counted and summed in the order in which they are added."""

    def __init__(self, blocks: int, outcomes: int) -> None:
        self.sizes = Sizes(blocks)
        self._width = 1 + 2 * outcomes
        none: tuple[IntArray, FloatArray] = (np.zeros(0, dtype=np.int64), np.zeros((0, self._width)))
        self._parts = [none]  # the first is what was summed before
        self._waiting = 0

    def reserve(self, states: int, actions: int) -> None:
        """Make room for so many labels."""
        old, self.sizes = self.sizes, self.sizes.holding(states, actions)
        if old != self.sizes:
            self._parts = [(self.sizes.keys(*old.parts(keys)), sums) for keys, sums in self._parts]

    def add_rows(self, keys: IntArray, gains: FloatArray) -> None:
        """Count a row of each key, with (K, n) what it adds to each outcome."""
        most = max(1, MOST_NUMBERS // (1 + self._width))
        for begin in range(0, len(keys), most):
            some = slice(begin, begin + most)
            sums = np.ones((len(keys[some]), self._width))
            sums[:, 1::2], sums[:, 2::2] = gains[:, some].T, gains[:, some].T ** 2
            self.add(keys[some], sums)

    def add(self, keys: IntArray, sums: FloatArray) -> None:
        """Add what was counted elsewhere: (n, 1 + 2 K) count, then sum and square of each outcome."""
        self._parts.append((keys, sums))
        self._waiting += len(keys)
        if self._waiting * (1 + self._width) >= max(MOST_NUMBERS, self._parts[0][1].size):
            self._sum()

    def entries(self) -> Entries:
        """Everything that was counted, in the order of keys."""
        self._sum()
        return Entries(self._parts[0][0], self.sizes, self._parts[0][1])

    def _sum(self) -> None:
        """What was summed before and what waits, as one table."""
        if self._waiting:
            most = len(self._parts[0][0]) + self._waiting
            what = f"up to {most} distinct (block, state, action, next state)"
            coarser = "make states coarser, or describe them by features (state=[...])"
            check_fits(what, 8.0 * most * (1 + self._width), free_memory(), coarser)
            keys, order = in_order(np.concatenate([keys for keys, _ in self._parts]))
            sums = np.concatenate([sums for _, sums in self._parts])[order]
            new = np.append(True, keys[1:] != keys[:-1])
            place = np.cumsum(new) - 1
            summed: FloatArray = np.column_stack([np.bincount(place, column).astype(np.float64) for column in sums.T])
            self._parts, self._waiting = [(keys[new], summed)], 0


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
