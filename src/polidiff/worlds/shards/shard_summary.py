r"""All that is kept of a part of a log: facts for the check, and counts for the model.

.. math:: n_b(s, a, s'), \qquad \sum g, \qquad \sum g^2 \qquad \text{per block of episodes } b

Parts hold whole episodes. Labels are numbered as they come, and blocks are turned by the number of episodes before
them, so that what was counted of parts is added up as if they had been read in one go.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import polars as pl

from polidiff.progress import report
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.worlds.log_columns import RANKED, Columns
from polidiff.worlds.log_rows import boundaries, gain_expressions, hashes, row_problems
from polidiff.worlds.shards.shard_files import Part, RowRange, whole_batches
from polidiff.worlds.shards.transition_counts import CUT, END, Entries, TransitionCounts

BATCH_ROWS = 1 << 18  # whose columns are small enough to take the place of those before in memory
WIDEST = 1 << 20  # whole numbers below this are looked up in a table
LabelValue: TypeAlias = int | str


@dataclass(frozen=True)
class Reading:
    """What is wanted of every part."""

    columns: Columns
    blocks: int
    temporal: bool  # steps are times: gaps cannot be told
    ranges: tuple[tuple[int, float, float], ...]  # outcome, low, high that every whole episode must keep
    schema: pl.Schema  # of the columns that are read


@dataclass(frozen=True)
class Facts:
    """What the check of a log needs to know of its rows."""

    missing: tuple[int, ...]  # rows without a value, per column that is read
    values: tuple[tuple[bool, str | None], ...]  # per feature: whether it varies, and its first value
    rows: int = 0
    runs: int = 0  # episodes
    ended: int = 0
    gaps: int = 0
    wrong: int = 0  # problems; what they are is looked up only if there are any
    outside: bool = False  # whether a whole episode left a declared range
    ordered: bool = True  # whether the names of episodes rise from run to run, so that none can come back
    first: LabelValue | None = None  # name of the first episode
    last: LabelValue | None = None

    def __add__(self, other: Facts) -> Facts:
        """The facts of rows and of those that follow them."""
        if not self.rows or not other.rows:
            return self if other.rows == 0 else other
        return Facts(
            missing=tuple(a + b for a, b in zip(self.missing, other.missing, strict=True)),
            values=tuple(_either(a, b) for a, b in zip(self.values, other.values, strict=True)),
            rows=self.rows + other.rows,
            runs=self.runs + other.runs,
            ended=self.ended + other.ended,
            gaps=self.gaps + other.gaps,
            wrong=self.wrong + other.wrong,
            outside=self.outside or other.outside,
            ordered=self.ordered and other.ordered and _rises(self.last, other.first),
            first=self.first,
            last=other.last,
        )


@dataclass(frozen=True, eq=False)
class ShardSummary:
    """What is known of rows that stand together in a log."""

    facts: Facts
    states: tuple[LabelValue, ...]
    actions: tuple[LabelValue, ...]
    entries: Entries  # of discrete states
    starts: tuple[AnyArray, AnyArray, FloatArray]  # block, state, count
    ranges: tuple[RowRange, ...] = ()  # of files, that were used
    skipped: tuple[str, ...] = ()  # what could not be read


class SummaryCounter:
    """Counts rows as they come, and adds what was counted of others."""

    def __init__(self, reading: Reading) -> None:
        self.reading, columns = reading, reading.columns
        self.states, self.actions = LabelCodes(), LabelCodes()
        self.counted = TransitionCounts(reading.blocks, len(columns.gains))
        self.begun = TransitionCounts(reading.blocks, 0)
        self.facts = Facts(tuple(0 for _ in columns.used), tuple((False, None) for _ in columns.features))

    @np.errstate(over="ignore", invalid="ignore")  # sums of endless rewards are endless, not a fault
    def add_rows(self, frame: pl.DataFrame) -> None:
        """Whole episodes that follow on those before."""
        columns = self.reading.columns
        rows = frame.select(
            pl.int_range(pl.len()),
            **boundaries(columns, temporal=self.reading.temporal),
            **{f"gain{k}": gain for k, gain in enumerate(gain_expressions(columns))},
        )
        first, ended = rows["first"].to_numpy(), rows["ended"].to_numpy()
        gains = np.array([rows[f"gain{k}"].to_numpy() for k in range(len(columns.gains))]).reshape(-1, len(rows))
        action = self.actions.of(frame[columns.action])
        if columns.discrete:
            state = self.states.of(frame[columns.state[0]])
            self._reserve()
            to = np.where(rows["goes_on"].to_numpy(), np.append(state[1:], CUT), CUT)
            block = self._person(frame, first) % self.reading.blocks
            keys = self.counted.sizes.keys(block, state, action, np.where(ended, END, to))
            self.counted.add_rows(keys, gains)
            self._begin(block[first], state[first], np.ones(int(first.sum())))
        outside = _leaves(gains, first, ended, self.reading.ranges)
        self.facts += _facts(frame, first, ended, self.reading, self.facts.values, outside)

    def add(self, part: ShardSummary) -> None:
        """What was counted of a part that follows."""
        state, action = self.states.numbered(part.states), self.actions.numbered(part.actions)
        self._reserve()
        before = self.facts.runs if self.reading.columns.group is None else 0
        if len(part.entries.keys):
            sizes = self.counted.sizes
            keys = part.entries.sizes.translated(part.entries.keys, sizes, state, action, before=before)
            self.counted.add(keys, part.entries.sums)
            block, begun, count = part.starts
            self._begin((block + before) % self.reading.blocks, state[begun], count)
        self.facts += part.facts

    def result(self) -> ShardSummary:
        """What there is to know of the rows: labels sorted, entries in the order of block, state, action, to."""
        (states, state), (actions, action) = self.states.sorted(), self.actions.sorted()
        entries, begun = self.counted.entries(), self.begun.entries()
        block, begins, _, _ = begun.sizes.parts(begun.keys)
        if len(entries.keys):
            keys = entries.sizes.translated(entries.keys, entries.sizes, state, action)
            entries, begins = replace(entries, keys=keys).in_order(), state[begins]
        order = np.lexsort((begins, block))
        return ShardSummary(self.facts, states, actions, entries, (block[order], begins[order], begun.count[order]))

    def _reserve(self) -> None:
        for table in (self.counted, self.begun):
            table.reserve(len(self.states), len(self.actions))

    def _begin(self, block: IntArray, state: IntArray, count: FloatArray) -> None:
        none = np.zeros(len(state), dtype=np.int64)
        self.begun.add(self.begun.sizes.keys(block, state, none, none), count[:, None])

    def _person(self, frame: pl.DataFrame, first: BoolArray) -> IntArray:
        """Numbers by which episodes are dealt to blocks: of people, or in turn."""
        if self.reading.columns.group is None:
            return self.facts.runs + np.cumsum(first) - 1
        people = frame[self.reading.columns.group]
        if people.dtype == RANKED:
            return people.fill_null(0).cast(pl.Int64).to_numpy()
        people = people.fill_null(strategy="zero") if people.dtype.is_integer() else people
        return (hashes(people) >> np.uint64(2)).astype(np.int64)


def _facts(
    frame: pl.DataFrame,
    first: BoolArray,
    ended: BoolArray,
    reading: Reading,
    values: Sequence[tuple[bool, str | None]],
    outside: bool,
) -> Facts:
    """What is missing, what is wrong, what varies (where rows before have not told), and the names of episodes."""
    columns = reading.columns
    found = frame.select(
        *(rule.sum().alias(f"wrong {k}") for k, rule in enumerate(row_problems(columns).values())),
        gaps=_gaps(columns) if not reading.temporal else pl.lit(0),
    )
    names = None if columns.episode is None else frame[columns.episode].filter(pl.Series(first))
    return Facts(
        missing=tuple(frame[name].null_count() for name in columns.used),
        values=tuple(
            known if known[0] else _first_value(frame[name])
            for name, known in zip(columns.features, values, strict=True)
        ),
        rows=frame.height,
        runs=int(first.sum()),
        ended=int(ended.sum()),
        gaps=int(found["gaps"][0]),
        wrong=int(sum(found.drop("gaps").row(0))),
        outside=outside,
        ordered=names is None or bool((names.slice(1) > names.slice(0, len(names) - 1)).fill_null(False).all()),
        first=None if names is None else _name(names[0]),
        last=None if names is None else _name(names[-1]),
    )


def _gaps(columns: Columns) -> pl.Expr:
    if columns.episode is None or columns.step is None:
        return pl.lit(0)
    episode, step = pl.col(columns.episode), pl.col(columns.step)
    return ((episode == episode.shift(-1)) & (step.shift(-1) - step > 1)).sum()


def _leaves(gains: FloatArray, first: BoolArray, ended: BoolArray, ranges: Sequence[tuple[int, float, float]]) -> bool:
    """Whether a whole episode ended outside a declared range."""
    begins = np.flatnonzero(first)
    over = ended[np.append(begins[1:], len(first)) - 1]
    totals = ((np.add.reduceat(gains[k], begins)[over], low, high) for k, low, high in ranges)
    return any(bool(((total < low) | (total > high)).any()) for total, low, high in totals)


def _first_value(column: pl.Series) -> tuple[bool, str | None]:
    there = column.drop_nulls()
    return (bool((there != there[0]).any()), str(there[0])) if len(there) else (False, None)


def _either(one: tuple[bool, str | None], other: tuple[bool, str | None]) -> tuple[bool, str | None]:
    """Whether a feature varies in one part, in the other, or between them; and its first value."""
    varies = one[0] or other[0] or (None not in (one[1], other[1]) and one[1] != other[1])
    return varies, one[1] if one[1] is not None else other[1]


def _name(episode: object) -> LabelValue | None:
    return episode if isinstance(episode, (int, str)) and not isinstance(episode, bool) else None


def _rises(one: LabelValue | None, other: LabelValue | None) -> bool:
    return one is not None and type(one) is type(other) and one < other  # type: ignore[operator]


class LabelCodes:
    """Numbers for labels in the order in which they come."""

    def __init__(self) -> None:
        self._code: dict[LabelValue, int] = {}

    def __len__(self) -> int:
        return len(self._code)

    def numbered(self, labels: Sequence[LabelValue]) -> IntArray:
        """The number of each label."""
        code = self._code
        return np.array([code.setdefault(label, len(code)) for label in labels], dtype=np.int64)

    def of(self, column: pl.Series) -> IntArray:
        """The number of each row's label; a missing one counts as any."""
        whole = column.cast(pl.UInt8) if column.dtype == pl.Boolean else column
        filled = whole.fill_null(0) if whole.dtype.is_integer() else whole.cast(pl.String).fill_null("")
        labels = filled.unique()
        codes = self.numbered(labels.to_list())
        if filled.dtype.is_integer() and filled.min() >= 0 and filled.max() < WIDEST:  # type: ignore[operator]
            table = np.zeros(int(filled.max()) + 1, dtype=np.int64)  # type: ignore[arg-type]
            table[labels.to_numpy()] = codes
            return table[filled.to_numpy()]
        return filled.replace_strict(labels, pl.Series(codes), return_dtype=pl.Int64).to_numpy()

    def sorted(self) -> tuple[tuple[LabelValue, ...], IntArray]:
        """The labels in sorted order, and the place of each number among them."""
        labels = sorted(self._code)
        place = np.empty(len(self._code), dtype=np.int64)
        place[[self._code[label] for label in labels]] = np.arange(len(labels))
        return tuple(labels), place


def summary_of(part: Part, reading: Reading) -> ShardSummary:
    """One part as a summary."""
    counter = SummaryCounter(reading)
    for frame in whole_batches(part, reading.schema, reading.columns.episode, BATCH_ROWS):
        counter.add_rows(frame)
    return replace(counter.result(), ranges=part.ranges)


class Pace:
    """Tells how far reading has come, in rows and rows per second."""

    def __init__(self, rows: int, what: str) -> None:
        self.rows, self.what, self.done, self.began = rows, what, 0, time.monotonic()

    def tell(self, rows: int) -> None:
        """So many more rows were read."""
        self.done += rows
        speed = self.done / max(time.monotonic() - self.began, 1e-9)
        share = min(self.done / self.rows, 1.0) if self.rows else 1.0
        report(self.what, share, f"({self.done / 1e6:.1f} million rows, {speed / 1e6:.1f} million per second)")
