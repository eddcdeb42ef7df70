"""Regions and groups of starts in words: where they are, which region carries a difference, which group loses.

The first that fits counts, so a place may lie outside others, told before or below. A region carries a difference where
its own effect is told apart from that of all others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile

from polidiff.explanation.words import (
    MOST_LISTED,
    MOSTLY,
    estimate_text,
    listing,
    names_states,
    names_text,
    place_text,
    rule_text,
)
from polidiff.records.explanation import Explanation, Region, Sentence, Verdict, WorseOff
from polidiff.records.numbers import counted, percent
from polidiff.records.outcome import Outcome
from polidiff.records.rule import overlap, overlap_any

BELOW = ", told below"
UNSHOWN = "places that are not shown"
CARRIED = 2 / 3  # of a difference: a change that alone brings less, as parts work together, carries most of it
MOST_CARRIED = 3  # outcomes of which it is said what one change does
MOST_READ_ALOUD = 12  # conditions in one sentence; beyond, its regions are called by their names


def earlier(regions: Sequence[Region]) -> dict[str, list[str]]:
    """Of each region, those before it that overlap it: the first that fits counts. States are never two at once."""
    before: dict[str, list[str]] = {}
    others: list[Region] = []
    for region in regions:
        before[region.id] = [other.id for other in others if overlap(other.rule, region.rule)]
        others += [region] * (not names_states(region.rule))
    return before


def outside(regions: Sequence[Region], known: Collection[str] | None = None) -> dict[str, str]:
    """What must stand behind the place of each region: that it lies outside earlier ones.

    Where only the `known` ones have been introduced to the reader, it says where the others are told.
    """
    apart = {}
    for region, before in zip(regions, earlier(regions).values(), strict=True):
        below = BELOW * (known is not None and not set(before) <= set(known))
        parts = [names_text(before, "and") + below] * bool(before) + [UNSHOWN] * region.beside_few
        apart[region.id] = f", outside {' and '.join(parts)}" if parts else ""
    return apart


def introduced(region: Region, regions: Sequence[Region]) -> str:
    """A region by its number and, as it has not been told yet, its place; a state by its name.

    Its change is then spoken of.
    """
    if names_states(region.rule):
        return region.id
    return f"{region.id} ({place_text(region.rule)}{outside(regions, ())[region.id]})"


def places_told(told: Sequence[str], regions: Sequence[Region], comma: str = "") -> dict[str, str]:
    """Where each region is that a sentence tells, with its number if another place lies outside it.

    With many conditions, or many places outside others, by their numbers alone; a comma closes a clause.
    """
    rules = {region.id: region.rule for region in regions if region.id in told}
    before, apart = earlier(regions), outside(regions, told)
    inside = {other for k in rules for other in before[k]}
    long = sum(rule.literals for rule in rules.values()) > MOST_READ_ALOUD or len(inside - set(told)) > 1
    if long and not all(map(names_states, rules.values())):
        return {k: f"in {k}{(BELOW + comma) * (k == told[0])}" for k in rules}
    return {
        k: f"{place_text(rule)}{f' ({k})' * (k in inside)}{apart[k]}{comma * (not names_states(rule))}"
        for k, rule in rules.items()
    }


def carrying_lines(explanation: Explanation, known: Collection[str] = ()) -> list[str]:
    """Which change carries the differences of outcomes: a line for each region that clearly does.

    The reader has met regions that are `known`, and their numbers will do.
    """
    if len(explanation.regions) < 2 or explanation.methods.style == "paper":
        return []
    carried: dict[str, list[str]] = {}
    together: list[Verdict] = []
    decided = [verdict for verdict in explanation.verdicts if verdict.direction in ("more", "less")]
    for verdict in decided:
        region = carrier(explanation.regions, verdict)
        if region is not None and adds_up(region, verdict):
            carried.setdefault(region.id, []).append(verdict.outcome)
        elif region is not None:
            together.append(verdict)
    outcomes = {outcome.name: outcome for outcome in explanation.outcomes}
    regions = explanation.regions
    names = {region.id: region.id if region.id in known else introduced(region, regions) for region in regions}
    lines = [
        _carried_text(region, names[region.id], [outcomes[name] for name in carried[region.id]], decided)
        for region in regions
        if region.id in carried
    ]
    return [*lines, _together_text(regions, names, together, outcomes)] if together else lines


def _together_text(
    regions: Sequence[Region], names: Mapping[str, str], verdicts: Sequence[Verdict], outcomes: Mapping[str, Outcome]
) -> str:
    told, more = verdicts[:MOST_CARRIED], len(verdicts) - MOST_CARRIED
    parts = []
    for verdict in told:
        region, outcome = carrier(regions, verdict), outcomes[verdict.outcome]
        assert region is not None
        assert region.effect is not None
        alone, without = (part[verdict.outcome] for part in (region.effect.alone, region.effect.without))
        shown = [estimate_text(part, outcome, difference=True) for part in (alone, without, verdict.difference)]
        by = names[region.id]
        parts.append(f"{outcome.name} {shown[0]} by {by} alone, {shown[1]} by all others, {shown[2]} by all")
    behind = f"; {counted(more, 'more outcome')} likewise" if more > 0 else ""
    return f"The changes work together: {'; '.join(parts)}{behind}."


def adds_up(region: Region, verdict: Verdict) -> bool:
    """Whether a change alone and all others make the whole, within intervals and a quarter of the largest of them."""
    assert region.effect is not None
    parts = region.effect.alone[verdict.outcome], region.effect.without[verdict.outcome]
    low, high = sum(part.low for part in parts), sum(part.high for part in parts)
    slack = max(abs(part.estimate) for part in (*parts, verdict.difference)) / 4
    return low - slack <= verdict.difference.high and verdict.difference.low <= high + slack


def _carried_text(region: Region, named: str, outcomes: Sequence[Outcome], decided: Sequence[Verdict]) -> str:
    """What one change brings of the outcomes that it carries; `decided` are all that differ."""
    assert region.effect is not None
    own = {outcome.name for outcome in outcomes}
    shares = [region.effect.alone[v.outcome].estimate / v.difference.estimate for v in decided if v.outcome in own]
    told, more = outcomes[:MOST_CARRIED], len(outcomes) - MOST_CARRIED
    alone, without = (
        listing([f"{outcome.name} {estimate_text(effect[outcome.name], outcome, difference=True)}" for outcome in told])
        for effect in (region.effect.alone, region.effect.without)
    )
    others = (
        f"; all others together bring {without}" if more <= 0 else f", and {counted(more, 'more outcome')} likewise"
    )
    names = listing([o.name for o in outcomes]) if more <= 0 else counted(len(outcomes), "outcome")
    what = "the difference" if min(shares) >= CARRIED - 1e-9 else "most of the difference"
    what = what if len(outcomes) == len(decided) else f"most of the difference in {names}"
    return f"{named} carries {what}: its change alone brings {alone}{others}."


def carrier(regions: Sequence[Region], verdict: Verdict) -> Region | None:
    """The region that alone brings at least half of a difference and twice what all others bring, told apart from them.

    Told apart: its interval lies beyond theirs, that of all others together and that of each of them alone, whichever
    way it moves the outcome.
    """
    whole = verdict.difference.estimate
    sign, half = math.copysign(1.0, whole), abs(whole) / 2
    effects = [(region, region.effect) for region in regions if region.effect is not None]
    known = [(r, e) for r, e in effects if verdict.outcome in e.alone and verdict.outcome in e.without]
    for region, effect in known:
        alone, without = effect.alone[verdict.outcome], effect.without[verdict.outcome]
        surely = min(sign * alone.low, sign * alone.high)
        others = [e.alone[verdict.outcome] for r, e in known if r is not region]
        moved = [max(abs(other.low), abs(other.high)) for other in others]
        most = max(0.0, sign * without.low, sign * without.high, *moved)
        if sign * alone.estimate >= max(half, 2 * sign * without.estimate) and surely > most:
            return region
    return None


def after_another(sentences: Sequence[Sentence], sentence: Sentence) -> bool:
    """Whether an earlier sentence has starts that this one's rules cover: a start belongs to the first of them."""
    before = takewhile(lambda other: other is not sentence, sentences)
    return sentence.beside_few or any(overlap_any(other.rules, sentence.rules) for other in before)


