"""The rows of a shard, about a million at a time.

What cannot be read is named by file and row group. If it is to be left out, so is the rest of the episode that it cuts:
the row before it counts as cut, and rows after it are used from the next episode on, because nobody can say whether the
first of them begins an episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from polidiff.errors import InvalidLogError
from polidiff.worlds.shards.split import Group, Shard, scan_file
from polidiff.worlds.shards.stretch import Reading

BATCH_ROWS = 1 << 20
LARGEST_GROUP = 1 << 22  # a larger row group is read in parts
FAULTS = (pl.exceptions.PolarsError, OSError, pl.exceptions.PanicException)


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows that stand together, or a note about rows that cannot be read."""

    frame: pl.DataFrame | None
    file: str = ""
    first: int = 0  # its first row in the file
    note: str = ""


def pieces(shard: Shard, reading: Reading, *, skip_bad: bool = False) -> Iterator[Piece]:
    """The rows of a shard in order."""
    if shard.table is not None:
        yield from _of_table(shard.table, reading)
        return
    for file in shard.files:
        lazy = scan_file(file).select(reading.columns.used)
        for part in _batches([group for group in shard.groups if group.file == file]):
            try:
                frame = _read(lazy, file, part[0].first, sum(group.rows for group in part), reading)
                yield Piece(frame, file, part[0].first)
            except FAULTS as error:
                yield from _one_by_one(lazy, part, reading, skip_bad, error)


def _of_table(table: pl.LazyFrame, reading: Reading) -> Iterator[Piece]:
    chosen = table.select(reading.columns.used)
    first = 0
    for frame in chosen.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True):
        yield Piece(frame, first=first)
        first += frame.height


def _batches(groups: Sequence[Group]) -> Iterator[list[Group]]:
    waiting: list[Group] = []
    for group in groups:
        if group.rows > LARGEST_GROUP:
            if waiting:
                yield waiting
            waiting = []
            for first in range(0, group.rows, BATCH_ROWS):
                yield [Group(group.file, group.number, group.first + first, min(BATCH_ROWS, group.rows - first))]
            continue
        waiting.append(group)
        if sum(known.rows for known in waiting) >= BATCH_ROWS:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _read(lazy: pl.LazyFrame, file: str, first: int, rows: int, reading: Reading) -> pl.DataFrame:
    frame = lazy.slice(first, rows).collect()
    for name, kind in reading.schema:
        if str(frame.schema[name]) != kind:
            raise InvalidLogError(
                f"every column must hold one type; {name!r} holds {kind} in the first file and {frame.schema[name]} in "
                f"{file}. Hint: write the files with the same types"
            )
    if frame.height != rows:
        raise pl.exceptions.ComputeError(f"expected {rows} rows, found {frame.height}")
    return frame


def _one_by_one(
    lazy: pl.LazyFrame, part: list[Group], reading: Reading, skip_bad: bool, error: BaseException
) -> Iterator[Piece]:
    """Find the row groups at fault; stop at the first unless they are to be left out."""
    for group in part:
        try:
            frame = _read(lazy, group.file, group.first, group.rows, reading)
        except FAULTS as fault:
            said = f"{group.file}, row group {group.number} (rows {group.first} to {group.first + group.rows - 1})"
            if not skip_bad:
                raise InvalidLogError(
                    f"the log cannot be read: {said}: {first_line(fault)}. Hint: the file may be cut or damaged; write "
                    "it again, or leave out what cannot be read with skip_bad=True (--skip-bad)"
                ) from error
            yield Piece(None, group.file, group.first, f"{said} could not be read")
        else:
            yield Piece(frame, group.file, group.first)


def first_line(error: BaseException) -> str:
    """What a library said, without its second thoughts."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__
