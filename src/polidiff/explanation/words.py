"""Numbers, rules, swaps and verdicts in words: what text, page and command line share."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from polidiff.records.action import Action, Direction, Often, Shift
from polidiff.records.explanation import Explanation, Region, SwapShare
from polidiff.records.numbers import interval_numbers, number, percent, same_places, with_unit
from polidiff.records.outcome import Assumption, Interval, Outcome
from polidiff.records.patch import AS_NOW, Edit, Patch
from polidiff.records.plan import Plan
from polidiff.records.rule import ABOVE_ZERO, Condition, Rule, overlap

MOSTLY = 0.9  # share of decisions from which on an action is what a policy does
MOST_NAMED = 7  # things in one sentence
RARELY = 0.005  # share of decisions up to which what a part of an action does is not told
MOST_LISTED = 50  # starts that a record lists; there may be more
Figures: TypeAlias = Literal["none", "estimate", "bounds"]
_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]{0,8})", re.DOTALL)
_EVERYWHERE = re.compile(r"(^[Ee]verywhere|\beverywhere(?=$|, whatever follows$))")


def worth_text(gain: float | None, outcome: Outcome | None = None) -> str:
    """What a change gains, or that episodes would never end.

    >>> worth_text(2.0), worth_text(None)
    ('+2', 'never ends')
    """
    return "never ends" if gain is None else interval_text(Interval.exactly(gain), outcome=outcome)


def listing(items: Sequence[str], last: str = "and") -> str:
    """Words joined as a person would.

    >>> listing(["a", "b", "c"]), listing(["a, at night", "b", "c"])
    ('a, b and c', 'a, at night; b; and c')
    """
    if len(items) > 1 and any(", " in item for item in items):
        return f"{'; '.join(items[:-1])}; {last} {items[-1]}"
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}" if items else ""


def few(items: Sequence[str], last: str = "and", most: int = MOST_NAMED) -> str:
    """Words joined as a person would, at most seven; the rest is counted.

    >>> few(list("abcdefghi")), few(["a", "b"])
    ('a, b, c, d, e, f and 3 more', 'a and b')
    """
    if len(items) <= most:
        return listing(items, last)
    return listing([*items[: most - 1], f"{len(items) - most + 1} more"], last)


def odds_text(strength: float) -> str:
    """How much unrecorded reasons change the odds of a decision.

    >>> odds_text(1.2), odds_text(4.12), odds_text(1.004)
    ('by 20 %', '4.1 times', 'by even 1 %')
    """
    if strength < 1.005:
        return "by even 1 %"
    return f"by {percent(strength - 1)}" if strength < 2 else f"{number(strength, 2)} times"


def assumption_text(assumption: Assumption, *, follows: bool = False) -> str:
    """What was seen of an assumption, and what follows from that if asked for.

    >>> assumption_text(Assumption("drift", "early against late", "failed", "late episodes differ", ""))
    'Drift: late episodes differ.'
    """
    seen = f"{assumption.name[0].upper()}{assumption.name[1:]}: {assumption.detail.rstrip('.')}."
    return f"{seen} {assumption.consequence}".rstrip() if follows else seen


def names_text(names: Sequence[str], last: str = "or", *, more: bool = False) -> str:
    """Names as a person would list them: neighbours as a run, a few others one by one, the rest counted.

    With `more` the list is not whole, and nothing can be counted.

    >>> names_text(["s2", "s3", "s4", "s5"]), names_text(["s1", "s3", "s5", "s7"])
    ('s2 … s5', 's1, s3, s5 or s7')
    >>> names_text([f"s{2 * k}" for k in range(12)])
    's0, s2, s4, s6, s8, s10 or 6 more'
    """
    runs = _runs(names)
    if len(runs) <= MOST_NAMED and not more:
        return listing([_run_text(run) for run in runs], last)
    named = runs[: MOST_NAMED - 1]
    rest = "others" if more else f"{len(names) - sum(map(len, named))} more"
    return listing([*map(_run_text, named), rest], last)


def _runs(names: Sequence[str]) -> list[list[str]]:
    """Names put together where each is the next of the one before: the same word with the next number."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return [part for run in runs for part in ([run] if len(run) > 2 else [[name] for name in run])]


