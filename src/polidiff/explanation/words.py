"""Numbers, rules, swaps and verdicts in words: what text, page and command line share."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from polidiff.records.action import Direction, Shift
from polidiff.records.explanation import Explanation, Region, Verdict
from polidiff.records.interval import Interval
from polidiff.records.outcome import Outcome
from polidiff.records.rule import Condition, Rule


def number(value: float, digits: int = 4) -> str:
    """A number rounded for reading.

    >>> number(0.19999998), number(21.9905), number(-0.0001), number(12345.6), number(3.0)
    ('0.2', '21.99', '−0.0001', '12346', '3')
    """
    if math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{round(value, places):.{min(places, 12)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return ("0" if text in ("-0", "0", "") else text).replace("-", "−")


def worth_text(gain: float | None) -> str:
    """What a change gains, or that episodes would never end.

    >>> worth_text(2.0), worth_text(None)
    ('+2', 'never ends')
    """
    return "never ends" if gain is None else signed(gain)


def signed(value: float) -> str:
    """A number with its sign, for differences.

    >>> signed(2.0), signed(-0.5), signed(0.0)
    ('+2', '−0.5', '±0')
    """
    text = number(value)
    return "±0" if text == "0" else text if text.startswith("−") or math.isnan(value) else f"+{text}"


def percent(share: float) -> str:
    """A share in percent, never rounded to all or nothing.

    >>> percent(0.5), percent(0.9999), percent(0.0001), percent(1.0)
    ('50 %', '>99 %', '<1 %', '100 %')
    """
    if not math.isfinite(100 * share):
        return "unknown"
    if 0 < share < 0.005:
        return "<1 %"
    if 0.995 <= share < 1 - 1e-12:
        return ">99 %"
    return f"{round(100 * share)} %"


def listing(items: Sequence[str], last: str = "and") -> str:
    """Words joined as a person would.

    >>> listing(["a", "b", "c"])
    'a, b and c'
    """
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}" if items else ""


def withheld_text(explanation: Explanation) -> str:
    """What must be said where nothing is told: that small groups are left out; nothing where none is."""
    count, least = explanation.withheld, explanation.methods.min_group
    if not count:
        return ""
    are = "is" if count == 1 else "are"
    return f"except in {counted(count, 'region')} with fewer than {least} episodes, which {are} not shown"


def counted(count: int, noun: str) -> str:
    """A number with its noun, in the singular where it is one.

    >>> counted(1, "rule"), counted(2, "rule"), counted(12000, "episode")
    ('1 rule', '2 rules', '12\u202f000 episodes')
    """
    return f"{count:,}".replace(",", "\u202f") + f" {noun}{'s' * (count != 1)}"


def rule_text(rule: Rule) -> str:
    """A rule for people.

    >>> rule_text(Rule((Condition("y", 1, low=0.2, high=0.3), Condition("x", 0, high=0.1))))
    '0.2 ≤ y < 0.3 and x < 0.1'
    """
    return " and ".join(_condition_text(condition) for condition in rule.conditions) or "everywhere"


def rule_python(rule: Rule) -> str:
    """A rule as a Python expression over named variables.

    >>> rule_python(Rule((Condition("map", 0, high=55.0),)))
    '(map < 55.0)'
    """
    parts = []
    for c in rule.conditions:
        name = c.feature if c.feature.isidentifier() else f"row[{c.feature!r}]"
        if c.values is not None:
            inside = f"{name} in {c.values!r}" if c.values else "False"
        else:
            low = f"{c.low!r} <= " if math.isfinite(c.low) else ""
            high = f" < {c.high!r}" if math.isfinite(c.high) else ""
            inside = f"{low}{name}{high}" if low or high else f"{name} == {name}"
        parts.append(f"({inside} or {name} != {name})" if c.missing else f"({inside})")
    return " and ".join(parts) or "True"


def rule_sql(rule: Rule) -> str:
    """A rule as an SQL predicate.

    >>> rule_sql(Rule((Condition("y", 1, low=0.2, high=0.3),)))
    '("y" >= 0.2 AND "y" < 0.3)'
    """
    parts = []
    for c in rule.conditions:
        name = '"' + c.feature.replace('"', '""') + '"'
        if c.values is not None:
            inside = f"{name} IN ({', '.join(_sql_value(v) for v in c.values)})" if c.values else "FALSE"
        else:
            bounds = [f"{name} >= {c.low!r}"] * math.isfinite(c.low) + [f"{name} < {c.high!r}"] * math.isfinite(c.high)
            inside = " AND ".join(bounds) or f"{name} IS NOT NULL"
        parts.append(f"({inside} OR {name} IS NULL)" if c.missing else f"({inside})")
    return " AND ".join(parts) or "TRUE"


def swap_text(region: Region, *, short: bool = False) -> str:
    """What to do instead of what."""
    return swap_words(region.current, region.proposed, region.shift, region.direction, short=short)


def swap_words(
    current: str, proposed: str, shift: Shift | None, direction: Direction | None, *, short: bool = False
) -> str:
    """A swap, a probability shift or a direction.

    >>> swap_words("east", "north", None, None), swap_words("east", "north", None, None, short=True)
    ('north instead of east', 'east → north')
    >>> swap_words("a", "a", Shift(0.2, 0.7), None)
    'a more often (20 % → 70 %)'
    """
    if shift is not None:
        often = "more" if shift.proposed > shift.current else "less"
        return f"{current} {often} often ({percent(shift.current)} → {percent(shift.proposed)})"
    if direction is not None:
        way = "more" if direction.sign > 0 else "less"
        return (
            f"{direction.component} {'↑' if direction.sign > 0 else '↓'}" if short else f"{way} {direction.component}"
        )
    return f"{current} → {proposed}" if short else f"{proposed} instead of {current}"


def interval_text(interval: Interval, *, difference: bool = True, unit: str | None = None) -> str:
    """An estimate with its interval.

    >>> interval_text(Interval(2.0, 1.5, 2.5, 0.95))
    '+2, 95 % interval +1.5 to +2.5'
    """
    show = signed if difference else number
    behind = f" {unit}" if unit else ""
    if interval.exact or interval.low == interval.high:
        return f"{show(interval.estimate)}{behind}"
    level = f"{100 * interval.level:.4g} %"
    return f"{show(interval.estimate)}{behind}, {level} interval {show(interval.low)} to {show(interval.high)}"


def verdict_text(verdict: Verdict, outcome: Outcome) -> str:
    """One outcome's verdict with its figures."""
    figures = interval_text(verdict.difference, unit=outcome.unit)
    if verdict.direction == "same":
        return f"no material difference in {outcome.name}"
    if verdict.direction == "unknown":
        why = f"; {verdict.note}" if verdict.note else ""
        return f"unknown effect on {outcome.name} ({figures}{why})"
    return f"{outcome.phrase(verdict.direction)} ({figures})"


