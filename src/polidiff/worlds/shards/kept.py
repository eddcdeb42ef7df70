"""What was counted of parts of a log, in a work folder, so that a pass that was stopped goes on where it stopped.

A part is kept under a hash of everything it depends on: its pieces, their files (size, time of change, first and last
64 KB) and what was asked. Files hold arrays, never code, and are written whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from polidiff._version import __version__
from polidiff.errors import InvalidInputError
from polidiff.files import write_whole
from polidiff.records.arrays import AnyArray
from polidiff.worlds.shards.store import fingerprint

FORM = 1  # of the files
T = TypeVar("T")
Pieces = Sequence[tuple[str, int, int]]  # file, first row, number of rows


class Kept(Generic[T]):
    """The finished parts of one pass over a log."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        asked: str,
        *,
        pack: Callable[[T], Mapping[str, AnyArray]],
        unpack: Callable[[Mapping[str, AnyArray]], T],
    ) -> None:
        self.folder, self._asked, self._pack, self._unpack = Path(folder) / "cells", asked, pack, unpack
        self._prints: dict[str, str] = {}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(f"cannot use the work folder {folder}: {error.strerror or error}") from error

    def holds(self, pieces: Pieces) -> bool:
        """Whether a part is there."""
        return self._path(pieces).exists()

    def load(self, pieces: Pieces) -> T | None:
        """What was counted of a part; None if its file is damaged."""
        try:
            with self._path(pieces).open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
                return self._unpack({name: arrays[name] for name in arrays.files})
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
            return None

    def save(self, pieces: Pieces, counted: T) -> None:
        """Keep what was counted of a part."""
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **self._pack(counted))
        write_whole(self._path(pieces), stream.getvalue())

    def _path(self, pieces: Pieces) -> Path:
        for file in {file for file, _, _ in pieces} - self._prints.keys():
            self._prints[file] = fingerprint(file)
        told = [[self._prints[file], first, rows] for file, first, rows in pieces]
        text = json.dumps([FORM, __version__, self._asked, told])
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:40]}.npz"
