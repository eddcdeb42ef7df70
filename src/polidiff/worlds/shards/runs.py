"""Which rows belong to one episode, whatever the names of episodes are made of."""

from __future__ import annotations

import numpy as np
import polars as pl

from polidiff.records.arrays import IntArray


class Runs:
    """Numbers that are equal for rows of one episode, for a column that comes in parts."""

    def __init__(self) -> None:
        self.rising = True  # whether the names rise from run to run, as far as numbers do not tell that by themselves
        self._last: pl.Series | None = None
        self._rows = 0

    def of(self, part: pl.Series | None, rows: int) -> tuple[IntArray, int]:
        """The number of each row, and that of the row before the part. Without names every row is an episode."""
        if part is None:
            self._rows += rows
            return np.arange(self._rows - rows, self._rows), self._rows - rows - 1
        last, self._last = self._last, part.tail(1)
        if part.dtype.is_integer() and part.dtype != pl.UInt64 and not part.null_count():
            numbers = part.cast(pl.Int64).to_numpy()
            known = last is not None and last[0] is not None
            return numbers, int(last[0]) if known else int(numbers[0]) - 1  # type: ignore[index]
        whole = part if last is None else pl.concat([last, part])
        same = (whole.slice(1) == whole.slice(0, len(whole) - 1)).fill_null(False).to_numpy()
        self.rising = self.rising and _rising(whole, same)
        number = np.append(0, np.cumsum(~same))
        return (number, -1) if last is None else (number[1:], 0)


def _rising(names: pl.Series, same: object) -> bool:
    """Whether the names of the runs rise; other types than whole numbers and text are not compared."""
    if not (names.dtype.is_integer() or names.dtype == pl.String):
        return False
    first = names.filter(pl.Series(np.append(True, ~np.asarray(same))))
    return bool((first.slice(1) > first.slice(0, len(first) - 1)).fill_null(False).all())
