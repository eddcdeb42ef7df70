"""What was found of parts of a log, in a work folder, so that work that was stopped goes on where it stopped.

A result is kept under a hash of everything it depends on: its ranges of rows, their files (size, time of change, first
and last 64 KB) and what was asked. Another file under the same name, or other options, have another hash and are read
again. Files hold a hash of what follows, then arrays and JSON texts, never code, and are written whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import polars as pl

from polidiff._version import __version__
from polidiff.errors import ChangedInputWarning, InvalidInputError
from polidiff.files import write_whole
from polidiff.parallel import Task, stream_tasks
from polidiff.records.arrays import AnyArray
from polidiff.records.codec import Json
from polidiff.worlds.shards.shard_files import filesystem, is_remote, open_file
from polidiff.worlds.shards.shard_summary import Border, Reading, ShardSummary
from polidiff.worlds.shards.transition_counts import Entries, Sizes

T = TypeVar("T")
Ranges: TypeAlias = Sequence[tuple[str, int, int]]  # file, first row, number of rows
Arrays: TypeAlias = Mapping[str, AnyArray]
FORM = 7  # of the files
HASH = hashlib.sha256().digest_size  # bytes before the arrays
SAMPLE = 1 << 16
PLAIN = ("rows", "runs", "ended", "gaps", "wrong", "missing", "values", "outside", "ordered", "states", "actions")
NOTES = ("skipped", "pieces", "broken", "lost")


class ResultCache(Generic[T]):
    """The finished results of one pass over a log, each under the ranges of rows that it was found in."""

    def __init__(
        self,
        work_folder: str | os.PathLike[str],
        name: str,
        question: str,
        *,
        pack: Callable[[T], Arrays],
        unpack: Callable[[Arrays], T],
    ) -> None:
        self.folder, self._question, self._pack, self._unpack = Path(work_folder) / name, question, pack, unpack
        self._prints: dict[str, str] = {}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(f"cannot use the work folder {work_folder}: {error.strerror or error}") from error

    def holds(self, ranges: Ranges) -> bool:
        """Whether the result of some rows is there; warns if their file has changed since. Never without a file."""
        return bool(ranges) and self._path(ranges).exists()

    def load(self, ranges: Ranges) -> T | None:
        """The result of some rows; None if its file is damaged, which its hash tells."""
        try:
            content = self._path(ranges).read_bytes()
        except OSError:
            return None
        if _hash(content[HASH:]) != content[:HASH]:
            return None
        with np.load(io.BytesIO(content[HASH:]), allow_pickle=False) as arrays:
            return self._unpack({name: arrays[name] for name in arrays.files})

    def save(self, ranges: Ranges, result: T) -> None:
        """Keep the result of some rows."""
        if ranges:
            stream = io.BytesIO()
            np.savez(stream, allow_pickle=False, **self._pack(result))
            write_whole(self._path(ranges), _hash(stream.getvalue()) + stream.getvalue())

    def _path(self, ranges: Ranges) -> Path:
        prints = [[self._print(file), first, rows] for file, first, rows in ranges]
        text = json.dumps([FORM, __version__, self._question, prints])
        return self.folder / f"{_digest(text)}.npz"

    def _print(self, file: str) -> str:
        """What a file looks like; says so if it looked otherwise when this work folder was begun."""
        if file not in self._prints:
            now = self._prints[file] = fingerprint(file)
            note = self.folder.parent / f"{_digest(file)}.input"
            before = note.read_text(encoding="ascii", errors="replace") if note.exists() else None
            if before not in (None, now):
                text = f"{file} has changed since this work folder was begun; it is read again"
                warnings.warn(text, ChangedInputWarning, 2)
            if before != now:
                write_whole(note, now)
        return self._prints[file]


def cached_results(
    function: Callable[..., T],
    parts: Sequence[tuple[Ranges, Task]],
    cache: ResultCache[T] | None,
    *,
    threads: int = 1,
) -> Iterator[T]:
    """``function(*task)`` of every (ranges, task), in order, on the workers that the user chose; once for each."""
    if cache is None:
        yield from stream_tasks(function, [task for _, task in parts], threads=threads)
        return
    held = [cache.holds(ranges) for ranges, _ in parts]
    missing = [task for (_, task), known in zip(parts, held, strict=True) if not known]
    fresh = iter(stream_tasks(function, missing, threads=threads))

    def result_of(ranges: Ranges, task: Task, known: bool) -> T:
        result = cache.load(ranges) if known else None
        if result is None:
            result = function(*task) if known else next(fresh)
            cache.save(ranges, result)
        return result

    for (ranges, task), known in zip(parts, held, strict=True):
        yield result_of(ranges, task, known)


def fingerprint(file: str) -> str:
    """A hash of a file's size, time of change, and both ends."""
    with open_file(file) as stream:
        size = stream.seek(0, 2)
        stream.seek(0)
        first = stream.read(SAMPLE)
        stream.seek(max(size - SAMPLE, 0))
        last = stream.read(SAMPLE)
    return hashlib.sha256(b"|".join([repr((size, _changed(file))).encode(), first, last])).hexdigest()