def _follows(one: str, other: str) -> bool:
    before, after = _NUMBERED.fullmatch(one), _NUMBERED.fullmatch(other)
    if before is None or after is None or before[1] != after[1]:
        return False
    return int(after[2]) == int(before[2]) + 1


def _run_text(run: Sequence[str]) -> str:
    return run[0] if len(run) == 1 else f"{run[0]} … {run[-1]}"


def withheld_text(explanation: Explanation) -> str:
    """What must be said where nothing is told: that small groups are left out; nothing where none is."""
    count, least = explanation.withheld, explanation.methods.min_group
    if not count:
        return ""
    where = "a region" if count == 1 else f"each of {count} regions"
    return f"except for fewer than {least} {explanation.world.counted_in} in {where}, which are not shown"


def rule_text(rule: Rule) -> str:
    """A rule for people.

    >>> rule_text(Rule((Condition("y", 1, low=0.2, high=0.3), Condition("x", 0, high=0.1))))
    '0.2 ≤ y < 0.3 and x < 0.1'
    """
    return " and ".join(_condition_text(condition) for condition in rule.conditions) or "everywhere"


def place_text(rule: Rule) -> str:
    """Where a rule holds, to be read behind what is done there.

    >>> place_text(Rule((Condition("x", 0, high=0.1),))), place_text(Rule())
    ('where x < 0.1', 'everywhere')
    >>> place_text(Rule((Condition("state", 0, values=("s5",)),)))
    'in s5'
    """
    if not rule.conditions:
        return "everywhere"
    return f"{'in' if names_states(rule) else 'where'} {rule_text(rule)}"


def names_states(rule: Rule) -> bool:
    """Whether a rule lists states by name, rather than speaking of a feature that happens to be called "state".

    >>> [names_states(Rule((c,))) for c in (Condition("state", 0, values=("s1",)), Condition("state", 0, low=1.0))]
    [True, False]
    """
    return rule.features == ("state",) and all(condition.values for condition in rule.conditions)


def in_order(rules: Sequence[Rule], texts: Sequence[str]) -> list[str]:
    """What is said of rules of which the first that fits acts: that a rule holds only where no earlier one does.

    >>> rules = [Rule((Condition("x", 0, low=low),)) for low in (2.0, 1.0)]
    >>> in_order([*rules, Rule()], ["x ≥ 2: a", "x ≥ 1: b", "everywhere: c"])
    ['x ≥ 2: a', 'otherwise, x ≥ 1: b', 'everywhere else: c']
    """
    ordered = []
    for k, (rule, text) in enumerate(zip(rules, texts, strict=True)):
        later = not names_states(rule) and any(overlap(earlier, rule) for earlier in rules[:k])  # no two states at once
        rest = _EVERYWHERE.sub(r"\1 else", text, count=1) if later and not rule.conditions else text
        ordered.append(f"otherwise, {text}" if later and rest == text else rest)
    return ordered


def edit_words(edits: Sequence[Edit], patch: Patch, *, short: bool = False) -> str:
    """What edits that put the same action in the same place do there."""
    first, proposed = edits[0], patch.swap(edits[0])[1]
    current = listing(list(dict.fromkeys(patch.swap(edit)[0] for edit in edits)), "or")
    if first.holds_back:
        return "nothing changes" if first.current is None else f"{current} stays"
    if first.current is None and first.shift is None:
        return proposed
    return swap_words(current if first.shift is None else proposed, proposed, first.shift, None, short=short)


