"""Which change carries a difference of outcomes: the one whose own effect is told apart from all others'."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from polidiff.explanation.region_places import introduced
from polidiff.explanation.words import estimate_text, interval_text, listing
from polidiff.records.explanation import Explanation, Region, Verdict
from polidiff.records.numbers import counted
from polidiff.records.outcome import Outcome

MOST_CARRIED = 3  # outcomes of which it is said what one change does


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
        _carried_text(region, names[region.id], [outcomes[name] for name in carried[region.id]], len(decided))
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


def _carried_text(region: Region, named: str, outcomes: Sequence[Outcome], whole: int) -> str:
    """What one change brings of the outcomes that it carries; `whole` is how many outcomes differ."""
    assert region.effect is not None
    told, more = outcomes[:MOST_CARRIED], len(outcomes) - MOST_CARRIED
    alone, without = (
        listing([f"{outcome.name} {interval_text(effect[outcome.name], outcome=outcome)}" for outcome in told])
        for effect in (region.effect.alone, region.effect.without)
    )
    others = (
        f"; all others together bring {without}" if more <= 0 else f", and {counted(more, 'more outcome')} likewise"
    )
    names = listing([o.name for o in outcomes]) if more <= 0 else counted(len(outcomes), "outcome")
    what = "this" if len(outcomes) == whole else f"most of {names}"
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
