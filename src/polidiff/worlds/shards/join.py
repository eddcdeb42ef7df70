"""Stretches in the order of the log, joined into one.

Labels are numbered as they come, blocks are turned by the number of episodes before them, and the two rows on a border
are counted as if it had never been there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.worlds.shards.slots import Slots, slots_for
from polidiff.worlds.shards.stretch import CUT, END, Border, Entries, LabelValue, Reading, Stretch


class Joiner:
    """Adds one stretch after the other. The sums are made in the order of the rows, so that the bytes are the same."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.states, self.actions = Codes(), Codes()
        self.counted = Counted(reading.blocks, len(reading.columns.gains))
        self.begun = Begun(reading.blocks)
        self.facts: Stretch | None = None  # the sums of everything but labels, entries and starts
        self.head: Border | None = None
        self.tail: Border | None = None

    def add(self, part: Stretch) -> None:
        """Join a stretch behind what there is."""
        if part.head is None or part.tail is None:
            self._add_facts(part, 0, 0, False)
            return
        state, action = self.states.of(part.states), self.actions.of(part.actions)
        self.counted.reserve(len(self.states), len(self.actions))
        head, tail = (_renamed(border, state, action) for border in (part.head, part.tail))
        joined = self.tail is not None and head.episode is not None and self.tail.episode == head.episode
        before = 0 if self.facts is None else self.facts.runs - joined
        if self.tail is not None:
            self._count_tail(head if joined else None)
            if not joined:
                self._begin(head, before)
        self._count(part.entries, state, action, before)
        block, begun, count = part.starts
        self.begun.add((block + before) % self.reading.blocks, state[begun] if len(begun) else begun, count)
        self._add_borders(part, head, tail, joined)

    def result(self) -> Stretch:
        """What was joined, with its own borders still open."""
        return self._told(close=False)

    def closed(self) -> Stretch:
        """What was joined, as the whole log: nothing comes before its first row or after its last."""
        if self.head is not None and self.facts is not None:
            self._begin(self.head, 0)
            self._count_tail(None)
            ends = (self.tail,) if self.facts.runs == 1 else (self.head, self.tail)
            outside = any(border is not None and self._leaves(border) for border in ends)
            self.facts = replace(self.facts, outside=self.facts.outside or outside)
        return self._told(close=True)

    def _told(self, *, close: bool) -> Stretch:
        if self.facts is None:
            raise ValueError("nothing was joined")
        states, state = self.states.sorted()
        actions, action = self.actions.sorted()
        ends = (None, None) if close else (self.head, self.tail)
        head, tail = (None if border is None else _renamed(border, state, action) for border in ends)
        return replace(
            self.facts,
            states=states,
            actions=actions,
            entries=self.counted.entries(state, action),
            starts=self.begun.table(state),
            head=head,
            tail=tail,
        )

    def _count_tail(self, follower: Border | None) -> None:
        """Count the last row, now that what comes after it is known."""
        row = self.tail
        if row is None or row.state < 0 or self.facts is None:
            return
        to = END if row.ended else CUT
        if not row.ended and follower is not None and self._goes_on(row, follower):
            to = follower.state
        gains = tuple(np.array([gain]) for gain in row.gains)
        block = (self.facts.runs - 1) % self.reading.blocks
        single = [np.array([part]) for part in (block, row.state, row.action, to)]
        self.counted.add(Entries(single[0], single[1], single[2], single[3], None, gains, None))

    def _goes_on(self, row: Border, follower: Border) -> bool:
        if row.step is None or follower.step is None or self.reading.temporal:
            return True
        return follower.step - row.step == 1

    def _begin(self, head: Border, before: int) -> None:
        if head.state >= 0:
            self.begun.add(np.array([before % self.reading.blocks]), np.array([head.state]), np.ones(1))

    def _count(self, entries: Entries, state: IntArray, action: IntArray, before: int) -> None:
        if not len(entries.block):
            return
        onward = np.concatenate([state, [CUT, END]])  # END and CUT are -1 and -2, that is, the last two places
        block = entries.block if before % self.reading.blocks == 0 else (entries.block + before) % self.reading.blocks
        self.counted.add(
            replace(
                entries,
                block=block,
                state=entries.state if _same(state) else state[entries.state],
                action=entries.action if _same(action) else action[entries.action],
                to=entries.to if _same(state) else onward[entries.to],
            )
        )

    def _add_borders(self, part: Stretch, head: Border, tail: Border, joined: bool) -> None:
        row, wrong, gaps, outside = self.tail, 0, 0, False
        if joined and row is not None:
            wrong += row.closed
            if row.step is not None and head.step is not None:
                wrong += not head.step > row.step
                gaps += not self.reading.temporal and head.step - row.step > 1
            totals = tuple(ours + theirs for ours, theirs in zip(row.totals, head.totals, strict=True))
            head = replace(head, totals=totals)
        elif row is not None and self.facts is not None and self.facts.runs > 1:
            outside |= self._leaves(row)
        if part.runs == 1:
            tail = replace(tail, totals=head.totals)
        elif row is not None and not (joined and self.facts is not None and self.facts.runs == 1):
            outside |= self._leaves(head)
        if self.head is None or (joined and self.facts is not None and self.facts.runs == 1):
            kept = head if self.head is None else self.head
            self.head = replace(kept, totals=head.totals, over=head.over)
        self._add_facts(replace(part, outside=part.outside or outside), wrong, gaps, joined)
        self.tail = tail

    def _leaves(self, border: Border) -> bool:
        """Whether the whole episode that a border belongs to ended outside a declared range."""
        return border.over and any(not low <= border.totals[k] <= high for k, low, high in self.reading.ranges)

    def _add_facts(self, part: Stretch, wrong: int, gaps: int, joined: bool) -> None:
        old = self.facts
        if old is None:
            self.facts = part
            return
        rising = old.rows == 0 or part.rows == 0 or joined or _before(self.tail, part.head)
        self.facts = replace(
            part,
            rows=old.rows + part.rows,
            runs=old.runs + part.runs - joined,
            ended=old.ended + part.ended,
            gaps=old.gaps + part.gaps + gaps,
            wrong=old.wrong + part.wrong + wrong,
            missing=tuple(a + b for a, b in zip(old.missing, part.missing, strict=True)),
            values=tuple(_either(a, b) for a, b in zip(old.values, part.values, strict=True)),
            outside=old.outside or part.outside,
            ordered=old.ordered and part.ordered and rising,
            skipped=old.skipped + part.skipped,
            pieces=old.pieces + part.pieces,
        )


