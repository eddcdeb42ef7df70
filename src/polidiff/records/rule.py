"""Rules: conjunctions of conditions on features. What they cover, not how they look.

Conditions are half-open, low ≤ x < high, so that neighbouring rules share no point.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from polidiff.errors import InvalidInputError
from polidiff.records.arrays import AnyArray, BoolArray, IntArray

Matrix: TypeAlias = AnyArray | Mapping[str, AnyArray | Sequence[object]]  # (n, d) in the world's order, or columns
ABOVE_ZERO = sys.float_info.min  # a lower bound that leaves out 0 and nothing else that a processor tells from it
MOST_VALUES = 50  # of a category that a result lists


@dataclass(frozen=True)
class Condition:
    """One feature within bounds, or among values.

    >>> inside = Condition("y", 1, low=0.2, high=0.3)
    >>> inside.covers(np.array([0.1, 0.2, 0.3]))
    array([False,  True, False])
    >>> Condition("lactate", 0, values=(), missing=True).covers(np.array([1.0, np.nan]))
    array([False,  True])
    """

    feature: str
    column: int  # position of the feature in the feature matrix
    low: float = -math.inf  # included; -inf when open
    high: float = math.inf  # excluded; +inf when open
    values: tuple[str | float | int | bool, ...] | None = None  # for categories; () with missing: "not measured"
    missing: bool = False  # whether a missing value satisfies the condition

    def covers(self, column: AnyArray) -> BoolArray:
        """Which entries of one feature's column satisfy the condition."""
        if self.values is None and not self.missing and column.dtype.kind in "fiu":
            return self._holds(column)  # in fewer passes, for many rows: a missing number satisfies no comparison
        absent = missing_entries(column)
        inside = self._holds(_numbers(column, absent)) if self.values is None else _among(column, self.values)
        return np.asarray(np.where(absent, self.missing, inside), dtype=np.bool_)

    def _holds(self, numbers: AnyArray) -> BoolArray:
        if self.low == -math.inf:
            return np.asarray(numbers < self.high if self.high < math.inf else numbers == numbers)
        above = numbers >= self.low
        return np.asarray(above if self.high == math.inf else above & (numbers < self.high))

    @property
    def literals(self) -> int:
        """How many comparisons a reader makes: finite bounds, or one for a set of values."""
        if self.values is not None:
            return 1
        return max(1, int(math.isfinite(self.low)) + int(math.isfinite(self.high)))


Clause: TypeAlias = tuple[Condition, ...]  # at least one of the conditions holds


