"""What was counted of parts of a log, in a work folder, so that a pass that was stopped goes on where it stopped.

A part is kept under a hash of everything it depends on: its pieces, their files (size, time of change, first and last
64 KB) and what was asked. Files hold arrays, never code, and are written whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from polidiff._version import __version__
from polidiff.records.arrays import AnyArray
from polidiff.worlds.shards.store import fingerprint, inside, load_arrays, save_arrays

FORM = 2  # of the files
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
        self.folder, self._asked, self._pack, self._unpack = inside(folder, "cells"), asked, pack, unpack
        self._prints: dict[str, str] = {}

    def holds(self, pieces: Pieces) -> bool:
        """Whether a part is there."""
        return self._path(pieces).exists()

    def load(self, pieces: Pieces) -> T | None:
        """What was counted of a part; None if its file is damaged."""
        return load_arrays(self._path(pieces), self._unpack)

    def save(self, pieces: Pieces, counted: T) -> None:
        """Keep what was counted of a part."""
        save_arrays(self._path(pieces), self._pack(counted))

    def _path(self, pieces: Pieces) -> Path:
        for file in {file for file, _, _ in pieces} - self._prints.keys():
            self._prints[file] = fingerprint(file)
        told = [[self._prints[file], first, rows] for file, first, rows in pieces]
        text = json.dumps([FORM, __version__, self._asked, told])
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:40]}.npz"
