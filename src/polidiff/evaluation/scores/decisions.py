"""The rows of a log as numbers, in an order that does not depend on how they were stored, with folds of whole units.

A unit is what can be drawn independently: an episode, or all episodes of one person. Units are in the order
of what is recorded about them, so that the same records give the same folds and the same sums to the last digit,
however a file was sorted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.worlds.log_rows import LoggedRows
from polidiff.worlds.shards.transition_counts import CUT, END

LEVELS = 12  # of a text column that get a column of their own; the others share one


@dataclass(frozen=True, eq=False)
class Decisions:
    """Logged decisions, one unit after the other."""

    x: FloatArray  # (n, d) features without gaps
    actions: IntArray  # (n,)
    gains: FloatArray  # (n, M) what each decision adds to each outcome
    episode: IntArray  # (n,) 0, 0, …, 1, …
    unit: IntArray  # (n,) 0, 0, …, 1, …; whole episodes
    follow: IntArray  # (n,) row that comes next, or below 0
    n_actions: int
    probability: FloatArray | None  # (n,) recorded chance of the logged action
    order: IntArray  # (n,) row of the log that each decision is

    @property
    def first(self) -> BoolArray:
        """(n,) whether an episode begins here."""
        return np.diff(self.episode, prepend=-1) > 0

    @property
    def step(self) -> IntArray:
        """(n,) decisions of the episode before each row."""
        return np.asarray(np.arange(len(self.episode)) - np.flatnonzero(self.first)[self.episode])

    @property
    def one_step(self) -> bool:
        """Whether every episode is a single decision."""
        return bool(self.first.all())

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

    def some(self, rows: BoolArray) -> Decisions:
        """The decisions of some whole units (n,)."""
        place = np.append(np.cumsum(rows) - 1, [-2, -1])
        return replace(
            self, x=self.x[rows], actions=self.actions[rows], gains=self.gains[rows],
            episode=_renumbered(self.episode[rows]), unit=_renumbered(self.unit[rows]),
            follow=place[self.follow[rows]], order=self.order[rows],
            probability=None if self.probability is None else self.probability[rows],
        )  # fmt: skip

    def to_come(self, discount: float = 1.0) -> FloatArray:
        """(n, M) what each outcome adds from a row to the end of its record."""
        total, step = self.gains.copy(), self.step
        for at in range(int(step.max(initial=0)) - 1, -1, -1):
            rows = np.flatnonzero((step == at) & (self.follow >= 0))
            total[rows] += discount * total[rows + 1]
        return total


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
    )


def _together(order: IntArray, label: IntArray) -> IntArray:
    """The order with rows of one label next to each other, where the first of them stood."""
    first = np.full(int(label.max()) + 1, len(order))
    np.minimum.at(first, label[order], np.arange(len(order)))
    return np.asarray(order[np.argsort(first[label[order]], kind="stable")])


def numbers_of(states: AnyArray) -> FloatArray:
    """(n, d) features as numbers: text one column per level, what is missing at the median with a column that says so.

    >>> numbers_of(np.array([["a", 1.0], ["b", None], ["a", 3.0]], dtype=object))
    array([[1., 1., 0.],
           [0., 2., 1.],
           [1., 3., 0.]])
    """
    if states.ndim == 1:
        return _levels(states)
    columns = [_column(states[:, j]) for j in range(states.shape[1])]
    return np.column_stack(columns) if columns else np.zeros((len(states), 0))


def _column(values: AnyArray) -> FloatArray:
    if values.dtype == object and any(isinstance(value, str) for value in values):
        return _levels(np.array([value if isinstance(value, str) else "" for value in values]))
    numbers = (
        np.array([np.nan if v is None else v for v in values], dtype=np.float64) if values.dtype == object else values
    )
    gap = ~np.isfinite(np.asarray(numbers, dtype=np.float64))
    if not gap.any():
        return np.asarray(numbers, dtype=np.float64)[:, None] + 0.0
    middle = float(np.median(numbers[~gap])) if not gap.all() else 0.0
    return np.column_stack([np.where(gap, middle, numbers), gap])


def _levels(values: AnyArray) -> FloatArray:
    """Indicators of the commonest levels; the last of few, and all rarer ones, are where every indicator is 0."""
    names, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    common = np.argsort(-counts, kind="stable")[: min(LEVELS, len(names) - 1)]
    return (codes.ravel()[:, None] == common).astype(np.float64)


def _renumbered(labels: IntArray) -> IntArray:
    return np.asarray(np.cumsum(np.diff(labels, prepend=labels[:1]) != 0))