@dataclass(frozen=True)
class Rule:
    """All conditions hold. No conditions: everything is covered."""

    conditions: tuple[Condition, ...] = ()

    def covers(self, X: Matrix) -> BoolArray:
        """Which rows satisfy every condition.

        `X` is a matrix (n, d) in the world's order of features, or columns by name.

        >>> Rule((Condition("x", 0, high=0.1),)).covers(np.array([[0.05, 1.0], [0.2, 1.0]]))
        array([ True, False])
        """
        columns = [_column(X, condition) for condition in self.conditions]
        if not columns:
            return np.ones(_rows(X), dtype=np.bool_)
        inside = self.conditions[0].covers(columns[0])
        for condition, column in zip(self.conditions[1:], columns[1:], strict=True):
            inside &= condition.covers(column)
        return inside

    @property
    def literals(self) -> int:
        """How many comparisons a reader makes."""
        return sum(condition.literals for condition in self.conditions)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that the rule speaks about."""
        return tuple(dict.fromkeys(condition.feature for condition in self.conditions))


def change_key(rule: Rule, current: str, proposed: str) -> str:
    """A name for doing one thing instead of another in a place, made from nothing but these.

    It stays the same when the seed, the sample or another change does: bounds count to three digits, as they are read,
    and conditions in any order. So the changes of two results can be compared.

    >>> one = Rule((Condition("x", 0, high=0.1), Condition("y", 1, low=0.2)))
    >>> other = Rule((Condition("y", 1, low=0.20001), Condition("x", 0, high=0.1)))
    >>> change_key(one, "east", "north") == change_key(other, "east", "north") != change_key(one, "east", "south")
    True
    """
    places = sorted(
        (c.feature, f"{c.low:.3g}", f"{c.high:.3g}", sorted(map(repr, c.values or ())), c.missing)
        for c in rule.conditions
    )
    return hashlib.blake2s(repr((current, proposed, places)).encode(), digest_size=4).hexdigest()


def covers_any(rules: Sequence[Rule], X: Matrix) -> BoolArray:
    """Which rows satisfy at least one of the rules."""
    inside = np.zeros(_rows(X), dtype=np.bool_)
    for rule in rules:
        inside |= rule.covers(X)
    return inside


@dataclass(frozen=True)
class GroupRules:
    """A group of starts: where one of its rules holds and none of an earlier group; no rules: all starts.

    >>> low, any_start = Rule((Condition("x", 0, high=0.1),)), Rule()
    >>> GroupRules((any_start,), outside=(low,)).covers(np.array([[0.05], [0.2]]))
    array([False,  True])
    """

    rules: tuple[Rule, ...] = ()
    outside: tuple[Rule, ...] = ()

    def covers(self, X: Matrix) -> BoolArray:
        """Which starts belong to the group."""
        inside = covers_any(self.rules, X) if self.rules else np.ones(_rows(X), dtype=np.bool_)
        return inside & ~covers_any(self.outside, X)


def first_match(rules: Sequence[Rule], X: Matrix) -> IntArray:
    """Index of the first rule that covers each row, -1 where none does.

    >>> first_match([Rule((Condition("x", 0, high=0.1),)), Rule()], np.array([[0.05], [0.2]]))
    array([0, 1])
    """
    named = {_named_column(rule) for rule in rules}
    if len(named) == 1 and None not in named:
        return _first_named(rules, _column(X, rules[0].conditions[0]))
    match = np.full(_rows(X), -1, dtype=np.int64)
    for index, rule in enumerate(rules):
        match[(match < 0) & rule.covers(X)] = index
    return match


def _named_column(rule: Rule) -> tuple[int, str] | None:
    """The column of which a rule names values, if it says nothing else."""
    if len(rule.conditions) != 1 or rule.conditions[0].values is None or rule.conditions[0].missing:
        return None
    return rule.conditions[0].column, rule.conditions[0].feature


def _first_named(rules: Sequence[Rule], column: AnyArray) -> IntArray:
    """The same for rules that each name values of one column, such as states: in one pass, however many there are."""
    first: dict[object, int] = {}
    for index, rule in enumerate(rules):
        for value in rule.conditions[0].values or ():
            first.setdefault(value, index)
    return np.fromiter((first.get(entry, -1) for entry in column.tolist()), dtype=np.int64, count=len(column))


def overlap(one: Rule, other: Rule) -> bool:
    """Whether some state may satisfy both rules.

    >>> overlap(Rule((Condition("x", 0, high=1.0),)), Rule((Condition("x", 0, low=1.0),)))
    False
    """
    return not any(a.feature == b.feature and not _meet(a, b) for a in one.conditions for b in other.conditions)


def overlap_any(some: Sequence[Rule], others: Sequence[Rule]) -> bool:
    """Whether some state may satisfy a rule of either list."""
    return any(overlap(one, other) for one in some for other in others)


def _meet(one: Condition, other: Condition) -> bool:
    if one.missing and other.missing:
        return True
    if one.values is not None and other.values is not None:
        return bool(set(one.values) & set(other.values))
    if one.values is None and other.values is None:
        return max(one.low, other.low) < min(one.high, other.high)
    values, box = (one.values, other) if one.values is not None else (other.values, one)
    return any(isinstance(value, (int, float)) and box.low <= value < box.high for value in values or ())


def within(one: Rule, other: Rule) -> bool:
    """Whether whatever satisfies one rule is known to satisfy the other.

    >>> low, box = Rule((Condition("x", 0, high=2.0),)), Rule((Condition("x", 0, high=1.0), Condition("y", 1, low=0.0)))
    >>> within(box, low), within(low, box)
    (True, False)
    """
    return all(any(a.feature == b.feature and _inside(a, b) for a in one.conditions) for b in other.conditions)


def _inside(one: Condition, other: Condition) -> bool:
    if one.missing and not other.missing:
        return False
    if other.values is not None:
        return one.values is not None and set(one.values) <= set(other.values)
    if one.values is not None:
        return all(isinstance(value, (int, float)) and other.low <= value < other.high for value in one.values)
    return other.low <= one.low and one.high <= other.high


def missing_entries(column: AnyArray) -> BoolArray:
    """Which entries are missing: NaN, or None in a column of objects."""
    if column.dtype == object:
        return np.fromiter((v is None or v != v for v in column), dtype=np.bool_, count=len(column))
    if np.issubdtype(column.dtype, np.floating):
        return np.asarray(np.isnan(column))
    return np.zeros(len(column), dtype=np.bool_)


def _numbers(column: AnyArray, absent: BoolArray) -> AnyArray:
    """The column with NaN for what is no number: a word lies within no bounds."""
    if column.dtype.kind in "US":
        return np.full(len(column), math.nan)
    if column.dtype != object:
        return column
    try:
        return np.where(absent, math.nan, column).astype(np.float64)
    except (TypeError, ValueError):
        return np.array([entry if isinstance(entry, (int, float)) else math.nan for entry in column], dtype=np.float64)


def _among(column: AnyArray, values: tuple[str | float | int | bool, ...]) -> BoolArray:
    """Which entries equal one of the values; words never equal numbers."""
    if column.dtype == object:
        known = set(values)
        return np.fromiter((entry in known for entry in column), dtype=np.bool_, count=len(column))
    words = column.dtype.kind in "US"
    comparable = [value for value in values if isinstance(value, str) == words]
    return np.isin(column, comparable) if comparable else np.zeros(len(column), dtype=np.bool_)


def _rows(X: Matrix) -> int:
    if isinstance(X, Mapping):
        return len(next(iter(X.values()))) if X else 0
    return len(X)


def _column(X: Matrix, condition: Condition) -> AnyArray:
    if isinstance(X, Mapping):
        if condition.feature not in X:
            raise InvalidInputError(f"a rule needs the feature {condition.feature!r}; got {sorted(X)}")
        return np.asarray(X[condition.feature])
    if condition.column >= X.shape[1]:
        raise InvalidInputError(
            f"a rule needs column {condition.column} ({condition.feature!r}); the matrix has {X.shape[1]} columns"
        )
    return X[:, condition.column]