def losing_groups(sentences: Sequence[Sentence]) -> list[WorseOff]:
    """Whoever the verdicts of sentences about groups call worse off."""
    return [
        WorseOff(
            verdict.outcome,
            sentence.start,
            sentence.share,
            verdict.difference,
            sentence.starts,
            people=sentence.support.episodes,
            also=sentence.also,
            other=after_another(sentences, sentence),
        )
        for sentence in sentences
        for verdict in sentence.verdicts
        if verdict.valence == "worse"
    ]


def losers(explanation: Explanation) -> tuple[WorseOff, ...]:
    """Everyone who is shown to lose: the groups that were looked for, and whoever a verdict calls worse off.

    That all starts lose is for the verdict to say, whose interval is the one that is told elsewhere; so it is where the
    groups that were looked for are nearly everyone.
    """
    shares: dict[str, float] = {}
    for entry in explanation.worse_off:
        shares[entry.outcome] = shares.get(entry.outcome, 0.0) + entry.share
    whole = {v.outcome for v in explanation.verdicts if v.valence == "worse" and shares.get(v.outcome, 0.0) > MOSTLY}
    looked_for = [entry for entry in explanation.worse_off if entry.start is not None and entry.outcome not in whole]
    with_groups = {entry.outcome for entry in looked_for}
    everyone = [
        WorseOff(verdict.outcome, None, 1.0, verdict.difference)
        for verdict in explanation.verdicts
        if verdict.valence == "worse" and verdict.outcome not in with_groups
    ]
    with_groups |= {entry.outcome for entry in everyone}
    groups = [entry for entry in losing_groups(explanation.sentences) if entry.outcome not in with_groups]
    return (*everyone, *looked_for, *groups)


