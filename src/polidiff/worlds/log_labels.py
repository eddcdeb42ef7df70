"""Names of states and actions, and the number each has in tables.

Whole numbers from 0 up to 100,000 are their own number, so that row 7 of a policy table is state 7 even if the log
never met state 3. Anything else is numbered in sorted order of what the log holds, or in the order the user gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from polidiff.errors import InvalidLogError
from polidiff.records.action import Action, as_actions
from polidiff.records.arrays import IntArray

OWN_NUMBERS = 100_000
MOST_LABELS = 10_000_000


@dataclass(frozen=True)
class Labels:
    """What a column may hold."""

    column: str
    names: tuple[str, ...]  # one per number
    own: bool  # the column holds the numbers themselves

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.names)

    def numbers_of(self, labels: Sequence[int | str]) -> IntArray:
        """The number of each label, as `number` gives it to rows."""
        if self.own:
            return np.array(labels, dtype=np.int64)
        place = {name: number for number, name in enumerate(self.names)}
        return np.array([place[str(label)] for label in labels], dtype=np.int64)

    def number(self) -> pl.Expr:
        """The number of each row's label; null where it is not among the names."""
        column = pl.col(self.column)
        if self.own:
            return column.cast(pl.Int64)
        return column.cast(pl.String).cast(pl.Enum(list(self.names)), strict=False).to_physical().cast(pl.Int64)


def find_labels(
    met: Sequence[int | str], dtype: pl.DataType, column: str, given: int | Sequence[Any] | None, what: str
) -> Labels:
    """The labels of a column from those met in it; an error names the first value that is not among those given."""
    if (dtype.is_integer() or dtype == pl.Boolean) and met:
        low, high = int(met[0]), int(met[-1])
        if low >= 0 and (given is not None or high < OWN_NUMBERS):
            return _own_numbers(column, given, high, what)
    found = sorted(str(label) for label in met)
    if given is None:
        return Labels(column, tuple(found), False)
    if isinstance(given, int):
        raise InvalidLogError(f"{what}s are text here; list their names instead of {given}")
    names = tuple(str(name) for name in given)
    unknown = [label for label in found if label not in set(names)]
    if unknown:
        raise InvalidLogError(
            f"column {column!r} holds {unknown[0]!r}, which is not among the {len(names)} {what}s given "
            f"({len(unknown)} values are not)"
        )
    return Labels(column, names, False)


def named_actions(
    met: Sequence[int | str], dtype: pl.DataType, column: str, given: Any
) -> tuple[Labels, tuple[Action, ...]]:
    """Labels of the action column and the actions as records, with their levels where the user gave any."""
    if given is None or isinstance(given, int):
        labels = find_labels(met, dtype, column, given, "action")
        return labels, as_actions(labels.names if not labels.own else None, labels.count)
    actions = as_actions(given, len(given))
    labels = find_labels(met, dtype, column, [action.name for action in actions], "action")
    return labels, actions


def _own_numbers(column: str, given: int | Sequence[Any] | None, high: int, what: str) -> Labels:
    if given is None:
        names: tuple[str, ...] = tuple(str(number) for number in range(high + 1))
    elif isinstance(given, int):
        if given > MOST_LABELS:
            raise InvalidLogError(f"there may be at most {MOST_LABELS} {what}s; {given} were given")
        names = tuple(str(number) for number in range(given))
    else:
        names = tuple(str(name) for name in given)
    if high >= len(names):
        raise InvalidLogError(
            f"column {column!r} holds {what} {high}; only {len(names)} {what}s were given (0 to {len(names) - 1})"
        )
    return Labels(column, names, True)
