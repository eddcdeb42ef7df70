"""Row groups of a Parquet file, from its footer alone.

A footer is a Thrift struct in the compact protocol, followed by its length and ``PAR1``. Field 4 of it lists the row
groups, and field 3 of a row group is its number of rows; everything else is stepped over.
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

MAGIC = b"PAR1"
ROW_GROUPS, NUM_ROWS = 4, 3
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
        groups = _Compact(stream.read(length)).struct().get(ROW_GROUPS, [])
        rows = tuple(int(group[NUM_ROWS]) for group in groups)
    except (IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise DamagedFooterError("its footer is damaged") from error
    if any(count < 0 for count in rows):
        raise DamagedFooterError("its footer is damaged")
    return rows


class _Compact:
    """Reads values of the Thrift compact protocol one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while kind := self._byte():
            step = kind >> 4
            number = number + step if step else self._zigzag()
            fields[number] = self._value(kind & 15, in_list=False)
        return fields

    def _value(self, kind: int, *, in_list: bool) -> Any:
        if kind in (1, 2):  # a boolean field has its value in its type; one in a list is a byte
            return self._byte() == 1 if in_list else kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == 7:
            return self._take(8)
        if kind == 8:
            return self._take(self._varint())
        if kind in (9, 10):
            return self._list()
        if kind == 11:
            return self._map()
        if kind == 12:
            return self.struct()
        raise ValueError(f"unknown type {kind}")

    def _list(self) -> list[Any]:
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._varint()
        if count > len(self.data) - self.at:
            raise ValueError("a list longer than the footer")
        return [self._value(head & 15, in_list=True) for _ in range(count)]

    def _map(self) -> dict[Any, Any]:
        count = self._varint()
        if not count:
            return {}
        kinds = self._byte()
        return {
            self._value(kinds >> 4, in_list=True): self._value(kinds & 15, in_list=True)
            for _ in range(min(count, len(self.data)))
        }

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _take(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise IndexError("past the end")
        return self.data[self.at - count : self.at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 70:
                raise ValueError("a number without end")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