def swap_text(region: Region, *, short: bool = False) -> str:
    """What to do instead of what; where a policy does so only at times, how often before and after."""
    current, proposed = region.current, region.proposed
    often = {entry.action: entry for entry in region.support.actions}
    if at_times(region) and not short:
        current, proposed = (
            f"{name} ({percent(often[name].current)} → {percent(often[name].proposed)})" if name in often else name
            for name in (current, proposed)
        )
        current += "" if region.proposed in often else " or another action"
    return swap_words(current, proposed, region.shift, region.direction, short=short)


def at_times(region: Region) -> bool:
    """Whether the current policy takes the action that gives way only in some of the decisions."""
    given_up = next((entry for entry in region.support.actions if entry.action == region.current), None)
    return given_up is not None and given_up.current < MOSTLY and region.current != region.proposed


def other_parts(direction: Direction | None, swaps: Sequence[SwapShare], actions: Sequence[Action]) -> dict[str, float]:
    """The components beside that of a direction which its pairs of actions change, and in which share of decisions."""
    levels = {action.name: action.levels for action in actions}
    if direction is None or not all({swap.current, swap.proposed} <= levels.keys() for swap in swaps):
        return {}
    moved: dict[str, float] = {}
    for swap in swaps:
        for name, level in levels[swap.current].items():
            if name != direction.component and levels[swap.proposed].get(name) != level:
                moved[name] = moved.get(name, 0.0) + swap.share
    return {name: share for name, share in moved.items() if share > RARELY}


def swap_words(
    current: str, proposed: str, shift: Shift | None, direction: Direction | None, *, short: bool = False
) -> str:
    """A swap, a probability shift or a direction.

    >>> swap_words("east", "north", None, None), swap_words("east", "north", None, None, short=True)
    ('north instead of east', 'east → north')
    >>> swap_words("a", "a", Shift(0.2, 0.7), None)
    'a more often (20 % → 70 %)'
    >>> swap_words("a", "a", Shift(0.0, 0.5, (Often("b", 0.0, 0.4),)), None)
    'a (0 % → 50 %) and b (0 % → 40 %) more often'
    >>> swap_words("as now", "less push by 0.6", None, None)
    'less push by 0.6'
    """
    if shift is not None:
        often = "more" if shift.proposed > shift.current else "less"
        if shift.also and often == "more":
            each = [Often(current, shift.current, shift.proposed), *shift.also]
            return f"{listing([f'{o.action} ({percent(o.current)} → {percent(o.proposed)})' for o in each])} more often"
        return f"{current} {often} often ({percent(shift.current)} → {percent(shift.proposed)})"
    if direction is not None:
        if short:
            return f"{direction.component} {'↑' if direction.sign > 0 else '↓'}"
        parts = f" ({listing(list(direction.also))} may change too)" if direction.also else ""
        return f"{'more' if direction.sign > 0 else 'less'} {direction.component}{parts}"
    if current == AS_NOW:
        return proposed
    return f"{current} → {proposed}" if short else f"{proposed} instead of {current}"


def interval_text(
    interval: Interval, *, difference: bool = True, outcome: Outcome | None = None, signs: bool | None = None
) -> str:
    """An estimate with its interval; a result says once at which level its intervals hold.

    A difference has its sign, unless words in front of it say which way it goes.

    >>> interval_text(Interval(2.0, 1.5, 2.5, 0.95)), interval_text(Interval(2.0, 1.5, math.inf, 0.95))
    ('+2, between +1.5 and +2.5', '+2, at least +1.5')
    >>> interval_text(Interval(0.02, 0.01, 0.03, 0.95), outcome=Outcome("survival", range=(0, 1)))
    '+2 percentage points, between +1 and +3'
    """
    shown, unit = _in_its_unit(interval, outcome, difference=difference)
    middle, low, high = interval_numbers(shown, signs=difference if signs is None else signs)
    return with_unit(middle, unit) + _bounded(shown, middle, (low, high), _SPOKEN)


