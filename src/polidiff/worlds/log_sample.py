r"""Whole episodes drawn from a log that is too long to be held: the same ones whoever reads, in whatever parts.

An episode is kept if the hash of its name is small,

.. math:: h(e) < 2^{64} \cdot \frac{\text{rows that fit}}{\text{rows}},

so that parts of a log can be read apart from each other and put together, and an episode that goes on in the next file
is kept there too. The hash has nothing to do with what an episode holds: the sample is as good as a shorter log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from polidiff.errors import InvalidLogError
from polidiff.parallel import stream_tasks
from polidiff.progress import report
from polidiff.records.arrays import AnyArray, IntArray
from polidiff.worlds.log_columns import Columns
from polidiff.worlds.shards.shard_files import BATCH_ROWS, FAULTS, SHARD_ROWS, first_line, scan_file

MOST_VALUES = 100_000_000  # numbers of a log with feature states that are held at once: 0.8 GB
SLACK = 1.5  # times the rows that were meant to be drawn: beyond that, single episodes are too long
WHAT = "drawing episodes"
HASH = "polidiff: hash"  # a column beside those of the log

Place = tuple[str, int, int]  # file, first row, number of rows


@dataclass(frozen=True)
class Drawing:
    """Which episodes are kept."""

    columns: tuple[str, ...]  # that are read
    episode: str | None  # None: every row is an episode
    share: float  # of the episodes that are kept


def values_per_row(columns: Columns) -> int:
    """Numbers that one row takes as arrays: features, outcomes, action, episode, follower, probability."""
    return len(columns.state) + len(columns.gains) + 4


def rows_that_fit(columns: Columns, asked: int | None) -> int:
    """How many rows are held: as many as the user says, or as `MOST_VALUES` allows."""
    return MOST_VALUES // values_per_row(columns) if asked is None else asked


def draw_episodes(
    table: pl.LazyFrame | None, pieces: Sequence[Place], columns: Columns, *, rows: int, most: int
) -> pl.DataFrame:
    """The rows of about `most` / `rows` of all episodes, in the order of the log, with the hash of each.

    They come from a table, or from files.
    """
    drawing = Drawing(tuple(columns.used), columns.episode, most / rows)
    kept: list[pl.DataFrame] = []
    held = done = 0
    for part, read in _drawn(table, pieces, drawing):
        held, done = held + part.height, done + read
        if held > SLACK * most + BATCH_ROWS:
            raise InvalidLogError(
                f"about {most} of {rows} rows were to be drawn as whole episodes; {held} were drawn from the first "
                f"{done}, because some episodes are very long. Hint: cut episodes, or set max_rows"
            )
        kept.append(part)
        report(WHAT, min(1.0, done / rows))
    found = pl.concat(kept)
    if not found.height:
        raise InvalidLogError(f"no episode is short enough to be held: {rows} rows, max_rows = {most}. Hint: raise it")
    return found


def _drawn(table: pl.LazyFrame | None, pieces: Sequence[Place], drawing: Drawing) -> Iterator[tuple[pl.DataFrame, int]]:
    """ResultCache rows, and how many rows they were drawn from."""
    if table is not None:
        first = 0
        for frame in table.select(drawing.columns).collect_batches(chunk_size=BATCH_ROWS, maintain_order=True):
            yield kept_rows(frame, drawing, first), frame.height
            first += frame.height
        return
    tasks, first = [], 0
    for group in _grouped(pieces):
        tasks.append((group, drawing, first))
        first += sum(rows for _, _, rows in group)
    for found, (group, _, _) in zip(stream_tasks(draw_from_files, tasks), tasks, strict=True):
        yield found, sum(rows for _, _, rows in group)


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
    """What is kept of some pieces of files; `first` is the number of their first row in the log."""
    kept = []
    for place in pieces:
        kept.append(kept_rows(read_place(place, drawing.columns), drawing, first))
        first += place[2]
    return pl.concat(kept)


def read_place(place: Place, columns: Sequence[str]) -> pl.DataFrame:
    """Some rows of a file that could be read before."""
    file, begin, rows = place
    try:
        return scan_file(file).select(columns).slice(begin, rows).collect()
    except FAULTS as error:
        raise InvalidLogError(
            f"the log cannot be read: {file}, rows {begin} to {begin + rows - 1}: {first_line(error)}"
        ) from error


def kept_rows(frame: pl.DataFrame, drawing: Drawing, first: int) -> pl.DataFrame:
    """The rows of episodes with a small hash, and the hash."""
    hashed = hashes(frame, drawing.episode, first)
    kept = frame.with_columns(pl.Series(HASH, hashed))
    return kept.filter(pl.Series(hashed < limit_of(drawing.share)))


def limit_of(share: float) -> np.uint64:
    """The number below which the hashes of a share of all episodes lie."""
    return np.uint64(min(int(share * 2.0**64), 2**64 - 1))


def hashes(frame: pl.DataFrame, episode: str | None, first: int) -> AnyArray:
    """(n,) a hash of each row's episode; of its number in the log, from `first` on, if every row is an episode."""
    if episode is None:
        return mixed(np.arange(first, first + frame.height))
    names = frame[episode]
    if not names.dtype.is_integer():
        names = names.cast(pl.String)
    begins = (names != names.shift(1)).fill_null(True).to_numpy()
    found: AnyArray = _of_names(names.filter(pl.Series(begins)))[np.cumsum(begins) - 1]
    return found


def _of_names(names: pl.Series) -> AnyArray:
    if names.dtype.is_integer():
        return mixed(names.to_numpy())
    digests = [hashlib.blake2b(str(name).encode(), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(digests), dtype="<u8")


def mixed(numbers: IntArray | AnyArray) -> AnyArray:
    """Whole numbers scattered over 64 bits (SplitMix64).

    >>> mixed(np.array([0, 1])).tolist()
    [16294208416658607535, 10451216379200822465]
    """
    x = np.asarray(numbers).astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
