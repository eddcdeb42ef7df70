"""Tables of past decisions from wherever people keep them: read and counted, drawn from, or as one lazy frame.

pandas, polars and Arrow tables come through narwhals; CSV and Parquet files, folders and globs are scanned, never read
whole. Whatever the reading library says about a damaged or inconsistent file is told in one line.

Of a log that is too long to be held, an episode is drawn if the hash of its name is small,

.. math:: h(e) < 2^{64} \\cdot \frac{\text{rows that fit}}{\text{rows}},

so that parts of a log are read apart from each other. The hash has nothing to do with what an episode holds: the sample
is as good as a shorter log.
"""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import polars as pl

from polidiff.errors import InvalidLogError, MissingExtraError, SkippedRowsWarning
from polidiff.files import check_text
from polidiff.parallel import stream_tasks
from polidiff.progress import report
from polidiff.records.arrays import AnyArray
from polidiff.worlds.log_columns import Columns, Labels, row_name
from polidiff.worlds.log_rows import LoggedRows, hashes, mixed, read_rows
from polidiff.worlds.shards.shard_files import (
    Damage,
    Part,
    RowRange,
    check_readable,
    filesystem,
    first_line,
    in_one_line,
    is_remote,
    scan_file,
    split_files,
    usable_ranges,
    whole_batches,
    whole_parts,
)
from polidiff.worlds.shards.shard_summary import Pace, Reading, ShardSummary, SummaryCounter, summaries
from polidiff.worlds.text_tables import ENDINGS, ending, scan_text_tables

if TYPE_CHECKING:
    import narwhals as nw
    from narwhals.typing import IntoDataFrame


PARQUET = (".parquet", ".pq")
HASH = "polidiff: hash"  # a column beside those of the log
SLACK = 1.5  # times the rows that were meant to be drawn: beyond that, single episodes are too long
STREAM_ROWS, STREAM_VALUES = 1 << 19, 1 << 23  # rows that are read at a time, and numbers that they and policies make
T = TypeVar("T")

TableSource: TypeAlias = "IntoDataFrame | pl.LazyFrame | str | os.PathLike[str]"  # a table, or where its files lie


class LogSource:
    """Where a log comes from, ready to be read as often as needed."""

    def __init__(self, source: TableSource, *, skip_bad: bool, work_folder: str | os.PathLike[str] | None) -> None:
        files = parquet_files(source)
        self.skip_bad, self.folder = skip_bad, work_folder
        self.is_text = files is None and isinstance(source, (str, os.PathLike))  # types are what a reader guessed
        self.table: pl.LazyFrame | None = None
        self.skipped: tuple[str, ...] = ()  # what could not be read, once rows were read
        self._files: list[str] = files or []
        self._split: list[RowRange | Damage] = []
        self._parts: list[Part] | None = None
        if files is None:
            self._set_table(lazy_frame(source))
            return
        self._split = split_files(files)
        whole = [part.file for part in self._split if isinstance(part, RowRange)]
        if not skip_bad or not whole:
            check_readable(self._split)
        with in_one_line():
            self.schema = scan_file((whole or files)[0]).collect_schema()  # a file without rows has no range

    def _set_table(self, table: pl.LazyFrame) -> None:
        self.table = table
        with in_one_line():
            self.schema = table.collect_schema()

    def with_table(self, table: pl.LazyFrame) -> LogSource:
        """The same with its rows made into another table."""
        other = copy(self)
        other._set_table(table)
        return other

    def read(self, columns: Columns, *, blocks: int, ranges: tuple[tuple[int, float, float], ...] = ()) -> ShardSummary:
        """All rows, counted and checked; warns of what was left out."""
        reading = Reading(columns, blocks, ranges, self._schema_of(columns.used))
        parts = self.parts(columns)
        counter, pace = SummaryCounter(reading), Pace(sum(part.rows for part in parts), "reading the log")
        with in_one_line():
            for summary in summaries(parts, reading, self.folder if self.table is None else None):
                counter.add(summary)
                pace.tell(summary.facts.rows)
        for note in self.skipped if self.table is None else ():
            warnings.warn(f"left out of the log: {note}", SkippedRowsWarning, 4)
        return counter.result()

    def frame(self) -> pl.LazyFrame:
        """The rows that can be read, to select from; all rows if none was read yet."""
        if self.table is not None:
            return self.table
        if self.skipped:
            ranges = (some for part in self._parts or () for some in part.ranges)
            return pl.concat([scan_file(file).slice(first, rows) for file, first, rows in ranges])
        return _scan_files(self._files)

    def parts(self, columns: Columns) -> list[Part]:
        """Whole episodes that can be read apart from each other."""
        if self.table is not None:
            return [Part(table=self.table)]
        if self._parts is None:
            used, episode = columns.used, columns.episode
            usable, self.skipped = usable_ranges(self._split, used, episode, skip_bad=self.skip_bad)
            self._parts = whole_parts(usable, episode)
        return self._parts

    def _schema_of(self, names: Sequence[str]) -> pl.Schema:
        return pl.Schema({name: self.schema[name] for name in names})

    def draw_episodes(self, rows: int, columns: Columns, most: int, more: Sequence[str] = ()) -> pl.DataFrame:
        """About `most` of all rows as whole episodes, in the order of the log, with the hash of each.

        `more` are columns to read beside those of the log.
        """
        schema = self._schema_of(tuple(dict.fromkeys((*columns.used, *more))))
        draw = partial(draw_from, schema=schema, columns=columns, share=most / rows)
        drawn, held, done = list[pl.DataFrame](), 0, 0
        parts = self.parts(columns)
        for sample, part in zip(stream_tasks(draw, [(part,) for part in parts]), parts, strict=True):
            held, done = held + sample.height, done + part.rows
            if held > SLACK * most + STREAM_ROWS:
                raise InvalidLogError(
                    f"about {most} of {rows} rows were to be drawn as whole episodes; {held} were drawn from the first "
                    f"{done or rows}, because some episodes are very long. Hint: cut episodes, or set max_rows"
                )
            drawn.append(sample)
            report("drawing episodes", min(1.0, done / rows))
        if not held:
            raise InvalidLogError(
                f"no episode is short enough to be held: {rows} rows, max_rows = {most}. Hint: raise it"
            )
        return pl.concat(drawn)

    def count_parts(
        self, rows: int, columns: Columns, actions: Labels, count: Callable[..., T], asked: object, what: str
    ) -> Iterator[T]:
        """``count(batches of LoggedRows, asked)`` of every part of the log, in order."""
        pace, parts = Pace(rows, what), self.parts(columns)
        tasks = [(part, self._schema_of(columns.used), columns, actions, count, asked) for part in parts]
        for part, counted in zip(parts, stream_tasks(count_part, tasks), strict=True):
            pace.tell(part.rows or rows)
            yield counted


