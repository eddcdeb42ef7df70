"""Tables of past decisions from wherever people keep them, as one lazy frame.

pandas, polars and Arrow tables come through narwhals; CSV and Parquet files, folders and globs are scanned, never read
whole. Whatever the reading library says about a damaged or inconsistent file is told in one line.
"""

from __future__ import annotations

import glob
import os
import warnings
import zlib
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from polidiff.errors import InvalidLogError, MissingExtraError, SkippedRowsWarning
from polidiff.parallel import work_folder as current_work_folder
from polidiff.worlds.log_columns import Columns
from polidiff.worlds.shards.result_cache import summary_cache
from polidiff.worlds.shards.shard_counter import scan
from polidiff.worlds.shards.shard_files import (
    FAULTS,
    Shard,
    check_readable,
    filesystem,
    first_line,
    is_remote,
    scan_file,
    split_files,
)
from polidiff.worlds.shards.shard_summary import Reading, ShardSummary
from polidiff.worlds.text_tables import ENDINGS, ending, scan_text_tables

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame


PARQUET = (".parquet", ".pq")

TableSource: TypeAlias = "IntoDataFrame | pl.LazyFrame | str | os.PathLike[str]"  # a table, or where its files lie


class LogSource:
    """Where a log comes from, ready to be read as often as needed."""

    def __init__(self, source: TableSource, *, skip_bad: bool, work_folder: str | os.PathLike[str] | None) -> None:
        files = parquet_files(source)
        self.skip_bad, self.folder = skip_bad, work_folder if work_folder is not None else current_work_folder()
        self.is_text = files is None and isinstance(source, (str, os.PathLike))  # types are what a reader guessed
        self.table: pl.LazyFrame | None = None
        self._files: list[str] = files or []
        self.shards: tuple[Shard, ...] = ()
        if files is None:
            self._set_table(lazy_frame(source))
            return
        self.shards = split_files(files)
        whole = [file for shard in self.shards for file in shard.files]
        if not skip_bad or not whole:
            check_readable(self.shards)
        self.schema = _schema(scan_file((whole or files)[0]))  # a file without rows has no shard

    def _set_table(self, table: pl.LazyFrame) -> None:
        self.table = table
        self.shards = (Shard(table=table),)
        self.schema = _schema(table)

    def with_table(self, table: pl.LazyFrame) -> LogSource:
        """The same with its rows made into another table."""
        other = copy(self)
        other._set_table(table)
        return other

    def read(self, columns: Columns, *, blocks: int, ranges: tuple[tuple[int, float, float], ...] = ()) -> ShardSummary:
        """All rows, counted and checked; warns of what was left out."""
        temporal = columns.step is not None and self.schema[columns.step].is_temporal()
        kinds = tuple((name, str(self.schema[name])) for name in columns.used)
        reading = Reading(columns, blocks, temporal, ranges, kinds)
        cache = None if self.folder is None else summary_cache(self.folder, reading, skip_bad=self.skip_bad)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # sums of endless rewards are endless, not a fault
                summary = scan(self.shards, reading, skip_bad=self.skip_bad, cache=cache)
        except FAULTS as error:
            raise InvalidLogError(f"the log cannot be read: {first_line(error)}. Hint: {_way_out(error)}") from error
        for note in summary.skipped:
            warnings.warn(f"left out of the log: {note}", SkippedRowsWarning, 4)
        return summary

    def frame(self, read: ShardSummary | None = None) -> pl.LazyFrame:
        """The rows that were read, to select from; all rows if none was read yet."""
        if self.table is not None:
            return self.table
        if read is not None and read.skipped:
            return pl.concat([scan_file(file).slice(first, rows) for file, first, rows in read.pieces])
        return _scan_files(self._files)


def _schema(lazy: pl.LazyFrame) -> pl.Schema:
    try:
        return lazy.collect_schema()
    except FAULTS as error:
        raise InvalidLogError(
            f"the log cannot be read: {first_line(error)}. Hint: the file may be empty, cut or damaged; write it again"
        ) from error


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
        try:
            return scan_text_tables(_checked(_files(os.fspath(source))))
        except (*FAULTS, EOFError, zlib.error) as error:
            raise InvalidLogError(f"the log cannot be read: {first_line(error)}. Hint: {_way_out(error)}") from error
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


def collect(lazy: pl.LazyFrame) -> pl.DataFrame:
    """The rows of a query; a failure of the reader is an error about the log, in one line."""
    try:
        return lazy.collect(engine="streaming")
    except FAULTS as error:
        raise InvalidLogError(f"the log cannot be read: {first_line(error)}. Hint: {_way_out(error)}") from error


def _way_out(error: BaseException) -> str:
    text = str(error).lower()
    if "could not parse" in text or "dtype" in text or "schema" in text:
        return "every column must hold one type; clean the column or convert it to text"
    return "the file may be cut or damaged; write it again"


def _files(path: str) -> list[str]:
    if glob.has_magic(path):
        files = sorted(glob.glob(path, recursive=True))
        if not files:
            raise InvalidLogError(f"expected files that match {path!r}; found none")
        return files
    place = Path(path)
    if place.is_dir():
        everything = sorted(str(file) for file in place.rglob("*") if file.is_file() or is_broken_link(file))
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
    system, path = filesystem()[1].url_to_fs(address)
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
    endings = {ending(file) for file in files}
    if not (endings <= set(PARQUET) or (len(endings) == 1 and endings <= set(ENDINGS))):
        raise InvalidLogError(f"expected files of one kind, .csv, .tsv, .txt or .parquet; got {sorted(endings)}")
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


def _from_table(source: Any) -> pl.DataFrame:
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


def _mixed_column(table: Any) -> str | None:
    """Which column holds more than one type, and where the second one first appears."""
    for name in table.columns:
        values = table[name].to_list()
        kinds = [type(value) for value in values if value is not None]
        row = next(
            (index for index, value in enumerate(values) if value is not None and type(value) is not kinds[0]), -1
        )
        if row >= 0:
            return (
                f"every column must hold one type; column {name!r} has {kinds[0].__name__} and, in row {row}, "
                f"{values[row]!r} ({type(values[row]).__name__}). Hint: clean the column or convert it to text"
            )
    return None
