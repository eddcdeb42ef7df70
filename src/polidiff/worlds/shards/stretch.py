r"""All that is kept of a stretch of rows: facts for the check, counts for the model, and its first and last row.

.. math:: n_b(s, a, s'), \qquad \sum g, \qquad \sum g^2 \qquad \text{per block of episodes } b

What follows the last row of a stretch, and whether its first row begins an episode, only the neighbours know. Both rows
are therefore kept apart (`head`, `tail`) and counted when two stretches are joined, so that an episode may span as many
shards as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.worlds.log_columns import Columns
from polidiff.worlds.shards.keys import Sizes, rising
from polidiff.worlds.shards.sorting import in_order

END, CUT = -1, -2
LabelValue: TypeAlias = int | str


@dataclass(frozen=True)
class Reading:
    """What is wanted of every shard."""

    columns: Columns
    blocks: int
    temporal: bool  # steps are times: gaps cannot be told
    ranges: tuple[tuple[int, float, float], ...]  # outcome, low, high that every whole episode must keep
    schema: tuple[tuple[str, str], ...]  # name and type of every column that is read


@dataclass(frozen=True)
class Border:
    """The first or last row of a stretch, with the sums of the part of its episode that the stretch holds."""

    episode: LabelValue | None
    step: float | None
    state: int  # index into the stretch's states; -1 where states are features
    action: int
    gains: tuple[float, ...]
    ended: bool
    closed: bool  # whether the row says that the episode ends here or is cut
    totals: tuple[float, ...]  # of the episode's rows in this stretch
    over: bool  # whether the last of those rows ended


@dataclass(frozen=True, eq=False)
class Entries:
    """Counted transitions, distinct; in the order of their keys, unless they were given others."""

    keys: IntArray  # (m,)
    sizes: Sizes  # of the keys
    sums: FloatArray  # (m, 1 + 2 K) count, then sum and square of each outcome

    @property
    def count(self) -> FloatArray:
        """(m,) rows."""
        found: FloatArray = self.sums[:, 0]
        return found

    def in_order(self) -> Entries:
        """The same with rising keys."""
        if rising(self.keys):
            return self
        keys, order = in_order(self.keys)
        return Entries(keys, self.sizes, self.sums[order])


@dataclass(frozen=True, eq=False)
class Stretch:
    """Rows that stand together in a log."""

    rows: int
    runs: int  # episodes, or parts of episodes at its ends
    ended: int
    gaps: int
    wrong: int  # problems; what they are is looked up only if there are any
    missing: tuple[int, ...]  # rows without a value, per column that is read
    values: tuple[tuple[bool, str | None], ...]  # per feature: whether it varies, and its first value
    outside: bool  # whether a whole episode left a declared range
    ordered: bool  # whether the names of episodes rise from run to run, so that none can come back
    states: tuple[LabelValue, ...]
    actions: tuple[LabelValue, ...]
    entries: Entries  # all rows but the last
    starts: tuple[AnyArray, AnyArray, FloatArray]  # block, state, count; without the first row
    head: Border | None  # None: no rows
    tail: Border | None
    skipped: tuple[str, ...] = ()  # what could not be read
    pieces: tuple[tuple[str, int, int], ...] = ()  # file, first row and number of rows that were used
    broken: bool = False  # whether what comes after the last row could not be read
    lost: str | None = None  # if it is broken: the episode that was left out, as far as its rows go on
    features: pl.DataFrame | None = None  # of each discrete state, from its first row
    varied: BoolArray | None = None  # (features, states) where they are not constant


def no_entries(reading: Reading) -> Entries:
    """Nothing counted."""
    return Entries(
        np.zeros(0, dtype=np.int64), Sizes(reading.blocks), np.zeros((0, 1 + 2 * len(reading.columns.gains)))
    )