def bounds_text(interval: Interval, outcome: Outcome | None = None, *, difference: bool = False) -> str:
    """An estimate with its bounds and unit, short enough for a table.

    >>> bounds_text(Interval(2.0, 1.5, 2.5, 0.95), difference=True)
    '+2 [+1.5, +2.5]'
    >>> bounds_text(Interval.exactly(0.787), Outcome("survival", range=(0, 1)))
    '78.7 %'
    """
    shown, unit = _in_its_unit(interval, outcome, difference=difference)
    return with_unit(_with_bounds(shown, signs=difference), unit)


def changes_numbers(told: Explanation | Plan) -> tuple[str, str]:
    """How many decisions change, and between which bounds that lies where it was counted in played episodes."""
    interval = told.changes_interval
    if interval is None or not interval.width:
        return number(told.changes, 3), ""
    count, low, high = interval_numbers(interval)
    return count, f"between {low} and {high}" * (low != high)


def named_with_unit(name: str, outcome: Outcome | None, *, difference: bool = False) -> str:
    """An outcome's name with the unit of the bare numbers under it.

    >>> named_with_unit("stay", Outcome("stay", unit="h")), named_with_unit("return", None)
    ('stay (h)', 'return')
    """
    share = "percentage points" if difference else "%"
    unit = None if outcome is None else share if outcome.is_share else outcome.unit
    return f"{name} ({unit})" if unit else name


def bare_bounds(interval: Interval, outcome: Outcome | None = None, *, difference: bool = False) -> str:
    """`bounds_text` without the unit, which stands beside the name."""
    return _with_bounds(_in_its_unit(interval, outcome, difference=difference)[0], signs=difference)


def amount_text(difference: Interval, outcome: Outcome | None = None) -> str:
    """How large a difference is, behind words that say its direction: no sign; short enough for a card or a table.

    >>> amount_text(Interval(-2.0, -2.5, -1.5, 0.95)), amount_text(Interval.exactly(1.0), Outcome("stay", unit="steps"))
    ('2 [1.5, 2.5]', '1 step')
    """
    shown, unit = _in_its_unit(_amount(difference), outcome, difference=True)
    return with_unit(_with_bounds(shown), unit)


def amounts_text(differences: Sequence[Interval], outcome: Outcome | None = None) -> list[str]:
    """How large differences are that are read beside each other: estimates alone, all to the same decimal places.

    >>> amounts_text([Interval.exactly(12.35), Interval.exactly(0.08193)])
    ['12.35', '0.08']
    """
    shown = [_in_its_unit(_amount(difference), outcome, difference=True) for difference in differences]
    texts = same_places([interval for interval, _ in shown])
    return [with_unit(text, unit) for text, (_, unit) in zip(texts, shown, strict=True)]


def spoken_amount(difference: Interval, outcome: Outcome | None = None) -> str:
    """How large a difference is, in a sentence that says its direction: no sign.

    >>> spoken_amount(Interval(-2.0, -2.5, -1.5, 0.95), Outcome("stay", unit="steps"))
    '2 steps, between 1.5 and 2.5'
    """
    return interval_text(_amount(difference), outcome=outcome, signs=False)


def moved_text(outcome: Outcome, difference: Interval, figures: Figures = "bounds", note: str | None = None) -> str:
    """What becomes of an outcome: words say which way, so that the amount behind them has no sign.

    >>> moved_text(Outcome("return", prefer="more"), Interval(-2.0, -2.5, -1.5, 0.95))
    'less return (by 2, between 1.5 and 2.5)'
    """
    words = outcome.phrase("more" if difference.estimate > 0 else "less")
    by = spoken_amount(difference, outcome)
    by = estimate_text(difference, outcome, difference=True).lstrip("+−") if figures == "estimate" else by
    behind = "; ".join(filter(None, ["" if figures == "none" else f"by {by}", note]))
    return f"{words} ({behind})" if behind else words


def _amount(difference: Interval) -> Interval:
    return difference.scaled(-1.0) if difference.estimate < 0 else difference


