"""Sums per distinct (block, state, action, successor), in memory that grows with what was met, not with what could be.

Block, state, action and successor of a transition are the bits of one number, its key. Keys are numbered in the order in
which they come, by a hash table, and the sums of a key stand in the row of its number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polidiff.errors import InvalidLogError
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.worlds.shards.kernels import BEGUN, STATES_FROM, add, quick, sealed
from polidiff.worlds.shards.stretch import CUT, Entries

MOST_BITS = 62
FIRST_ROOM = 256  # keys
NONE = np.zeros(0)


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

    def reserve(self, states: int, actions: int) -> None:
        """Make room for so many labels; what was counted keeps its numbers."""
        need = (_bits(states), _bits(actions), _bits(states + STATES_FROM))
        wide = Sizes(self.sizes.blocks, *map(max, need, self.sizes[1:]))
        if wide != self.sizes:
            self._widen(wide)

    def add(self, entries: Entries) -> None:
        """Count transitions."""
        keys = self.keys(entries.block, entries.state, entries.action, entries.to)
        if entries.count is None or entries.squares is None:
            self.add_keys(keys, NONE, _stacked(entries.sums, len(keys)))
        else:
            self.add_keys(keys, entries.count, _stacked(entries.sums, len(keys)), _stacked(entries.squares, len(keys)))

    def begin(self, block: AnyArray, state: AnyArray, count: FloatArray) -> None:
        """Count starts."""
        none = np.zeros(len(state), dtype=np.int64)
        nothing = np.zeros((self._outcomes, len(state)))
        self.add_keys(self._keys(block, state, none, none + BEGUN), count, nothing, nothing)

    def keys(self, block: AnyArray, state: AnyArray, action: AnyArray, to: AnyArray) -> IntArray:
        """Transitions as numbers, in order of block, state, action and to; CUT and END come first."""
        return self._keys(block, state, action, np.where(to < 0, to - CUT, to + STATES_FROM))

    def add_keys(
        self, keys: IntArray, count: FloatArray, sums: FloatArray, squares: FloatArray | None = None
    ) -> None:
        """Add (n,) counts and (K, n) sums and squares to the keys; no counts: every key is one row."""
        rest = sums if squares is None else squares
        given = tuple(sealed(part) for part in (keys, count, sums, rest))
        run, first = quick(add, len(keys)), 0
        while True:
            first, self._used = run(*given, first, self._index, self._known, self._table, self._used)
            if first == len(keys):
                return
            self._grow(len(keys) - first)

    def transitions(self) -> tuple[tuple[IntArray, IntArray, IntArray, IntArray], FloatArray]:
        """Block, state, action and to of everything counted but starts, as it came, and the sums."""
        keys = self._known[: self._used]
        table = self._table[: self._used]
        moves = np.flatnonzero((keys & ((1 << self.sizes.to) - 1)) != BEGUN)
        if len(moves) < len(keys):
            keys, table = keys[moves], table[moves]
        block, state, action, after = self._parts(keys)
        return (block, state, action, np.where(after < BEGUN, after + CUT, after - STATES_FROM)), table

    def starts(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Block, state and number of the starts, as they came."""
        keys = self._known[: self._used]
        begun = np.flatnonzero((keys & ((1 << self.sizes.to) - 1)) == BEGUN)
        block, state, _, _ = self._parts(keys[begun])
        return block, state, self._table[begun, 0]

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

    def _grow(self, more: int) -> None:
        """Room for up to twice as many keys."""
        if self._used == len(self._known):
            room = self._used + min(self._used, max(more, self._used // 2))
            self._known = np.concatenate([self._known, np.empty(room - self._used, dtype=np.int64)])
            self._table = np.concatenate([self._table, np.zeros((room - self._used, self._table.shape[1]))])
        if 2 * self._used >= len(self._index):
            self._index = np.empty(2 * len(self._index), dtype=np.int32)
            self._number_again()

    def _number_again(self) -> None:
        """Fill the hash table with the known keys, which keep their order."""
        self._index.fill(-1)
        known, keys = np.empty_like(self._known), self._known[: self._used]
        nothing = np.zeros((0, self._used))
        given = tuple(sealed(part) for part in (keys, np.zeros(self._used), nothing, nothing))
        quick(add, self._used)(*given, 0, self._index, known, np.zeros((self._used, 1)), 0)


def _bits(count: int) -> int:
    """Bits that tell so many things apart."""
    return max(1, (count - 1).bit_length())


def _stacked(columns: tuple[FloatArray, ...], rows: int) -> FloatArray:
    """(K, n), without a copy where there is one."""
    if len(columns) == 1:
        return np.ascontiguousarray(columns[0], dtype=np.float64).reshape(1, rows)
    return np.array(columns, dtype=np.float64).reshape(len(columns), rows)
