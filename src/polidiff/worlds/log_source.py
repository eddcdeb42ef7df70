"""Tables of past decisions from wherever people keep them, as one lazy frame.

pandas, polars and Arrow tables come through narwhals; CSV and Parquet files, folders and globs are scanned, never read
whole. Whatever the reading library says about a damaged or inconsistent file is told in one line.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

import polars as pl

from polidiff.errors import InvalidLogError, MissingExtraError

SCANNERS = {".csv": pl.scan_csv, ".parquet": pl.scan_parquet, ".pq": pl.scan_parquet}
INFER_ROWS = 10_000


def lazy_frame(source: Any) -> pl.LazyFrame:
    """A lazy frame over a table in memory, a file, a folder or a glob."""
    if isinstance(source, pl.LazyFrame):
        return source
    if isinstance(source, pl.DataFrame):
        return source.lazy()
    if isinstance(source, (str, os.PathLike)):
        return _scan(_files(os.fspath(source)))
    return _from_table(source).lazy()


def collect(lazy: pl.LazyFrame) -> pl.DataFrame:
    """The rows of a query; a failure of the reader is an error about the log, in one line."""
    try:
        return lazy.collect(engine="streaming")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InvalidLogError(f"the log cannot be read: {first_line(error)}. Hint: {_way_out(error)}") from error


def first_line(error: BaseException) -> str:
    """What a library said, without its second thoughts."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__


def _way_out(error: BaseException) -> str:
    text = str(error).lower()
    if "could not parse" in text or "dtype" in text or "schema" in text:
        return "every column must hold one type; clean the column or convert it to text"
    return "the file may be cut or damaged; write it again"


def _files(path: str) -> list[str]:
    if glob.has_magic(path):
        found = sorted(glob.glob(path, recursive=True))
        if not found:
            raise InvalidLogError(f"expected files that match {path!r}; found none")
        return found
    place = Path(path)
    if place.is_dir():
        for ending in (".parquet", ".pq", ".csv"):
            found = sorted(str(file) for file in place.rglob(f"*{ending}"))
            if found:
                return found
        raise InvalidLogError(f"expected Parquet or CSV files in folder {path!r}; found none")
    if not place.exists():
        raise InvalidLogError(f"expected a CSV or Parquet file, a folder or a glob; {path!r} does not exist")
    return [path]


def _scan(files: list[str]) -> pl.LazyFrame:
    endings = {Path(file).suffix.lower() for file in files}
    if len(endings) > 1 or not endings <= set(SCANNERS):
        raise InvalidLogError(f"expected files of one kind, .csv or .parquet; got {sorted(endings)}")
    empty = next((file for file in files if os.path.getsize(file) == 0), None)
    if empty is not None:
        raise InvalidLogError(f"expected a table with one row per decision; {empty!r} is empty (0 bytes)")
    ending = endings.pop()
    if ending == ".csv":
        return pl.scan_csv(files, infer_schema_length=INFER_ROWS)
    return pl.scan_parquet(files)


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
