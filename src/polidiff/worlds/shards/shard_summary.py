r"""All that is kept of a shard: facts for the check, counts for the model, and its first and last row.

.. math:: n_b(s, a, s'), \qquad \sum g, \qquad \sum g^2 \qquad \text{per block of episodes } b

What follows the last row of a shard, and whether its first row begins an episode, only the neighbours know. Both rows
are therefore kept apart (`head`, `tail`) and counted when two summaries are joined, so that an episode may span as many
shards as it likes. Labels are numbered as they come, blocks are turned by the number of episodes before them, and the
two rows on a border are counted as if it had never been there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import polars as pl

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.worlds.log_columns import Columns
from polidiff.worlds.shards.kernels import quick, sealed, watch
from polidiff.worlds.shards.transition_counts import CUT, END, Entries, Sizes, TransitionCounts

WIDEST = 1 << 20  # whole numbers below this are their own number
LabelValue: TypeAlias = int | str


@dataclass(frozen=True)
class Reading:
    """What is wanted of every shard."""

    columns: Columns
    blocks: int
    temporal: bool  # steps are times: gaps cannot be told
    ranges: tuple[tuple[int, float, float], ...]  # outcome, low, high that every whole episode must keep
    schema: tuple[tuple[str, str], ...]  # name and type of every column that is read


@dataclass(frozen=True)
class Border:
    """The first or last row of a shard, with the sums of the part of its episode that the shard holds."""

    episode: LabelValue | None
    step: float | None
    state: int  # index into the shard's states; -1 where states are features
    action: int
    gains: tuple[float, ...]
    ended: bool
    closed: bool  # whether the row says that the episode ends here or is cut
    totals: tuple[float, ...]  # of the episode's rows in this shard
    over: bool  # whether the last of those rows ended
    person: int | None = None  # by which the episode is dealt to a block; None: in turn


@dataclass(frozen=True, eq=False)
class ShardSummary:
    """What is known of rows that stand together in a log."""

    rows: int
    runs: int  # episodes, or parts of episodes at its ends
    ended: int
    gaps: int
    wrong: int  # problems; what they are is looked up only if there are any
    missing: tuple[int, ...]  # rows without a value, per column that is read
    values: tuple[tuple[bool, str | None], ...]  # per feature: whether it varies, and its first value
    outside: bool  # whether a whole episode left a declared range
    ordered: bool  # whether the names of episodes rise from run to run, so that none can come back
    states: tuple[LabelValue, ...]
    actions: tuple[LabelValue, ...]
    entries: Entries  # all rows but the last
    starts: tuple[AnyArray, AnyArray, FloatArray]  # block, state, count; without the first row
    head: Border | None  # None: no rows
    tail: Border | None
    skipped: tuple[str, ...] = ()  # what could not be read
    pieces: tuple[tuple[str, int, int], ...] = ()  # file, first row and number of rows that were used
    broken: bool = False  # whether what comes after the last row could not be read
    lost: str | None = None  # if it is broken: the episode that was left out, as far as its rows go on
    features: pl.DataFrame | None = None  # of each discrete state, from its first row
    varied: BoolArray | None = None  # (features, states) where they are not constant


def no_entries(reading: Reading) -> Entries:
    """Nothing counted."""
    return Entries(
        np.zeros(0, dtype=np.int64), Sizes(reading.blocks), np.zeros((0, 1 + 2 * len(reading.columns.gains)))
    )


def no_rows(reading: Reading) -> ShardSummary:
    """The summary that changes nothing when it is joined."""
    none, columns = np.zeros(0, dtype=np.int64), reading.columns
    missing, values = tuple(0 for _ in columns.used), tuple((False, None) for _ in columns.features)
    entries, starts = no_entries(reading), (none, none, np.zeros(0))
    return ShardSummary(0, 0, 0, 0, 0, missing, values, False, True, (), (), entries, starts, None, None)


def either(one: tuple[bool, str | None], other: tuple[bool, str | None]) -> tuple[bool, str | None]:
    """Whether a feature varies in one part, in the other, or between them; and its first value."""
    varies = one[0] or other[0] or (None not in (one[1], other[1]) and one[1] != other[1])
    return varies, one[1] if one[1] is not None else other[1]


class SummaryJoiner:
    """Adds one summary after the other. The sums are made in the order of the rows, so that the bytes are the same."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.states, self.actions = LabelCodes(), LabelCodes()
        self.counted, self.begun = (
            TransitionCounts(reading.blocks, len(reading.columns.gains)),
            TransitionCounts(reading.blocks, 0),
        )
        self.state_features = StateFeatures(reading.columns.features if reading.columns.discrete else ())
        self.facts: ShardSummary | None = None  # the sums of everything but labels, entries and starts
        self.head: Border | None = None
        self.tail: Border | None = None

    def add(self, part: ShardSummary) -> None:
        """Join a summary behind what there is."""
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
        turned = before if self.reading.columns.group is None else 0
        self._count(part.entries, state, action, turned)
        block, begun, count = part.starts
        self._add_starts((block + turned) % self.reading.blocks, state[begun] if len(begun) else begun, count)
        if part.features is not None:
            self.state_features.add(part.features, state, part.varied)
        self._add_borders(part, head, tail, joined)

    def closed(self) -> ShardSummary:
        """What was joined, as the whole log: nothing comes before its first row or after its last."""
        if self.head is not None and self.facts is not None:
            self._begin(self.head, 0)
            self._count_tail(None)
            ends = (self.tail,) if self.facts.runs == 1 else (self.head, self.tail)
            outside = any(border is not None and self._leaves(border) for border in ends)
            self.facts = replace(self.facts, outside=self.facts.outside or outside)
        return self._whole()

    def _whole(self) -> ShardSummary:
        if self.facts is None:
            raise ValueError("nothing was joined")
        states, state = self.states.sorted()
        actions, action = self.actions.sorted()
        features, varied = self.state_features.table(state, len(states))
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
        entries = self.counted.entries()
        keys = entries.sizes.translated(entries.keys, entries.sizes, state, action)
        return replace(entries, keys=keys).in_order()

    def _starts(self, state: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        begun = self.begun.entries()
        block, old, _, _ = begun.sizes.parts(begun.keys)
        new = state[old] if len(old) else old
        order = np.lexsort((new, block))
        return block[order], new[order], begun.count[order]

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
        block = self._block(row, self.facts.runs - 1)
        keys = self.counted.sizes.keys(*(np.array([part]) for part in (block, row.state, row.action, to)))
        self.counted.add(keys, np.array([[1.0, *(part for gain in row.gains for part in (gain, gain * gain))]]))

    def _goes_on(self, row: Border, follower: Border) -> bool:
        if row.step is None or follower.step is None or self.reading.temporal:
            return True
        return follower.step - row.step == 1

    def _begin(self, head: Border, before: int) -> None:
        if head.state >= 0:
            self._add_starts(np.array([self._block(head, before)]), np.array([head.state]), np.ones(1))

    def _block(self, border: Border, episode: int) -> int:
        """The block that an episode was dealt to: by its person, or in turn."""
        return (episode if border.person is None else border.person) % self.reading.blocks

    def _count(self, entries: Entries, state: IntArray, action: IntArray, before: int) -> None:
        if len(entries.keys):
            sizes = self.counted.sizes
            self.counted.add(entries.sizes.translated(entries.keys, sizes, state, action, before=before), entries.sums)

    def _add_borders(self, part: ShardSummary, head: Border, tail: Border, joined: bool) -> None:
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
            self.head = replace(head if self.head is None else self.head, totals=head.totals, over=head.over)
        self._add_facts(replace(part, outside=part.outside or outside), wrong, gaps, joined)
        self.tail = tail

    def _leaves(self, border: Border) -> bool:
        """Whether the whole episode that a border belongs to ended outside a declared range."""
        return border.over and any(not low <= border.totals[k] <= high for k, low, high in self.reading.ranges)

    def _add_facts(self, part: ShardSummary, wrong: int, gaps: int, joined: bool) -> None:
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


class LabelCodes:
    """Numbers for labels in the order in which they come."""

    def __init__(self, labels: Sequence[LabelValue] = ()) -> None:
        self._code: dict[LabelValue, int] = {label: code for code, label in enumerate(labels)}

    def __len__(self) -> int:
        return len(self._code)

    def of(self, labels: Sequence[LabelValue]) -> IntArray:
        """The number of each label."""
        code = self._code
        return np.array([code.setdefault(label, len(code)) for label in labels], dtype=np.int64)

    def sorted(self, met: BoolArray | None = None) -> tuple[tuple[LabelValue, ...], IntArray]:
        """The labels in sorted order, of those that were met, and the place of each number among them."""
        labels = sorted(label for label, code in self._code.items() if met is None or met[code])
        place = np.full(len(self._code), -1, dtype=np.int64)
        place[[self._code[label] for label in labels]] = np.arange(len(labels))
        return tuple(labels), place


class ColumnCodes:
    """Numbers for the labels of a column that comes in parts.

    Small whole numbers are their own number until the first that is none.
    """

    def __init__(self) -> None:
        self._high = 0
        self._codes: LabelCodes | None = None

    def __len__(self) -> int:
        """One more than the largest number."""
        return self._high if self._codes is None else len(self._codes)

    def of(self, part: pl.Series) -> IntArray:
        """The number of each row's label; a missing one counts as any."""
        if part.dtype.is_integer() or part.dtype == pl.Boolean:
            whole = part.cast(pl.UInt8) if part.dtype == pl.Boolean else part
            if part.null_count():
                whole = whole.fill_null(strategy="zero")
            low, high = int(whole.min()), int(whole.max())  # type: ignore[arg-type]
            if self._codes is None and low >= 0 and high < WIDEST:
                self._high = max(self._high, high + 1)
                return whole.cast(pl.Int64).to_numpy()
            labels, place = np.unique(whole.to_numpy(), return_inverse=True)
            return self._dictionary.of(labels.tolist())[place]
        text = part.cast(pl.String).fill_null("")
        names = text.unique().sort()
        place = text.cast(pl.Enum(names)).to_physical().to_numpy()
        return self._dictionary.of(names.to_list())[place]

    def sorted(self, met: BoolArray) -> tuple[tuple[LabelValue, ...], IntArray]:
        """The labels of the numbers that were met, in sorted order, and the place of each number among them."""
        if self._codes is not None:
            return self._codes.sorted(met)
        return tuple(np.flatnonzero(met).tolist()), np.cumsum(met) - 1

    @property
    def _dictionary(self) -> LabelCodes:
        if self._codes is None:
            self._codes = LabelCodes(range(self._high))
        return self._codes


class EpisodeRuns:
    """Numbers that are equal for rows of one episode, for a column that comes in parts."""

    def __init__(self) -> None:
        self.rising = True  # whether the names rise from run to run, as far as numbers do not tell that by themselves
        self._last: pl.Series | None = None
        self._rows = 0

    def of(self, part: pl.Series | None, rows: int) -> tuple[IntArray, int]:
        """The number of each row, and that of the row before the part. Without names every row is an episode."""
        if part is None:
            self._rows += rows
            return np.arange(self._rows - rows, self._rows), self._rows - rows - 1
        last, self._last = self._last, part.tail(1)
        if part.dtype.is_integer() and part.dtype != pl.UInt64 and not part.null_count():
            numbers = part.cast(pl.Int64).to_numpy()
            known = last is not None and last[0] is not None
            return numbers, int(last[0]) if known else int(numbers[0]) - 1  # type: ignore[index]
        whole = part if last is None else pl.concat([last, part])
        same = (whole.slice(1) == whole.slice(0, len(whole) - 1)).fill_null(False).to_numpy()
        self.rising = self.rising and _rising(whole, same)
        number = np.append(0, np.cumsum(~same))
        return (number, -1) if last is None else (number[1:], 0)


class StateFeatures:
    """One row of features per state, of the first row of the log that met it."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._first = np.zeros((len(names), 0), dtype=np.int64)  # hash of each state's value
        self._met = np.zeros((len(names), 0), dtype=np.int8)
        self._state: list[IntArray] = []  # of each row of `_rows`
        self._rows: list[pl.DataFrame] = []

    def add(self, rows: pl.DataFrame, state: IntArray, varied: BoolArray | None = None) -> None:
        """Rows in states; `varied` (features, n) says which values are known to differ within their state."""
        if not self.names or not len(state):
            return
        self._reserve(int(state.max()) + 1)
        begin = np.full(self._met.shape[1], -1, dtype=np.int64)
        look = quick(watch, len(state))
        for j, name in enumerate(self.names):
            value = rows[name].hash().to_numpy().view(np.int64)
            look(sealed(state), sealed(value), self._met[j], self._first[j], begin)
            if varied is not None:
                self._met[j][state[varied[j]]] = 2
        fresh = np.flatnonzero(begin >= 0)
        if len(fresh):
            self._state.append(fresh)
            self._rows.append(rows.select(self.names)[begin[fresh]])

    def table(self, place: IntArray, count: int) -> tuple[pl.DataFrame | None, BoolArray]:
        """The rows in the order of other numbers of states, and (features, states) where they are not constant."""
        varied = np.zeros((len(self.names), count), dtype=np.bool_)
        if not self._rows:
            return None, varied
        state = np.concatenate(self._state)
        varied[:, place[state]] = self._met[:, state] == 2
        return pl.concat(self._rows)[np.argsort(place[state])], varied

    def _reserve(self, states: int) -> None:
        more = states - self._met.shape[1]
        if more > 0:
            self._first, self._met = (_wider(part, max(more, part.shape[1])) for part in (self._first, self._met))


def _rising(names: pl.Series, same: object) -> bool:
    """Whether the names of the runs rise; other types than whole numbers and text are not compared."""
    if not (names.dtype.is_integer() or names.dtype == pl.String):
        return False
    first = names.filter(pl.Series(np.append(True, ~np.asarray(same))))
    return bool((first.slice(1) > first.slice(0, len(first) - 1)).fill_null(False).all())


def _wider(part: AnyArray, more: int) -> AnyArray:
    return np.pad(part, ((0, 0), (0, more)))
