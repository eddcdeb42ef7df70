"""Questions to a result, answered from its record alone: why not, when, what if.

Where the visits that a result holds lie, and how many fall in a box: counted, or bounded.

A result holds states with their shares of visits (of a table or a simulator, at most 400) and pictures, whose cells
know two features. A cell lies in a box, outside, or across its border, and visits that the record does not show may be
anywhere; so a share lies between what is surely there and what may be.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from polidiff.errors import InvalidInputError
from polidiff.explanation.case import rules_miss
from polidiff.explanation.region_places import outside
from polidiff.explanation.text import same_text, unit_noun
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
from polidiff.records.explanation import ActionSupport, Answer, Explanation, Region, SampledState
from polidiff.records.numbers import counted, number, percent
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.parse import name_like, parse_rule
from polidiff.records.rule import Condition, Rule, overlap, within
from polidiff.records.suppression import suppressed
from polidiff.rules.lists import Kinds, without_any

SAME_SHARE = 0.005  # of decisions: shares nearer than this are told as the same


def answered(
    explanation: Explanation, question: Literal["why-not", "when", "what-if"], about: str, where: str
) -> Answer:
    """An answer as a record; `where` is the region that "why-not" asks about."""
    shown = suppressed(explanation)
    if question == "why-not":
        return Answer(question, about, why_not(explanation, about, where), (region_named(shown, where),))
    if question == "when":
        action = _action_named(shown, about)
        changed = tuple(region for region in shown.regions if _change_of(shown, action, region))
        return Answer(question, about, when(explanation, about), changed)
    inside = tuple(meeting.region for meeting in meetings(shown, _box(shown, about)))
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
        tried = [f"• {often}{_people(explanation, taken, region)}"]
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
    alone = {} if region.effect is None else dict(region.effect.alone)
    for verdict in explanation.verdicts:  # the same comparison, judged once
        if verdict.outcome in alone and math.isclose(alone[verdict.outcome].estimate, verdict.difference.estimate):
            alone[verdict.outcome] = verdict.difference
    lines = [
        f"• {outcome.name}: {interval_text(alone[outcome.name], outcome=outcome)}"
        for outcome in explanation.outcomes
        if outcome.name in alone
    ]
    every = "decisions" if explanation.world.one_step else "episodes"
    heading = f"\nThe proposed policy in {region.id} only, against the current one, over all {every}:" if lines else ""
    return "\n".join([f"{unknown}from the rows of a log only the change as a whole is judged.{heading}", *lines])


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
        behind = f"{percent(region.support.share)} of decisions{_people(explanation, taken, region)}"
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
    everyone = counted(region.support.episodes, unit_noun(explanation.world))
    return f"; {number(taken.people)} of {everyone} in the log have it there" if explanation.world.recorded else ""


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
    met = meetings(explanation, rule)
    share, changed = share_inside(explanation, rule)
    lines = [f"Where {rule_text(rule)}:"]
    if share is not None and share.high == 0:
        return f"{lines[0]}\n• no visit that this result holds falls there"
    if share is not None and not share.told:
        lines.append(f"• of all visits, {share} fall there")
    elif share is not None:
        in_regions = f", {changed} of them in these regions" if met and changed is not None else ""
        lines.append(f"• {share} of visits fall there{in_regions}")
    lines += [f"• {meeting.region.id}, {meeting.extent}: {swap_text(meeting.region)}" for meeting in met]
    unsure = [meeting.region.id for meeting in met if not meeting.known]
    if unsure:
        lines.append(
            f"• of {listing(unsure)} only the rule was compared: this result does not hold whether any visit lies there"
        )
    if not met:
        unshown = withheld_text(explanation) or ("as far as the rules tell" if rules_miss(explanation) else "")
        lines.append(f"• {same_text(explanation)}{f', {unshown}' if unshown else ''}")
    return "\n".join(lines)


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


MOST_TAKEN_OUT = 12  # earlier regions: what many leave of a region may be more pieces than can be counted
FEWEST_DRAWN = 200  # states of one share, from which on a sample may stand for more than it holds
ROUNDING = 1e-9  # of all visits

Test = Callable[[Rule], bool]  # of a place where visits lie


@dataclass(frozen=True)
class Share:
    """A share of visits, between two bounds; `about` where it was drawn."""

    low: float
    high: float
    about: bool = False

    def of(self, whole: float) -> Share:
        """The same visits as a share of some of all."""
        return Share(min(1.0, self.low / whole), min(1.0, self.high / whole), self.about)

    @property
    def told(self) -> bool:
        """Whether it is one percentage as it is read."""
        return self.about or percent(self.low) == percent(self.high)

    def __str__(self) -> str:
        least, most = percent(self.low), percent(self.high)
        if self.told:
            return f"about {least}" if self.about else least
        return f"between {least} and {most}" if self.low > ROUNDING else f"at most {most}"


@dataclass(frozen=True)
class Place:
    """A box, or the part of a region where it counts: the first region that fits a state does."""

    rule: Rule
    earlier: tuple[Rule, ...] = ()
    pieces: tuple[Rule, ...] = ()  # disjoint, together no less than the place

    def surely(self, visit: Rule) -> bool:
        """Whether all that fits a visit is known to lie here."""
        return within(visit, self.rule) and not any(overlap(visit, rule) for rule in self.earlier)

    def perhaps(self, visit: Rule, box: Rule) -> bool:
        """Whether something that fits a visit may lie here and in a box."""
        return any(overlap(piece, visit) and overlap(piece, box) for piece in self.pieces)


@dataclass(frozen=True)
class Visits:
    """What is known of each visit, as a rule that it fits, and its share; `drawn`, where they stand for others."""

    places: tuple[tuple[Rule, float], ...]
    drawn: bool = False

    @property
    def unshown(self) -> float:
        """The share of visits that are not among them."""
        missing = 1 - math.fsum(share for _, share in self.places)
        return missing if missing > ROUNDING and not self.drawn else 0.0

    @property
    def complete(self) -> bool:
        """Whether they are all visits."""
        return not self.drawn and not self.unshown

    def surely_holds(self, place: Place, box: Rule) -> bool:
        """Whether one is known to lie in a place and in a box."""
        return any(within(visit, box) and place.surely(visit) for visit, _ in self.places)

    def holds(self, place: Place, box: Rule) -> bool:
        """Whether one may lie in both."""
        return any(overlap(visit, box) and place.perhaps(visit, box) for visit, _ in self.places)

    def only_inside(self, place: Place, box: Rule) -> bool:
        """Whether all that may lie in a place lie in a box, and there are some."""
        there = [visit for visit, _ in self.places if place.perhaps(visit, Rule())]
        return bool(there) and all(within(visit, box) for visit in there)

    def share(self, surely: Test, perhaps: Test) -> Share:
        """The share of all visits for which something is known to hold, and may hold."""
        total = math.fsum(share for _, share in self.places) + self.unshown
        low = math.fsum(share for place, share in self.places if surely(place)) / total
        high = math.fsum(share for place, share in self.places if perhaps(place)) / total
        return Share(low, min(1.0, high + self.unshown), self.drawn)


def recorded(explanation: Explanation) -> list[Visits]:
    """What a result holds of visits: a sample, else pictures; the latter show no visit with a missing value."""
    names, sample = [feature.name for feature in explanation.world.features], explanation.sample
    held = [tuple((picture.place(cell), cell.visits) for cell in picture.cells) for picture in explanation.pictures]
    pictures = [Visits(cells) for cells in held if math.fsum(share for _, share in cells) > 0]
    if not math.fsum(state.share for state in sample) > 0:
        return pictures
    drawn = explanation.world.played or max(Counter(state.share for state in sample).values()) >= FEWEST_DRAWN
    states = Visits(tuple((_state(state, names), state.share) for state in sample), drawn)
    return [states, *pictures] if drawn else [states]


def _state(state: SampledState, names: Sequence[str]) -> Rule:
    known = ((k, name, v, v is None or v != v) for k, (name, v) in enumerate(zip(names, state.values, strict=True)))
    return Rule(tuple(Condition(name, k, values=() if gap else (v,), missing=gap) for k, name, v, gap in known))


def places_of(explanation: Explanation) -> list[tuple[Region, Place]]:
    """Regions with where they count."""
    names = [feature.name for feature in explanation.world.features]
    words = {names.index(name): tuple(known) for name, known in explanation.world.values.items() if known}
    kinds = Kinds(words, frozenset(range(len(names))))  # any value may be missing
    rules, places = [region.rule for region in explanation.regions], []
    for k, region in enumerate(explanation.regions):
        earlier = tuple(rule for rule in rules[:k] if overlap(rule, region.rule))
        pieces = tuple(without_any(region.rule, earlier[:MOST_TAKEN_OUT], kinds))
        places.append((region, Place(region.rule, earlier, pieces)))
    return places


@dataclass(frozen=True)
class Meeting:
    """A region that may reach into a box."""

    region: Region
    extent: str  # how much of it does, in words
    known: bool  # whether visits are known to lie in both


def meetings(explanation: Explanation, box: Rule) -> list[Meeting]:
    """Regions that count somewhere in a box, without those of which no visit of a whole record can lie there."""
    found, held = [], recorded(explanation)
    for region, place in places_of(explanation):
        if not any(overlap(piece, box) for piece in place.pieces):
            continue
        if any(visits.complete and not visits.holds(place, box) for visits in held):
            continue
        whole = all(within(piece, box) for piece in place.pieces)
        inside = [visits for visits in held if visits.only_inside(place, box)]
        extent = "all of it" if whole or any(v.complete for v in inside) else "part of it"
        known = whole or any(visits.surely_holds(place, box) for visits in held)
        found.append(
            Meeting(region, "all that is recorded of it" if inside and extent != "all of it" else extent, known)
        )
    return found


def share_inside(explanation: Explanation, box: Rule) -> tuple[Share | None, Share | None]:
    """The share of all visits that lie in a box, and how many of these in a region; None where nothing is known."""
    places = [place for _, place in places_of(explanation)]
    best: tuple[Share | None, Share | None] = (None, None)
    for visits in recorded(explanation):
        share = visits.share(lambda v: within(v, box), lambda v: overlap(v, box))
        if visits.drawn and not share.low:
            continue  # too few were drawn to tell
        if share.high - share.low >= (1.0 if best[0] is None else best[0].high - best[0].low):
            continue
        changed = visits.share(
            lambda v: within(v, box) and any(within(v, place.rule) for place in places),
            lambda v: overlap(v, box) and any(place.perhaps(v, box) for place in places),
        )
        exact = share.low > 0 and share.low == share.high
        best = share, changed.of(share.low) if exact else None
    return best