class Codes:
    """Numbers for labels in the order in which they come."""

    def __init__(self) -> None:
        self._code: dict[LabelValue, int] = {}

    def __len__(self) -> int:
        return len(self._code)

    def of(self, labels: Sequence[LabelValue]) -> IntArray:
        """The number of each label."""
        code = self._code
        return np.array([code.setdefault(label, len(code)) for label in labels], dtype=np.int64)

    def sorted(self) -> tuple[tuple[LabelValue, ...], IntArray]:
        """The labels in sorted order, and the place of each number among them."""
        labels = sorted(self._code)
        place = np.empty(len(labels), dtype=np.int64)
        place[[self._code[label] for label in labels]] = np.arange(len(labels))
        return tuple(labels), place


class Counted:
    """Sums per distinct (block, state, action, to)."""

    def __init__(self, blocks: int, outcomes: int) -> None:
        self._blocks, self._room = blocks, (0, 0)
        self._slots: Slots = slots_for(0)
        self._sums = np.zeros((1 + 2 * outcomes, 0))  # count, then sum and square of each outcome

    def reserve(self, states: int, actions: int) -> None:
        """Make room for so many labels."""
        room = (_room(self._room[0], states), _room(self._room[1], actions))
        if room == self._room:
            return
        parts, sums = self._distinct()
        self._room = room
        self._slots = slots_for(self._blocks * room[0] * room[1] * (room[0] + 2))
        number = self._slots.of(self._key(*parts))
        self._sums = np.zeros((len(self._sums), self._slots.size))
        self._sums[:, number] = sums

    def add(self, entries: Entries) -> None:
        """Count entries; sums are made in their order."""
        number = self._slots.of(self._key(entries.block, entries.state, entries.action, entries.to))
        self._grow(self._slots.size)
        np.add.at(self._sums[0], number, 1.0 if entries.count is None else entries.count)
        for k, sums in enumerate(entries.sums):
            np.add.at(self._sums[1 + 2 * k], number, sums)
            np.add.at(self._sums[2 + 2 * k], number, sums * sums if entries.squares is None else entries.squares[k])

    def entries(self, state: IntArray, action: IntArray) -> Entries:
        """The distinct entries under other numbers of states and actions, in order of block, state, action, to."""
        (block, old_state, old_action, to), sums = self._distinct()
        parts = (block, old_state, old_action, to)
        if not (_same(state) and _same(action)):
            onward = np.concatenate([state, [CUT, END]])
            parts = (block, state[old_state], action[old_action], onward[to])
            order = np.argsort(self._key(*parts), kind="stable")
            parts = (parts[0][order], parts[1][order], parts[2][order], parts[3][order])
            sums = sums[:, order]
        return Entries(*parts, sums[0], tuple(sums[1::2]), tuple(sums[2::2]))

    def _key(self, block: AnyArray, state: AnyArray, action: AnyArray, to: AnyArray) -> AnyArray:
        states, actions = self._room
        small = self._blocks * states * actions * (states + 2) < 1 << 31
        key: AnyArray = block.astype(np.int32 if small else np.int64)
        key *= states
        key += state.astype(key.dtype, copy=False)
        key *= actions
        key += action.astype(key.dtype, copy=False)
        key *= states + 2
        key += np.where(to < 0, states - 1 - to, to).astype(key.dtype, copy=False)
        return key

    def _distinct(self) -> tuple[tuple[IntArray, IntArray, IntArray, IntArray], FloatArray]:
        """Block, state, action and to of everything counted, in order, and the sums."""
        keys, number = self._slots.in_order()
        met = np.flatnonzero(self._sums[0][number])
        keys, number = keys[met], number[met]
        sums = np.array([row[number] for row in self._sums])
        states, actions = self._room
        rest, to = _divided(keys, states + 2)
        rest, action = _divided(rest, max(actions, 1))
        block, state = _divided(rest, max(states, 1))
        return (block, state, action, np.where(to >= states, states - 1 - to, to)), sums

    def _grow(self, size: int) -> None:
        if size > self._sums.shape[1]:
            wider = np.zeros((len(self._sums), max(size, 3 * self._sums.shape[1] // 2)))
            wider[:, : self._sums.shape[1]] = self._sums
            self._sums = wider


class Begun:
    """Episodes that begin, per block and state."""

    def __init__(self, blocks: int) -> None:
        self._table = np.zeros((blocks, 0))

    def add(self, block: AnyArray, state: AnyArray, count: FloatArray) -> None:
        """Count starts."""
        if len(state) and state.max() >= self._table.shape[1]:
            more = int(state.max()) + 1 - self._table.shape[1]
            self._table = np.pad(self._table, ((0, 0), (0, more)))
        np.add.at(self._table, (block, state), count)

    def table(self, state: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Block, state and count of the distinct starts, under other numbers of states."""
        block, old = np.nonzero(self._table)
        new = state[old] if len(old) else old
        order = np.lexsort((new, block))
        return block[order], new[order], self._table[block, old][order]


def _renamed(border: Border, state: IntArray, action: IntArray) -> Border:
    return replace(
        border, state=int(state[border.state]) if border.state >= 0 else -1, action=int(action[border.action])
    )


def _divided(numbers: IntArray, by: int) -> tuple[IntArray, IntArray]:
    """Quotient and rest; one division is faster than `divmod`, which makes two."""
    quotient = numbers // by
    return quotient, numbers - quotient * by


def _room(have: int, want: int) -> int:
    """Room for labels, with some to spare where they keep coming."""
    return have if want <= have else max(want, 5 * have // 4)


def _same(numbers: IntArray) -> bool:
    return bool(np.array_equal(numbers, np.arange(len(numbers))))


def _either(one: tuple[bool, str | None], other: tuple[bool, str | None]) -> tuple[bool, str | None]:
    varies = one[0] or other[0] or (None not in (one[1], other[1]) and one[1] != other[1])
    return varies, one[1] if one[1] is not None else other[1]


def _before(one: Border | None, other: Border | None) -> bool:
    """Whether the name of one episode comes before another's."""
    if one is None or other is None or one.episode is None or other.episode is None:
        return True
    return type(one.episode) is type(other.episode) and one.episode < other.episode  # type: ignore[operator]
