"""Arrays from .npy and .npz files: numbers only, never unpickled, and no more of them than the file holds.

A header may promise a shape that would fill the memory, and an archive may unpack to a thousand times its size. Both
are seen before a byte of data is read: the header is compared with the bytes that are there, and the sizes that the
archive declares (beyond which nothing is unpacked) with a limit.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from polidiff.errors import InvalidInputError, InvalidPolicyError
from polidiff.records.arrays import AnyArray

MOST_BYTES = 2**30  # of all arrays of a file, unpacked
MOST_HEADER = 2**16
FAULTS = (OSError, ValueError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError, KeyError)


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


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
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
