"""Rows to learn from, as named columns of numbers or categories.

An array of numbers is used in place, column by column; a frame with text, or an array of objects, is split into
columns, and each column is numeric if all that is measured in it is a number.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, IntArray
from polidiff.records.rule import Rule, missing_entries


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of equal length."""

    names: tuple[str, ...]
    columns: tuple[AnyArray, ...]  # each (n,): numbers (NaN: missing) or objects (None: missing)
    categorical: tuple[bool, ...]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.columns[0])

    def inside(self, rule: Rule, rows: IntArray | None = None) -> IntArray:
        """Rows (of those asked for) that satisfy a rule, condition by condition on what is left."""
        for condition in rule.conditions:
            column = self.columns[condition.column]
            kept = np.flatnonzero(condition.covers(column if rows is None else column[rows]))
            rows = kept if rows is None else rows[kept]
        return np.arange(self.rows) if rows is None else rows

    def covered_by(self, rule: Rule) -> BoolArray:
        """Which rows satisfy a rule."""
        mask = np.zeros(self.rows, dtype=np.bool_)
        mask[self.inside(rule)] = True
        return mask

    def take(self, rows: AnyArray) -> Table:
        """Some of the rows."""
        return Table(self.names, tuple(column[rows] for column in self.columns), self.categorical)


def as_table(X: AnyArray, names: Iterable[object] | None = None, categorical: tuple[bool, ...] | None = None) -> Table:
    """Columns of a checked matrix; `categorical` repeats the choice made when fitting.

    >>> table = as_table(np.array([["a", 1], ["b", None]], dtype=object), ["drug", "dose"])
    >>> table.categorical, table.columns[1]
    ((True, False), array([ 1., nan]))
    """
    labels = tuple(str(name) for name in names) if names is not None else tuple(f"x{j}" for j in range(X.shape[1]))
    if X.dtype.kind in "fiu":
        return Table(labels, tuple(X[:, j] for j in range(X.shape[1])), (False,) * X.shape[1])
    if X.dtype.kind == "b":
        return Table(labels, tuple(X[:, j].astype(np.uint8) for j in range(X.shape[1])), (False,) * X.shape[1])
    columns, kinds = [], []
    for j in range(X.shape[1]):
        column = np.asarray(X[:, j], dtype=object)
        numeric = not categorical[j] if categorical is not None else _is_numeric(column)
        columns.append(_numbers(column) if numeric else _labels(column))
        kinds.append(not numeric)
    return Table(labels, tuple(columns), tuple(kinds))


def _is_numeric(column: AnyArray) -> bool:
    others = {kind for kind in set(map(type, column)) if not issubclass(kind, numbers.Real)}
    return not others or all(_absent(value) for value in column if type(value) in others)


def _absent(value: object) -> bool:
    return value is None or bool(value != value)


def _numbers(column: AnyArray) -> AnyArray:
    return np.where(missing_entries(column), np.nan, column).astype(np.float64)


def _labels(column: AnyArray) -> AnyArray:
    labels = np.empty(len(column), dtype=object)
    labels[:] = [value if type(value) is str else _label(value) for value in column]
    return labels


def _label(value: object) -> object:
    if _absent(value):
        return None
    return value if isinstance(value, str | bool | int | float) else str(value)
