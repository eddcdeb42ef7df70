"""The features of discrete states, found while the log is read, and whether each is constant within its state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from polidiff.records.arrays import AnyArray, BoolArray, IntArray
from polidiff.worlds.shards.kernels import quick, sealed, watch


class Traits:
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


def _wider(part: AnyArray, more: int) -> AnyArray:
    return np.pad(part, ((0, 0), (0, more)))