def _changed(file: str) -> str:
    if not is_remote(file):
        return str(os.stat(file).st_mtime_ns)
    system, path = filesystem()[1].url_to_fs(file)
    info = system.info(path)
    return str([info.get(key) for key in ("ETag", "etag", "mtime", "LastModified", "created")])


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def summary_cache(
    work_folder: str | os.PathLike[str], reading: Reading, *, skip_bad: bool
) -> ResultCache[ShardSummary]:
    """The summaries of shards that were read."""
    question = json.dumps([asdict(reading), skip_bad], sort_keys=True, default=str)
    return ResultCache(work_folder, "shards", question, pack=_packed, unpack=_unpacked)


def _packed(summary: ShardSummary) -> Arrays:
    plain: dict[str, Json] = {name: getattr(summary, name) for name in (*PLAIN, *NOTES)}
    for name in ("head", "tail"):
        border = getattr(summary, name)
        plain[name] = None if border is None else asdict(border)
    entries, (block, state, count) = summary.entries, summary.starts
    arrays: dict[str, AnyArray] = {"keys": entries.keys, "sums": entries.sums}
    arrays |= {"start_block": _small(block), "start_state": _small(state), "start_count": count}
    if summary.features is not None and summary.varied is not None:
        stream = io.BytesIO()
        summary.features.write_ipc(stream)
        arrays |= {"features": np.frombuffer(stream.getvalue(), dtype=np.uint8), "varied": summary.varied}
    plain["sizes"] = entries.sizes
    return arrays | {"plain": np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)}


def _unpacked(arrays: Arrays) -> ShardSummary:
    plain = json.loads(arrays["plain"].tobytes())
    entries = Entries(arrays["keys"], Sizes(*plain.pop("sizes")), arrays["sums"])
    head, tail = (_border(plain.pop(name)) for name in ("head", "tail"))
    block, state = (arrays[name].astype(np.int64) for name in ("start_block", "start_state"))
    features = pl.read_ipc(io.BytesIO(arrays["features"].tobytes())) if "features" in arrays else None
    fields = {name: _tuples(value) for name, value in plain.items()}
    starts = (block, state, arrays["start_count"])
    summary = ShardSummary(**fields, entries=entries, starts=starts, head=head, tail=tail)
    return replace(summary, features=features, varied=arrays.get("varied"))


def _border(fields: dict[str, Json] | None) -> Border | None:
    return None if fields is None else Border(**{name: _tuples(value) for name, value in fields.items()})


def _tuples(value: Json) -> Json:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _small(numbers: AnyArray) -> AnyArray:
    """Whole numbers in as few bytes as hold them."""
    if not len(numbers):
        return numbers.astype(np.int8)
    return numbers.astype(np.promote_types(np.min_scalar_type(numbers.min()), np.min_scalar_type(numbers.max())))
