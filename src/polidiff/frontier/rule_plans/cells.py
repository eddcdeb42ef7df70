r"""Cells of features, and boxes of cells.

Each numeric feature is cut at :math:`t_1 < \dots < t_m`; a value falls in cell :math:`\#\{k : t_k \le x\}`. A box is
an interval of cells for some of the features. A category becomes one column per value with the cells "other" and
"this one".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from polidiff.errors import InvalidWorldError
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.rule import Condition, Rule, missing_entries
from polidiff.rules.grid import readable_bound
from polidiff.worlds.tabular import TabularMDP

Box: TypeAlias = tuple[tuple[int, int, int], ...]  # (column of cells, first cell, last cell), by column
WHOLE = 64  # features with at most so many values get a cell for each


@dataclass(frozen=True, eq=False)
class Axis:
    """The cells of one column."""

    name: str
    column: int  # of the world's features
    cuts: FloatArray  # ascending; empty for a category
    value: str | float | int | bool | None = None  # of a category
    rest: tuple[str | float | int | bool, ...] = ()  # the other values of the category

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return 2 if self.value is not None else len(self.cuts) + 1

    def condition(self, first: int, last: int) -> Condition:
        """The condition that holds in cells first … last."""
        if self.value is not None:
            return Condition(self.name, self.column, values=(self.value,) if first else self.rest)
        low = float(self.cuts[first - 1]) if first > 0 else -math.inf
        high = float(self.cuts[last]) if last < len(self.cuts) else math.inf
        return Condition(self.name, self.column, low=low, high=high)


@dataclass(frozen=True, eq=False)
class Cells:
    """Which cell of every column each state falls in."""

    axes: tuple[Axis, ...]
    codes: IntArray  # (S, d)
    sizes: IntArray  # (d,)
    complete: bool  # whether every box over the features has an equal over the cells

    def covers(self, box: Box) -> BoolArray:
        """(S,) which states lie in the box."""
        inside = np.ones(len(self.codes), dtype=np.bool_)
        for column, first, last in box:
            inside &= (self.codes[:, column] >= first) & (self.codes[:, column] <= last)
        return inside

    def rule(self, box: Box) -> Rule:
        """The box in terms of the features."""
        return Rule(tuple(self.axes[column].condition(first, last) for column, first, last in box))

    def literals(self, box: Box) -> int:
        """Comparisons that a reader makes."""
        return sum(int(first > 0) + int(last < self.sizes[column] - 1) for column, first, last in box)

    def box(self, rule: Rule) -> Box | None:
        """The box that covers the same cells as a rule over cell codes; None if it covers none."""
        found = []
        for condition in rule.conditions:
            first = max(0, math.ceil(condition.low)) if math.isfinite(condition.low) else 0
            top = int(self.sizes[condition.column]) - 1
            last = min(top, math.ceil(condition.high) - 1) if math.isfinite(condition.high) else top
            if first > last:
                return None
            if (first, last) != (0, top):
                found.append((condition.column, first, last))
        return tuple(sorted(found))


def make_cells(world: TabularMDP, weight: FloatArray, *, cuts: int = 24) -> Cells:
    """Cells of the world's features; many-valued ones are cut where `weight` (S,) has its quantiles."""
    if world.features is None:
        raise InvalidWorldError(
            "rules need states with features; this table has none. Hint: TabularMDP(…, features=, feature_names=)"
        )
    axes: list[Axis] = []
    columns: list[IntArray] = []
    complete = True
    alive = ~world.absorbing
    for index, name in enumerate(world.feature_names):
        column = world.features[:, index]
        if column.dtype == object and not _numbers(column):
            made, codes = _category_axes(name, index, column, alive)
        else:
            axis, whole = _number_axis(name, index, column.astype(np.float64), weight * alive, alive, cuts)
            made, codes = [axis], [np.searchsorted(axis.cuts, column.astype(np.float64), side="right")]
            complete &= whole
        axes += made
        columns += codes
    kept = [k for k, axis in enumerate(axes) if axis.cells > 1]
    if not kept:
        raise InvalidWorldError(
            f"rules need a feature that differs between states; {', '.join(world.feature_names[:8])} are constant"
        )
    codes_table = np.stack([columns[k] for k in kept], axis=1).astype(np.int64)
    sizes = np.array([axes[k].cells for k in kept])
    return Cells(tuple(axes[k] for k in kept), codes_table, sizes, complete)


def _numbers(column: AnyArray) -> bool:
    return all(isinstance(value, (int, float, np.integer, np.floating)) for value in column)


def _number_axis(
    name: str, index: int, column: FloatArray, weight: FloatArray, alive: BoolArray, cuts: int
) -> tuple[Axis, bool]:
    absent = np.flatnonzero(missing_entries(column) & alive)
    if absent.size:
        raise InvalidWorldError(
            f"features of states must be numbers or categories; {name!r} is missing in state {absent[0]} "
            f"({absent.size} states). Hint: fill it, or give a category such as 'not measured'"
        )
    values = np.unique(column[alive])
    if len(values) <= max(cuts + 1, WHOLE if (values == np.round(values)).all() else 0):
        upper, whole = np.arange(1, len(values)), True
    else:
        order = np.argsort(column[alive], kind="stable")
        mass = np.cumsum(weight[alive][order] + 1e-12 + weight.sum() / len(column))  # half by visits, half by states
        at = np.searchsorted(mass, mass[-1] * np.arange(1, cuts + 1) / (cuts + 1))
        upper, whole = np.unique(np.searchsorted(values, column[alive][order][at])), False
        upper = upper[upper > 0]
    bounds = [readable_bound(float(values[u - 1]), float(values[u])) for u in upper]
    return Axis(name, index, np.array(bounds, dtype=np.float64)), whole


def _category_axes(name: str, index: int, column: AnyArray, alive: BoolArray) -> tuple[list[Axis], list[IntArray]]:
    values = list(dict.fromkeys(column[alive].tolist()))
    if len(values) < 2:
        return [], []
    axes = [Axis(name, index, np.empty(0), value, tuple(v for v in values if v != value)) for value in values]
    return axes, [np.array([int(v == axis.value) for v in column]) for axis in axes]
