"""Hashes of names and of rows that any reader agrees on: they decide which episodes are drawn, and to which fold."""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl

from polidiff.records.arrays import AnyArray, IntArray


def mixed(numbers: IntArray | AnyArray) -> AnyArray:
    """Whole numbers scattered over 64 bits (SplitMix64).

    >>> mixed(np.array([0, 1])).tolist()
    [16294208416658607535, 10451216379200822465]
    """
    x = np.asarray(numbers)
    x = (x if x.dtype == np.uint64 else x.astype(np.int64).view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hashed_names(names: pl.Series) -> AnyArray:
    """(n,) hashes of whole numbers or of text."""
    if names.dtype.is_integer():
        return mixed(names.to_numpy())
    digests = [hashlib.blake2b(str(name).encode(), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(digests), dtype="<u8")


def hashes(names: pl.Series) -> AnyArray:
    """(n,) a hash of each row's name; made once for rows of one name that stand together."""
    if not names.dtype.is_integer():
        names = names.cast(pl.String)
    begins = (names != names.shift(1)).fill_null(True).to_numpy()
    per_row: AnyArray = hashed_names(names.filter(pl.Series(begins)))[np.cumsum(begins) - 1]
    return per_row


def hashed_rows(*columns: AnyArray) -> AnyArray:
    """(n,) hashes of what rows hold in columns (n,) or (n, d) of numbers or text; equal rows have equal hashes."""
    total = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        for part in column.reshape(len(column), -1).T:
            total = mixed(total ^ _bits(part))
    return total


def _bits(values: AnyArray) -> AnyArray:
    if values.dtype != object:
        numbers = values.astype(np.float64) + 0.0  # one zero, whatever its sign
        return mixed(np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64))
    distinct = {value: str(value) for value in values}
    codes = dict(zip(distinct, hashed_names(pl.Series(list(distinct.values()), dtype=pl.String)), strict=True))
    return np.array([codes[value] for value in values], dtype=np.uint64)
