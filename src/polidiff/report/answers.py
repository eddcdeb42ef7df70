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
from polidiff.records.explanation import ActionSupport, Answer, Explanation, Region
from polidiff.records.numbers import number, percent
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.parse import name_like, parse_rule
from polidiff.records.rule import Rule, overlap, within
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
        action = _action_named(told, about)
        changed = tuple(region for region in told.regions if _change_of(told, action, region))
        return Answer(question, about, when(explanation, about), changed)
    inside = tuple(region for region, _ in _met(told, _box(told, about)))
    return Answer(question, about, what_if(explanation, about), inside)


def why_not(explanation: Explanation, action: str, where: str) -> str:
    """What another action would be worth in a region, beside the two that the policies take."""
    explanation = suppressed(explanation)
    action, region = _action_named(explanation, action), region_named(explanation, where)
    if action == region.proposed:
        return f"{action} is what the proposed policy does in {_place(region)}."
    outcomes = {outcome.name: outcome for outcome in explanation.outcomes}
    lines = [
        f"• {name}: {_worth(outcomes.get(name), values, action, region)}"
        for name, values in region.action_values.items()
        if action in values
    ]
    taken, tried = _taken(region, action), []
    if taken is not None:
        often = f"now in {percent(taken.current)} of the decisions there, proposed in {percent(taken.proposed)}"
        tried = [f"• {often}; {_people(explanation, taken, region)}"]
    if not region.action_values:
        return "\n".join([_unmeasured(explanation, action, region), *tried])
    if not lines:
        return f"{action} cannot be taken in {_place(region)}."
    once = f"In {_place(region)}, one decision for {action} instead of {region.proposed}, then the proposed policy:"
    exact = all(verdict.difference.exact for verdict in explanation.verdicts)
    means = [] if exact else ["• these are estimates that were not judged: they have no interval"]
    return "\n".join([once, *lines, *tried, *means])


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
    """An action's worth beside what the two policies bring: the mean over its chances, for one that draws."""
    texts = []
    for role in ("current", "proposed"):
        top = getattr(region, role)
        chances = {entry.action: getattr(entry, role) for entry in region.support.actions} or {top: 1.0}
        mixed = max(chances.values()) < 1 - SAME_SHARE
        if not mixed and top != action and top in values:
            texts.append(f"{top} ({role}) {estimate_text(Interval.exactly(values[top]), outcome)}")
        elif mixed and all(name in values for name, chance in chances.items() if chance):
            mean = sum(chance * values[name] for name, chance in chances.items() if chance)
            texts.append(f"the {role} policy's mix of actions {estimate_text(Interval.exactly(mean), outcome)}")
    return "; ".join([estimate_text(Interval.exactly(values[action]), outcome), *texts])


def when(explanation: Explanation, action: str) -> str:
    """Where the proposed policy newly takes an action, and where it no longer does."""
    explanation = suppressed(explanation)
    action = _action_named(explanation, action)
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


def _people(explanation: Explanation, taken: ActionSupport, region: Region) -> str:
    everyone = f"{number(region.support.episodes)} {explanation.world.counted_in}"
    return f"{number(taken.people)} of {everyone} in the log have it there"


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
    rule = _box(explanation, text)
    met = _met(explanation, rule)
    lines = [f"Where {rule_text(rule)}:"]
    visits = _visits(explanation, rule)
    if visits is not None:
        lines.append(f"• {percent(visits[0])} of visits fall there, {percent(visits[1])} of them with another action")
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
                found.append((region, all(within(piece, rule) for piece in pieces)))
    return found


def _visits(explanation: Explanation, rule: Rule) -> tuple[float, float] | None:
    """Share of visits in a box, and share of those with another action; None where the record cannot tell.

    From the sample of states that it keeps; where none of them is there, from a picture over the box's features.
    """
    names, sample = [feature.name for feature in explanation.world.features], explanation.sample
    states = zip(names, zip(*(state.values for state in sample), strict=True), strict=False)
    changed = [state.current != state.proposed for state in sample]
    shares = _shares(rule, dict(states), [state.share for state in sample], changed)
    if shares is not None and shares[0]:
        return shares
    for drawn in explanation.pictures:
        if set(rule.features) <= {drawn.x, drawn.y} and all(c.values is None for c in rule.conditions):
            centres = {drawn.x: [cell.x for cell in drawn.cells], drawn.y: [cell.y for cell in drawn.cells]}
            changed = [cell.region is not None for cell in drawn.cells]
            return _shares(rule, centres, [cell.visits for cell in drawn.cells], changed) or (0.0, 0.0)
    return None


def _shares(
    rule: Rule, columns: Mapping[str, Sequence[float | str]], visits: Sequence[float], changed: Sequence[bool]
) -> tuple[float, float] | None:
    """Share of visits that a rule covers, and share of these that have changed; None where there are no visits."""
    if not visits or not math.fsum(visits):
        return None
    inside = rule.covers({name: np.array(column, dtype=object) for name, column in columns.items()})
    here = math.fsum(np.array(visits)[inside])
    return here / math.fsum(visits), math.fsum(np.array(visits)[inside & np.array(changed)]) / here if here else 0.0


def _box(explanation: Explanation, text: str) -> Rule:
    """A box written by hand, over the features of a result."""
    return parse_rule(text, [feature.name for feature in explanation.world.features], explanation.world.values)


def _action_named(explanation: Explanation, name: str) -> str:
    return known_name(name, [action.name for action in explanation.world.actions], "an action")


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
