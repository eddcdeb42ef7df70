"""What a log consists of: shards that can be read apart from each other, in the order of the log, and their rows.

A shard is a few ranges of rows of Parquet files. Where a shard ends depends on the files alone, never on who reads
them, so that sums are made in the same order everywhere. A range is a million rows: no reader among our dependencies
tells where row groups end, and the common sizes of row groups divide 2**20, so that few are read twice.

What cannot be read is named by file and rows. If it is to be left out, so is the rest of the episode that it cuts: the
row before it counts as cut, and rows after it are used from the next episode on, because nobody can say whether the
first of them begins an episode.
"""

from __future__ import annotations

import io
import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import polars as pl

from polidiff.errors import InvalidLogError, MissingExtraError
from polidiff.worlds.shards.shard_summary import Reading

SHARD_ROWS = 1 << 23  # at most, but for what is left of a range
BATCH_ROWS = 1 << 20
MAGIC = b"PAR1"
FAULTS = (pl.exceptions.PolarsError, OSError, pl.exceptions.PanicException)


class RowRange(NamedTuple):
    """Rows of a file that stand together."""

    file: str
    first: int
    rows: int

    def __str__(self) -> str:
        return f"{self.file}, rows {self.first} to {self.first + self.rows - 1}"


@dataclass(frozen=True)
class Shard:
    """Ranges that follow each other; or a file that cannot be read; or a table that only this process has."""

    ranges: tuple[RowRange, ...] = ()
    damaged: tuple[str, str] | None = None  # a file, and why not even its number of rows is known
    table: pl.LazyFrame | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The files it comes from."""
        return tuple(dict.fromkeys(part.file for part in self.ranges))

    @property
    def rows(self) -> int:
        """How many rows it should have; 0 if nobody knows."""
        return sum(part.rows for part in self.ranges)


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows that stand together, or a note about rows that cannot be read."""

    frame: pl.DataFrame | None
    file: str = ""
    first: int = 0  # its first row in the file
    note: str = ""


def split_files(files: Sequence[str]) -> tuple[Shard, ...]:
    """Parquet files as shards."""
    return tuple(_shards([_all_ranges(file) for file in files]))


def _shards(parts: Sequence[Shard]) -> Iterator[Shard]:
    rows = sum(part.rows for part in parts)
    most = max(1.0, rows / max(1, math.ceil(rows / SHARD_ROWS)))  # as many as are needed, of about the same size
    gathered: list[RowRange] = []
    for part in parts:
        if part.damaged is not None:
            if gathered:
                yield Shard(tuple(gathered))
                gathered = []
            yield part
        for some in part.ranges:
            gathered.append(some)
            if sum(known.rows for known in gathered) >= most:
                yield Shard(tuple(gathered))
                gathered = []
    if gathered:
        yield Shard(tuple(gathered))


def _all_ranges(file: str) -> Shard:
    """All rows of a file as ranges, or why they are not known."""
    try:
        rows = count_rows(file)
    except FAULTS as error:
        return Shard(damaged=(file, first_line(error)))
    begins = range(0, rows, BATCH_ROWS)
    return Shard(tuple(RowRange(file, first, min(BATCH_ROWS, rows - first)) for first in begins))


def count_rows(file: str) -> int:
    """How many rows a Parquet file has, from its footer alone."""
    with open_file(file) as stream:
        size = stream.seek(0, 2)
        stream.seek(max(size - 8, 0))
        tail = stream.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != MAGIC or not 0 < length <= size - 8:
            raise OSError("it does not end as a Parquet file does")
        stream.seek(size - 8 - length)
        footer = stream.read(length + 8)
    return int(pl.scan_parquet(io.BytesIO(MAGIC + footer)).select(pl.len()).collect().item())


def check_readable(shards: Sequence[Shard]) -> None:
    """An error that names the first file whose rows are not known."""
    damaged = next((shard.damaged for shard in shards if shard.damaged is not None), None)
    if damaged is not None:
        raise _unreadable(*damaged)


