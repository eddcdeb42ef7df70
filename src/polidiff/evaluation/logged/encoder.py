"""Features as numbers for trees: text becomes codes, what is missing stays missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from polidiff.records.arrays import AnyArray, FloatArray


@dataclass(frozen=True, eq=False)
class Encoder:
    """Codes of the text in each column; columns of numbers have none."""

    codes: tuple[Mapping[str, float], ...]

    def __call__(self, rows: AnyArray) -> FloatArray:
        """Feature rows (n, d) as floats; NaN where missing or never seen."""
        table = np.asarray(rows)
        if table.dtype != object:
            return np.asarray(table, dtype=np.float64)
        return np.column_stack([_numbers(table[:, j], code) for j, code in enumerate(self.codes)])

    def words(self, column: int, low: float, high: float) -> str | None:
        """The text whose code lies in (low, high]; None for a column of numbers."""
        codes = self.codes[column]
        return ", ".join(text for text, code in codes.items() if low < code <= high) if codes else None


def fit_encoder(states: AnyArray) -> Encoder:
    """The codes of the text found in feature rows (n, d).

    >>> table = np.array([["a", 1.0], ["b", None]], dtype=object)
    >>> fit_encoder(table)(table)
    array([[ 0.,  1.],
           [ 1., nan]])
    """
    if states.dtype != object:
        return Encoder(tuple({} for _ in range(states.shape[1])))
    return Encoder(tuple(_codes(states[:, j]) for j in range(states.shape[1])))


def _codes(column: AnyArray) -> dict[str, float]:
    return {text: float(k) for k, text in enumerate(sorted({value for value in column if isinstance(value, str)}))}


def _numbers(column: AnyArray, codes: Mapping[str, float]) -> FloatArray:
    if codes:
        return np.array([codes.get(value, np.nan) for value in column])
    return np.array([np.nan if value is None else float(value) for value in column])