def verdicts_text(verdicts: Sequence[Verdict], outcomes: Sequence[Outcome], *, figures: bool = True) -> str:
    """Verdicts in one clause: "but" where better meets worse, "and" where they agree.

    Directions come first, in the order of the outcomes; what stays the same or unknown follows.
    """
    by_name = {outcome.name: outcome for outcome in outcomes}
    told = [v for v in verdicts if v.direction in ("more", "less")]
    rest = [v for v in verdicts if v.direction not in ("more", "less")]
    text, before = "", None
    for v in [*told, *rest]:
        outcome = by_name[v.outcome]
        words = verdict_text(v, outcome) if figures else _bare(v, outcome)
        if text:
            opposed = v.valence is not None and before is not None and v.valence != before
            text += " but " if opposed else " and "
        text += words
        before = v.valence or before
    return text


def _bare(verdict: Verdict, outcome: Outcome) -> str:
    return re.sub(r" \([^()]*\)$", "", verdict_text(verdict, outcome))


def _condition_text(c: Condition) -> str:
    if c.values is not None:
        if not c.values:
            return f"{c.feature} not measured"
        names = [v if isinstance(v, str) else number(float(v), 6) for v in c.values]
        text = listing(names, "or") if c.feature == "state" else f"{c.feature} is {listing(names, 'or')}"
    elif math.isfinite(c.low) and math.isfinite(c.high):
        text = f"{_lower(c.low)} {c.feature} {_upper(c.high)}"
    elif math.isfinite(c.high):
        text = f"{c.feature} {_upper(c.high)}"
    elif math.isfinite(c.low):
        short, strict = _shortest(c.low)
        text = f"{c.feature} {'>' if strict else '≥'} {short}"
    else:
        text = f"{c.feature} measured"
    return f"({text} or not measured)" if c.missing else text


def _lower(low: float) -> str:
    short, strict = _shortest(low)
    return f"{short} {'<' if strict else '≤'}"


def _upper(high: float) -> str:
    short, strict = _shortest(high)
    return f"{'≤' if strict else '<'} {short}"


def _shortest(bound: float) -> tuple[str, bool]:
    """The bound as text, and whether it is the next number after a rounder one (so that < reads ≤)."""
    below = math.nextafter(bound, -math.inf)
    if len(repr(below)) + 3 < len(repr(bound)):
        return _bound(below), True
    return _bound(bound), False


def _bound(value: float) -> str:
    return number(value, 3 if abs(value) < 100 else 6)


def _sql_value(value: str | float | int | bool) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)