def count_part(
    part: Part, schema: pl.Schema, columns: Columns, actions: Labels, count: Callable[..., T], asked: object
) -> T:
    """What is counted of one part, some rows at a time: fewer where policies choose among many actions."""
    most = max(1, min(STREAM_ROWS, STREAM_VALUES // (columns.values_per_row + 4 * actions.count)))

    def batches() -> Iterator[LoggedRows]:
        first = part.first
        for frame in whole_batches(part, schema, columns.episode, most):
            rows = read_rows(frame.lazy(), columns, actions, None)
            yield replace(rows, hashed=_unit_hashes(frame, columns.unit, first))
            first += frame.height

    return count(batches(), asked)


def draw_from(part: Part, schema: pl.Schema, columns: Columns, share: float) -> pl.DataFrame:
    """The rows of episodes with a small hash, and the hash."""
    drawn, first = [pl.DataFrame(schema={**schema, HASH: pl.UInt64})], part.first
    limit = np.uint64(min(int(share * 2.0**64), 2**64 - 1))
    for frame in whole_batches(part, schema, columns.episode, STREAM_ROWS):
        hashed = _unit_hashes(frame, columns.unit, first)
        drawn.append(frame.with_columns(pl.Series(HASH, hashed)).filter(pl.Series(hashed < limit)))
        first += frame.height
    return pl.concat(drawn)


def _unit_hashes(frame: pl.DataFrame, name: str | None, first: int) -> AnyArray:
    """(n,) a hash of each row's episode or person; of its number in the log, from `first` on, if every row is one."""
    return mixed(np.arange(first, first + frame.height)) if name is None else hashes(frame[name])


def lazy_frame(source: TableSource) -> pl.LazyFrame:
    """A lazy frame over a table in memory, a file, a folder or a glob."""
    files = parquet_files(source)
    if files is not None:
        return _scan_files(files)
    if isinstance(source, pl.LazyFrame):
        return source
    if isinstance(source, pl.DataFrame):
        return source.lazy()
    if isinstance(source, (str, os.PathLike)):
        with in_one_line():
            return scan_text_tables(_checked(_files(os.fspath(source))))
    return _from_table(source).lazy()


def _scan_files(files: list[str]) -> pl.LazyFrame:
    return pl.concat([scan_file(file) for file in files]) if is_remote(files[0]) else pl.scan_parquet(files)


def parquet_files(source: TableSource) -> list[str] | None:
    """The Parquet files that a path, folder, glob or address stands for, in order; None if it is something else."""
    if not isinstance(source, (str, os.PathLike)):
        return None
    path = os.fspath(source)
    files = _remote_files(path) if is_remote(path) else _checked(_files(path))
    return files if Path(files[0]).suffix.lower() in PARQUET else None


def _files(path: str) -> list[str]:
    if glob.has_magic(path):
        files = sorted(glob.glob(path, recursive=True))
        if not files:
            raise InvalidLogError(f"expected files that match {path!r}; found none")
        return files
    place = Path(path)
    if place.is_dir():
        try:
            everything = sorted(str(file) for file in place.rglob("*") if file.is_file() or is_broken_link(file))
        except OSError as error:
            raise InvalidLogError(f"the folder {path!r} cannot be searched: {first_line(error)}") from error
        for endings in (PARQUET[:1], PARQUET[1:], ENDINGS):
            files = [file for file in everything if ending(file) in endings]
            if files:
                return files
        raise InvalidLogError(f"expected Parquet or CSV files in folder {path!r}; found none")
    if not place.exists() and not is_broken_link(place):
        raise InvalidLogError(f"expected a CSV or Parquet file, a folder or a glob; {path!r} does not exist")
    return [path]


def is_broken_link(path: Path) -> bool:
    """Whether a path is a link to something that is not there, or to itself."""
    return path.is_symlink() and not path.exists()


def _remote_files(address: str) -> list[str]:
    """Parquet files at an address that fsspec knows."""
    system, path = filesystem().url_to_fs(address)
    try:
        paths = system.glob(path) if glob.has_magic(path) else [path]
        if len(paths) == 1 and system.isdir(paths[0]):
            paths = system.find(paths[0])
        files = sorted(str(system.unstrip_protocol(file)) for file in paths if str(file).lower().endswith(PARQUET))
        if not files or not system.exists(files[0]):
            raise InvalidLogError(f"expected Parquet files at {address!r}; found none")
    except OSError as error:
        raise InvalidLogError(f"the log cannot be read: {address}: {first_line(error)}") from error
    return files


def _checked(files: list[str]) -> list[str]:
    for file in files:
        check_text(file, InvalidLogError)
    endings = {ending(file) for file in files}
    if not (endings <= set(PARQUET) or (len(endings) == 1 and endings <= set(ENDINGS))):
        raise InvalidLogError(
            f"expected files of one kind, .csv, .tsv, .txt or .parquet; got {sorted(endings)}. Hint: save the table as "
            ".csv"
        )
    broken = next((file for file in files if is_broken_link(Path(file))), None)
    if broken is not None:
        raise InvalidLogError(
            f"expected files that can be read; {broken!r} is a link that leads nowhere. Hint: mend it, or remove it "
            "if its rows are not part of the log"
        )
    empty = next((file for file in files if os.path.getsize(file) == 0), None)
    if empty is not None:
        raise InvalidLogError(f"expected a table with one row per decision; {empty!r} is empty (0 bytes)")
    return files


def _from_table(source: IntoDataFrame) -> pl.DataFrame:
    import narwhals as nw

    try:
        table = nw.from_native(source, eager_only=True)
    except TypeError:
        raise InvalidLogError(
            f"expected a pandas, polars or Arrow table, or the path of a CSV or Parquet file; got "
            f"{type(source).__name__}"
        ) from None
    try:
        return table.to_polars()
    except ImportError as error:
        raise MissingExtraError("pyarrow", "pandas") from error
    except Exception as error:
        raise InvalidLogError(_mixed_column(table) or f"the table cannot be read: {first_line(error)}") from error


def _mixed_column(table: nw.DataFrame[IntoDataFrame]) -> str | None:
    """Which column holds more than one type, and where the second one first appears."""
    for name in table.columns:
        values = table[name].to_list()
        kinds = [type(value) for value in values if value is not None]
        row = next(
            (index for index, value in enumerate(values) if value is not None and type(value) is not kinds[0]), -1
        )
        if row >= 0:
            return (
                f"every column must hold one type; column {name!r} has {kinds[0].__name__} and, in {row_name(row)}, "
                f"{type(values[row]).__name__}. Hint: clean the column or convert it to text"
            )
    return None