def open_file(path: str) -> BinaryIO:
    """A local file, or one at any address that fsspec knows, to read from."""
    if not is_remote(path):
        return Path(path).open("rb")
    opened: BinaryIO = filesystem()[0].open(path, "rb").open()
    return opened


def is_remote(path: str) -> bool:
    """Whether a path is an address.

    >>> is_remote("s3://bucket/log.parquet"), is_remote("logs/*.parquet")
    (True, False)
    """
    return "://" in path


def filesystem() -> tuple[Any, Any]:
    """fsspec, which reads from everywhere."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtraError("fsspec", "dask") from error
    return fsspec, fsspec.core


def scan_file(path: str) -> pl.LazyFrame:
    """A Parquet file to select from. One at an address is fetched whole."""
    if not is_remote(path):
        return pl.scan_parquet(path, glob=False)
    with open_file(path) as stream:
        return pl.scan_parquet(io.BytesIO(stream.read()))


def pieces(shard: Shard, reading: Reading, *, skip_bad: bool = False) -> Iterator[Piece]:
    """The rows of a shard in order, about a million at a time."""
    if shard.table is not None:
        yield from _of_table(shard.table, reading)
        return
    for file in shard.files:
        lazy = scan_file(file).select(reading.columns.used)
        for part in (part for part in shard.ranges if part.file == file):
            yield from _of_range(lazy, part, reading, skip_bad)


def _of_table(table: pl.LazyFrame, reading: Reading) -> Iterator[Piece]:
    chosen = table.select(reading.columns.used)
    first = 0
    for frame in chosen.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True):
        yield Piece(frame, first=first)
        first += frame.height


def _of_range(lazy: pl.LazyFrame, part: RowRange, reading: Reading, skip_bad: bool) -> Iterator[Piece]:
    """The rows of a range; what cannot be read of it stops all, unless it is to be left out."""
    while part.rows:
        try:
            yield Piece(_read(lazy, part, reading), part.file, part.first)
            return
        except FAULTS as error:
            before, bad = _fault(lazy, part, reading)
            if not skip_bad:
                raise _unreadable(str(bad), first_line(error)) from error
        if before.rows:
            yield Piece(_read(lazy, before, reading), part.file, part.first)
        yield Piece(None, part.file, bad.first, f"{bad} could not be read")
        done = before.rows + bad.rows
        part = RowRange(part.file, part.first + done, part.rows - done)


def _fault(lazy: pl.LazyFrame, part: RowRange, reading: Reading) -> tuple[RowRange, RowRange]:
    """The rows of a range before its first fault, and those at fault; found with few reads, as row groups are large."""
    file, first, rows = part

    def fails(begin: int, count: int) -> bool:
        try:
            _read(lazy, RowRange(file, begin, count), reading)
        except FAULTS:
            return True
        return False

    good = bisect_left(range(1, rows), True, key=lambda count: fails(first, count))
    begin, rest, far = first + good, rows - good, 1
    while far < rest and fails(begin + far, 1):
        far *= 2
    near = far // 2
    bad = near + bisect_left(range(near, min(far, rest)), True, key=lambda k: not fails(begin + k, 1))
    return RowRange(file, first, good), RowRange(file, begin, bad)


def _read(lazy: pl.LazyFrame, part: RowRange, reading: Reading) -> pl.DataFrame:
    frame = lazy.slice(part.first, part.rows).collect()
    for name, kind in reading.schema:
        if str(frame.schema[name]) != kind:
            raise InvalidLogError(
                f"every column must hold one type; {name!r} holds {kind} in the first file and {frame.schema[name]} in "
                f"{part.file}. Hint: write the files with the same types"
            )
    if frame.height != part.rows:
        raise pl.exceptions.ComputeError(f"expected {part.rows} rows, found {frame.height}")
    return frame


def _unreadable(place: str, why: str) -> InvalidLogError:
    return InvalidLogError(
        f"the log cannot be read: {place}: {why}. Hint: the file may be cut or damaged; write it again, or leave out "
        "what cannot be read with skip_bad=True (--skip-bad)"
    )


def first_line(error: BaseException) -> str:
    """What a library said, without its second thoughts."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__
