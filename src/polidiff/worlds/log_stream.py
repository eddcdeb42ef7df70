r"""A log that is too long to be held: whole episodes drawn from it, and all of its rows, some whole episodes at a time.

An episode is drawn if the hash of its name is small,

.. math:: h(e) < 2^{64} \cdot \frac{\text{rows that fit}}{\text{rows}},

so that parts of a log can be read apart from each other and put together, and an episode that goes on in the next file
is drawn there too. The hash has nothing to do with what an episode holds: the sample is as good as a shorter log.

A part of a log is a few ranges of its files that hold whole episodes only: where a cut between two parts would fall
into an episode, the rest of the episode goes to the part before. Parts are therefore counted apart from each other, by
the code that counts rows in memory, and what was counted is added up in the order of the log. Where parts end depends
on the files alone. Within a part, rows are read half a million at a time; an episode that goes on is carried over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import polars as pl

from polidiff.errors import InvalidLogError
from polidiff.parallel import stream_tasks
from polidiff.progress import report
from polidiff.records.arrays import AnyArray
from polidiff.worlds.hashing import hashes, mixed
from polidiff.worlds.log_columns import Columns, Labels
from polidiff.worlds.log_rows import LoggedRows, read_rows
from polidiff.worlds.shards.result_cache import ResultCache, cached_results
from polidiff.worlds.shards.shard_counter import Pace
from polidiff.worlds.shards.shard_files import BATCH_ROWS, FAULTS, SHARD_ROWS, first_line, scan_file

MOST_VALUES = 100_000_000  # numbers of a log with feature states that are held at once: 0.8 GB
SLACK = 1.5  # times the rows that were meant to be drawn: beyond that, single episodes are too long
WHAT = "drawing episodes"
HASH = "polidiff: hash"  # a column beside those of the log

Place = tuple[str, int, int]  # file, first row, number of rows


@dataclass(frozen=True)
class Drawing:
    """Which episodes are drawn."""

    columns: tuple[str, ...]  # that are read
    unit: str | None  # column of whoever is drawn as a whole: people, or episodes; None: every row
    share: float  # of the episodes that are drawn


def rows_that_fit(columns: Columns, asked: int | None) -> int:
    """How many rows are held: as many as the user says, or as `MOST_VALUES` allows."""
    return MOST_VALUES // columns.values_per_row if asked is None else asked


def draw_episodes(
    table: pl.LazyFrame | None,
    pieces: Sequence[Place],
    columns: Columns,
    *,
    rows: int,
    most: int,
    more: Sequence[str] = (),
) -> pl.DataFrame:
    """The rows of about `most` / `rows` of all episodes, in the order of the log, with the hash of each.

    They come from a table, or from files; `more` are columns to read beside those of the log.
    """
    drawing = Drawing(tuple(dict.fromkeys((*columns.used, *more))), columns.unit, most / rows)
    drawn: list[pl.DataFrame] = []
    held = done = 0
    for part, read in _drawn(table, pieces, drawing):
        held, done = held + part.height, done + read
        if held > SLACK * most + BATCH_ROWS:
            raise InvalidLogError(
                f"about {most} of {rows} rows were to be drawn as whole episodes; {held} were drawn from the first "
                f"{done}, because some episodes are very long. Hint: cut episodes, or set max_rows"
            )
        drawn.append(part)
        report(WHAT, min(1.0, done / rows))
    sample = pl.concat(drawn)
    if not sample.height:
        raise InvalidLogError(f"no episode is short enough to be held: {rows} rows, max_rows = {most}. Hint: raise it")
    return sample


def _drawn(table: pl.LazyFrame | None, pieces: Sequence[Place], drawing: Drawing) -> Iterator[tuple[pl.DataFrame, int]]:
    """ResultCache rows, and how many rows they were drawn from."""
    if table is not None:
        first = 0
        for frame in table.select(drawing.columns).collect_batches(chunk_size=BATCH_ROWS, maintain_order=True):
            yield drawn_rows(frame, drawing, first), frame.height
            first += frame.height
        return
    tasks, first = [], 0
    for group in _grouped(pieces):
        tasks.append((group, drawing, first))
        first += sum(rows for _, _, rows in group)
    for sample, (group, _, _) in zip(stream_tasks(draw_from_files, tasks), tasks, strict=True):
        yield sample, sum(rows for _, _, rows in group)


def _grouped(pieces: Sequence[Place]) -> Iterator[tuple[Place, ...]]:
    waiting: list[Place] = []
    for piece in pieces:
        waiting.append(piece)
        if sum(rows for _, _, rows in waiting) >= SHARD_ROWS:
            yield tuple(waiting)
            waiting = []
    if waiting:
        yield tuple(waiting)


def draw_from_files(pieces: Sequence[Place], drawing: Drawing, first: int) -> pl.DataFrame:
    """What is drawn from some pieces of files; `first` is the number of their first row in the log."""
    drawn = []
    for place in pieces:
        drawn.append(drawn_rows(read_place(place, drawing.columns), drawing, first))
        first += place[2]
    return pl.concat(drawn)


def read_place(place: Place, columns: Sequence[str]) -> pl.DataFrame:
    """Some rows of a file that could be read before."""
    file, begin, rows = place
    try:
        return scan_file(file).select(columns).slice(begin, rows).collect()
    except FAULTS as error:
        raise InvalidLogError(
            f"the log cannot be read: {file}, rows {begin} to {begin + rows - 1}: {first_line(error)}"
        ) from error


def drawn_rows(frame: pl.DataFrame, drawing: Drawing, first: int) -> pl.DataFrame:
    """The rows of episodes with a small hash, and the hash."""
    hashed = unit_hashes(frame, drawing.unit, first)
    return frame.with_columns(pl.Series(HASH, hashed)).filter(pl.Series(hashed < limit_of(drawing.share)))


def unit_hashes(frame: pl.DataFrame, name: str | None, first: int) -> AnyArray:
    """(n,) a hash of each row's episode or person; of its number in the log, from `first` on, if every row is one."""
    return mixed(np.arange(first, first + frame.height)) if name is None else hashes(frame[name])


