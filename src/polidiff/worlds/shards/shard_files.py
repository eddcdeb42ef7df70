"""What a log consists of: parts of whole episodes that can be read apart from each other, in the order of the log.

A part is a few ranges of rows of Parquet files, or a table that only this process has. Where a part ends depends on the
files alone, never on who reads them, so that sums are made in the same order everywhere: where a cut would fall into an
episode, the rest of the episode goes to the part before. A range is at most a million rows: no reader among our
dependencies tells where row groups end, and the common sizes of row groups divide 2**20, so that few are read twice.
Within a part, rows come in batches of whole episodes.

What cannot be read is named by file and rows. If it is to be left out, so is the rest of the episode that it cuts: the
row before it counts as cut, and rows after it are used from the next episode on, because nobody can say whether the
first of them begins an episode.
"""

from __future__ import annotations

import io
import math
import zlib
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, NamedTuple

import polars as pl

from polidiff.errors import InvalidLogError, MissingExtraError
from polidiff.worlds.shards.transition_counts import free_memory

PART_ROWS = 1 << 23  # of a part, about
RANGE_ROWS = 1 << 20  # of a range, at most
MAGIC = b"PAR1"
FAULTS = (pl.exceptions.PolarsError, OSError, EOFError, zlib.error, pl.exceptions.PanicException)


class RowRange(NamedTuple):
    """Rows of a file that stand together."""

    file: str
    first: int
    rows: int

    def __str__(self) -> str:
        return f"{self.file}, rows {self.first} to {self.first + self.rows - 1}"

    def some(self, begin: int, rows: int) -> RowRange:
        """So many of its rows, from one on."""
        return RowRange(self.file, self.first + begin, rows)


@dataclass(frozen=True)
class Part:
    """Whole episodes that stand together: in ranges of files, or in a table."""

    ranges: tuple[RowRange, ...] = ()
    first: int = 0  # number of its first row in the log
    table: pl.LazyFrame | None = None

    @property
    def rows(self) -> int:
        """How many rows its files have; 0 for a table."""
        return sum(part.rows for part in self.ranges)


class Damage(NamedTuple):
    """A file of which not even the number of rows is known, and why."""

    file: str
    why: str


# --- files as ranges, and ranges as parts


def split_files(files: Sequence[str]) -> list[RowRange | Damage]:
    """Parquet files as ranges of rows."""
    parts = list[RowRange | Damage]()
    for file in files:
        try:
            rows = count_rows(file)
        except FAULTS as error:
            parts.append(Damage(file, first_line(error)))
        else:
            parts += [RowRange(file, k, min(RANGE_ROWS, rows - k)) for k in range(0, rows, RANGE_ROWS)]
    return parts


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


def whole_parts(ranges: Sequence[RowRange], episode: str | None) -> list[Part]:
    """Ranges as few parts of about the same size, cut where an episode begins."""
    total = sum(part.rows for part in ranges)
    most = total / max(1, math.ceil(total / PART_ROWS))
    rest, parts, first = deque(ranges), list[Part](), 0
    while rest:
        taken = [rest.popleft()]
        while rest and sum(part.rows for part in taken) < most:
            taken.append(rest.popleft())
        if episode is not None:
            _finish(taken, rest, episode)
        parts.append(Part(tuple(taken), first))
        first += parts[-1].rows
    return parts


def _finish(taken: list[RowRange], rest: deque[RowRange], episode: str) -> None:
    """Move the rows that go on with the last episode of what was taken."""
    last = None
    while rest:
        if last is None:
            last = read_range(taken[-1].some(taken[-1].rows - 1, 1), (episode,))[episode][0]
        part = rest.popleft()
        same = _first_other(read_range(part, (episode,))[episode], last)
        if same:
            taken.append(part.some(0, same))
        if same < part.rows:
            rest.appendleft(part.some(same, part.rows - same))
            return


def _first_other(names: pl.Series, name: object) -> int:
    """The first row of another name; the number of rows if there is none.

    >>> _first_other(pl.Series([1, 1, 2]), 1), _first_other(pl.Series([1, 1]), 1)
    (2, 2)
    """
    others = names.is_not_null() if name is None else (names != name).fill_null(True)
    return int(others.arg_max() or 0) if others.any() else len(names)


# --- rows


def whole_batches(part: Part, columns: pl.Schema, episode: str | None, rows: int) -> Iterator[pl.DataFrame]:
    """The rows of a part, so many at a time, cut where episodes begin."""
    waiting: pl.DataFrame | None = None
    for frame in (some for table in _frames(part, columns, rows) for some in table.iter_slices(rows)):
        if episode is None:
            yield frame
            continue
        begin = frame.height - _first_other(frame[episode].reverse(), frame[episode][-1])  # of the last episode
        if waiting is not None and (begin or _first_other(frame[episode], waiting[episode][-1]) == 0):
            frame = pl.concat([waiting, frame])
            begin, waiting = begin + waiting.height, None
        if begin:
            yield frame.head(begin)
        waiting = frame.slice(begin) if waiting is None else pl.concat([waiting, frame])
        free = free_memory()
        if free is not None and 2 * waiting.estimated_size() > free:
            raise InvalidLogError(f"an episode has more than {waiting.height} rows and cannot be held. Hint: cut it")
    if waiting is not None:
        yield waiting


def _frames(part: Part, columns: pl.Schema, rows: int) -> Iterator[pl.DataFrame]:
    if part.table is not None:
        batches = part.table.select(columns.names()).collect_batches(chunk_size=rows, maintain_order=True)
        yield from (frame for frame in batches if frame.height)
    for some in part.ranges:
        frame = read_range(some, columns.names())
        other = next((name for name, kind in columns.items() if frame.schema[name] != kind), None)
        if other is not None:
            raise InvalidLogError(
                f"every column must hold one type; {other!r} holds {columns[other]} in the first file and "
                f"{frame.schema[other]} in {some.file}. Hint: write the files with the same types"
            )
        yield frame


