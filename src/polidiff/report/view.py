"""What a page says, before it is marked up: cards, chips, sentences and tables made from a result.

The page and the Markdown file are two renderings of these records; the words for rules and sentences are the
terminal's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, TypeAlias

from polidiff.explanation.text import changes_text, parts_unseen, sentence_text
from polidiff.explanation.words import (
    amount_text,
    bounds_text,
    counted,
    few,
    group_words,
    losers,
    names_text,
    number,
    rule_text,
    swap_text,
)
from polidiff.explanation.words import percent as percent_text
from polidiff.records.explanation import (
    Explanation,
    Region,
    Sentence,
    Support,
    Verdict,
    WorldSummary,
    WorseOff,
)
from polidiff.records.outcome import Interval, Outcome

Tone: TypeAlias = Literal["better", "worse", "neutral", "same", "unknown"]
MOST_CARDS = 6
MOST_CHIPS = 7
MOST_EFFECTS = 4  # outcomes of which each region's effect is told
MARKS: dict[Tone, str] = {"better": "▲", "worse": "▼", "neutral": "◆", "same": "=", "unknown": "?"}


@dataclass(frozen=True)
class Answer:
    """A question and its answer."""

    question: str
    text: str
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chip:
    """A short reading with its tone; the mark tells the tone without colour."""

    text: str
    tone: Tone
    detail: str = ""

    @property
    def mark(self) -> str:
        """The sign in front."""
        return MARKS[self.tone]


@dataclass(frozen=True)
class Card:
    """One number that matters."""

    label: str
    value: str
    detail: str = ""
    tone: Tone = "neutral"


@dataclass(frozen=True)
class Table:
    """Rows of text under column heads."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class SentenceView:
    """One sentence with what stands behind it."""

    number: int
    text: str
    share: float
    path: tuple[tuple[str, str], ...]  # region id, swap
    chips: tuple[Chip, ...]
    support: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class WorseView:
    """One group that loses something."""

    who: str
    share: str
    what: str
    difference: str


def percent(share: float | None) -> str:
    """A share in words; a dash where there is none.

    >>> percent(0.125), percent(None)
    ('12 %', '–')
    """
    return "–" if share is None or math.isnan(share) else percent_text(share)


def tone_of(verdict: Verdict) -> Tone:
    """How a verdict looks."""
    if verdict.direction == "same":
        return "same"
    if verdict.direction == "unknown":
        return "unknown"
    return verdict.valence or "neutral"


def chip_of(verdict: Verdict, outcomes: Sequence[Outcome]) -> Chip:
    """A verdict as a chip: the outcome's own words, and the interval that decides."""
    outcome = next((o for o in outcomes if o.name == verdict.outcome), None)
    tone = tone_of(verdict)
    if tone == "same":
        return Chip(f"{verdict.outcome}: no difference", tone, verdict.note or "")
    if tone == "unknown":
        return Chip(
            f"{verdict.outcome}: unknown",
            tone,
            verdict.note or bounds_text(verdict.difference, outcome, difference=True),
        )
    words = outcome.phrase("more" if verdict.direction == "more" else "less") if outcome else verdict.outcome
    return Chip(f"{words}, by {amount_text(verdict.difference, outcome)}", tone, verdict.note or "")


