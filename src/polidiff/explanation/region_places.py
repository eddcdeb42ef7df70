"""Where regions are, in words: the first that fits counts, so a place may lie outside others, told before or below."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from polidiff.explanation.words import MOST_LISTED, names_states, names_text, place_text, rule_text
from polidiff.records.explanation import Explanation, Region, WorseOff
from polidiff.records.numbers import percent
from polidiff.records.rule import overlap

BELOW = ", told below"
MOST_READ_ALOUD = 12  # conditions in one sentence; beyond, its regions are called by their names


def earlier(regions: Sequence[Region]) -> dict[str, list[str]]:
    """Of each region, those before it that overlap it: the first that fits counts. States are never two at once."""
    return {
        region.id: [r.id for r in regions[:k] if not names_states(region.rule) and overlap(r.rule, region.rule)]
        for k, region in enumerate(regions)
    }


def outside(regions: Sequence[Region], known: Collection[str] | None = None) -> dict[str, str]:
    """What must stand behind the place of each region: that it lies outside earlier ones.

    Where only the `known` ones have been introduced to the reader, it says where the others are told.
    """
    return {
        k: f", outside {names_text(before, 'and')}{BELOW * (known is not None and not set(before) <= set(known))}"
        if before
        else ""
        for k, before in earlier(regions).items()
    }


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
        return {k: f"in {k}{' (told below)' * (k == told[0])}" for k in rules}
    return {
        k: f"{place_text(rule)}{f' ({k})' * (k in inside)}{apart[k]}{comma * (not names_states(rule))}"
        for k, rule in rules.items()
    }


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
    return f"{starts} where {rule_text(entry.start)}{apart}"


def beside(regions: Sequence[Region], region: str, *, numbered: bool) -> str:
    """That a region lies outside earlier ones, by their numbers if the reader has them."""
    told = outside(regions)[region]
    return told if numbered or not told else ", outside other regions"
