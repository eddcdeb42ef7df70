"""What a page says, before it is marked up: answers of the first screen, cards, chips and sentences.

The page and the Markdown file are two renderings of these records; the words for rules and sentences are the
terminal's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, TypeAlias

from polidiff.explanation.advice import advise, doubts
from polidiff.explanation.text import carrying_lines, changes_text, loss_text, only_chances, parts_unseen, sentence_text
from polidiff.explanation.words import (
    amount_text,
    bounds_text,
    counted,
    few,
    group_words,
    listing,
    losers,
    number,
    odds_text,
    percent,
    place_text,
    swap_text,
    verdicts_text,
)
from polidiff.records.explanation import (
    Explanation,
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
    where = "1 rule says where; it describes" if rules == 1 else f"{rules} rules say where; they describe"
    told = f"{where} {percent(explanation.quality.recall)} of it"
    if only_chances(explanation):
        share = sum(region.support.share for region in explanation.regions)
        return (Card("of decisions are made with other chances", percent(min(1.0, share)), told),)
    if explanation.world.one_step:
        return (Card("of decisions change", percent(explanation.changes), told),)
    return (Card("changed decisions per episode", number(explanation.changes, 3), told),)


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
    return f"{_changed_amount(explanation)}; {what} where."


def _changed_amount(explanation: Explanation) -> str:
    if only_chances(explanation):
        return "What is done most often stays; how often it is done changes"
    return f"{changes_text(explanation)} change"


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


MOST_NAMED = 3


def answers(explanation: Explanation) -> tuple[Answer, ...]:
    """What changes, is it better, for whom worse, how sure, what now."""
    advice = advise(explanation)
    return (
        Answer("What now?", advice.sentence, advice.reasons),
        Answer("What changes?", _changes(explanation)),
        Answer("Is it better?", _effect(explanation), tuple(carrying_lines(explanation)[:1])),
        Answer("For whom worse?", _losers(explanation)),
        Answer("How sure is that?", _footing(explanation)),
    )


def _changes(explanation: Explanation) -> str:
    regions = explanation.regions
    if parts_unseen(explanation) and not explanation.withheld:
        return "No region was found in which the two policies part, yet outcomes differ."
    if not regions and not explanation.withheld:
        return "Nothing: the two policies act the same wherever it matters."
    share = _changed_amount(explanation)
    if not regions:
        return f"{share}, all in groups too small to be shown."
    largest = sorted(regions, key=lambda region: -region.support.share)[:MOST_NAMED]
    others = len(regions) - len(largest)
    more = f"; {counted(others, 'further rule')} below" if others else ""
    return f"{share}: {'; '.join(f'{swap_text(r)} {place_text(r.rule)}' for r in largest)}{more}."


def reading(verdicts: Sequence[Verdict], outcomes: Sequence[Outcome]) -> str:
    """Whether it is better, in a word, by the outcomes that have a preferred direction.

    An outcome whose effect is unknown keeps a gain from being a plain yes.
    """
    preferred = {outcome.name for outcome in outcomes if outcome.prefer is not None}
    tones = {tone_of(verdict) for verdict in verdicts if verdict.outcome in preferred}
    if not tones:
        return "Not defined"
    if "better" in tones:
        return "In part" if tones & {"worse", "unknown"} else "Yes"
    return "No" if "worse" in tones else "Not known" if "unknown" in tones else "Neither better nor worse"


def effect_text(verdicts: Sequence[Verdict], outcomes: Sequence[Outcome]) -> str:
    """Whether it is better, and what becomes more or less; of many outcomes the most telling first."""
    told = verdicts if len(verdicts) <= MOST_CHIPS else most_telling(verdicts)
    return f"{reading(verdicts, outcomes)}: {verdicts_text(told, outcomes)}."


def _effect(explanation: Explanation) -> str:
    if not explanation.verdicts:
        return "No outcome is defined."
    effect = effect_text(explanation.verdicts, explanation.outcomes)
    if doubts(explanation, [verdict for verdict in explanation.verdicts if verdict.valence is not None]):
        effect = f"In the record, {effect[0].lower()}{effect[1:]}"
    unpreferred = [outcome.name for outcome in explanation.outcomes if outcome.prefer is None]
    asked = f" Whether more or less {listing(unpreferred[:MOST_NAMED])} is better was not said." if unpreferred else ""
    return f"{effect}{asked}"


def _losers(explanation: Explanation) -> str:
    losing = losers(explanation)
    if losing:
        losses: dict[str, list[str]] = {}
        for entry in losing:
            who = f"{group_words(entry)} ({percent(entry.share)})"
            losses.setdefault(who, []).append(loss_text(explanation, entry))
        groups = [f"{who}: {few(lost)}" for who, lost in list(losses.items())[:MOST_NAMED]]
        more = len(losses) - len(groups)
        first = "; ".join(groups)
        return first[0].upper() + first[1:] + (f"; and {counted(more, 'further group')}" if more else "") + "."
    if all(outcome.prefer is None for outcome in explanation.outcomes):
        return "Nobody can say before it is said which outcomes should rise or fall."
    unknown = [verdict for verdict in explanation.verdicts if verdict.direction == "unknown"]
    return "No group is shown to lose" + ("; that is not the same as nobody losing." if unknown else ".")


def _footing(explanation: Explanation) -> str:
    if all(verdict.difference.exact for verdict in explanation.verdicts):
        return "Exact for this table: every state and move of it is known, and nothing was sampled."
    level = percent(explanation.methods.level)
    base = f"All intervals hold together in {level} of such studies; they come from {explanation.methods.evaluation}."
    alarms = [f"{a.name} ({a.status})" for a in explanation.assumptions if a.alarming]
    if alarms:
        return f"{base} In doubt: {few(alarms)}."
    lasting = [v.holds_up_to for v in explanation.verdicts if v.holds_up_to is not None and v.direction != "unknown"]
    return f"{base} {undone_by(min(lasting))}" if lasting else base


def undone_by(strength: float) -> str:
    """How strong unrecorded reasons must be to turn a verdict."""
    return f"Unrecorded reasons that change the odds of a decision {odds_text(strength)} would undo it."