def most_telling(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Losses and gains in turn, then differences without a preference, what is unknown, what stays the same."""
    groups = {tone: [v for v in verdicts if tone_of(v) == tone] for tone in MARKS}
    decided = [v for pair in zip_longest(groups["worse"], groups["better"]) for v in pair if v is not None]
    return [*decided, *groups["neutral"], *groups["unknown"], *groups["same"]]


def outcome_cards(explanation: Explanation) -> tuple[Card, ...]:
    """Current → proposed for every outcome; of many, for the most telling ones."""
    cards = []
    many = len(explanation.verdicts) > MOST_CARDS
    for verdict in (most_telling(explanation.verdicts) if many else explanation.verdicts)[:MOST_CARDS]:
        outcome = next((o for o in explanation.outcomes if o.name == verdict.outcome), None)
        cards.append(
            Card(verdict.outcome, _before_and_after(verdict, outcome), _reading(verdict, outcome), tone_of(verdict))
        )
    return tuple(cards)


def differs(explanation: Explanation) -> bool:
    """Whether there is anything to tell below the first screen."""
    told = bool(explanation.regions or explanation.withheld or explanation.worse_off)
    return told or any(verdict.direction != "same" for verdict in explanation.verdicts)


def further_outcomes(explanation: Explanation) -> str:
    """How many outcomes have no card."""
    more = len(explanation.verdicts) - MOST_CARDS
    return f"{counted(more, 'more outcome')} in the table below." if more > 0 else ""


def _before_and_after(verdict: Verdict, outcome: Outcome | None) -> str:
    if verdict.current is None or verdict.proposed is None:
        return bounds_text(Interval.exactly(verdict.difference.estimate), outcome, difference=True)
    before, after = (
        bounds_text(Interval.exactly(side.estimate), outcome) for side in (verdict.current, verdict.proposed)
    )
    unit = f" {outcome.unit}" if outcome is not None and outcome.unit else ""
    return f"{before.removesuffix(unit)} → {after}"


def _reading(verdict: Verdict, outcome: Outcome | None) -> str:
    """The difference in words and figures; amounts behind better and worse have no sign."""
    tone = tone_of(verdict)
    if tone in ("better", "worse"):
        return f"{tone} by {amount_text(verdict.difference, outcome)}"
    if tone == "same" and verdict.difference.low == verdict.difference.high == 0:
        return "no difference"
    words = {"same": "no difference: ", "unknown": "unknown: "}.get(tone, "")
    return f"{words}{bounds_text(verdict.difference, outcome, difference=True)}"


def summary_cards(explanation: Explanation) -> tuple[Card, ...]:
    """How much changes, and how much of it the rules describe."""
    if not explanation.regions:
        return ()
    rules = len(explanation.regions)
    where = "1 rule says where" if rules == 1 else f"{rules} rules say where"
    told = f"{where}; they describe {percent(explanation.quality.recall)} of it"
    if explanation.world.one_step:
        return (Card("of decisions change", percent(explanation.changes), told),)
    return (Card("changed decisions per episode", number(explanation.changes), told),)


def headline(explanation: Explanation) -> str:
    """The result in one line."""
    if not explanation.regions and explanation.withheld:
        return f"{changes_text(explanation)} change, in groups too small to be shown."
    if parts_unseen(explanation):
        return "Outcomes differ, though no region was found in which the two policies part."
    if not explanation.regions:
        return "The two policies act the same wherever it matters."
    rules = len(explanation.regions)
    what = "one rule tells" if rules == 1 else f"{rules} rules tell"
    return f"{changes_text(explanation)} change; {what} where."


def sentence_views(explanation: Explanation) -> tuple[SentenceView, ...]:
    """All sentences, as cards."""
    swaps = {region.id: swap_text(region, short=True) for region in explanation.regions}
    return tuple(
        SentenceView(
            place,
            sentence_text(explanation, sentence, figures=False),
            sentence.share,
            tuple((region, swaps.get(region, "")) for region in sentence.path),
            _chips(sentence.verdicts, explanation.outcomes),
            support_text(sentence.support, explanation.world),
            tuple(_sentence_notes(sentence)),
        )
        for place, sentence in enumerate(explanation.sentences, start=1)
    )


def _chips(verdicts: Sequence[Verdict], outcomes: Sequence[Outcome]) -> tuple[Chip, ...]:
    if len(verdicts) <= MOST_CHIPS:
        return tuple(chip_of(verdict, outcomes) for verdict in verdicts)
    told = tuple(chip_of(verdict, outcomes) for verdict in most_telling(verdicts)[: MOST_CHIPS - 1])
    return (*told, Chip(counted(len(verdicts) - len(told), "more outcome"), "same"))


def _sentence_notes(sentence: Sentence) -> Iterable[str]:
    if sentence.path and sentence.path_share < 0.9995:
        yield f"{percent(sentence.path_share)} of these episodes follow exactly this path"
    for other in sentence.others[:2]:
        yield f"{percent(other.share)}: {' → '.join(other.path) or 'no difference met'}"
    for meeting in sentence.meetings[:4]:
        yield f"{meeting.region} is first met after {number(meeting.first, 2)} decisions"


def support_text(support: Support, world: WorldSummary) -> str:
    """What stands behind a region or a sentence, in words."""
    people = "people" in world.facts
    episodes = "starts" if world.enumerated else "people" if people else "episodes"
    parts = [_count(support.episodes, episodes), _count(support.states, "states")]
    if world.one_step and not people:
        parts = [_count(support.episodes, "decisions")]
    if support.unsupported:
        parts.append(f"{percent(support.unsupported)} of its visits beyond the log")
    return ", ".join(parts)


def _count(count: int, plural: str) -> str:
    one = "person" if plural == "people" else plural[:-1]
    return f"1 {one}" if count == 1 else f"{count:,} {plural}".replace(",", "\u202f")


def worse_views(explanation: Explanation) -> tuple[WorseView, ...]:
    """Who loses what, the worst first."""
    return tuple(_worse_view(group, explanation) for group in losers(explanation))


def _worse_view(group: WorseOff, explanation: Explanation) -> WorseView:
    outcome = next((o for o in explanation.outcomes if o.name == group.outcome), None)
    direction: Literal["more", "less"] = "more" if group.difference.estimate > 0 else "less"
    return WorseView(
        group_words(group),
        percent(group.share),
        outcome.phrase(direction) if outcome else group.outcome,
        f"by {amount_text(group.difference, outcome)}",
    )


def nobody_worse(explanation: Explanation) -> str:
    """What to say when no group is worse off."""
    judged = [outcome.name for outcome in explanation.outcomes if outcome.prefer is not None]
    if not judged:
        return "No outcome has a preferred direction, so “worse” is not defined. Set prefer = “more” or “less”."
    verdicts = (*explanation.verdicts, *(v for sentence in explanation.sentences for v in sentence.verdicts))
    unknown = sum(verdict.direction == "unknown" for verdict in verdicts)
    if unknown:
        remain = "1 comparison remains" if unknown == 1 else f"{unknown} comparisons remain"
        return f"No group is shown to be worse off, but {remain} unknown."
    return f"No group of starts is worse off on {few(judged)}."


def tails_table(explanation: Explanation) -> Table:
    """The worst tenth beside the mean."""
    outcomes = {outcome.name: outcome for outcome in explanation.outcomes}
    rows = tuple(
        (
            t.outcome,
            *(_difference(value, outcomes.get(t.outcome)) for value in (t.mean, t.worst_tenth)),
            percent(t.share_worse),
        )
        for t in explanation.tails
    )
    return Table(("outcome", "mean difference", "worst tenth of starts", "starts worse off"), rows)


def _difference(value: float, outcome: Outcome | None) -> str:
    return bounds_text(Interval.exactly(value), outcome, difference=True)


def regions_table(explanation: Explanation) -> Table:
    """Every region: where, what, how sure."""
    rows = tuple(
        (
            region.id,
            region_where(region),
            swap_text(region, short=True),
            percent(region.support.share),
            support_text(region.support, explanation.world),
            percent(region.precision),
            percent(region.recall),
        )
        for region in explanation.regions
    )
    return Table(("region", "where", "instead", "decisions", "behind it", "precision", "recall"), rows)


def effects_table(explanation: Explanation) -> Table:
    """What each change does alone, and what the others do without it; for the most telling outcomes."""
    outcomes = {outcome.name: outcome for outcome in explanation.outcomes}
    names = [verdict.outcome for verdict in most_telling(explanation.verdicts)][:MOST_EFFECTS]
    if len(explanation.regions) < 2:  # one change alone is the whole difference
        return Table((), ())
    rows = tuple(
        (
            region.id,
            name,
            *(
                bounds_text(side[name], outcomes.get(name), difference=True) if name in side else "never ends"
                for side in (region.effect.alone, region.effect.without)
            ),
        )
        for region in explanation.regions
        if region.effect is not None
        for name in names
    )
    return Table(("change", "outcome", "this change alone", "all changes but this one"), rows)


def region_where(region: Region) -> str:
    """Where a region is, in words."""
    if region.merged and region.states:
        return f"in {names_text(region.states)}"
    return rule_text(region.rule)


def outcomes_table(explanation: Explanation) -> Table:
    """Every outcome over all starts, with both intervals."""
    outcomes = {outcome.name: outcome for outcome in explanation.outcomes}
    rows = tuple(
        (
            v.outcome,
            bounds_text(v.current, outcomes.get(v.outcome)) if v.current else "–",
            bounds_text(v.proposed, outcomes.get(v.outcome)) if v.proposed else "–",
            bounds_text(v.difference, outcomes.get(v.outcome), difference=True),
            f"{v.direction}{f' ({v.valence})' if v.valence else ''}",
            v.note or (f"{percent(v.unsupported)} unsupported" if v.unsupported else ""),
        )
        for v in (
            most_telling(explanation.verdicts) if len(explanation.verdicts) > MOST_CARDS else explanation.verdicts
        )
    )
    return Table(("outcome", "current", "proposed", "difference", "verdict", "note"), rows)


def group_table(explanation: Explanation, outcome: str) -> Table:
    """One outcome for every group."""
    groups = [("All starts", explanation.verdicts)]
    groups += [(f"Group {n}", sentence.verdicts) for n, sentence in enumerate(explanation.sentences, start=1)]
    of = next((o for o in explanation.outcomes if o.name == outcome), None)
    rows = tuple(
        (group, bounds_text(v.difference, of, difference=True), v.direction, v.valence or "–")
        for group, verdicts in groups
        for v in verdicts
        if v.outcome == outcome
    )
    return Table(("starts", "difference", "verdict", "reading"), rows, f"{outcome}: proposed − current")
