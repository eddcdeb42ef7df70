"""What the columns of a log hold, told apart while they come in parts: labels, episodes, and features of states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import polars as pl

from polidiff.records.arrays import AnyArray, BoolArray, IntArray
from polidiff.worlds.shards.kernels import quick, sealed, watch

WIDEST = 1 << 20  # whole numbers below this are their own number
LabelValue: TypeAlias = int | str


class LabelCodes:
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


class ColumnCodes:
    """Numbers for the labels of a column that comes in parts.

    Small whole numbers are their own number until the first that is none.
    """

    def __init__(self) -> None:
        self._high = 0
        self._codes: LabelCodes | None = None

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
            labels, place = np.unique(whole.to_numpy(), return_inverse=True)
            return self._dictionary.of(labels.tolist())[place]
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
    def _dictionary(self) -> LabelCodes:
        if self._codes is None:
            self._codes = LabelCodes(range(self._high))
        return self._codes


class EpisodeRuns:
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


class StateFeatures:
    """One row of features per state, of the first row of the log that met it."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._first = np.zeros((len(names), 0), dtype=np.int64)  # hash of each state's value
        self._met = np.zeros((len(names), 0), dtype=np.int8)
        self._state: list[IntArray] = []  # of each row of `_rows`
        self._rows: list[pl.DataFrame] = []

    def add(self, rows: pl.DataFrame, state: IntArray, varied: BoolArray | None = None) -> None:
        """Rows in states; `varied` (features, n) says which values are known to differ within their state."""
        if not self.names or not len(state):
            return
        self._reserve(int(state.max()) + 1)
        begin = np.full(self._met.shape[1], -1, dtype=np.int64)
        look = quick(watch, len(state))
        for j, name in enumerate(self.names):
            value = rows[name].hash().to_numpy().view(np.int64)
            look(sealed(state), sealed(value), self._met[j], self._first[j], begin)
            if varied is not None:
                self._met[j][state[varied[j]]] = 2
        fresh = np.flatnonzero(begin >= 0)
        if len(fresh):
            self._state.append(fresh)
            self._rows.append(rows.select(self.names)[begin[fresh]])

    def table(self, place: IntArray, count: int) -> tuple[pl.DataFrame | None, BoolArray]:
        """The rows in the order of other numbers of states, and (features, states) where they are not constant."""
        varied = np.zeros((len(self.names), count), dtype=np.bool_)
        if not self._rows:
            return None, varied
        state = np.concatenate(self._state)
        varied[:, place[state]] = self._met[:, state] == 2
        return pl.concat(self._rows)[np.argsort(place[state])], varied

    def _reserve(self, states: int) -> None:
        more = states - self._met.shape[1]
        if more > 0:
            self._first, self._met = (_wider(part, max(more, part.shape[1])) for part in (self._first, self._met))


def _rising(names: pl.Series, same: object) -> bool:
    """Whether the names of the runs rise; other types than whole numbers and text are not compared."""
    if not (names.dtype.is_integer() or names.dtype == pl.String):
        return False
    first = names.filter(pl.Series(np.append(True, ~np.asarray(same))))
    return bool((first.slice(1) > first.slice(0, len(first) - 1)).fill_null(False).all())


def _wider(part: AnyArray, more: int) -> AnyArray:
    return np.pad(part, ((0, 0), (0, more)))
