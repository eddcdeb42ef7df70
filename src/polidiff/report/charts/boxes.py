"""Rules as rectangles over two features, and which two features show most."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from polidiff.records.explanation import Feature
from polidiff.records.rule import Rule

Span: TypeAlias = tuple[float, float]


def span_of(feature: Feature) -> Span:
    """The range of a feature that a picture shows.

    >>> span_of(Feature("x", "number", 0.0, 2.0))
    (0.0, 2.0)
    """
    low = feature.low if feature.low is not None and math.isfinite(feature.low) else 0.0
    high = feature.high if feature.high is not None and math.isfinite(feature.high) else low + 1.0
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def span_over(feature: Feature, rules: Iterable[Rule]) -> Span:
    """The range of a feature that shows all rules: what was seen, every bound, and room for sides that are open.

    >>> from polidiff.records.rule import Condition
    >>> span_over(Feature("x", "number", 0.0, 0.1), [Rule((Condition("x", 0, low=1.0),))])
    (0.0, 1.2)
    """
    low, high = seen = span_of(feature)
    bounds = [c for rule in rules for c in rule.conditions if c.feature == feature.name and c.values is None]
    low = min([low, *(b for c in bounds for b in (c.low, c.high) if math.isfinite(b))])
    high = max([high, *(b for c in bounds for b in (c.low, c.high) if math.isfinite(b))])
    room = 0.2 * (high - low)
    below = room if low < seen[0] and any(c.low == -math.inf for c in bounds) else 0.0
    above = room if high > seen[1] and any(c.high == math.inf for c in bounds) else 0.0
    return low - below, high + above


def side(rule: Rule, feature: str, span: Span) -> Span:
    """The part of one feature's range that a rule allows.

    >>> from polidiff.records.rule import Condition
    >>> side(Rule((Condition("x", 0, high=0.1),)), "x", (0.0, 1.0))
    (0.0, 0.1)
    """
    low, high = span
    for condition in rule.conditions:
        if condition.feature == feature and condition.values is None:
            low, high = max(low, condition.low), min(high, condition.high)
    return low, max(low, high)


def telling_pair(rules: Iterable[Rule], features: Sequence[Feature]) -> tuple[str, str] | None:
    """The two numeric features that most conditions speak about; None if there are not two to draw."""
    numeric = [feature.name for feature in features if feature.kind == "number"]
    used = Counter(
        condition.feature
        for rule in rules
        for condition in rule.conditions
        if condition.values is None and condition.feature in numeric
    )
    ranked = sorted(numeric, key=lambda name: (-used[name], numeric.index(name)))
    if len(ranked) < 2 or not used[ranked[0]]:
        return None
    first, second = sorted(ranked[:2], key=numeric.index)
    return first, second