def read_range(part: RowRange, columns: Sequence[str]) -> pl.DataFrame:
    """Some rows of a file; an error names those that cannot be read."""
    lazy = scan_file(part.file).select(columns)
    try:
        return _read(lazy, part)
    except FAULTS as error:
        raise _unreadable(str(_fault(lazy, part)[1]), first_line(error)) from error


def _read(lazy: pl.LazyFrame, part: RowRange) -> pl.DataFrame:
    frame = lazy.slice(part.first, part.rows).collect()
    if frame.height != part.rows:
        raise pl.exceptions.ComputeError(f"expected {part.rows} rows, found {frame.height}")
    return frame


@contextmanager
def in_one_line() -> Iterator[None]:
    """A failure of the reader as an error about the log, in one line."""
    try:
        yield
    except FAULTS as error:
        kinds = any(word in str(error).lower() for word in ("could not parse", "dtype", "schema"))
        hint = "every column must hold one type; clean the column or convert it to text"
        hint = hint if kinds else "the file may be cut or damaged; write it again"
        raise InvalidLogError(f"the log cannot be read: {first_line(error)}. Hint: {hint}") from error


def collect(lazy: pl.LazyFrame) -> pl.DataFrame:
    """The rows of a query; a failure of the reader is an error about the log, in one line."""
    with in_one_line():
        return lazy.collect(engine="streaming")


def scan_file(path: str) -> pl.LazyFrame:
    """A Parquet file to select from. One at an address is fetched whole."""
    if not is_remote(path):
        return pl.scan_parquet(path, glob=False)
    with open_file(path) as stream:
        return pl.scan_parquet(io.BytesIO(stream.read()))


def open_file(path: str) -> BinaryIO:
    """A local file, or one at any address that fsspec knows, to read from."""
    if not is_remote(path):
        return Path(path).open("rb")
    return filesystem().open(path, "rb").open()


def is_remote(path: str) -> bool:
    """Whether a path is an address.

    >>> is_remote("s3://bucket/log.parquet"), is_remote("logs/*.parquet")
    (True, False)
    """
    return "://" in path


def filesystem() -> ModuleType:
    """The part of fsspec, which reads from everywhere, that opens addresses."""
    try:
        from fsspec import core
    except ImportError as error:
        raise MissingExtraError("fsspec", "dask") from error
    return core


# --- what cannot be read


def usable_ranges(
    parts: Sequence[RowRange | Damage], columns: Sequence[str], episode: str | None, *, skip_bad: bool
) -> tuple[list[RowRange], tuple[str, ...]]:
    """The ranges of a log, and what is left out of it: nothing, unless `skip_bad` asks for it."""
    if not skip_bad:
        check_readable(parts)
        return [part for part in parts if isinstance(part, RowRange)], ()
    usable, notes = list[RowRange](), list[str]()
    lost: object = None  # the episode that goes on after what is left out
    broken = False
    for part in (found for given in parts for found in _readable(given, columns)):
        if isinstance(part, str):
            notes.append(part)
            broken, lost = True, None
            continue
        begin = 0
        if broken and episode is not None:
            names = read_range(part, (episode,))[episode]
            lost = names[0] if lost is None else lost
            begin = _first_other(names, lost)
        if begin < part.rows:
            broken = False
            usable.append(part.some(begin, part.rows - begin))
    return usable, tuple(notes)


def check_readable(parts: Sequence[RowRange | Damage]) -> None:
    """An error that names the first file whose rows are not known."""
    damaged = next((part for part in parts if isinstance(part, Damage)), None)
    if damaged is not None:
        raise _unreadable(*damaged)


def _readable(part: RowRange | Damage, columns: Sequence[str]) -> Iterator[RowRange | str]:
    """The parts of a range that can be read, and a note for each that cannot."""
    if isinstance(part, Damage):
        yield f"{part.file} could not be read: {part.why}"
        return
    lazy = scan_file(part.file).select(columns)
    while part.rows:
        if not _fails(lazy, part):
            yield part
            return
        good, bad = _fault(lazy, part)
        if good.rows:
            yield good
        yield f"{bad} could not be read"
        part = part.some(good.rows + bad.rows, part.rows - good.rows - bad.rows)


def _fault(lazy: pl.LazyFrame, part: RowRange) -> tuple[RowRange, RowRange]:
    """The rows of a range before its first fault, and those at fault; found with few reads, as row groups are large."""
    good = bisect_left(range(1, part.rows), True, key=lambda count: _fails(lazy, part.some(0, count)))
    rest, far = part.rows - good, 1
    while far < rest and _fails(lazy, part.some(good + far, 1)):
        far *= 2
    near = far // 2
    places = range(near, min(far, rest))
    bad = near + bisect_left(places, True, key=lambda place: not _fails(lazy, part.some(good + place, 1)))
    return part.some(0, good), part.some(good, bad)


def _fails(lazy: pl.LazyFrame, part: RowRange) -> bool:
    try:
        _read(lazy, part)
    except FAULTS:
        return True
    return False


def _unreadable(place: str, why: str) -> InvalidLogError:
    return InvalidLogError(
        f"the log cannot be read: {place}: {why}. Hint: the file may be cut or damaged; write it again, or leave out "
        "what cannot be read with skip_bad=True (--skip-bad)"
    )


def first_line(error: BaseException) -> str:
    """What a library said, without its second thoughts."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__
