r"""The rows of a log as numbers, in an order that does not depend on how they were stored, with folds of whole units.

A unit is what can be drawn independently: an episode, or all episodes of one person. Units are in the order
of what is recorded about them, so that the same records give the same folds and the same sums to the last digit,
however a file was sorted.

Levels of a text column that are too rare to be told apart: what is lost, and whether verdicts can do without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polidiff.evaluation.assumptions.confounded_levels import levels_move_both
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.numbers import percent
from polidiff.worlds.log_rows import EpisodeRows, LoggedRows
from polidiff.worlds.shards.transition_counts import CUT, END

LEVELS = 12  # of a text column that get a column of their own in any case
ROWS_OF_LEVEL, MOST_LEVELS = 20, 240  # rows with which a further level gets one, and how many levels of all columns do
TOLD = 0.01  # share of the rows from which on it is said that they share a level


@dataclass(frozen=True, eq=False)
class Decisions(EpisodeRows):
    """Logged decisions, one unit after the other."""

    x: FloatArray  # (n, d) features without gaps
    actions: IntArray
    gains: FloatArray
    episode: IntArray
    unit: IntArray  # (n,) 0, 0, …, 1, …; whole episodes
    follow: IntArray
    n_actions: int
    probability: FloatArray | None  # (n,) recorded chance of the logged action
    order: IntArray  # (n,) row of the log that each decision is
    kinds: IntArray  # (n, c) numbers of the values of features that take few, all told apart

    @property
    def n_units(self) -> int:
        """How many units there are."""
        return int(self.unit[-1]) + 1

    def folds(self, count: int, seed: int) -> IntArray:
        """(n,) fold of each row: units dealt by chance, as even as can be."""
        return deal(self.n_units, count, seed)[self.unit]

    def per_unit(self, values: FloatArray) -> FloatArray:
        """Sums (units, …) of values (n, …)."""
        return np.asarray(np.add.reduceat(values, np.flatnonzero(np.diff(self.unit, prepend=-1)), axis=0))

    def some(self, keep: BoolArray) -> Decisions:
        """The decisions (n,) of some whole units."""
        part = super().some(keep)
        return replace(part, unit=_renumbered(part.unit))


def deal(units: int, folds: int, seed: int) -> IntArray:
    """(units,) fold of each unit.

    >>> np.bincount(deal(10, 3, seed=0))
    array([4, 3, 3])
    """
    return np.asarray(np.random.default_rng([seed, 81]).permutation(units) % folds)


def held_rows(decisions: Decisions, seed: int) -> BoolArray:
    """(n,) a quarter of the units, by which regressions choose how far to fit."""
    return np.asarray(deal(decisions.n_units, 4, seed + 7919)[decisions.unit] == 0)


def decisions_of(rows: LoggedRows, n_actions: int) -> Decisions:
    """The rows in canonical order, one unit after the other."""
    unit = rows.episode if rows.unit is None else np.unique(rows.unit, return_inverse=True)[1].ravel()
    order = _together(_together(rows.canonical, rows.episode), unit)
    place = np.empty(len(order) + 2, dtype=np.int64)
    place[order] = np.arange(len(order))
    place[-2:] = CUT, END
    return Decisions(
        x=numbers_of(rows.states)[order],
        actions=np.asarray(rows.actions[order], dtype=np.int64),
        gains=np.asarray(rows.gains[order], dtype=np.float64),
        episode=_renumbered(rows.episode[order]),
        unit=_renumbered(unit[order]),
        follow=place[rows.follow[order]],
        n_actions=n_actions,
        probability=None if rows.probability is None else rows.probability[order],
        order=order,
        kinds=_kinds(rows.states)[order],
    )


def _kinds(states: AnyArray) -> IntArray:
    """(n, c) of features with at most `LEVELS` values, the number of each."""
    table = states[:, None] if states.ndim == 1 else states
    words = [column.dtype == object and any(isinstance(v, str) for v in column) for column in table.T]
    read = (_texts(column) if text else _numbers(column) for column, text in zip(table.T, words, strict=True))
    coded = [np.unique(column, return_inverse=True) for column in read]
    few = [code for values, code in coded if 1 < len(values) <= LEVELS]
    return np.column_stack(few) if few else np.zeros((len(table), 0), dtype=np.int64)


def _together(order: IntArray, label: IntArray) -> IntArray:
    """The order with rows of one label next to each other, where the first of them stood."""
    first = np.full(int(label.max()) + 1, len(order))
    np.minimum.at(first, label[order], np.arange(len(order)))
    return np.asarray(order[np.argsort(first[label[order]], kind="stable")])


@dataclass(frozen=True, eq=False)
class Encoder:
    """Features as numbers, in the same columns for any rows."""

    columns: tuple[tuple[str, ...] | float | None, ...]  # levels of text; what stands for a gap; None: no gaps

    def __call__(self, states: AnyArray) -> FloatArray:
        """(n, d) text one column per level, what is missing at the median with a column that says so."""
        columns = [_column(states[:, j], known) for j, known in enumerate(self.columns)]
        return np.column_stack(columns) if columns else np.zeros((len(states), 0))


def fit_encoder(states: AnyArray) -> Encoder:
    """Columns for feature rows (n, d)."""
    words = [j for j, c in enumerate(states.T) if c.dtype == object and any(isinstance(value, str) for value in c)]
    room = MOST_LEVELS // max(len(words), 1)
    return Encoder(tuple(_levels(_texts(column), room) if j in words else _gap(column)
                         for j, column in enumerate(states.T)))  # fmt: skip


def numbers_of(states: AnyArray) -> FloatArray:
    """(n, d) features as numbers.

    >>> numbers_of(np.array([["a", 1.0], ["b", None], ["a", 3.0]], dtype=object))
    array([[1., 1., 0.],
           [0., 2., 1.],
           [1., 3., 0.]])
    """
    return fit_encoder(states)(states)


def _gap(values: AnyArray) -> float | None:
    """What stands for missing numbers; None where none is missing."""
    numbers = _numbers(values)
    there = np.isfinite(numbers)
    if there.all():
        return None
    return float(np.median(numbers[there])) if there.any() else 0.0


def _levels(texts: AnyArray, room: int) -> tuple[str, ...]:
    """The commonest levels; the last of few, and all rarer ones, are where every indicator is 0."""
    names, counts = np.unique(texts, return_counts=True)
    most = max(LEVELS, min(room, int((counts >= ROWS_OF_LEVEL).sum())))
    return tuple(names[np.argsort(-counts, kind="stable")[: min(most, len(names) - 1)]].tolist())


def _column(values: AnyArray, known: tuple[str, ...] | float | None) -> FloatArray:
    if isinstance(known, tuple):
        texts = _texts(values) if values.dtype == object else values.astype(str)
        return np.asarray(texts[:, None] == np.array(known, dtype=texts.dtype), dtype=np.float64)
    numbers = _numbers(values)
    gap = ~np.isfinite(numbers)
    if known is None:
        return np.where(gap, 0.0, numbers)[:, None]
    return np.column_stack([np.where(gap, known, numbers), gap])


def _texts(values: AnyArray) -> AnyArray:
    return np.array([value if isinstance(value, str) else "" for value in values], dtype=object)


def _numbers(values: AnyArray) -> FloatArray:
    return np.asarray(values, dtype=np.float64)  # None is no number


def _renumbered(labels: IntArray) -> IntArray:
    return np.asarray(np.cumsum(np.diff(labels, prepend=labels[:1]) != 0))


@dataclass(frozen=True, eq=False)
class SharedLevels:
    """A text column of which some levels count as one."""

    name: str
    levels: int
    apart: int  # levels that are told apart
    rows: IntArray  # (m,) rows with other levels
    level: IntArray  # (m,) their levels, from 0

    def note(self, n: int) -> str:
        """What is lost, of n rows."""
        return (
            f"Comparisons tell the {self.apart} commonest of {self.levels} levels of {self.name!r} apart, in "
            f"{percent(1 - len(self.rows) / n)} of the rows. The others count as one: what tells them apart is lost."
        )

    def moves_both(self, taken: FloatArray, brought: FloatArray) -> bool:
        """Whether levels move actions and outcomes together; (n, A) and (n, M) what was not expected of them."""
        return levels_move_both(self.level, taken[self.rows], brought[self.rows])


def shared_levels(states: AnyArray, names: tuple[str, ...], encoder: Encoder) -> list[SharedLevels]:
    """The text columns of feature rows (n, d) of which more than a few rows share a level."""
    columns = []
    for j, known in enumerate(encoder.columns):
        if isinstance(known, tuple):
            levels, code = np.unique([value if isinstance(value, str) else "" for value in states[:, j]],
                                     return_inverse=True)  # fmt: skip
            rows = np.flatnonzero(~np.isin(levels, known)[code])
            if len(levels) > len(known) + 1 and len(rows) > TOLD * len(states):
                level = np.unique(code[rows], return_inverse=True)[1]
                columns.append(SharedLevels(names[j], len(levels), len(known), rows, level))
    return columns
