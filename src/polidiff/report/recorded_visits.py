"""Where the visits that a result holds lie, and how many fall in a box: counted, or bounded.

A result holds states with their shares of visits (of a table or a simulator, at most 400) and pictures, whose cells
know two features. A cell lies in a box, outside, or across its border, and visits that the record does not show may be
anywhere; so a share lies between what is surely there and what may be.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polidiff.records.explanation import Explanation, Region, SampledState
from polidiff.records.numbers import percent
from polidiff.records.rule import Condition, Rule, overlap, within
from polidiff.rules.lists import Kinds, without_any

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
