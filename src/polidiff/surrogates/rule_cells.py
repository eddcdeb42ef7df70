"""Feature rows of a log as the cells that rules speak about.

Numbers are cut between their values where these are few, else at quantiles: fine ones, and among them coarse ones that
a search begins with. A word has a column with the cells "other" and "this one"; of a column of many words rules name
the commonest and say nothing about the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from functools import cached_property

import numpy as np

from polidiff.errors import InvalidLogError
from polidiff.evaluation.scores.rule_lists import Box
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.rule import Condition, Rule, missing_entries
from polidiff.rules.box_algebra import Kinds
from polidiff.rules.grid import Grid, make_grid, readable_bound
from polidiff.rules.table import as_table

COARSE = 12  # cuts of a feature that a search begins with
FINE = 95
MOST_WORDS = 12  # that rules name, of one column


@dataclass(frozen=True, eq=False)
class RuleCells:
    """Columns of cells, and how boxes of them read."""

    grid: Grid
    columns: tuple[tuple[int, int | None], ...]  # axis, and the cell of a word; None: an axis of numbers
    codes: AnyArray  # (columns, n) fine cell of every row
    sizes: IntArray  # (columns,)
    begins: tuple[IntArray, ...]  # (coarse cells − 1,) per column: the fine cell with which the next coarse one begins
    named: BoolArray  # (columns,) words of which a rule says "is" and never "is not"
    kinds: Kinds
    notes: tuple[str, ...]  # what is lost

    @cached_property
    def coarse(self) -> AnyArray:
        """(columns, n) coarse cell of every row."""
        pairs = zip(self.begins, self.codes, strict=True)
        return np.array([np.searchsorted(begin, code, side="right") for begin, code in pairs], dtype=np.uint8)

    @property
    def coarse_sizes(self) -> IntArray:
        """(columns,)"""
        return np.array([len(begin) + 1 for begin in self.begins])

    def as_fine(self, box: Box) -> Box:
        """A box of coarse cells as one of fine cells."""
        ends = [np.concatenate([[0], self.begins[column], [self.sizes[column]]]) for column, _, _ in box]
        return tuple(
            (column, int(end[first]), int(end[last + 1]) - 1)
            for (column, first, last), end in zip(box, ends, strict=True)
        )

    def rule(self, box: Box) -> Rule:
        """The box in terms of the features."""
        mask = self.grid.full.copy()
        for column, first, last in box:
            axis, word = self.columns[column]
            inside = np.zeros(mask.shape[1], dtype=np.bool_)
            if word is None:
                inside[first : last + 1] = True
            else:
                inside[word] = True
            mask[axis] &= inside if word is None or first else ~inside
        return self.grid.rule(mask)


def rule_cells(states: AnyArray, names: tuple[str, ...]) -> RuleCells:
    """Cells for feature rows (n, d)."""
    _check_kinds(states, names)
    table = as_table(np.asarray(states), names)
    grid = _readable(make_grid(table, np.ones(table.rows), FINE + 1), table.columns)
    codes = grid.encode(table)
    columns: list[tuple[int, int | None]] = []
    named: list[bool] = []
    notes: list[str] = []
    for j, axis in enumerate(grid.axes):
        if axis.cuts is not None:
            new: list[tuple[int, int | None]] = [(j, None)] if axis.cells > 1 else []
        else:
            counts = np.bincount(codes[j], minlength=axis.cells)
            common = np.argsort(-counts[: len(axis.categories)], kind="stable")[:MOST_WORDS]
            gap = [axis.values] if axis.missing else []
            new = [(j, int(k)) for k in [*np.sort(common), *gap]] if axis.cells > 1 else []
            if len(common) < len(axis.categories):
                notes.append(_many_words(axis.name, table.columns[j], float(counts[common].sum()), len(common)))
        columns += new
        named += [axis.cuts is None and len(axis.categories) > MOST_WORDS] * len(new)
    parts = [codes[j] if word is None else (codes[j] == word).astype(np.uint8) for j, word in columns]
    sizes = [grid.axes[j].cells if word is None else 2 for j, word in columns]
    if not columns:
        raise InvalidLogError(f"rules need a feature that differs between rows; these do not: {', '.join(names[:8])}")
    kinds = Kinds(
        {j: tuple(map(str, axis.categories)) for j, axis in enumerate(grid.axes) if axis.cuts is None},
        frozenset(j for j, axis in enumerate(grid.axes) if axis.missing),
    )
    begins = tuple(
        _coarse(part, size, grid.axes[j].missing) for part, size, (j, _) in zip(parts, sizes, columns, strict=True)
    )
    return RuleCells(
        grid, tuple(columns), np.array(parts, dtype=np.uint8), np.array(sizes), begins, np.array(named), kinds,
        tuple(notes),
    )  # fmt: skip


def _coarse(codes: AnyArray, size: int, gaps: bool) -> IntArray:
    """Fine cells with which coarse ones begin: all if they are few, else those at quantiles of the rows."""
    if size <= COARSE + 1 + int(gaps):
        return np.arange(1, size)
    values = codes[codes < size - 1] if gaps else codes
    at = np.quantile(values, np.arange(1, COARSE + 1) / (COARSE + 1), method="inverted_cdf").astype(np.int64)
    return np.unique([*at[at > 0], *([size - 1] if gaps else [])])


def _many_words(name: str, column: AnyArray, rows: float, common: int) -> str:
    return (
        f"{name!r} has {len(set(column.tolist()) - {None})} levels: rules name only the {common} commonest, in "
        f"{rows / len(column):.0%} of the rows; what tells the others apart is lost."
    )


def _check_kinds(states: AnyArray, names: tuple[str, ...]) -> None:
    if states.dtype != object:
        return
    for name, column in zip(names, states.T, strict=True):
        odd = next((v for v in column if isinstance(v, date | time | timedelta)), None)
        if odd is not None:
            raise InvalidLogError(
                f"rules need features that are numbers or words; {name!r} holds {type(odd).__name__}. Hint: write it "
                "as a number, such as hours since the first row"
            )


def _readable(grid: Grid, columns: tuple[AnyArray, ...]) -> Grid:
    """The grid with cuts at the shortest numbers between the same values."""
    axes = []
    for axis, column in zip(grid.axes, columns, strict=True):
        if axis.cuts is not None and len(axis.cuts):
            values = np.unique(column[~missing_entries(column)].astype(np.float64))
            at = np.searchsorted(values, axis.cuts)
            cuts = [readable_bound(float(values[k - 1]), float(values[k])) for k in at]
            axis = replace(axis, cuts=np.array(cuts))
        axes.append(axis)
    return replace(grid, axes=tuple(axes))


def with_bounds(rule: Rule, states: AnyArray, kinds: Kinds) -> list[Rule]:
    """The rule with bounds in place of listed numbers, one rule for each: 3 is from 3 to below what comes next."""
    rules = [Rule()]
    for condition in rule.conditions:
        sides = [condition]
        if condition.values and condition.column not in kinds.words:
            column = states[:, condition.column]
            numbers = np.unique(column[~missing_entries(column)].astype(np.float64))
            sides = [_just(condition, float(v), numbers) for v in condition.values if not isinstance(v, str)]
        rules = [Rule((*part.conditions, side)) for part in rules for side in sides]
    return rules


def _just(condition: Condition, value: float, numbers: FloatArray) -> Condition:
    above = numbers[numbers > value]
    high = readable_bound(value, float(above[0])) if above.size else math.nextafter(value, math.inf)
    return replace(condition, values=None, low=value, high=high)
