"""Sums per distinct (block, state, action, successor), in memory that grows with what was met, not with what could be.

A transition is one number, its key: the bits of its block, state, action and successor, in this order. A successor is a
state; after all states come END and CUT, the last two numbers that its bits can hold.

Some millions of rows at a time are sorted by key and summed, which makes a run; runs are merged when they have become
longer than what was merged before. Sorting and merging go through memory in order, where a hash table would jump about
in it for every row (measured: 2.9 s against 15.3 s for a group-by with 3.6 million distinct transitions).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from polidiff.errors import InvalidLogError
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.worlds.memory import free_memory
from polidiff.worlds.shards.kernels import arrange, few, merge, quick, sealed, total, translate

END, CUT = -1, -2
MOST_BITS = 62
CHUNK = 1 << 17
MOST_IN_RUNS = 1 << 25  # numbers (0.27 GB), if no more were merged before

T = TypeVar("T", IntArray, FloatArray)
MOST_NUMBERS = 1 << 24  # that wait, with what sorting needs (0.13 GB): four million rows with one outcome
DIGIT = 9  # bits
Pair: TypeAlias = tuple[IntArray, FloatArray]  # (n,) keys from 0 on, (n,) what they carry


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
        parts = tuple(np.empty(len(keys), dtype=np.int64) for _ in range(4))
        for some in chunks(len(keys)):
            block, state, action, to = (part[some] for part in parts)
            np.bitwise_and(keys[some], (1 << self.to) - 1, out=to)
            to[:] = self._turned(to)
            np.right_shift(keys[some], self.to, out=block)
            np.bitwise_and(block, (1 << self.action) - 1, out=action)
            block >>= self.action
            np.bitwise_and(block, (1 << self.state) - 1, out=state)
            block >>= self.state
        return parts  # type: ignore[return-value]

    def met(self, keys: IntArray, states: int, actions: int) -> tuple[BoolArray, BoolArray]:
        """Which states were left, and which actions taken; of so many."""
        left, taken = np.zeros(states, dtype=np.bool_), np.zeros(actions, dtype=np.bool_)
        for some in chunks(len(keys)):
            _, state, action, _ = self.parts(keys[some])
            left[state], taken[action] = True, True
        return left, taken

    def _turned(self, to: AnyArray) -> AnyArray:
        """END (-1) and CUT (-2) as the last two numbers of a successor, and these as END and CUT."""
        states = (1 << self.to) - 2
        return np.where((to < 0) | (to >= states), states - 1 - to, to)

    def translated(
        self, keys: IntArray, into: Sizes, state: IntArray, action: IntArray, *, before: int = 0
    ) -> IntArray:
        """The keys under other numbers of states and actions, and with blocks turned by so many episodes before."""
        if into == self and before % self.blocks == 0 and _same(state) and _same(action):
            return keys
        translated = np.empty(len(keys), dtype=np.int64)
        given = (sealed(np.asarray(part, dtype=np.int64)) for part in (keys, state, action))
        quick(translate, len(keys))(*given, tuple(self), tuple(into), before % self.blocks, translated)
        return translated


@dataclass(frozen=True, eq=False)
class Entries:
    """TransitionCounts transitions, distinct; in the order of their keys, unless they were given others."""

    keys: IntArray  # (m,)
    sizes: Sizes  # of the keys
    sums: FloatArray  # (m, 1 + 2 K) count, then sum and square of each outcome

    @property
    def count(self) -> FloatArray:
        """(m,) rows."""
        count: FloatArray = self.sums[:, 0]
        return count

    def in_order(self) -> Entries:
        """The same with rising keys."""
        if rising(self.keys):
            return self
        keys, order = in_order(self.keys)
        return Entries(keys, self.sizes, self.sums[order])


class TransitionCounts:
    """Transitions and starts, counted and summed in the order in which they are added."""

    def __init__(self, blocks: int, outcomes: int) -> None:
        self.sizes = Sizes(blocks)
        self._width = 1 + 2 * outcomes
        self._waiting = RowBuffer(outcomes)
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
    keys, table = np.empty(most, dtype=np.int64), np.empty((most, one.sums.shape[1]))
    used = quick(merge, most)(*map(sealed, (*one, *other)), keys, table)
    return Run(_trimmed(keys, used), _trimmed(table, used))


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


def chunks(count: int) -> Iterator[slice]:
    """Parts of an array that fit a processor's cache: work on them in turn asks for no more memory."""
    return (slice(begin, begin + CHUNK) for begin in range(0, count, CHUNK))


def rising(keys: IntArray) -> bool:
    """Whether no number is below the one before it."""
    return not np.any(keys[1:] < keys[:-1])


def _same(numbers: IntArray) -> bool:
    """Whether every number is its own place."""
    return np.array_equal(numbers, np.arange(len(numbers)))


def _bits(count: int) -> int:
    """Bits that tell so many things apart."""
    return max(1, (count - 1).bit_length())


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
