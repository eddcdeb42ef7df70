"""Numbers for the labels of a column while it is read, before all of them are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from polidiff.records.arrays import BoolArray, IntArray
from polidiff.worlds.shards.stretch import LabelValue

WIDEST = 1 << 20  # whole numbers below this are their own number


class Codes:
    """Numbers for labels in the order in which they come."""

    def __init__(self, labels: Sequence[LabelValue] = ()) -> None:
        self._code: dict[LabelValue, int] = {label: code for code, label in enumerate(labels)}

    def __len__(self) -> int:
        return len(self._code)

    def of(self, labels: Sequence[LabelValue]) -> IntArray:
        """The number of each label."""
        code = self._code
        return np.array([code.setdefault(label, len(code)) for label in labels], dtype=np.int64)

    def sorted(self, met: BoolArray | None = None) -> tuple[tuple[LabelValue, ...], IntArray]:
        """The labels in sorted order, of those that were met, and the place of each number among them."""
        labels = sorted(label for label, code in self._code.items() if met is None or met[code])
        place = np.full(len(self._code), -1, dtype=np.int64)
        place[[self._code[label] for label in labels]] = np.arange(len(labels))
        return tuple(labels), place


class Column:
    """Numbers for the labels of a column that comes in parts.

    Small whole numbers are their own number until the first that is none.
    """

    def __init__(self) -> None:
        self._high = 0
        self._codes: Codes | None = None

    def __len__(self) -> int:
        """One more than the largest number."""
        return self._high if self._codes is None else len(self._codes)

    def of(self, part: pl.Series) -> IntArray:
        """The number of each row's label; a missing one counts as any."""
        if part.dtype.is_integer() or part.dtype == pl.Boolean:
            whole = part.cast(pl.UInt8) if part.dtype == pl.Boolean else part
            if part.null_count():
                whole = whole.fill_null(strategy="zero")
            low, high = int(whole.min()), int(whole.max())  # type: ignore[arg-type]
            if self._codes is None and low >= 0 and high < WIDEST:
                self._high = max(self._high, high + 1)
                return whole.cast(pl.Int64).to_numpy()
            found, place = np.unique(whole.to_numpy(), return_inverse=True)
            return self._dictionary.of(found.tolist())[place]
        text = part.cast(pl.String).fill_null("")
        names = text.unique().sort()
        place = text.cast(pl.Enum(names)).to_physical().to_numpy()
        return self._dictionary.of(names.to_list())[place]

    def sorted(self, met: BoolArray) -> tuple[tuple[LabelValue, ...], IntArray]:
        """The labels of the numbers that were met, in sorted order, and the place of each number among them."""
        if self._codes is not None:
            return self._codes.sorted(met)
        return tuple(np.flatnonzero(met).tolist()), np.cumsum(met) - 1

    @property
    def _dictionary(self) -> Codes:
        if self._codes is None:
            self._codes = Codes(range(self._high))
        return self._codes
