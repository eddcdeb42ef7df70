"""Stretches in the order of the log, joined into one.

Labels are numbered as they come, blocks are turned by the number of episodes before them, and the two rows on a border
are counted as if it had never been there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.shards.labels import Codes
from polidiff.worlds.shards.stretch import CUT, END, Border, Entries, Reading, Stretch
from polidiff.worlds.shards.table import Counted
from polidiff.worlds.shards.tally import either
from polidiff.worlds.shards.traits import Traits


class Joiner:
    """Adds one stretch after the other. The sums are made in the order of the rows, so that the bytes are the same."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.states, self.actions = Codes(), Codes()
        self.counted, self.begun = Counted(reading.blocks, len(reading.columns.gains)), Counted(reading.blocks, 0)
        self.traits = Traits(reading.columns.features if reading.columns.discrete else ())
        self.facts: Stretch | None = None  # the sums of everything but labels, entries and starts
        self.head: Border | None = None
        self.tail: Border | None = None

    def add(self, part: Stretch) -> None:
        """Join a stretch behind what there is."""
        if part.head is None or part.tail is None:
            self._add_facts(part, 0, 0, False)
            return
        state, action = self.states.of(part.states), self.actions.of(part.actions)
        for table in (self.counted, self.begun):
            table.reserve(len(self.states), len(self.actions))
        head, tail = (_renamed(border, state, action) for border in (part.head, part.tail))
        joined = self.tail is not None and head.episode is not None and self.tail.episode == head.episode
        before = 0 if self.facts is None else self.facts.runs - joined
        if self.tail is not None:
            self._count_tail(head if joined else None)
            if not joined:
                self._begin(head, before)
        self._count(part.entries, state, action, before)
        block, begun, count = part.starts
        self._add_starts((block + before) % self.reading.blocks, state[begun] if len(begun) else begun, count)
        if part.features is not None:
            self.traits.add(part.features, state, part.varied)
        self._add_borders(part, head, tail, joined)

    def closed(self) -> Stretch:
        """What was joined, as the whole log: nothing comes before its first row or after its last."""
        if self.head is not None and self.facts is not None:
            self._begin(self.head, 0)
            self._count_tail(None)
            ends = (self.tail,) if self.facts.runs == 1 else (self.head, self.tail)
            outside = any(border is not None and self._leaves(border) for border in ends)
            self.facts = replace(self.facts, outside=self.facts.outside or outside)
        return self._told()

    def _told(self) -> Stretch:
        if self.facts is None:
            raise ValueError("nothing was joined")
        states, state = self.states.sorted()
        actions, action = self.actions.sorted()
        features, varied = self.traits.table(state, len(states))
        return replace(
            self.facts,
            states=states,
            actions=actions,
            entries=self._entries(state, action),
            starts=self._starts(state),
            head=None,
            tail=None,
            features=features,
            varied=varied,
        )

    def _entries(self, state: IntArray, action: IntArray) -> Entries:
        """The distinct entries under other numbers of states and actions, in order of block, state, action, to."""
        found = self.counted.entries()
        keys = found.sizes.translated(found.keys, found.sizes, state, action)
        return replace(found, keys=keys).in_order()

    def _starts(self, state: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        found = self.begun.entries()
        block, old, _, _ = found.sizes.parts(found.keys)
        new = state[old] if len(old) else old
        order = np.lexsort((new, block))
        return block[order], new[order], found.count[order]

    def _add_starts(self, block: IntArray, state: IntArray, count: FloatArray) -> None:
        none = np.zeros(len(state), dtype=np.int64)
        self.begun.add(self.begun.sizes.keys(block, state, none, none), count[:, None])

    def _count_tail(self, follower: Border | None) -> None:
        """Count the last row, now that what comes after it is known."""
        row = self.tail
        if row is None or row.state < 0 or self.facts is None:
            return
        to = END if row.ended else CUT
        if not row.ended and follower is not None and self._goes_on(row, follower):
            to = follower.state
        block = (self.facts.runs - 1) % self.reading.blocks
        keys = self.counted.sizes.keys(*(np.array([part]) for part in (block, row.state, row.action, to)))
        self.counted.add(keys, np.array([[1.0, *(part for gain in row.gains for part in (gain, gain * gain))]]))

    def _goes_on(self, row: Border, follower: Border) -> bool:
        if row.step is None or follower.step is None or self.reading.temporal:
            return True
        return follower.step - row.step == 1

    def _begin(self, head: Border, before: int) -> None:
        if head.state >= 0:
            self._add_starts(np.array([before % self.reading.blocks]), np.array([head.state]), np.ones(1))

    def _count(self, entries: Entries, state: IntArray, action: IntArray, before: int) -> None:
        if len(entries.keys):
            sizes = self.counted.sizes
            self.counted.add(entries.sizes.translated(entries.keys, sizes, state, action, before=before), entries.sums)

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
            old,
            rows=old.rows + part.rows,
            runs=old.runs + part.runs - joined,
            ended=old.ended + part.ended,
            gaps=old.gaps + part.gaps + gaps,
            wrong=old.wrong + part.wrong + wrong,
            missing=tuple(a + b for a, b in zip(old.missing, part.missing, strict=True)),
            values=tuple(either(a, b) for a, b in zip(old.values, part.values, strict=True)),
            outside=old.outside or part.outside,
            ordered=old.ordered and part.ordered and rising,
            skipped=old.skipped + part.skipped,
            pieces=old.pieces + part.pieces,
        )


def _renamed(border: Border, state: IntArray, action: IntArray) -> Border:
    return replace(
        border, state=int(state[border.state]) if border.state >= 0 else -1, action=int(action[border.action])
    )


def _before(one: Border | None, other: Border | None) -> bool:
    """Whether the name of one episode comes before another's."""
    if one is None or other is None or one.episode is None or other.episode is None:
        return True
    return type(one.episode) is type(other.episode) and one.episode < other.episode  # type: ignore[operator]
