"""Sums per distinct (block, state, action, successor), in memory that grows with what was met, not with what could be.

Block, state, action and successor of a transition are the bits of one number, its key. Keys are numbered in the order
in which they come, by a hash table, and the sums of a key stand in the row of its number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polidiff.errors import InvalidLogError
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.worlds.shards.kernels import STATES_FROM, add, quick, sealed
from polidiff.worlds.shards.stretch import Entries

MOST_BITS = 62
FIRST_ROOM = 256  # keys
MANY = 1 << 16
AT_ONCE = 512  # rows
NONE = np.zeros(0)
NOTHING = np.zeros((0, 0))  # sums of no outcome


class Sizes(NamedTuple):
    """Blocks of episodes, and how many bits of a key hold a state, an action and a successor."""

    blocks: int
    state: int
    action: int
    to: int


class Counted:
    """Transitions and starts, counted and summed in the order in which they are added."""

    def __init__(self, blocks: int, outcomes: int) -> None:
        self.sizes = Sizes(blocks, 1, 1, 2)
        self._outcomes, self._used = outcomes, 0
        self._known = np.empty(FIRST_ROOM, dtype=np.int64)  # keys by number
        self._table = np.zeros((FIRST_ROOM, 1 + 2 * outcomes))  # count, then sum and square of each outcome
        self._index = np.full(2 * FIRST_ROOM, -1, dtype=np.int32)
        self._numbers = np.empty(AT_ONCE, dtype=np.int64)

    def fits(self, states: int, actions: int) -> bool:
        """Whether there is room for so many labels."""
        return self._wide(states, actions) == self.sizes

    def reserve(self, states: int, actions: int) -> None:
        """Make room for so many labels; what was counted keeps its numbers."""
        if not self.fits(states, actions):
            self._widen(self._wide(states, actions))

    def add(self, entries: Entries) -> None:
        """Count transitions."""
        keys = self.keys(entries.block, entries.state, entries.action, entries.to)
        if entries.count is None or entries.squares is None:
            self.add_keys(keys, NONE, _stacked(entries.sums, len(keys)))
        else:
            self.add_keys(keys, entries.count, _stacked(entries.sums, len(keys)), _stacked(entries.squares, len(keys)))

    def keys(self, block: AnyArray, state: AnyArray, action: AnyArray, to: AnyArray) -> IntArray:
        """Transitions as numbers, in order of block, state, action and to; CUT and END come first."""
        return self._keys(block, state, action, to.astype(np.int64) + STATES_FROM)

    def add_keys(self, keys: IntArray, count: FloatArray, sums: FloatArray, squares: FloatArray | None = None) -> None:
        """Add (n,) counts and (K, n) sums and squares to the keys; no counts: every key is one row."""
        rest = sums if squares is None else squares
        given = tuple(sealed(part) for part in (keys, count, sums, rest))
        run, first = quick(add, len(keys)), 0
        while True:
            first, self._used = run(*given, first, self._index, self._known, self._table, self._used, self._numbers)
            if first == len(keys):
                return
            self._grow()

    def transitions(self) -> tuple[tuple[IntArray, IntArray, IntArray, IntArray], FloatArray]:
        """Block, state, action and to of everything counted, as it came, and the sums."""
        block, state, action, after = self._parts(self._known[: self._used])
        after -= STATES_FROM
        return (block, state, action, after), self._table[: self._used]

    def _keys(self, block: AnyArray, state: AnyArray, action: AnyArray, after: AnyArray) -> IntArray:
        sizes = self.sizes
        key = block.astype(np.int64)
        for part, bits in ((state, sizes.state), (action, sizes.action), (after, sizes.to)):
            key <<= bits
            key |= part
        return key

    def _parts(self, keys: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        sizes = self.sizes
        after, rest = keys & ((1 << sizes.to) - 1), keys >> sizes.to
        action, rest = rest & ((1 << sizes.action) - 1), rest >> sizes.action
        return rest >> sizes.state, rest & ((1 << sizes.state) - 1), action, after

    def _wide(self, states: int, actions: int) -> Sizes:
        need = (_bits(states), _bits(actions), _bits(states + STATES_FROM))
        return Sizes(self.sizes.blocks, *map(max, need, self.sizes[1:]))

    def _widen(self, sizes: Sizes) -> None:
        if _bits(sizes.blocks) + sizes.state + sizes.action + sizes.to > MOST_BITS:
            raise InvalidLogError(
                f"a log may have about 1e18 combinations of block, state, action and next state; this one has up to "
                f"2^{sizes.state} states and 2^{sizes.action} actions. Hint: state=[...] takes measurements as features"
            )
        parts = self._parts(self._known[: self._used])
        self.sizes = sizes
        self._known[: self._used] = self._keys(*parts)
        self._number_again()

    def _grow(self) -> None:
        """Room for more keys: four times as many while there are few, twice as many where there are many.

        Memory beyond the known keys is not touched until it is used.
        """
        times = 4 if self._used < MANY else 2
        if self._used == len(self._known):
            known, table = self._known, self._table
            self._known = np.empty(times * self._used, dtype=np.int64)
            self._table = np.zeros((times * self._used, table.shape[1]))
            self._known[: self._used], self._table[: self._used] = known, table
        if 2 * self._used >= len(self._index):
            self._index = np.empty(times * len(self._index), dtype=np.int32)
            self._number_again()

    def _number_again(self) -> None:
        """Fill the hash table with the known keys, which keep their order."""
        self._index.fill(-1)
        known, keys = np.empty_like(self._known), self._known[: self._used]
        nothing = np.zeros((0, self._used))
        given = tuple(sealed(part) for part in (keys, np.zeros(self._used), nothing, nothing))
        quick(add, self._used)(*given, 0, self._index, known, np.zeros((self._used, 1)), 0, self._numbers)


def _bits(count: int) -> int:
    """Bits that tell so many things apart."""
    return max(1, (count - 1).bit_length())


def _stacked(columns: tuple[FloatArray, ...], rows: int) -> FloatArray:
    """(K, n), without a copy where there is one."""
    if len(columns) == 1:
        return np.ascontiguousarray(columns[0], dtype=np.float64).reshape(1, rows)
    return np.array(columns, dtype=np.float64).reshape(len(columns), rows)
