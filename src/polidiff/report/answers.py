"""Questions to a result, answered from its record alone: why not, when, what if."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from polidiff.errors import InvalidInputError
from polidiff.explanation.region_places import outside
from polidiff.explanation.words import (
    estimate_text,
    interval_text,
    listing,
    rule_text,
    swap_text,
    swap_words,
    withheld_text,
)
from polidiff.records.action import Shift
from polidiff.records.explanation import ActionSupport, Answer, Explanation, Picture, Region
from polidiff.records.numbers import number, percent
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.parse import name_like, parse_rule
from polidiff.records.rule import Condition, Rule, overlap
from polidiff.records.suppression import suppressed
from polidiff.rules.lists import Kinds, without_any

MOST_TAKEN_OUT = 12  # earlier regions: what many leave of a box may be more pieces than can be counted
SAME_SHARE = 0.005  # of decisions: shares nearer than this are told as the same


def answered(
    explanation: Explanation, question: Literal["why-not", "when", "what-if"], about: str, where: str
) -> Answer:
    """An answer as a record; `where` is the region that "why-not" asks about."""
    told = suppressed(explanation)
    if question == "why-not":
        return Answer(question, about, why_not(explanation, about, where), (region_named(told, where),))
    if question == "when":
        text = when(explanation, about)
        action = known_name(about, [a.name for a in told.world.actions], "an action")
        return Answer(question, about, text, tuple(r for r in told.regions if _change_of(told, action, r)))
    text = what_if(explanation, about)
    rule = parse_rule(about, [feature.name for feature in told.world.features], told.world.values)
    return Answer(question, about, text, tuple(region for region, _ in _met(told, rule)))


def why_not(explanation: Explanation, action: str, where: str) -> str:
    """What another action would be worth in a region, beside the two that the policies take."""
    explanation = suppressed(explanation)
    action = known_name(action, [a.name for a in explanation.world.actions], "an action")
    region = region_named(explanation, where)
    if action == region.proposed:
        return f"{action} is what the proposed policy does in {_place(region)}."
    outcomes = {outcome.name: outcome for outcome in explanation.outcomes}
    lines = [
        f"• {name}: {_worth(outcomes.get(name), values, action, region)}"
        for name, values in region.action_values.items()
        if action in values
    ]
    taken = _taken(region, action)
    tried = [] if taken is None else [f"• {_chances(taken)}; {_people(explanation, taken, region)}"]
    if not region.action_values:
        return "\n".join([_unmeasured(explanation, action, region), *tried])
    if not lines:
        return f"{action} cannot be taken in {_place(region)}."
    return "\n".join([f"In {_place(region)}, {action} instead of {region.proposed}:", *lines, *tried])


def _unmeasured(explanation: Explanation, action: str, region: Region) -> str:
    """That single actions were not tried, and what is known of the change instead."""
    unknown = f"What {action} alone would bring in {_place(region)} was not measured: "
    if not explanation.world.recorded:
        tried = "single actions are tried in a table or a vectorised model"
        return f"{unknown}{tried}, not in an environment that is stepped."
    alone = {} if region.effect is None else region.effect.alone
    lines = [
        f"• {outcome.name}: {interval_text(alone[outcome.name], outcome=outcome)}"
        for outcome in explanation.outcomes
        if outcome.name in alone
    ]
    told = f"\nThe proposed policy in {region.id} only, against the current one, over all episodes:" if lines else ""
    return "\n".join([f"{unknown}from the rows of a log only the change as a whole is judged.{told}", *lines])


def _worth(outcome: Outcome | None, values: Mapping[str, float], action: str, region: Region) -> str:
    told = {name: estimate_text(Interval.exactly(value), outcome) for name, value in values.items()}
    beside = [f"{name} ({role}) {told[name]}" for name, role in _roles(region, action) if name in told]
    return "; ".join([told[action], *beside])


def _roles(region: Region, action: str) -> list[tuple[str, str]]:
    roles = [(region.current, "current"), (region.proposed, "proposed")]
    return [(name, role) for name, role in roles if name != action]


def when(explanation: Explanation, action: str) -> str:
    """Where the proposed policy newly takes an action, and where it no longer does."""
    explanation = suppressed(explanation)
    action = known_name(action, [a.name for a in explanation.world.actions], "an action")
    lines = [line for region in explanation.regions if (line := _change_of(explanation, action, region))]
    unshown = withheld_text(explanation)
    if not lines:
        return f"The proposed policy takes {action} where the current one does{f', {unshown}' if unshown else ''}."
    return "\n".join([f"{action}:", *lines, f"Elsewhere as now{f', {unshown}' if unshown else ''}."])


def _change_of(explanation: Explanation, action: str, region: Region) -> str:
    """How often an action is taken in a region, before and after; nothing where that stays."""
    apart = outside(explanation.regions)[region.id]
    place, shift, taken = _place(region, ": ", "") + apart, region.shift, _taken(region, action)
    if taken is not None:
        if abs(taken.current - taken.proposed) < SAME_SHARE:
            return ""
        often = "more often" if taken.proposed > taken.current else "less often"
        often = "newly" if taken.current < SAME_SHARE else "no longer" if taken.proposed < SAME_SHARE else often
        behind = f"{percent(region.support.share)} of decisions; {_people(explanation, taken, region)}"
        return f"• {often} ({percent(taken.current)} → {percent(taken.proposed)}) in {place} ({behind})"
    if region.current != region.proposed and action in (region.current, region.proposed):
        return f"• {'newly' if action == region.proposed else 'no longer'} in {_line(region, apart)}"
    if action == region.current:
        return f"• {swap_text(region)} in {place}"
    if not explanation.world.recorded and all(region.shift is None for region in explanation.regions):
        return ""
    if shift is not None and len(explanation.world.actions) == 2:
        rest = Shift(1 - shift.current, 1 - shift.proposed)
        return f"• {swap_words(action, action, rest, None)} in {place}"
    return (
        f"• perhaps more or less often in {_line(region, apart)}; this result does not hold how often {action} is "
        "taken there"
    )


def _taken(region: Region, action: str) -> ActionSupport | None:
    return next((entry for entry in region.support.actions if entry.action == action), None)


def _chances(taken: ActionSupport) -> str:
    return f"now in {percent(taken.current)} of the decisions there, proposed in {percent(taken.proposed)}"


def _people(explanation: Explanation, taken: ActionSupport, region: Region) -> str:
    who = "people" if "people" in explanation.world.facts else "episodes"
    return f"{number(taken.people)} of {number(region.support.episodes)} {who} in the log have it there"


def _place(region: Region, before: str = " (", after: str = ")") -> str:
    """The name of a region and its rule, which may be its name."""
    rule = rule_text(region.rule)
    return region.id if rule == region.id else f"{region.id}{before}{rule}{after}"


def _line(region: Region, apart: str) -> str:
    share = percent(region.support.share)
    return f"{region.id}, {swap_text(region)}: {rule_text(region.rule)}{apart} ({share} of decisions)"


def what_if(explanation: Explanation, text: str) -> str:
    """What changes inside a box written by hand."""
    explanation = suppressed(explanation)
    rule = parse_rule(text, [feature.name for feature in explanation.world.features], explanation.world.values)
    met = _met(explanation, rule)
    lines = [f"Where {rule_text(rule)}:"]
    counted = _sampled(explanation, rule) or next(
        (share for p in explanation.pictures if (share := _visits(p, rule)) is not None), None
    )
    if counted is not None:
        lines.append(f"• {percent(counted[0])} of visits fall there, {percent(counted[1])} of them with another action")
    lines += [
        f"• {region.id}, {'all of it' if inside else 'part of it'}: {swap_text(region)}" for region, inside in met
    ]
    if not met:
        unshown = withheld_text(explanation)
        lines.append(f"• the two policies act the same{f', {unshown}' if unshown else ''}")
    return "\n".join(lines)


def _met(explanation: Explanation, rule: Rule) -> list[tuple[Region, bool]]:
    """Regions that count somewhere in a box, and whether they do nowhere else; the first that fits a state counts."""
    world, found = explanation.world, []
    names = [feature.name for feature in world.features]
    words = {names.index(name): tuple(known) for name, known in world.values.items() if known}
    kinds = Kinds(words, frozenset(range(len(names))))  # any value may be missing
    for k, region in enumerate(explanation.regions):
        if overlap(region.rule, rule):
            earlier = [one.rule for one in explanation.regions[:k] if overlap(one.rule, region.rule)]
            pieces = without_any(region.rule, earlier[:MOST_TAKEN_OUT], kinds)
            if any(overlap(piece, rule) for piece in pieces):
                found.append((region, all(_within(piece, rule) for piece in pieces)))
    return found


def _within(inner: Rule, outer: Rule) -> bool:
    """Whether every state of one rule satisfies the other."""
    return all(any(_narrower(a, b) for a in inner.conditions) for b in outer.conditions)


def _narrower(inner: Condition, outer: Condition) -> bool:
    if inner.feature != outer.feature or (inner.missing and not outer.missing):
        return False
    if outer.values is not None:
        return inner.values is not None and set(inner.values) <= set(outer.values)
    return inner.values is None and outer.low <= inner.low and inner.high <= outer.high


def _sampled(explanation: Explanation, rule: Rule) -> tuple[float, float] | None:
    """The same from the sample of states that the record keeps; None if it keeps none there."""
    names = [feature.name for feature in explanation.world.features]
    columns = zip(*(state.values for state in explanation.sample), strict=True)
    table = {name: np.array(column, dtype=object) for name, column in zip(names, columns, strict=False)}
    if not table:
        return None
    inside = rule.covers(table)
    share = np.array([state.share for state in explanation.sample])
    changed = np.array([state.current != state.proposed for state in explanation.sample])
    here = float(share[inside].sum())
    return (here / float(share.sum()), float(share[inside & changed].sum()) / here) if here else None


def _visits(picture: Picture, rule: Rule) -> tuple[float, float] | None:
    """Share of visits in the box, and share of those with another action; None if the picture cannot tell."""
    if any(c.feature not in (picture.x, picture.y) or c.values is not None for c in rule.conditions):
        return None
    inside = [cell for cell in picture.cells if all(_holds(c, picture, cell.x, cell.y) for c in rule.conditions)]
    total, here = math.fsum(cell.visits for cell in picture.cells), math.fsum(cell.visits for cell in inside)
    changed = math.fsum(cell.visits for cell in inside if cell.region is not None)
    return (here / total, changed / here) if total and here else (0.0, 0.0)


def _holds(condition: Condition, picture: Picture, x: float, y: float) -> bool:
    value = x if condition.feature == picture.x else y
    return condition.low <= value < condition.high


def region_named(explanation: Explanation, name: str) -> Region:
    """The region with an id."""
    chosen = known_name(name, [region.id for region in explanation.regions], "a region")
    return next(region for region in explanation.regions if region.id == chosen)


def known_name(name: str, known: Sequence[str], what: str) -> str:
    """The name, if it is known; else an error with the nearest one."""
    if name in known:
        return name
    near = name_like(name, known)
    hint = f"did you mean {near!r}?" if near else f"known: {listing([repr(k) for k in known[:12]])}"
    raise InvalidInputError(f"{name!r} is not {what} of this result; {hint}")
