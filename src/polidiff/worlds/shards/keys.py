"""A transition as one number, its key: the bits of its block, state, action and successor, in this order.

A successor is a state; after all states come END and CUT, the last two numbers that its bits can hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from polidiff.errors import InvalidLogError
from polidiff.records.arrays import AnyArray, BoolArray, IntArray
from polidiff.worlds.shards.kernels import quick, sealed, translate

MOST_BITS = 62
CHUNK = 1 << 17


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
        found = tuple(np.empty(len(keys), dtype=np.int64) for _ in range(4))
        for some in chunks(len(keys)):
            block, state, action, to = (part[some] for part in found)
            np.bitwise_and(keys[some], (1 << self.to) - 1, out=to)
            to[:] = self._turned(to)
            np.right_shift(keys[some], self.to, out=block)
            np.bitwise_and(block, (1 << self.action) - 1, out=action)
            block >>= self.action
            np.bitwise_and(block, (1 << self.state) - 1, out=state)
            block >>= self.state
        return found  # type: ignore[return-value]

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
        found = np.empty(len(keys), dtype=np.int64)
        given = (sealed(np.asarray(part, dtype=np.int64)) for part in (keys, state, action))
        quick(translate, len(keys))(*given, tuple(self), tuple(into), before % self.blocks, found)
        return found


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
