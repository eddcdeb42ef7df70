"""What was counted of parts of a log, in a work folder, so that reading that was stopped goes on where it stopped.

A summary is kept under a hash of everything it depends on: its ranges of rows, their files (size, time of change, first
and last 64 KB) and what was asked. Another file under the same name, or other options, have another hash and are read
again. Files hold a hash of what follows, then arrays and a JSON text, never code, and are written whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from polidiff._version import __version__
from polidiff.errors import ChangedInputWarning, InvalidInputError
from polidiff.files import write_whole
from polidiff.parallel import stream_tasks
from polidiff.records.codec import Json
from polidiff.worlds.shards import shard_summary
from polidiff.worlds.shards.shard_files import Part, RowRange, filesystem, is_remote, open_file
from polidiff.worlds.shards.shard_summary import Facts, Reading, ShardSummary
from polidiff.worlds.shards.transition_counts import Entries, Sizes

FORM = 8  # of the files
HASH = hashlib.sha256().digest_size  # bytes before the arrays
SAMPLE = 1 << 16
AT_ONCE = 2  # parts: while one is put together, the next is read


def summaries(
    parts: Sequence[Part], reading: Reading, work_folder: str | os.PathLike[str] | None
) -> Iterator[ShardSummary]:
    """The summary of every part, in order, on the workers that the user chose; from the work folder if it is there."""
    cache = None if work_folder is None else SummaryCache(work_folder, reading)
    held = [cache is not None and cache.path(part).exists() for part in parts]
    missing = [(part, reading) for part, known in zip(parts, held, strict=True) if not known]
    fresh = iter(stream_tasks(shard_summary.summary_of, missing, threads=AT_ONCE))
    for part, known in zip(parts, held, strict=True):
        summary = cache.load(part) if cache is not None and known else None
        if summary is None:
            summary = shard_summary.summary_of(part, reading) if known else next(fresh)
            if cache is not None:
                cache.save(part, summary)
        yield summary


class SummaryCache:
    """The finished summaries of one pass over a log."""

    def __init__(self, work_folder: str | os.PathLike[str], reading: Reading) -> None:
        self.folder = Path(work_folder) / "shards"
        question = {**asdict(reading), "schema": [(name, str(kind)) for name, kind in reading.schema.items()]}
        self._question = json.dumps(question, sort_keys=True, default=str)
        self._prints: dict[str, str] = {}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(f"cannot use the work folder {work_folder}: {error.strerror or error}") from error

    def path(self, part: Part) -> Path:
        """Where the summary of a part is kept; warns if a file of it has changed since."""
        prints = [[self._print(file), first, rows] for file, first, rows in part.ranges]
        return self.folder / f"{_digest(json.dumps([FORM, __version__, self._question, prints]))}.npz"

    def load(self, part: Part) -> ShardSummary | None:
        """The summary of a part; None if its file is damaged, which its hash tells."""
        try:
            content = self.path(part).read_bytes()
        except OSError:
            return None
        return _unpacked(content[HASH:]) if _hash(content[HASH:]) == content[:HASH] else None

    def save(self, part: Part, summary: ShardSummary) -> None:
        """Keep the summary of a part."""
        content = _packed(summary)
        write_whole(self.path(part), _hash(content) + content)

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


def _packed(summary: ShardSummary) -> bytes:
    plain = {name: getattr(summary, name) for name in ("states", "actions", "ranges")}
    plain |= {"facts": asdict(summary.facts), "sizes": summary.entries.sizes}
    arrays = dict(zip(("block", "state", "count"), summary.starts, strict=True))
    text = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, keys=summary.entries.keys, sums=summary.entries.sums, plain=text, **arrays)
    return stream.getvalue()


def _unpacked(content: bytes) -> ShardSummary:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        plain = _tuples(json.loads(arrays["plain"].tobytes()))
        entries = Entries(arrays["keys"], Sizes(*plain["sizes"]), arrays["sums"])
        starts = (arrays["block"], arrays["state"], arrays["count"])
    ranges = tuple(RowRange(*part) for part in plain["ranges"])
    return ShardSummary(Facts(**plain["facts"]), plain["states"], plain["actions"], entries, starts, ranges)


def _tuples(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _tuples(item) for name, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
