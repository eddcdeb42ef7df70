"""A policy written out for every state of a table, and the array files that it may come in.

Files hold numbers only and are never unpickled. A header may promise a shape that would fill the memory, and an archive
may unpack to a thousand times its size. Both are seen before a byte of data is read: the header is compared with the
bytes that are there, and the sizes that the archive declares (beyond which nothing is unpacked) with a limit.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from polidiff.errors import InvalidInputError, InvalidPolicyError
from polidiff.policies.protocol import check_probabilities, one_hot
from polidiff.records.arrays import AnyArray, FloatArray, IntArray, read_only

MOST_ENTRIES = 2**27  # of a table; a gigabyte
MOST_ACTIONS = 2**16  # where only the largest index tells how many there are
MOST_BYTES = 2**30  # of all arrays of a file, unpacked
MOST_HEADER = 2**16
FAULTS = (OSError, ValueError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError, KeyError)


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """Probabilities of actions for every state."""

    table: FloatArray  # (n_states, n_actions), rows sum to 1
    by_chance: FloatArray | float = 0.0  # (n_states,) how far apart counted shares may lie that are equal in truth

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return int(self.table.shape[1])

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Rows of the table."""
        index = np.asarray(states)
        if index.ndim == 2 and index.shape[1] == 1:
            index = index[:, 0]
        if index.ndim != 1:
            raise InvalidPolicyError(
                f"a table policy answers numbers of states; it was asked about states of shape {index.shape[1:]}"
            )
        index = index.astype(np.int64)
        off = np.flatnonzero((index < 0) | (index >= len(self.table)))
        if off.size:
            raise InvalidPolicyError(
                f"a table policy of {len(self.table)} states was asked about state {int(index[off[0]])}"
            )
        rows: FloatArray = self.table[index]
        return rows


def table_policy(array: AnyArray, n_actions: int | None = None, n_states: int | None = None) -> TablePolicy:
    """A policy from (S,) action indices or (S, A) probabilities."""
    if array.ndim == 1:
        table = one_hot(*_checked_actions(array, n_actions))
    elif array.ndim == 2:
        if n_actions is not None and array.shape[1] != n_actions:
            raise InvalidPolicyError(
                f"a policy table must have {n_actions} columns, one per action; got shape {array.shape}"
            )
        table = check_probabilities(array)
    else:
        raise InvalidPolicyError(
            f"a policy table must be (S,) action indices or (S, A) probabilities; got shape {array.shape}"
        )
    if n_states is not None and len(table) != n_states:
        raise InvalidPolicyError(f"a policy table must have {n_states} rows, one per state; got {len(table)}")
    return TablePolicy(read_only(table))


def _check_whole(array: AnyArray) -> None:
    """An error unless every entry is a finite number that a whole number can hold."""
    off = np.flatnonzero(~(np.abs(array) < 2**53)) if array.dtype.kind == "f" else np.zeros(0, dtype=np.int64)
    if off.size:
        raise InvalidPolicyError(
            f"a policy of shape (S,) must hold action indices; entry {off[0]} is {array[off[0]]} "
            f"({off.size} of {len(array)} are off)"
        )


def _checked_actions(array: AnyArray, n_actions: int | None) -> tuple[IntArray, int]:
    _check_whole(array)
    actions = array.astype(np.int64)
    if not np.array_equal(actions, array):
        where = int(np.flatnonzero(actions != array)[0])
        raise InvalidPolicyError(
            f"a policy of shape (S,) must hold action indices; entry {where} is {array[where]!r}. "
            "Hint: pass probabilities as an (S, A) array"
        )
    count = n_actions if n_actions is not None else int(actions.max(initial=0)) + 1
    if count * len(actions) > MOST_ENTRIES or (n_actions is None and count > MOST_ACTIONS):
        raise InvalidPolicyError(
            f"a table of {len(actions)} states and {count} actions is too large (at most {MOST_ENTRIES} entries, "
            f"{MOST_ACTIONS} actions). Hint: action indices count from 0 without gaps; a function is a policy too"
        )
    off = np.flatnonzero((actions < 0) | (actions >= count))
    if off.size:
        raise InvalidPolicyError(
            f"actions must be between 0 and {count - 1}; state {off[0]} has {actions[off[0]]} "
            f"({off.size} of {len(actions)} states are off)"
        )
    return actions, count


def read_npy(path: Path, error: type[InvalidInputError] = InvalidPolicyError) -> AnyArray:
    """The array of an .npy file."""
    try:
        size = os.stat(path).st_size
        _check_size(size)
        with open(path, "rb") as stream:
            return _array(stream, size)
    except FAULTS as fault:
        raise _unreadable(path, fault, error) from fault


def read_npz(path: Path, error: type[InvalidInputError] = InvalidPolicyError) -> dict[str, AnyArray]:
    """The arrays of an .npz file by name."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
            _check_size(sum(member.file_size for member in members))
            arrays = {}
            for member in members:
                with archive.open(member) as stream:
                    arrays[member.filename.removesuffix(".npy")] = _array(stream, member.file_size)
            return arrays
    except FAULTS as fault:
        raise _unreadable(path, fault, error) from fault


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise ValueError(f"its arrays take {size / 1e6:.0f} MB unpacked; at most {MOST_BYTES / 1e6:.0f} MB are read")


def _array(stream: IO[bytes], size: int) -> AnyArray:
    head = io.BytesIO(stream.read(MOST_HEADER))  # a header may say that it is four gigabytes long
    shape, fortran, dtype = _header(head)
    if dtype.hasobject:
        raise ValueError("it holds pickled objects, which may run code, and nothing was loaded. Hint: save numbers")
    needed = math.prod(shape) * dtype.itemsize
    if needed > size:
        raise ValueError(f"its header promises {needed} bytes of data; there are {size}. Hint: it may be cut off")
    begun = head.read(needed)
    data = begun + stream.read(needed - len(begun))
    if len(data) < needed:
        raise ValueError(f"its header promises {needed} bytes of data; {len(data)} came. Hint: it may be cut off")
    if not dtype.itemsize:
        raise ValueError(f"it must hold numbers; it holds {dtype}")
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C").copy()


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Shape, order and type; the reader of headers fails in as many ways as there are broken headers."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        reader = readers[np.lib.format.read_magic(stream)]
        shape, fortran, dtype = reader(stream)
    except (zipfile.BadZipFile, zlib.error):
        raise
    except Exception as fault:
        raise ValueError("it has no header of an array of numbers") from fault
    if any(length < 0 for length in shape):
        raise ValueError(f"its shape must not be negative; got {shape}")
    return tuple(shape), bool(fortran), dtype


def _unreadable(path: Path, fault: Exception, error: type[InvalidInputError]) -> InvalidInputError:
    lines = str(fault).splitlines()
    what = "a policy" if error is InvalidPolicyError else "arrays of numbers"
    return error(f"{path.name} cannot be read as {what}: {lines[0] if lines else type(fault).__name__}")
