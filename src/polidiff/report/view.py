"""What only the page shows: cards, chips, and the sentences with what stands behind them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polidiff.explanation.said import MARKS, MOST_CHIPS, Tone, most_telling, tone_of
from polidiff.explanation.text import (
    MOST_IN_A_ROW,
    acts_the_same,
    idle_text,
    only_chances,
    sentence_text,
    unit_noun,
    unit_text,
)
from polidiff.explanation.words import (
    amount_text,
    before_and_after,
    bounds_text,
    changes_numbers,
    estimate_text,
    moved_text,
    swap_text,
)
from polidiff.records.explanation import Explanation, Sentence, Support, Verdict, WorldSummary
from polidiff.records.numbers import counted, number, percent
from polidiff.records.outcome import Outcome

MOST_CARDS = 6
LEAST_SHARE = 0.01  # of a group's episodes: a path of fewer is not told
MOST_EFFECTS = 4  # outcomes of which each region's effect is told


@dataclass(frozen=True)
class Chip:
    """A short reading with its tone; the mark tells the tone without colour."""

    text: str
    tone: Tone

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
class SentenceView:
    """One sentence with what stands behind it."""

    number: int
    text: str
    share: float
    starts: str  # what it is a share of
    path: tuple[tuple[str, str], ...]  # region id, swap
    chips: tuple[Chip, ...]
    support: str
    notes: tuple[str, ...]


def chip_of(verdict: Verdict, outcomes: Sequence[Outcome]) -> Chip:
    """A verdict as a chip: the outcome's own words, and the interval that decides."""
    outcome = next(o for o in outcomes if o.name == verdict.outcome)
    tone = tone_of(verdict)
    if tone == "same":
        return Chip(f"{verdict.outcome}: no difference", tone)
    if tone == "unknown":
        return Chip(f"{verdict.outcome}: {_unknown(verdict, outcome, ', ')}", tone)
    return Chip(moved_text(outcome, verdict.difference), tone)


def group_verdicts(explanation: Explanation, outcome: str) -> list[tuple[str, Verdict]]:
    """What becomes of an outcome for all starts, then for each group."""
    groups = [(f"All {explanation.world.starts}", explanation.verdicts)]
    groups += [(f"Group {n}", sentence.verdicts) for n, sentence in enumerate(explanation.sentences, start=1)]
    return [(group, verdict) for group, verdicts in groups for verdict in verdicts if verdict.outcome == outcome]


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
    has_parts = bool(explanation.regions or explanation.withheld or explanation.worse_off)
    return has_parts or any(verdict.direction != "same" for verdict in explanation.verdicts)


def further_outcomes(explanation: Explanation) -> str:
    """How many outcomes have no card."""
    more = len(explanation.verdicts) - MOST_CARDS
    return f"{counted(more, 'more outcome')} in the table below." if more > 0 else ""


def _before_and_after(verdict: Verdict, outcome: Outcome | None) -> str:
    if verdict.current is None or verdict.proposed is None:
        return estimate_text(verdict.difference, outcome, difference=True)
    return before_and_after(verdict.current, verdict.proposed, outcome)


def _reading(verdict: Verdict, outcome: Outcome | None) -> str:
    """The difference in words and figures; amounts behind better and worse have no sign."""
    tone = tone_of(verdict)
    if tone in ("better", "worse"):
        return f"{tone} by {amount_text(verdict.difference, outcome)}"
    if tone == "same" and verdict.difference.low == verdict.difference.high == 0:
        return "no difference"
    if tone == "unknown":
        return _unknown(verdict, outcome, ": ")
    return f"{'no difference: ' * (tone == 'same')}{bounds_text(verdict.difference, outcome, difference=True)}"


def _unknown(verdict: Verdict, outcome: Outcome | None, before: str) -> str:
    """That an effect is not known, and what is known of it; or why nothing is."""
    if math.isnan(verdict.difference.estimate):
        return verdict.note or "unknown"
    return f"unknown{before}{bounds_text(verdict.difference, outcome, difference=True)}"


def summary_cards(explanation: Explanation) -> tuple[Card, ...]:
    """How much changes, and how much of it the rules describe."""
    if not explanation.regions:
        return ()
    rules = len(explanation.regions)
    where = "1 rule says where; it describes" if rules == 1 else f"{rules} rules say where; they describe"
    telling = " that make a difference" * bool(idle_text(explanation))
    described = f"{where} {percent(explanation.quality.recall)} of the changes{telling}"
    if only_chances(explanation):
        share = sum(region.support.share for region in explanation.regions)
        return (Card("of decisions are made with other chances", percent(min(1.0, share)), described),)
    if explanation.world.one_step:
        return (Card("of decisions change", percent(explanation.changes), described),)
    count, between = changes_numbers(explanation)
    return (Card(unit_text(explanation.world), count, f"{between}{between and '; '}{described}"),)


def sentence_views(explanation: Explanation) -> tuple[SentenceView, ...]:
    """All sentences, as cards."""
    swaps = {region.id: swap_text(region, short=True) for region in explanation.regions}
    return tuple(
        SentenceView(
            place,
            sentence_text(explanation, sentence, figures=False),
            sentence.share,
            explanation.world.starts,
            tuple((region, swaps.get(region, "")) for region in sentence.path),
            _chips(() if acts_the_same(explanation, sentence) else sentence.verdicts, explanation.outcomes),
            support_text(sentence.support, explanation.world),
            tuple(_sentence_notes(sentence)),
        )
        for place, sentence in enumerate(explanation.sentences, start=1)
    )


def _chips(verdicts: Sequence[Verdict], outcomes: Sequence[Outcome]) -> tuple[Chip, ...]:
    """A chip for every verdict; of many for the most telling, as the sentence says how many there are."""
    shown = verdicts if len(verdicts) <= MOST_CHIPS else most_telling(verdicts)[: MOST_CHIPS - 1]
    return tuple(chip_of(verdict, outcomes) for verdict in shown)


def _sentence_notes(sentence: Sentence) -> Iterable[str]:
    for other in [o for o in sentence.others if o.share >= LEAST_SHARE and len(o.path) <= MOST_IN_A_ROW][:2]:
        met = f"meet {' → '.join(other.path)} and nothing else" if other.path else "meet no difference"
        yield f"{percent(other.share)} of these episodes {met}"
    for meeting in sentence.meetings[:4]:
        after = number(meeting.first, 2)
        when = "at once" if after == "0" else f"after {after} decision{'s' * (after != '1')}"
        yield f"{meeting.region} is first met {when}"


def support_text(support: Support, world: WorldSummary, *, rows: bool = False) -> str:
    """What stands behind a sentence, or behind a region with its `rows`, in words.

    All states of a table are known, and nobody has to visit them. What a simulator visits differs in every visit.
    """
    people = "people" in world.facts
    parts = [counted(support.episodes, unit_noun(world))]
    if world.enumerated:
        parts = [counted(support.states, "state" if rows else "start")]
    elif rows and world.recorded and (people or not world.one_step):  # of features, every row is a state of its own
        parts.append(counted(support.states, "state" if "state" in world.people else "row"))
    if support.unsupported:
        parts.append(f"{percent(support.unsupported)} of its visits beyond the log")
    return ", ".join(parts)
