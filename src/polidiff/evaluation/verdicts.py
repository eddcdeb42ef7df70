"""From an interval of a difference to a word: more, less, same or unknown (h_oc of the paper, mended).

The paper compares a point estimate of the current policy with an interval of the proposed one; here the interval is
that of the paired difference. Zero outside it decides a direction; an interval within ± margin means "same";
everything else is unknown, and stays so.
"""

from __future__ import annotations

from dataclasses import replace

from polidiff.records.explanation import Verdict, VerdictDirection
from polidiff.records.outcome import Interval, Outcome

ROUNDING = 1e-9


def direction_of(difference: Interval, margin: float) -> VerdictDirection:
    """The word for an interval.

    >>> direction_of(Interval(0.2, 0.1, 0.3, 0.95), margin=0.0)
    'more'
    >>> direction_of(Interval(0.0, -0.1, 0.1, 0.95), margin=0.0)
    'unknown'
    >>> direction_of(Interval(0.0, -0.1, 0.1, 0.95), margin=0.1)
    'same'
    """
    scale = ROUNDING * (1 + abs(difference.estimate))
    if difference.low >= -margin - scale and difference.high <= margin + scale:
        return "same"
    if difference.low > scale:
        return "more"
    if difference.high < -scale:
        return "less"
    return "unknown"


def verdict(
    outcome: Outcome,
    difference: Interval,
    pointwise: Interval,
    *,
    current: Interval | None = None,
    proposed: Interval | None = None,
    unsupported: float | None = None,
    note: str | None = None,
) -> Verdict:
    """The verdict on one outcome; the simultaneous interval decides."""
    direction = direction_of(difference, outcome.margin)
    return Verdict(
        outcome.name,
        direction,
        difference,
        pointwise,
        outcome.valence(direction),
        current,
        proposed,
        unsupported,
        note,
    )


def as_unknown(verdict: Verdict, reason: str) -> Verdict:
    """No verdict, for a reason: intervals reach 0, so that whatever is decided by them is not decided either."""
    if verdict.direction == "unknown" and verdict.note:
        return verdict
    both = [replace(i, low=min(i.low, 0.0), high=max(i.high, 0.0)) for i in (verdict.difference, verdict.pointwise)]
    return replace(verdict, direction="unknown", valence=None, difference=both[0], pointwise=both[1], note=reason)


def papers_verdict(current: float, proposed: Interval) -> VerdictDirection:
    """The paper's rule: the current estimate against the interval of the proposed policy, its slip mended (M8).

    >>> papers_verdict(1.0, Interval(2.0, 1.5, 2.5, 0.95)), papers_verdict(2.2, Interval(2.0, 1.5, 2.5, 0.95))
    ('more', 'unknown')
    """
    scale = ROUNDING * (1 + abs(current))
    if current < proposed.low - scale:
        return "more"
    if current > proposed.high + scale:
        return "less"
    return "same" if proposed.width == 0 else "unknown"
