"""Tables of rows, one after the other, to a summary: every check, label and transition in one pass over the columns."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from polidiff.progress import report
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.worlds.hashing import hashes
from polidiff.worlds.log_columns import RANKED, Columns
from polidiff.worlds.shards.kernels import (
    CARRIED,
    ENDED,
    ENDS,
    EPISODE,
    FALLS,
    GAPS,
    HAS,
    OUTSIDE,
    OVER_FIRST,
    RUN,
    STARTS,
    WRONG,
    follow,
    quick,
    sealed,
)
from polidiff.worlds.shards.result_cache import ResultCache, cached_results
from polidiff.worlds.shards.shard_files import Piece, Shard, check_readable, pieces
from polidiff.worlds.shards.shard_summary import (
    Border,
    ColumnCodes,
    EpisodeRuns,
    Reading,
    ShardSummary,
    StateFeatures,
    SummaryJoiner,
    either,
    no_entries,
    no_rows,
)
from polidiff.worlds.shards.transition_counts import TransitionCounts

AT_A_TIME = 1 << 18  # rows, whose columns are small enough to take the place of those before in memory
WHAT = "reading the log"
AT_ONCE = 2  # shards: while one is put together, the next is read


class ShardCounter:
    """Counts rows as they come."""

    def __init__(self, reading: Reading) -> None:
        self.reading, columns = reading, reading.columns
        outcomes = len(columns.gains)
        self.states, self.actions, self.runs = ColumnCodes(), ColumnCodes(), EpisodeRuns()
        self.counted, self.begun = TransitionCounts(reading.blocks, outcomes), TransitionCounts(reading.blocks, 0)
        self.state_features = StateFeatures(columns.features if columns.discrete else ())
        self.rows = self.wrong = 0
        self.missing = [0 for _ in columns.used]
        self.values: list[tuple[bool, str | None]] = [(False, None) for _ in columns.features]
        self.head: Border | None = None
        self.tail: Border | None = None
        self._pool = ThreadPoolExecutor(1)
        self._adding: Future[None] = self._pool.submit(lambda: None)
        self._carry = np.zeros(CARRIED, dtype=np.int64)
        self._step = np.zeros(1, dtype=np.int64)
        self._totals = np.zeros((2, outcomes))
        self._last_gains = np.zeros((outcomes, 1))
        self._ranges = np.tile([-np.inf, np.inf], (outcomes, 1))
        for k, low, high in reading.ranges:
            self._ranges[k] = low, high

    def add(self, frame: pl.DataFrame) -> None:
        """Rows that follow on those before."""
        for part in frame.iter_slices(AT_A_TIME):
            self._add(part)

    @np.errstate(over="ignore", invalid="ignore")  # sums of endless rewards are endless, not a fault
    def _add(self, frame: pl.DataFrame) -> None:
        columns = self.reading.columns
        self._look(frame)
        gains = _gains(frame, columns)
        state = self.states.of(frame[columns.state[0]]) if columns.discrete else np.zeros(frame.height, dtype=np.int64)
        action = self.actions.of(frame[columns.action])
        if not self.counted.fits(len(self.states), len(self.actions)):
            self._adding.result()
            for table in (self.counted, self.begun):
                table.reserve(len(self.states), len(self.actions))
        self._count(frame, state, action, gains)
        self.state_features.add(frame, state)
        self.rows += frame.height

    def result(self) -> ShardSummary:
        """What there is to know of the rows."""
        columns, carry = self.reading.columns, self._carry
        self._adding.result()
        self._pool.shutdown()
        if self.head is None or self.tail is None:
            return no_rows(self.reading)
        counts = self.counted.entries()
        left, done = counts.sizes.met(counts.keys, max(len(self.states), 1), len(self.actions))
        for row in (self.head, self.tail):
            left[row.state], done[row.action] = True, True
        states, numbered = self.states.sorted(left) if columns.discrete else ((), np.full(1, -1))
        actions, taken = self.actions.sorted(done)
        entries = no_entries(self.reading)
        starts: tuple[AnyArray, AnyArray, FloatArray] = (entries.keys, entries.keys, entries.count)
        if columns.discrete:
            entries = replace(counts, keys=counts.sizes.translated(counts.keys, counts.sizes, numbered, taken))
            begun = self.begun.entries()
            block, begins, _, _ = begun.sizes.parts(begun.keys)
            starts = block, numbered[begins], begun.count
        features, varied = self.state_features.table(numbered, len(states))
        head, tail = (self._border(border, last, numbered, taken) for border, last in ((self.head, 0), (self.tail, 1)))
        return ShardSummary(
            rows=self.rows,
            runs=int(carry[RUN]) + 1,
            ended=int(carry[ENDS]),
            gaps=int(carry[GAPS]),
            wrong=self.wrong + int(carry[WRONG]),
            missing=tuple(self.missing),
            values=tuple(self.values),
            outside=bool(carry[OUTSIDE]),
            ordered=self.runs.rising and not carry[FALLS],
            states=states,
            actions=actions,
            entries=entries,
            starts=starts,
            head=head,
            tail=tail,
            features=features,
            varied=varied,
        )

    def _look(self, frame: pl.DataFrame) -> None:
        """Facts that need no order: what is missing, what is no number, what varies."""
        columns = self.reading.columns
        missing = {name: frame[name].null_count() for name in columns.used}
        self.missing = [before + missing[name] for before, name in zip(self.missing, columns.used, strict=True)]
        self.wrong += sum(missing[name] for name in _needed(columns))
        if columns.reward is not None and columns.reward not in columns.gains:
            reward = frame[columns.reward].cast(pl.Float64).to_numpy()
            self.wrong += len(reward) - int(np.count_nonzero(np.isfinite(reward)))
        if columns.probability is not None:
            chance = frame[columns.probability].cast(pl.Float64).to_numpy()
            self.wrong += len(chance) - int(np.count_nonzero((chance > 0) & (chance <= 1)))
        for j, name in enumerate(columns.features):
            if not self.values[j][0]:
                self.values[j] = either(self.values[j], _first_value(frame[name]))

    def _count(self, frame: pl.DataFrame, state: IntArray, action: IntArray, gains: FloatArray) -> None:
        columns, carry = self.reading.columns, self._carry
        episode, before = self.runs.of(None if columns.episode is None else frame[columns.episode], frame.height)
        ended = np.ones(frame.height, dtype=np.uint8) if columns.episode is None else _said(frame, columns.terminated)
        cut = columns.truncated if columns.episode is not None else None
        closed = ended if cut is None else ended | _said(frame, cut)
        step = _steps(frame, columns)
        self._step = self._step.astype(step.dtype)
        carry[EPISODE] = before
        keys, starts = np.empty(frame.height, dtype=np.int64), np.empty(frame.height, dtype=np.int64)
        had = bool(carry[HAS])
        person = _people(frame, columns.group)
        given = (sealed(part) for part in (episode, step, state, action, ended, closed, gains, self._ranges, person))
        quick(follow, frame.height)(
            *given, self.reading.temporal, tuple(self.counted.sizes), carry, self._step, self._totals, keys, starts
        )
        self._adding.result()
        begun = starts[: carry[STARTS]] if columns.discrete else starts[:0]
        self._adding = self._pool.submit(self._sum, keys, gains, begun, self._last_gains if had else None)
        self._last_gains = gains[:, -1:].copy()
        if not had:
            self.head = self._row(frame, 0, step, state, action, gains, ended, closed, person)
        self.tail = self._row(frame, -1, step, state, action, gains, ended, closed, person)

    @np.errstate(over="ignore", invalid="ignore")
    def _sum(self, keys: IntArray, gains: FloatArray, begun: IntArray, before: FloatArray | None) -> None:
        """Add rows to the sums, in a thread of its own, while the next rows are followed."""
        if before is not None:
            self.counted.add_rows(keys[:1], before)
        self.counted.add_rows(keys[1:], gains)
        self.begun.add_rows(begun, np.zeros((0, len(begun))))

    def _row(
        self,
        frame: pl.DataFrame,
        at: int,
        step: AnyArray,
        state: IntArray,
        action: IntArray,
        gains: FloatArray,
        ended: AnyArray,
        closed: AnyArray,
        person: IntArray,
    ) -> Border:
        columns = self.reading.columns
        return Border(
            episode=None if columns.episode is None else _name(frame[columns.episode][at]),
            step=step[at].item() if len(step) else None,
            state=int(state[at]),
            action=int(action[at]),
            gains=tuple(float(gain) for gain in gains[:, at]),
            ended=bool(ended[at]),
            closed=bool(closed[at]),
            totals=(),
            over=bool(ended[at]),
            person=int(person[at]) if len(person) else None,
        )

    def _border(self, border: Border, last: int, state: IntArray, action: IntArray) -> Border:
        """The row under the final numbers, with the sums of its episode."""
        first = not last and self._carry[RUN] > 0
        return replace(
            border,
            state=int(state[border.state]),
            action=int(action[border.action]),
            totals=tuple(float(total) for total in self._totals[0 if first else 1]),
            over=bool(self._carry[OVER_FIRST if first else ENDED]),
        )


def _needed(columns: Columns) -> set[str]:
    """Columns that must have a value in every row."""
    return set(columns.needed)


def _said(frame: pl.DataFrame, name: str | None) -> AnyArray:
    if name is None:
        return np.zeros(frame.height, dtype=np.uint8)
    said = frame[name].cast(pl.Boolean)
    return (said.fill_null(False) if said.null_count() else said).cast(pl.UInt8).to_numpy()


def _people(frame: pl.DataFrame, name: str | None) -> IntArray:
    """Numbers by which people are dealt to blocks; empty if the log does not say who they are."""
    if name is None:
        return np.zeros(0, dtype=np.int64)
    people = frame[name].fill_null(strategy="zero") if frame[name].dtype.is_integer() else frame[name]
    if people.dtype == RANKED:
        return people.cast(pl.Int64).to_numpy()
    return (hashes(people) >> np.uint64(2)).astype(np.int64)


def _steps(frame: pl.DataFrame, columns: Columns) -> AnyArray:
    """Whole numbers, or other numbers; empty if the log has none."""
    if columns.step is None:
        return np.zeros(0, dtype=np.int64)
    step = frame[columns.step]
    if step.dtype.is_temporal():
        step = step.to_physical()
    if step.null_count():
        step = step.fill_null(0)
    return step.cast(pl.Int64 if step.dtype.is_integer() else pl.Float64).to_numpy()


def _gains(frame: pl.DataFrame, columns: Columns) -> FloatArray:
    """(K, n) what each row adds to each outcome; NaN where it is missing."""
    parts = [
        frame[gain].cast(pl.Float64).to_numpy() if isinstance(gain, str) else np.full(frame.height, float(gain))
        for gain in columns.gains
    ]
    return parts[0].reshape(1, -1) if len(parts) == 1 else np.array(parts).reshape(len(parts), frame.height)


def _first_value(column: pl.Series) -> tuple[bool, str | None]:
    there = column.drop_nulls() if column.null_count() else column
    if not len(there):
        return False, None
    first = there.slice(0, 1)
    return bool((there != first).any()), str(first[0])


def _name(episode: object) -> int | str:
    return episode if isinstance(episode, int) and not isinstance(episode, bool) else str(episode)


def scan(
    shards: Sequence[Shard], reading: Reading, *, skip_bad: bool = False, cache: ResultCache[ShardSummary] | None = None
) -> ShardSummary:
    """The whole log as one closed summary."""
    if not skip_bad:
        check_readable(shards)
    joiner = SummaryJoiner(reading)
    pace = Pace(sum(shard.rows for shard in shards))
    joiner.add(no_rows(reading))
    tasks = [(shard.ranges, (shard, reading, skip_bad)) for shard in shards]
    summaries = cached_results(summary_of, tasks, cache, threads=AT_ONCE)
    cut: Gap | None = None
    for shard in shards:
        summary = next(summaries)
        if cut is not None:  # the episode that was cut there is left out here too
            summary = summary_of(shard, reading, skip_bad, cut)
        joiner.add(summary)
        pace.tell(summary.rows)
        cut = Gap(summary.lost) if summary.broken else None
        del summary  # it may be large, and the next is made before it would be let go
    return joiner.closed()


@dataclass(frozen=True)
class Gap:
    """Rows that could not be read, and the episode that goes on after them; None while no row of it was met."""

    episode: str | None = None


def summary_of(shard: Shard, reading: Reading, skip_bad: bool, gap: Gap | None = None) -> ShardSummary:
    """One shard as a summary; after a `gap`, from where an episode surely begins."""
    if shard.damaged is not None:
        note = f"{shard.damaged[0]} could not be read: {shard.damaged[1]}"
        return replace(no_rows(reading), skipped=(note,), broken=True)
    counter = ShardCounter(reading)
    notes: list[str] = []
    used: list[tuple[str, int, int]] = []
    for piece in _ahead(pieces(shard, reading, skip_bad=skip_bad)):
        if piece.frame is None:
            gap = Gap()
            notes.append(piece.note)
            continue
        frame, gap = _after(piece.frame, gap, reading.columns.episode)
        if frame.height:
            counter.add(frame)
            used.append((piece.file, piece.first + piece.frame.height - frame.height, frame.height))
    lost = None if gap is None else gap.episode
    return replace(counter.result(), skipped=tuple(notes), pieces=tuple(used), broken=gap is not None, lost=lost)


def _ahead(items: Iterator[Piece]) -> Iterator[Piece]:
    """The pieces, each read in a second thread while the one before is counted."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, items, None)
        while (item := waiting.result()) is not None:
            waiting = pool.submit(next, items, None)
            yield item


def _after(frame: pl.DataFrame, gap: Gap | None, name: str | None) -> tuple[pl.DataFrame, Gap | None]:
    """The rows after the episode that a gap has cut, and the gap if that may go on in what follows."""
    if gap is None or name is None or not frame.height:
        return frame, gap if name is not None else None
    episode = frame[name].cast(pl.String)
    lost = episode[0] if gap.episode is None else gap.episode
    others = (episode != lost).fill_null(True)
    if not others.any():
        return frame.clear(), Gap(lost)
    return frame.slice(int(others.arg_max() or 0)), None


class Pace:
    """Tells how far reading has come, in rows and rows per second."""

    def __init__(self, rows: int, what: str = WHAT) -> None:
        self.rows, self.what, self.done, self.began = rows, what, 0, time.monotonic()

    def tell(self, rows: int) -> None:
        """So many more rows were read."""
        self.done += rows
        speed = self.done / max(time.monotonic() - self.began, 1e-9)
        share = min(self.done / self.rows, 1.0) if self.rows else 1.0
        report(self.what, share, f"({self.done / 1e6:.1f} million rows, {speed / 1e6:.1f} million per second)")