def group_words(explanation: Explanation, entry: WorseOff, *, share: bool = False, numbered: bool = True) -> str:
    """The starts of a group that loses, with their share if asked for; a record lists at most fifty of them by name.

    That all starts lose is said of their mean: some of them may not. Where every episode is one decision, groups are
    the regions, of which the first that fits counts; which come before is told by their numbers if the reader has them.
    """
    starts = explanation.world.starts
    if entry.start is None or (not entry.start.conditions and percent(entry.share) == percent(1.0)):
        return f"all {starts} together"
    if share:
        return f"{group_words(explanation, entry, numbered=numbered)} ({percent(entry.share)} of {starts})"
    if not entry.start.conditions:  # the last of groups of which the first that fits counts
        return f"the other {starts}"
    if names_states(entry.start):
        names = entry.starts or [str(value) for value in entry.start.conditions[0].values or ()]
        return f"{starts} in {names_text(names, 'and', more=len(entry.starts) >= MOST_LISTED)}"
    same = [region.id for region in explanation.regions if explanation.world.one_step and region.rule == entry.start]
    apart = beside(explanation.regions, same[0], numbered=numbered) if same else ""
    where = " or ".join(map(rule_text, entry.rules))
    return f"{'other ' * (entry.other and not apart)}{starts} where {where}{apart}"


def beside(regions: Sequence[Region], region: str, *, numbered: bool) -> str:
    """That a region lies outside earlier ones, by their numbers if the reader has them."""
    others = outside(regions)[region]
    return others if numbered or not others else ", outside other regions"
