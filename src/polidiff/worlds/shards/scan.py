"""All shards of a log to one summary, on the workers that the user chose, keeping what is finished."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import polars as pl

from polidiff.progress import report
from polidiff.worlds.shards.result_cache import ResultCache, cached_results
from polidiff.worlds.shards.shard_counter import ShardCounter
from polidiff.worlds.shards.shard_files import Piece, Shard, check_readable, pieces
from polidiff.worlds.shards.shard_summary import Reading, ShardSummary, SummaryJoiner, no_rows

WHAT = "reading the log"
AT_ONCE = 2  # shards: while one is put together, the next is read


def scan(
    shards: Sequence[Shard], reading: Reading, *, skip_bad: bool = False, cache: ResultCache[ShardSummary] | None = None
) -> ShardSummary:
    """The whole log as one closed summary."""
    if not skip_bad:
        check_readable(shards)
    joiner = SummaryJoiner(reading)
    pace = Pace(sum(shard.rows for shard in shards))
    joiner.add(no_rows(reading))
    tasks = [(shard.ranges, (shard, reading, skip_bad)) for shard in shards]
    summaries = cached_results(summary_of, tasks, cache, threads=AT_ONCE)
    cut: Gap | None = None
    for shard in shards:
        summary = next(summaries)
        if cut is not None:  # the episode that was cut there is left out here too
            summary = summary_of(shard, reading, skip_bad, cut)
        joiner.add(summary)
        pace.tell(summary.rows)
        cut = Gap(summary.lost) if summary.broken else None
        del summary  # it may be large, and the next is made before it would be let go
    return joiner.closed()


@dataclass(frozen=True)
class Gap:
    """Rows that could not be read, and the episode that goes on after them; None while no row of it was met."""

    episode: str | None = None


def summary_of(shard: Shard, reading: Reading, skip_bad: bool, gap: Gap | None = None) -> ShardSummary:
    """One shard as a summary; after a `gap`, from where an episode surely begins."""
    if shard.damaged is not None:
        note = f"{shard.damaged[0]} could not be read: {shard.damaged[1]}"
        return replace(no_rows(reading), skipped=(note,), broken=True)
    counter = ShardCounter(reading)
    notes: list[str] = []
    used: list[tuple[str, int, int]] = []
    for piece in _ahead(pieces(shard, reading, skip_bad=skip_bad)):
        if piece.frame is None:
            gap = Gap()
            notes.append(piece.note)
            continue
        frame, gap = _after(piece.frame, gap, reading.columns.episode)
        if frame.height:
            counter.add(frame)
            used.append((piece.file, piece.first + piece.frame.height - frame.height, frame.height))
    lost = None if gap is None else gap.episode
    return replace(counter.result(), skipped=tuple(notes), pieces=tuple(used), broken=gap is not None, lost=lost)


def _ahead(items: Iterator[Piece]) -> Iterator[Piece]:
    """The pieces, each read in a second thread while the one before is counted."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, items, None)
        while (item := waiting.result()) is not None:
            waiting = pool.submit(next, items, None)
            yield item


def _after(frame: pl.DataFrame, gap: Gap | None, name: str | None) -> tuple[pl.DataFrame, Gap | None]:
    """The rows after the episode that a gap has cut, and the gap if that may go on in what follows."""
    if gap is None or name is None or not frame.height:
        return frame, gap if name is not None else None
    episode = frame[name].cast(pl.String)
    lost = episode[0] if gap.episode is None else gap.episode
    others = (episode != lost).fill_null(True)
    if not others.any():
        return frame.clear(), Gap(lost)
    return frame.slice(int(others.arg_max() or 0)), None


class Pace:
    """Tells how far reading has come, in rows and rows per second."""

    def __init__(self, rows: int, what: str = WHAT) -> None:
        self.rows, self.what, self.done, self.began = rows, what, 0, time.monotonic()

    def tell(self, rows: int) -> None:
        """So many more rows were read."""
        self.done += rows
        speed = self.done / max(time.monotonic() - self.began, 1e-9)
        share = min(self.done / self.rows, 1.0) if self.rows else 1.0
        report(self.what, share, f"({self.done / 1e6:.1f} million rows, {speed / 1e6:.1f} million per second)")
