r"""Rules met with rules, and rules with exceptions taken out.

.. math:: b \setminus (c_1 \cap \dots \cap c_m) = \bigcup_k b \cap c_1 \cap \dots \cap c_{k-1} \cap \bar c_k

What is left of a rule is a set of disjoint rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from polidiff.records.rule import Clause, Condition, Rule


@dataclass(frozen=True)
class Kinds:
    """What values the columns of a log have besides numbers."""

    words: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # of columns of text
    gaps: frozenset[int] = frozenset()  # columns in which values are missing


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
