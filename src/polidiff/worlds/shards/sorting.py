"""Keys in rising order, with one number that each carries along; equal keys stay in their order.

A digit of nine bits at a time, lowest first: keys have few bits, so that this takes three or four passes over them
where comparing would take twenty, and the places that keys are dealt to stay within a processor's cache.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.shards.kernels import arrange, few, quick

DIGIT = 9  # bits

Pair: TypeAlias = tuple[IntArray, FloatArray]  # (n,) keys from 0 on, (n,) what they carry


def in_order(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Keys in rising order, and the place that each had."""
    given = keys.copy(), np.arange(len(keys), dtype=np.float64)
    found, place = arranged(given, (np.empty_like(given[0]), np.empty_like(given[1])))
    return found, place.astype(np.int64)


def arranged(rows: Pair, spare: Pair) -> Pair:
    """Rows in the order of their keys; the arrays of both pairs are used for that, and what they held is lost."""
    keys, carried = rows
    if few(len(keys)):
        order = np.argsort(keys, kind="stable")
        return keys[order], carried[order]
    ends = np.empty(1 << DIGIT, dtype=np.int64)
    turned = quick(arrange, len(keys))(keys, carried, int(keys.max()).bit_length(), DIGIT, ends, *spare)
    return spare if turned else rows
