"""Disjoint cells from the regions of several candidates.

Regions of different candidates may overlap. Two states belong to the same cell when every candidate's rules put them in
the same region, and when guards freeze both or neither. A cell is written as the conditions of all its regions
together; where a cell is what other regions leave over, it is matched after them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, IntArray
from polidiff.records.rule import Condition, Rule, covers_any
from polidiff.regions.describe import Described

SMALLEST = 5  # sampled states below which a sliver between regions is no cell


@dataclass(frozen=True, eq=False)
class Cell:
    """A set of states, the current action there and the actions that candidates would take."""

    name: str
    signature: tuple[int, ...]  # region of each candidate, −1 outside; then 1 if frozen
    rule: Rule
    current: int
    offered: tuple[int, ...]  # actions besides the current one, sorted


@dataclass(frozen=True, eq=False)
class Cells:
    """All cells, and how to find the cell of a state."""

    cells: tuple[Cell, ...]
    described: tuple[Described, ...]
    frozen: tuple[Rule, ...]

    def of(self, features: AnyArray) -> IntArray:
        """Index of the cell of each row, −1 outside."""
        keys = _signatures(features, self.described, self.frozen)
        index = {cell.signature: k for k, cell in enumerate(self.cells)}
        unique, inverse = np.unique(keys, axis=0, return_inverse=True)
        found = np.array([index.get(tuple(int(v) for v in row), -1) for row in unique], dtype=np.int64)
        return found[inverse.ravel()]


def make_cells(
    described: Sequence[Described], features: AnyArray, names: tuple[str, ...], frozen: Sequence[Rule] = ()
) -> Cells:
    """Cells of the sampled states `features`, named S0, S1 … in the order of their lower bounds."""
    keys = _signatures(features, tuple(described), tuple(frozen))
    inside = (keys[:, :-1] >= 0).any(axis=1)
    unique, counts = np.unique(keys[inside], axis=0, return_counts=True)
    found = []
    for row in unique[counts >= min(SMALLEST, counts.max(initial=0))]:
        signature = tuple(int(v) for v in row)
        told = [d.regions[k] for d, k in zip(described, signature[:-1], strict=True) if k >= 0]
        rule = told[0].rule
        for other in told[1:]:
            rule = intersection(rule, other.rule)
        current = names.index(told[0].swap.current)
        offered = () if signature[-1] else tuple(sorted({names.index(t.swap.proposed) for t in told} - {current}))
        found.append(Cell("", signature, rule, current, offered))
    found.sort(key=lambda cell: _lows(cell.rule, features.shape[1]))
    cells = tuple(Cell(f"S{k}", cell.signature, cell.rule, cell.current, cell.offered) for k, cell in enumerate(found))
    return Cells(cells, tuple(described), tuple(frozen))


def intersection(one: Rule, other: Rule) -> Rule:
    """The rule that holds where both do.

    >>> both = intersection(Rule((Condition("x", 0, low=0.1),)), Rule((Condition("x", 0, high=0.2),)))
    >>> both.conditions[0].low, both.conditions[0].high
    (0.1, 0.2)
    """
    merged = {condition.column: condition for condition in one.conditions}
    for c in other.conditions:
        mine = merged.get(c.column)
        if mine is None:
            merged[c.column] = c
        elif c.values is not None and mine.values is not None:
            common = tuple(value for value in mine.values if value in c.values)
            merged[c.column] = Condition(c.feature, c.column, values=common, missing=mine.missing and c.missing)
        elif c.values is None and mine.values is None:
            low, high = max(mine.low, c.low), min(mine.high, c.high)
            merged[c.column] = Condition(c.feature, c.column, low, high, missing=mine.missing and c.missing)
    return Rule(tuple(merged.values()))


def _signatures(features: AnyArray, described: tuple[Described, ...], frozen: tuple[Rule, ...]) -> IntArray:
    columns = [one.region_of(features) for one in described]
    held: BoolArray = covers_any(frozen, features) if frozen else np.zeros(len(features), dtype=np.bool_)
    return np.stack([*columns, held.astype(np.int64)], axis=1)


def _lows(rule: Rule, columns: int) -> tuple[float, ...]:
    lows = [-math.inf] * columns
    for condition in rule.conditions:
        lows[condition.column] = condition.low
    return tuple(lows)
