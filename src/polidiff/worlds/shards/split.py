"""What a log consists of: shards that can be read apart from each other, in the order of the log.

A shard is a few row groups of Parquet files. Where a shard ends depends on the files alone, never on who reads them,
so that sums are made in the same order everywhere.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from polidiff.errors import InvalidLogError, MissingExtraError
from polidiff.worlds.shards.footer import DamagedFooterError, row_groups

SHARD_ROWS = 1 << 23  # at most, but for what is left of a row group


@dataclass(frozen=True)
class Group:
    """A row group of a file."""

    file: str
    number: int
    first: int  # its first row
    rows: int


@dataclass(frozen=True)
class Shard:
    """Row groups that follow each other; or a file that cannot be read; or a table that only this process has."""

    groups: tuple[Group, ...] = ()
    damaged: tuple[str, str] | None = None  # a file, and why not even its row groups are known
    table: pl.LazyFrame | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The files it comes from."""
        return tuple(dict.fromkeys(group.file for group in self.groups))

    @property
    def rows(self) -> int:
        """How many rows it should have; 0 if nobody knows."""
        return sum(group.rows for group in self.groups)


def split_table(table: pl.LazyFrame) -> tuple[Shard, ...]:
    """A table in memory, or a query, as one shard."""
    return (Shard(table=table),)


def split_files(files: Sequence[str]) -> tuple[Shard, ...]:
    """Parquet files as shards."""
    return tuple(_shards(files))


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


def _shards(files: Sequence[str]) -> Iterator[Shard]:
    found = [_known(file) for file in files]
    rows = sum(part.rows for part in found)
    most = max(1.0, rows / max(1, math.ceil(rows / SHARD_ROWS)))  # as many as are needed, of about the same size
    waiting: list[Group] = []
    for part in found:
        if part.damaged is not None:
            if waiting:
                yield Shard(tuple(waiting))
                waiting = []
            yield part
        for group in part.groups:
            waiting.append(group)
            if sum(known.rows for known in waiting) >= most:
                yield Shard(tuple(waiting))
                waiting = []
    if waiting:
        yield Shard(tuple(waiting))


def _known(file: str) -> Shard:
    """All row groups of a file, or why they are not known."""
    try:
        with open_file(file) as stream:
            return Shard(tuple(_groups(file, row_groups(stream))))
    except (DamagedFooterError, OSError) as error:
        return Shard(damaged=(file, str(error)))


def _groups(file: str, rows: Sequence[int]) -> list[Group]:
    first = 0
    groups = []
    for number, count in enumerate(rows):
        groups.append(Group(file, number, first, count))
        first += count
    return groups


def check_readable(shards: Sequence[Shard]) -> None:
    """An error that names the first file whose row groups are not known."""
    damaged = next((shard.damaged for shard in shards if shard.damaged is not None), None)
    if damaged is not None:
        raise InvalidLogError(
            f"the log cannot be read: {damaged[0]}: {damaged[1]}. Hint: the file may be cut or damaged; write it "
            "again, or leave out what cannot be read with skip_bad=True (--skip-bad)"
        )
