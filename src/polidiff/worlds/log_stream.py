"""All rows of a log that is too long to be held, some whole episodes at a time.

A part of a log is a few pieces of its files that hold whole episodes only: where a cut between two parts would fall
into an episode, the rest of the episode goes to the part before. Parts are therefore counted apart from each other, by
the code that counts rows in memory, and what was counted is added up in the order of the log. Where parts end depends
on the files alone. Within a part, rows are read half a million at a time; an episode that goes on is carried over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import polars as pl

from polidiff.errors import InvalidLogError
from polidiff.worlds.log_columns import Columns
from polidiff.worlds.log_labels import Labels
from polidiff.worlds.log_rows import LoggedRows, read_rows
from polidiff.worlds.log_sample import Place, hashes, read_place, values_per_row
from polidiff.worlds.shards.result_cache import ResultCache, cached_results
from polidiff.worlds.shards.scan import Pace
from polidiff.worlds.shards.shard_files import SHARD_ROWS

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
        return max(1, min(STREAM_ROWS, STREAM_VALUES // (values_per_row(self.columns) + 4 * self.actions.count)))


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
        yield replace(rows, hashed=hashes(frame, columns.episode, first))
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