def limit_of(share: float) -> np.uint64:
    """The number below which the hashes of a share of all episodes lie."""
    return np.uint64(min(int(share * 2.0**64), 2**64 - 1))


STREAM_ROWS, STREAM_VALUES = 1 << 19, 1 << 23  # rows that are read at a time, and numbers that they and policies make
LONGEST = 1 << 24  # rows of an episode
T = TypeVar("T")


@dataclass(frozen=True)
class Reader:
    """How rows of a log with feature states are read."""

    columns: Columns
    actions: Labels
    temporal: bool

    @property
    def batch(self) -> int:
        """How many rows are read at a time: fewer where policies choose among many actions."""
        return max(1, min(STREAM_ROWS, STREAM_VALUES // (self.columns.values_per_row + 4 * self.actions.count)))


@dataclass(frozen=True)
class Part:
    """Whole episodes that stand together in files."""

    pieces: tuple[Place, ...]
    first: int  # number of its first row in the log

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(rows for _, _, rows in self.pieces)


def count_parts(
    table: pl.LazyFrame | None,
    pieces: Sequence[Place],
    reader: Reader,
    count: Callable[..., T],
    asked: Any,
    *,
    rows: int,
    what: str,
    cache: ResultCache[T] | None = None,
) -> Iterator[T]:
    """``count(batches of LoggedRows, asked)`` of every part of a log, in order; from `cache` where it is there."""
    pace = Pace(rows, what)
    if table is not None:
        yield count(_paced(_batches(_of_table(table, reader), reader, 0), pace), asked)
        return
    parts = whole_parts(pieces, reader.columns.episode)
    tasks = [(part.pieces, (part, reader, count, asked)) for part in parts]
    for part, counted in zip(parts, cached_results(count_part, tasks, cache), strict=True):
        pace.tell(part.rows)
        yield counted


def count_part(part: Part, reader: Reader, count: Callable[..., T], asked: Any) -> T:
    """What is counted of one part."""
    return count(_batches(_of_files(part.pieces, reader), reader, part.first), asked)


def whole_parts(pieces: Sequence[Place], episode: str | None) -> list[Part]:
    """Pieces of files as parts of about a shard each, cut where an episode begins."""
    rest, parts, first = deque(pieces), list[Part](), 0
    while rest:
        taken = [rest.popleft()]
        while rest and sum(rows for _, _, rows in taken) < SHARD_ROWS:
            taken.append(rest.popleft())
        if episode is not None:
            _finish(taken, rest, episode)
        parts.append(Part(tuple(taken), first))
        first += parts[-1].rows
    return parts


def _finish(taken: list[Place], rest: deque[Place], episode: str) -> None:
    """Move the rows that go on with the last episode of what was taken."""
    file, begin, rows = taken[-1]
    last = read_place((file, begin + rows - 1, 1), (episode,))[episode][0]
    while rest:
        file, begin, rows = rest.popleft()
        others = read_place((file, begin, rows), (episode,))[episode] != last
        same = int(others.arg_max() or 0) if others.any() else rows
        if same:
            taken.append((file, begin, same))
        if same < rows:
            rest.appendleft((file, begin + same, rows - same))
            return


def _batches(frames: Iterator[pl.DataFrame], reader: Reader, first: int) -> Iterator[LoggedRows]:
    """Rows of whole episodes."""
    columns = reader.columns
    for frame in _whole(frames, columns.episode, reader.batch):
        rows = read_rows(frame.lazy(), columns, reader.actions, None, temporal=reader.temporal)
        yield replace(rows, hashed=unit_hashes(frame, columns.unit, first))
        first += frame.height


def _whole(frames: Iterator[pl.DataFrame], episode: str | None, batch: int) -> Iterator[pl.DataFrame]:
    """The same rows, so many at a time, cut where episodes begin."""
    waiting: pl.DataFrame | None = None
    for frame in frames:
        for part in frame.iter_slices(batch):
            if episode is None:
                yield part
                continue
            joined = part if waiting is None else pl.concat([waiting, part])
            cut = _last_begin(joined[episode])
            if cut:
                yield joined.slice(0, cut)
            waiting = joined.slice(cut)
            if waiting.height > LONGEST:
                raise InvalidLogError(
                    f"episode {waiting[episode][0]!r} has more than {LONGEST} rows and cannot be held. Hint: cut it"
                )
    if waiting is not None:
        yield waiting


def _last_begin(names: pl.Series) -> int:
    """Where the last episode begins.

    >>> _last_begin(pl.Series([1, 1, 2, 3, 3]))
    3
    """
    others = (names != names[-1]).reverse()
    return len(names) - int(others.arg_max() or 0) if others.any() else 0


def _of_table(table: pl.LazyFrame, reader: Reader) -> Iterator[pl.DataFrame]:
    yield from table.select(reader.columns.used).collect_batches(chunk_size=reader.batch, maintain_order=True)


def _of_files(pieces: Sequence[Place], reader: Reader) -> Iterator[pl.DataFrame]:
    for place in pieces:
        yield read_place(place, reader.columns.used)


def _paced(batches: Iterator[LoggedRows], pace: Pace) -> Iterator[LoggedRows]:
    for batch in batches:
        yield batch
        pace.tell(len(batch.actions))
