"""Row groups of a Parquet file, from its footer alone.

A footer is a Thrift struct in the compact protocol, followed by its length and ``PAR1``. Field 4 of it lists the row
groups, and field 3 of a row group is its number of rows; everything else is stepped over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

MAGIC = b"PAR1"
ROW_GROUPS, NUM_ROWS = 4, 3
WHOLE, BYTES, LIST, MAP, STRUCT = (4, 5, 6), 8, 9, 11, 12  # types of the protocol; a set is 10
DEEPEST = 64
MOST = 1 << 30  # bytes of a footer that is still believed


class DamagedFooterError(ValueError):
    """Not the footer of a Parquet file."""


def row_groups(stream: BinaryIO) -> tuple[int, ...]:
    """Rows of each row group of a Parquet file that is open for reading."""
    size = stream.seek(0, 2)
    stream.seek(max(size - 8, 0))
    length, magic = struct.unpack("<I4s", stream.read(8).rjust(8, b"\0"))
    if magic != MAGIC or not 0 < length <= min(size - 8, MOST):
        raise DamagedFooterError("it does not end as a Parquet file does")
    stream.seek(size - 8 - length)
    try:
        rows = tuple(_rows(stream.read(length)))
    except (IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise DamagedFooterError("its footer is damaged") from error
    if any(count < 0 for count in rows):
        raise DamagedFooterError("its footer is damaged")
    return rows


def _rows(data: bytes) -> list[int]:
    """Number of rows of each row group of a footer."""
    at = next((place for number, kind, place in _fields(data, 0) if number == ROW_GROUPS and kind == LIST), None)
    if at is None:
        return []
    head, at = data[at], at + 1
    count, at = (head >> 4, at) if head >> 4 < 15 else _varint(data, at)
    rows = []
    for _ in range(count):
        found = None
        for number, kind, place in _fields(data, at):
            if number == NUM_ROWS and kind in WHOLE:
                found = _varint(data, place)[0]
            at = place
        if found is None:
            raise ValueError("a row group without a number of rows")
        rows.append((found >> 1) ^ -(found & 1))
    return rows


def _fields(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Number, type and place of every field of a struct; last, type 0 and the place behind it."""
    number = 0
    while kind := data[at]:
        at += 1
        if kind >> 4:
            number += kind >> 4
        else:
            value, at = _varint(data, at)
            number = (value >> 1) ^ -(value & 1)
        yield number, kind & 15, at
        at = _after(data, at, kind & 15)
    yield 0, 0, at + 1


def _after(data: bytes, at: int, kind: int, depth: int = 0) -> int:
    """The place behind a value; of a boolean field, which has its value in its type, the place itself."""
    if kind in WHOLE:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind == BYTES:
        count, at = _varint(data, at)
        return _inside(data, at + count)
    if kind in (1, 2):
        return at
    if kind == STRUCT:
        return _after_struct(data, at, depth + 1)
    if kind in (LIST, LIST + 1):
        head, at = data[at], at + 1
        count, at = (head >> 4, at) if head >> 4 < 15 else _varint(data, at)
        return _after_items(data, at, (head & 15,), count, depth)
    if kind == MAP:
        count, at = _varint(data, at)
        return _after_items(data, at + 1, (data[at] >> 4, data[at] & 15), count, depth) if count else at
    if kind == 3:
        return at + 1
    if kind == 7:
        return _inside(data, at + 8)
    raise ValueError(f"unknown type {kind}")


def _after_struct(data: bytes, at: int, depth: int) -> int:
    if depth > DEEPEST:
        raise ValueError("structs within structs without end")
    while kind := data[at]:
        at += 1
        if not kind >> 4:
            at = _varint(data, at)[1]
        at = _after(data, at, kind & 15, depth)
    return at + 1


def _after_items(data: bytes, at: int, kinds: tuple[int, ...], count: int, depth: int) -> int:
    if count > len(data) - at:
        raise ValueError("a list longer than the footer")
    for _ in range(count):
        for kind in kinds:  # a boolean in a list is a byte
            at = at + 1 if kind in (1, 2) else _after(data, at, kind, depth)
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A whole number, and the place behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 70:
            raise ValueError("a number without end")


def _inside(data: bytes, at: int) -> int:
    if at > len(data):
        raise IndexError("past the end")
    return at
