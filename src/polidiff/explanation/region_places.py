"""Where regions are, in words: the first that fits counts, so a place may lie outside others, told before or below."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from polidiff.explanation.words import names_states, names_text, place_text
from polidiff.records.explanation import Region
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
