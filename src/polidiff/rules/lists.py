r"""Decision lists: rules with the class they tell, first match wins, a default class at the end.

Rules are met with rules, and exceptions are taken out of them; what is left of a rule is a set of disjoint rules:

.. math:: b \setminus (c_1 \cap \dots \cap c_m) = \bigcup_k b \cap c_1 \cap \dots \cap c_{k-1} \cap \bar c_k

Rows to learn from are named columns. An array of numbers is used in place, column by column; a frame with text, or an
array of objects, is split into columns, each numeric if all that is measured in it is a number.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.rule import Clause, Condition, Rule, missing_entries

MOST_WORDS = 12  # that a rule names, of one column
Label: TypeAlias = Any  # a class as the user calls it


@dataclass(frozen=True)
class DecisionList:
    """If the first rule covers a row, its class; else the second …; else the default."""

    rules: tuple[tuple[Rule, Label], ...]
    default: Label

    def __len__(self) -> int:
        return len(self.rules)

    @property
    def literals(self) -> int:
        """Comparisons that a reader makes."""
        return sum(rule.literals for rule, _ in self.rules)


def first_matches(table: Table, rules: Sequence[Rule]) -> IntArray:
    """Index of the first rule that covers each row, `len(rules)` where none does."""
    match = np.full(table.rows, len(rules), dtype=np.int64)
    for index in reversed(range(len(rules))):
        match[table.covered_by(rules[index])] = index
    return match


def shorten(
    cover: BoolArray, told: IntArray, truth: IntArray, weight: FloatArray, default: int
) -> tuple[tuple[int, ...], ...]:
    """Nested choices of 0, 1, …, R rules: drop, one at a time, the rule whose loss is felt least.

    Parameters
    ----------
    cover : ndarray of shape (R, n)
        Which rule covers which row, in the order of the list.
    told : ndarray of shape (R,)
        The class each rule tells.
    truth, weight : ndarray of shape (n,)
        The class of each row and how much it counts.
    default : int
        The class of rows that no rule covers.

    Examples
    --------
    >>> cover = np.array([[1, 1, 0, 0], [0, 0, 1, 0]], dtype=bool)
    >>> shorten(cover, np.array([1, 1]), np.array([1, 1, 1, 0]), np.ones(4), 0)
    ((), (0,), (0, 1))
    """
    kept = list(range(len(cover)))
    right = np.array([np.where(truth == label, weight, 0.0) for label in (*told, default)])
    path = [tuple(kept)]
    while kept:
        cost = _losses(cover[kept], right[[*kept, -1]])
        del kept[int(len(kept) - 1 - cost[::-1].argmin())]
        path.append(tuple(kept))
    return tuple(reversed(path))


def _losses(cover: BoolArray, right: FloatArray) -> FloatArray:
    """Weight that would no longer be told right, for each rule of a list that is dropped."""
    size, n = cover.shape
    first, second = np.full(n, size), np.full(n, size)
    for index in reversed(range(size)):
        second = np.where(cover[index], first, second)
        first = np.where(cover[index], index, first)
    rows = np.arange(n)
    loss = right[first, rows] - right[second, rows]
    return np.bincount(first, weights=loss, minlength=size + 1)[:size].astype(np.float64, copy=False)


def best_order(cover: BoolArray, told: IntArray, truth: IntArray, weight: FloatArray, default: int) -> list[int]:
    """An order of the rules that tells the most weight right: one rule at a time is moved to where it helps most.

    Rows that the same rules cover are one. Rules stay where they are while no move helps, so that lists without
    overlaps keep their order. Arguments are those of `shorten`.

    Examples
    --------
    >>> cover = np.array([[1, 1, 1, 0], [0, 1, 0, 0]], dtype=bool)
    >>> best_order(cover, np.array([1, 2]), np.array([1, 2, 1, 0]), np.ones(4), 0)
    [1, 0]
    """
    packed = np.packbits(cover, axis=0).T
    _, first, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    size, group = len(first), group.ravel()
    same = {label: np.bincount(group, weights=weight * (truth == label), minlength=size) for label in (*told, default)}
    inside, right = cover[:, first], np.array([same[label] for label in (*told, default)])
    order, least = list(range(len(cover))), 1e-12 * float(weight.sum())
    while True:
        gain, better = least, order
        now = _told_right(inside, right, order)
        for place, rule in enumerate(order):
            rest = order[:place] + order[place + 1 :]
            for other in range(len(order)):
                moved = [*rest[:other], rule, *rest[other:]]
                more = _told_right(inside, right, moved) - now
                if more > gain:
                    gain, better = more, moved
        if better is order:
            return order
        order = better


def _told_right(cover: BoolArray, right: FloatArray, order: list[int]) -> float:
    """Weight that a list tells right; `cover` (R, groups), `right` (R + 1, groups) the last for the default."""
    match = np.vstack([cover[order], np.ones((1, cover.shape[1]), dtype=np.bool_)]).argmax(axis=0)
    return float(right[[*order, -1]][match, np.arange(cover.shape[1])].sum())


@dataclass(frozen=True)
class Kinds:
    """What values the columns of a log have besides numbers."""

    words: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # of columns of text
    gaps: frozenset[int] = frozenset()  # columns in which values are missing

    @classmethod
    def of(cls, columns: Iterable[AnyArray]) -> Kinds:
        """Those of some columns (n,)."""
        words, gaps = {}, set()
        for index, column in enumerate(columns):
            absent = missing_entries(column)
            if absent.any():
                gaps.add(index)
            if column.dtype.kind in "OUS" and any(isinstance(value, str) for value in column):
                words[index] = tuple(sorted({value for value in column[~absent] if isinstance(value, str)}))
        return cls(words, frozenset(gaps))


def intersection(one: Rule, other: Rule) -> Rule | None:
    """The rule that holds where both do; None if they never do.

    >>> both = intersection(Rule((Condition("x", 0, low=0.1),)), Rule((Condition("x", 0, high=0.2),)))
    >>> both.conditions[0].low, both.conditions[0].high
    (0.1, 0.2)
    """
    joint = one
    for condition in other.conditions:
        both = _both(joint, condition)
        if both is None:
            return None
        joint = both
    return joint


def without_any(rule: Rule, others: Sequence[Rule], kinds: Kinds) -> list[Rule]:
    """Disjoint rules that hold where the rule holds and none of the others does."""
    pieces = [rule]
    for other in others:
        pieces = [part for piece in pieces for part in without(piece, other, kinds)]
    return pieces


def without(rule: Rule, other: Rule, kinds: Kinds) -> list[Rule]:
    """Disjoint rules that hold where the first holds and the other does not.

    >>> left = without(Rule(), Rule((Condition("x", 0, low=1.0, high=2.0),)), Kinds())
    >>> [(part.conditions[0].low, part.conditions[0].high) for part in left]
    [(-inf, 1.0), (2.0, inf)]
    """
    rest: Rule | None = rule
    found: list[Rule] = []
    for condition in other.conditions:
        assert rest is not None
        found += [piece for side in _outside(condition, kinds) if (piece := _both(rest, side)) is not None]
        rest = _both(rest, condition)
        if rest is None:
            return [rule]
    return found


def denied(rule: Rule, kinds: Kinds) -> Clause:
    """The clause that holds where the rule does not: at least one of these conditions.

    >>> [(side.low, side.high) for side in denied(Rule((Condition("x", 0, low=1.0, high=2.0),)), Kinds())]
    [(-inf, 1.0), (2.0, inf)]
    """
    return tuple(side for condition in rule.conditions for side in _outside(condition, kinds))


def _outside(condition: Condition, kinds: Kinds) -> Iterable[Condition]:
    """Conditions that hold where this one does not."""
    name, column = condition.feature, condition.column
    absent = column in kinds.gaps and not condition.missing
    if condition.values is not None:
        rest = tuple(word for word in kinds.words.get(column, ()) if word not in condition.values)
        sides = [Condition(name, column, values=rest)] if rest else []
        if column not in kinds.words:  # of a column of numbers only "is missing" comes here
            sides = [Condition(name, column)]
    else:
        ends = ((-math.inf, condition.low), (condition.high, math.inf))
        sides = [Condition(name, column, low=low, high=high) for low, high in ends if low < high]
    if absent and sides:
        sides[0] = replace(sides[0], missing=True)
    elif absent:
        sides = [Condition(name, column, values=(), missing=True)]
    return sides


def _both(rule: Rule, condition: Condition) -> Rule | None:
    """The rule with one more condition; None if both never hold."""
    own = next((c for c in rule.conditions if c.column == condition.column), None)
    if own is None:
        return Rule((*rule.conditions, condition))
    joint = _joint(own, condition)
    if joint is None:
        return None
    return Rule(tuple(joint if c is own else c for c in rule.conditions))


def _joint(one: Condition, other: Condition) -> Condition | None:
    missing = one.missing and other.missing
    if one.values is not None or other.values is not None:
        listed, second = (one, other) if one.values is not None else (other, one)
        values = tuple(v for v in listed.values or () if _holds(second, v))
        return replace(listed, values=values, missing=missing) if values or missing else None
    low, high = max(one.low, other.low), min(one.high, other.high)
    if low < high:
        return replace(one, low=low, high=high, missing=missing)
    return Condition(one.feature, one.column, values=(), missing=True) if missing else None


def _holds(condition: Condition, value: str | float | int | bool) -> bool:
    if condition.values is not None:
        return value in condition.values
    if isinstance(value, str):
        return math.isinf(condition.low) and math.isinf(condition.high)
    return condition.low <= value < condition.high


def names_many(rules: Iterable[tuple[Rule, int]]) -> bool:
    """Whether one of the rules names more words than anybody reads."""
    return any(len(condition.values or ()) > MOST_WORDS for rule, _ in rules for condition in rule.conditions)


def of_few_words(rule: Rule) -> Rule:
    """The rule without conditions that name many words."""
    return Rule(tuple(condition for condition in rule.conditions if len(condition.values or ()) <= MOST_WORDS))


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
