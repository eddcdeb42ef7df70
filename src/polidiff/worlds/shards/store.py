"""Finished stretches in a work folder, so that work that was stopped goes on where it stopped.

A stretch is kept under a hash of everything it depends on: the shard, its file (size, time of change, first and last
64 KB) and what was read from it. Another file under the same name, or other options, have another hash and are read
again. Files hold arrays and one JSON text, never code, and are written whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from polidiff._version import __version__
from polidiff.errors import ChangedInputWarning, InvalidInputError
from polidiff.files import write_whole
from polidiff.records.arrays import AnyArray
from polidiff.worlds.shards.keys import Sizes
from polidiff.worlds.shards.split import Shard, filesystem, is_remote, open_file
from polidiff.worlds.shards.stretch import Border, Entries, Reading, Stretch

T = TypeVar("T")
FORM = 4  # of the files
SAMPLE = 1 << 16
PLAIN = ("rows", "runs", "ended", "gaps", "wrong", "missing", "values", "outside", "ordered", "states", "actions")
NOTES = ("skipped", "pieces", "broken", "lost")


class Store:
    """The finished stretches of one log."""

    def __init__(self, folder: str | os.PathLike[str], reading: Reading, *, skip_bad: bool) -> None:
        self.folder = inside(folder, "shards")
        self._asked = json.dumps([FORM, __version__, asdict(reading), skip_bad], sort_keys=True, default=str)
        self._prints: dict[str, str] = {}

    def holds(self, shard: Shard) -> bool:
        """Whether the stretch of a shard is there; warns if its file has changed since."""
        if not shard.groups:
            return False
        for file in shard.files:
            self._notice(file)
        return self._path(shard).exists()

    def load(self, shard: Shard) -> Stretch | None:
        """The stretch of a shard; None if its file is damaged."""
        return load_arrays(self._path(shard), _unpacked)

    def save(self, shard: Shard, stretch: Stretch) -> None:
        """Keep the stretch of a shard."""
        if shard.groups:
            save_arrays(self._path(shard), _packed(stretch))

    def _path(self, shard: Shard) -> Path:
        prints = [self._print(file) for file in shard.files]
        told = json.dumps([self._asked, prints, [asdict(group) for group in shard.groups]])
        return self.folder / f"{hashlib.sha256(told.encode()).hexdigest()[:40]}.npz"

    def _print(self, file: str) -> str:
        if file not in self._prints:
            self._prints[file] = fingerprint(file)
        return self._prints[file]

    def _notice(self, file: str) -> None:
        """Remember what a file looked like; say so if it looked otherwise before."""
        if file in self._prints:
            return
        note = self.folder / f"{hashlib.sha256(file.encode()).hexdigest()[:40]}.input"
        print_ = self._print(file)
        before = note.read_text(encoding="ascii", errors="replace") if note.exists() else print_
        if before != print_:
            warnings.warn(
                f"{file} has changed since this work folder was begun; it is read again", ChangedInputWarning, 2
            )
        if before != print_ or not note.exists():
            write_whole(note, print_)


def inside(folder: str | os.PathLike[str], name: str) -> Path:
    """A folder of this name in the work folder, made if it is not there."""
    found = Path(folder) / name
    try:
        found.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"cannot use the work folder {folder}: {error.strerror or error}") from error
    return found


def load_arrays(path: Path, unpack: Callable[[dict[str, AnyArray]], T]) -> T | None:
    """What a file of arrays holds; None if it is damaged."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            return unpack({name: arrays[name] for name in arrays.files})
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, pl.exceptions.PolarsError):
        return None


def save_arrays(path: Path, arrays: Mapping[str, AnyArray]) -> None:
    """Write a file of arrays, whole or not at all."""
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    write_whole(path, stream.getvalue())


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


def _packed(stretch: Stretch) -> dict[str, AnyArray]:
    told: dict[str, Any] = {name: getattr(stretch, name) for name in (*PLAIN, *NOTES)}
    for name in ("head", "tail"):
        border = getattr(stretch, name)
        told[name] = None if border is None else asdict(border)
    entries, (block, state, count) = stretch.entries, stretch.starts
    arrays: dict[str, AnyArray] = {"keys": entries.keys, "sums": entries.sums}
    arrays |= {"start_block": _small(block), "start_state": _small(state), "start_count": count}
    if stretch.features is not None and stretch.varied is not None:
        arrays |= {"features": _bytes(stretch.features), "varied": stretch.varied}
    told["sizes"] = entries.sizes
    return arrays | {"told": np.frombuffer(json.dumps(told).encode(), dtype=np.uint8)}


def _unpacked(arrays: dict[str, AnyArray]) -> Stretch:
    told = json.loads(arrays["told"].tobytes())
    whole: Callable[[str], Any] = lambda name: arrays[name].astype(np.int64)  # noqa: E731
    entries = Entries(arrays["keys"], Sizes(*told.pop("sizes")), arrays["sums"])
    head, tail = (_border(told.pop(name)) for name in ("head", "tail"))
    plain = {name: _tuples(value) for name, value in told.items()}
    starts = (whole("start_block"), whole("start_state"), arrays["start_count"])
    features = pl.read_ipc(io.BytesIO(arrays["features"].tobytes())) if "features" in arrays else None
    stretch = Stretch(**plain, entries=entries, starts=starts, head=head, tail=tail)
    return replace(stretch, features=features, varied=arrays.get("varied"))


def _bytes(table: pl.DataFrame) -> AnyArray:
    stream = io.BytesIO()
    table.write_ipc(stream)
    return np.frombuffer(stream.getvalue(), dtype=np.uint8)


def _border(told: dict[str, Any] | None) -> Border | None:
    return None if told is None else Border(**{name: _tuples(value) for name, value in told.items()})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _small(numbers: AnyArray) -> AnyArray:
    """Whole numbers in as few bytes as hold them."""
    if not len(numbers):
        return numbers.astype(np.int8)
    return numbers.astype(np.promote_types(np.min_scalar_type(numbers.min()), np.min_scalar_type(numbers.max())))