def estimate_text(interval: Interval, outcome: Outcome | None = None, *, difference: bool = False) -> str:
    """An estimate alone with its unit, to no more digits than its interval carries.

    >>> estimate_text(Interval(10.052, 9.566, 10.53, 0.95))
    '10.05'
    """
    shown, unit = _in_its_unit(interval, outcome, difference=difference)
    return with_unit(interval_numbers(shown, signs=difference)[0], unit)


def before_and_after(before: Interval, after: Interval, outcome: Outcome | None = None) -> str:
    """Two estimates to the same decimal places, the unit once.

    >>> before_and_after(Interval.exactly(9.5), Interval.exactly(1.0), Outcome("stay", unit="steps"))
    '9.5 → 1 step'
    """
    sides = [_in_its_unit(side, outcome, difference=False) for side in (before, after)]
    one, other = same_places([side for side, _ in sides])
    return with_unit(other if one == other else f"{one} → {other}", sides[0][1])


_SPOKEN = (", between {} and {}", ", at least {}", ", at most {}")
_SHORT = (" [{}, {}]", " [≥ {}]", " [≤ {}]")


def _bounded(interval: Interval, middle: str, bounds: tuple[str, str], words: tuple[str, str, str]) -> str:
    """The bounds in words; nothing where none is known, or where they are the estimate."""
    low, high = bounds
    known = math.isfinite(interval.low), math.isfinite(interval.high)
    if low == middle == high or not any(known):
        return ""
    return words[0].format(low, high) if all(known) else words[1].format(low) if known[0] else words[2].format(high)


def _with_bounds(interval: Interval, *, signs: bool = False) -> str:
    middle, low, high = interval_numbers(interval, signs=signs)
    return middle + _bounded(interval, middle, (low, high), _SHORT)


def _in_its_unit(interval: Interval, outcome: Outcome | None, *, difference: bool) -> tuple[Interval, str]:
    """The interval as people say it, and what stands behind the number: shares in percent.

    A width that is nothing beside the range of the outcome is not told, nor an estimate that is nothing beside it.
    """
    least = 0.0 if outcome is None or not outcome.range else 1e-6 * (outcome.range[1] - outcome.range[0])
    if 0 < interval.width < least:
        interval = Interval.exactly(interval.estimate if abs(interval.estimate) >= least else 0.0)
    if outcome is not None and outcome.is_share:
        return interval.scaled(100.0), " percentage points" if difference else " %"
    return interval, f" {outcome.unit}" if outcome is not None and outcome.unit else ""


def _condition_text(c: Condition) -> str:
    if c.values is not None:
        if not c.values:
            return f"{c.feature} not measured"
        names = [v if isinstance(v, str) else number(float(v), 6) for v in c.values]
        text = names_text(names) if c.feature == "state" else f"{c.feature} is {few(names, 'or')}"
    else:
        (low, beyond), (high, inside) = map(shortest, (c.low, c.high))
        text = f"{c.feature} {'≤' if inside else '<'} {high}" if math.isfinite(c.high) else c.feature
        if math.isfinite(c.low) and math.isfinite(c.high):
            text = f"{low} {'<' if beyond else '≤'} {text}"
        elif math.isfinite(c.low):
            text = f"{c.feature} {'>' if beyond else '≥'} {low}"
        elif not math.isfinite(c.high):
            text = f"{c.feature} measured"
    return f"({text} or not measured)" if c.missing else text


def shortest(bound: float) -> tuple[str, bool]:
    """The bound as text, and whether it is the next number after a rounder one (so that < reads ≤)."""
    below = 0.0 if 0 < bound <= ABOVE_ZERO else math.nextafter(bound, -math.inf)
    rounder = below == 0 or len(repr(below)) + 3 < len(repr(bound))
    value = below if rounder else bound
    return number(value, 3 if abs(value) < 100 else 6), rounder
