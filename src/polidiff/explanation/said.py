"""What is said about a result: one record, which terminal, Markdown file and page render.

Whether something is said, in which words and after what else is decided here, once. A block is a heading with its
lines; the five answers are what whoever has to decide asks first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal, TypeAlias

from polidiff.explanation.advice import advise, doubts, evidence, lasting
from polidiff.explanation.region_places import carrying_lines, group_words, losers, outside
from polidiff.explanation.text import (
    acts_the_same,
    changes_text,
    idle_text,
    loss_text,
    mostly_told,
    only_chances,
    parts_unseen,
    people_text,
    played_text,
    quality_text,
    region_text,
    rests_on_lines,
    sentence_text,
    unit_noun,
    untold,
    whose_decisions,
    worse_off_text,
)
from polidiff.explanation.verdict_words import verdicts_text
from polidiff.explanation.words import at_times, few, listing, names_states, names_text, place_text, swap_words
from polidiff.records.explanation import Explanation, Region, Verdict
from polidiff.records.numbers import counted, percent
from polidiff.records.outcome import Outcome
from polidiff.records.plan import UNKNOWN_GAIN, Frontier
from polidiff.records.suppression import suppressed

Tone: TypeAlias = Literal["better", "worse", "neutral", "same", "unknown"]
Kind: TypeAlias = Literal[
    "whole", "groups", "worse", "where", "carries", "now", "quality", "gains", "ledger", "rests", "differences",
    "outcomes", "notes",
]  # fmt: skip
MOST_CHIPS = 7  # outcomes told one by one
MOST_NAMED = 3
MOST_TOLD = 1  # of many outcomes that get better, and of those that get worse
MOST_LETTERS = 180  # about who loses, on the first screen
MOST_PLACED = 240  # letters about what changes where, on the first screen
MOST_LINES = 12  # of one block in a terminal
MOST_BOUNDS = 9  # of rules told on the first screen
MOST_FEATURES = 3  # of rules that are not
MARKS: dict[Tone, str] = {"better": "▲", "worse": "▼", "neutral": "◆", "same": "=", "unknown": "?"}
TONE_WORDS: dict[Tone, str] = {
    "better": "get better",
    "worse": "get worse",
    "neutral": "change without a preferred direction",
    "same": "stay the same",
    "unknown": "are unknown",
}


@dataclass(frozen=True)
class Answer:
    """A question and its answer."""

    question: str
    text: str
    more: tuple[str, ...] = ()

    @property
    def spoken(self) -> str:
        """The whole answer in one line."""
        return " ".join((self.text, *self.more))


@dataclass(frozen=True)
class Block:
    """Lines under a heading; one line that is no list is a sentence of its own."""

    kind: Kind
    title: str
    lines: tuple[str, ...]
    listed: bool = True

    def first(self, most: int) -> tuple[str, ...]:
        """The first lines, and how many there are beyond them.

        >>> Block("notes", "Note", ("a", "b", "c")).first(1)
        ('a', 'and 2 more, in the JSON file')
        """
        left = len(self.lines) - most
        return (*self.lines[:most], f"and {left} more, in the JSON file") if left > 0 else self.lines


@dataclass(frozen=True)
class Said:
    """All that is said about a result, in order."""

    title: str
    opening: tuple[str, ...]
    answers: tuple[Answer, ...]
    blocks: tuple[Block, ...]

    def lines(self, kind: Kind) -> tuple[str, ...]:
        """What is said of one kind."""
        return tuple(line for block in self.blocks if block.kind == kind for line in block.lines)

    def text(self) -> str:
        """As printed in a terminal."""
        parts = list(self.opening)
        for block in self.blocks:
            if block.listed:
                head = [f"{block.title}:"] if block.title else []
                parts += ["", *head, *(f"• {line}" for line in block.first(MOST_LINES))]
            else:
                parts += ["", *(f"{block.title}: {line}" for line in block.lines)]
        return "\n".join(parts)


def blocks_of(*blocks: Block) -> tuple[Block, ...]:
    """Blocks that have something to say."""
    return tuple(block for block in blocks if block.lines)


def render(explanation: Explanation) -> str:
    """The whole explanation, as printed."""
    return say(suppressed(explanation)).text()


def say(explanation: Explanation) -> Said:
    """What is said about a difference."""
    paper = explanation.methods.style == "paper"
    answered = answers(explanation)
    groups = tuple(sentence_text(explanation, sentence) for sentence in explanation.sentences)
    worse = tuple(worse_off_text(explanation, entry) for entry in losers(explanation))
    apart = outside(explanation.regions)
    noun = unit_noun(explanation.world)
    actions, regions = explanation.world.actions, () if paper else explanation.regions
    where = tuple(region_text(region, apart[region.id], noun, actions) for region in regions)
    whose = whose_decisions(explanation)
    now = () if paper else (answered[0].spoken,)
    blocks = blocks_of(
        _told_whole(explanation),
        Block("groups", "", groups),
        Block("worse", "Worse off", worse),
        Block("where", f"Where they differ ({whose})" if whose else "Where they differ", where),
        Block("carries", "Which change does it", tuple(carrying_lines(explanation, [r.id for r in regions]))),
        Block("now", "What now", now, listed=False),
        Block("quality", "How true this is", (quality_text(explanation),), listed=False),
        *closing(explanation),
    )
    return Said("What the proposed policy changes", tuple(_opening(explanation)), answered, blocks)


def closing(record: Explanation | Frontier) -> tuple[Block, ...]:
    """What a result rests on, and what is to be kept in mind."""
    best: tuple[str, ...] = ()
    if isinstance(record, Frontier):
        unshown = record.plans if record.best is record.plans[0] else ()  # why not even the first of them is the best
        told = next((plan for plan in unshown if plan.warnings), record.best)
        notes = [note for note in told.warnings if not note.startswith(UNKNOWN_GAIN)]
        best = tuple(note.replace("this plan", f"plan {record.number(told)}") for note in notes)
        best += _unknown_gains(record)
        others = [k for k, plan in enumerate(record.plans) if not plan.kept and plan.patch.edits and plan is not told]
        best += (f"not shown to keep the guards: {_plans_named(others)}",) if others else ()
    return (
        Block("rests", "What this rests on", tuple(rests_on_lines(record))),
        Block("notes", "Note", (*record.warnings, *best)),
    )


def _unknown_gains(frontier: Frontier) -> tuple[str, ...]:
    """Why gains are not known, each reason once behind the numbers of the plans that share it."""
    plans: dict[str, list[int]] = {}
    for k, plan in enumerate(frontier.plans):
        for note in plan.warnings:
            if note.startswith(UNKNOWN_GAIN):
                plans.setdefault(note.removeprefix(UNKNOWN_GAIN), []).append(k)
    return tuple(f"what {_plans_named(some)} would gain is not known: {reason}" for reason, some in plans.items())


def _plans_named(numbers: Sequence[int]) -> str:
    return f"plan{'s' * (len(numbers) > 1)} {names_text([str(k) for k in numbers], 'and')}"


def _opening(explanation: Explanation) -> Iterator[str]:
    overall = verdicts_text(explanation.verdicts, explanation.outcomes)
    yield _what_differs(explanation)
    if overall and (explanation.regions or explanation.withheld or parts_unseen(explanation)):
        if_so = lasting(explanation.verdicts) if explanation.methods.style != "paper" else ""
        some = any(verdict.direction == "unknown" for verdict in explanation.verdicts)
        if_so = if_so and (f". What is decided holds{if_so}" if some else f",{if_so}")
        yield f"Over all {explanation.world.starts}: {overall}{if_so}."


def _told_whole(explanation: Explanation) -> Block:
    """The proposed policy by itself, where it differs from the current one nearly everywhere."""
    scores = [form.action_accuracy for form in explanation.quality.forms if form.form == "complete policy"]
    right = f" (right in {percent(scores[0])} of visits)" if scores else ""
    title = f"The policies differ nearly everywhere, so the proposed policy is told whole{right}"
    whole = explanation.forms["complete policy"].splitlines() if explanation.lead == "complete" else ()
    return Block("whole", title, tuple(whole))


def _what_differs(explanation: Explanation) -> str:
    count = len(explanation.regions)
    if not count:
        return _changes(explanation).replace("Nothing: the", "The")
    regions = "one region" if count == 1 else f"{count} regions"
    if only_chances(explanation):
        return f"They differ in {regions}, only in how often an action is chosen."
    idle, changes = idle_text(explanation), changes_text(explanation)
    aside = idle and f"; {idle}"
    if mostly_told(explanation):
        return f"They differ in {regions}, in {changes}{aside}."
    tell = f"{regions} tell{'s' * (count == 1)} {percent(explanation.quality.recall)} of"
    return f"They differ in {changes}{aside}; {tell} {'the others' if idle else 'these'}."


def tone_of(verdict: Verdict) -> Tone:
    """How a verdict looks."""
    if verdict.direction == "same":
        return "same"
    if verdict.direction == "unknown":
        return "unknown"
    return verdict.valence or "neutral"


def most_telling(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Losses and gains in turn, then differences without a preference, what is unknown, what stays the same."""
    groups = {tone: [v for v in verdicts if tone_of(v) == tone] for tone in MARKS}
    decided = [v for pair in zip_longest(groups["worse"], groups["better"]) for v in pair if v is not None]
    return [*decided, *groups["neutral"], *groups["unknown"], *groups["same"]]


def answers(explanation: Explanation) -> tuple[Answer, ...]:
    """What changes, is it better, for whom worse, how sure, what now."""
    advice = advise(explanation)
    return (
        Answer("What now?", advice.sentence, advice.reasons),
        Answer("What changes?", _changes(explanation)),
        Answer("Is it better?", judged_effect(explanation, explanation.verdicts)),
        Answer("For whom worse?", _losers(explanation)),
        Answer("How sure is that?", _footing(explanation)),
    )


def _changes(explanation: Explanation) -> str:
    regions = explanation.regions
    if (parts_unseen(explanation) or untold(explanation)) and not explanation.withheld:
        return f"No region was found in which the two policies part{_apart_unseen(explanation)}."
    if not regions and not explanation.withheld:
        return "Nothing: the two policies act the same wherever it matters."
    if not regions and not explanation.changes:
        unit = explanation.world.counted_in
        who = "Fewer than" if unit == "decisions" else "Only decisions of fewer than"
        return f"{who} {explanation.methods.min_group} {unit} change, which are not shown."
    idle = idle_text(explanation)
    share = f"{changes_text(explanation)} change{idle and f' ({idle})'}"
    share = "How often actions are chosen changes" if only_chances(explanation) else share
    return f"{share}: {_swaps(regions)}" if regions else f"{share}, all in groups too small to be shown."


def _swaps(regions: Sequence[Region]) -> str:
    """What is done where in the largest regions; of long rules the features that they depend on."""
    largest = sorted(regions, key=lambda region: -region.support.share)
    bounds = sum(region.rule.literals for region in largest[:MOST_NAMED])
    long = bounds > MOST_BOUNDS or len(place_text(largest[0].rule)) > MOST_PLACED
    alike: dict[str, list[Region]] = {}  # states, and places too long to tell, by what is done there
    for region in largest:
        alike.setdefault(_done(region) if long or names_states(region.rule) else region.id, []).append(region)
    shown = list(alike.values())[:MOST_NAMED]
    texts = [_change(group, regions, long=long) for group in shown]
    while len(texts) > 1 and len("".join(texts)) > MOST_PLACED:
        texts.pop(), shown.pop()
    told = [region for group in shown for region in group]
    features = list(dict.fromkeys(name for region in told for name in region.rule.features))
    features = (
        features if len("".join(features[:MOST_FEATURES])) < MOST_PLACED / 2 else [counted(len(features), "feature")]
    )
    they = "The regions depend" if len(told) > 1 else "The region depends"
    depend = f" {they} on {few(features, most=MOST_FEATURES)}." if long and not names_states(told[0].rule) else ""
    parts = list(dict.fromkeys(name for region in told if region.direction for name in region.direction.also))
    beside = f" Other parts of the action ({few(parts)}) may change too." if parts else ""
    others = len(regions) - len(told)
    more = f"; {counted(others, 'further rule')} below" if others else ""
    return f"{'; '.join(texts)}{more}.{depend}{beside}"


def _apart_unseen(explanation: Explanation) -> str:
    """What is known where no region tells a difference."""
    deeds = f"they act otherwise in {changes_text(explanation)}"
    if not parts_unseen(explanation):
        same = all(verdict.direction == "same" for verdict in explanation.verdicts)
        return f": {deeds}, and {'no outcome was seen to differ' if same else 'whether that matters is not known'}"
    where = f": {deeds}, and the difference is in decisions whose effect no single comparison shows"
    return f", yet outcomes differ{where if untold(explanation) else ''}"


def _change(group: Sequence[Region], regions: Sequence[Region], *, long: bool) -> str:
    """What is done where, behind the number by which the page refers to it and tells long rules in full."""
    region = group[0]
    if names_states(region.rule):
        names = [str(name) for one in regions if one in group for name in one.rule.conditions[0].values or ()]
        return f"{_done(region)} in {names_text(names, 'and' if len(group) > 1 else 'or')}"
    if long:
        numbers = names_text([one.id for one in regions if one in group], "and")
        numbers = numbers if len(group) <= MOST_CHIPS else f"{len(group)} regions"
        return f"{_done(region)} in {numbers}"
    return f"{region.id}, {_done(region)} {place_text(region.rule)}{outside(regions)[region.id]}"


def _done(region: Region) -> str:
    """What is done in a region, without figures: what is done at times only is done more or less often."""
    direction, shift = region.direction and replace(region.direction, also=()), region.shift
    if direction is None and shift is not None:
        often = "more" if shift.proposed > shift.current else "less"
        return f"{listing([region.current, *(o.action for o in shift.also if often == 'more')])} {often} often"
    if direction is None and at_times(region):
        return f"{region.proposed} more often"
    return swap_words(region.current, region.proposed, None, direction)


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
    if "worse" in tones:
        return "No, as far as is known" if "unknown" in tones else "No"
    return "Not known" if "unknown" in tones else "Neither better nor worse"


def effect_text(verdicts: Sequence[Verdict], outcomes: Sequence[Outcome]) -> str:
    """Whether it is better, and what becomes more or less; of many outcomes how many, and the first of them."""
    groups = {tone: [v for v in verdicts if tone_of(v) == tone] for tone in MARKS}
    if len(verdicts) > MOST_CHIPS:
        counts = few([f"{len(group)} {TONE_WORDS[tone]}" for tone, group in groups.items() if group])
        first = [
            f" {tone.capitalize()}, among others: {verdicts_text(groups[tone][:MOST_TOLD], outcomes)}."
            for tone in MARKS
            if tone in ("better", "worse") and groups[tone]
        ]
        return f"{reading(verdicts, outcomes)}: of {len(verdicts)} outcomes {counts}.{''.join(first)}"
    aside = groups["neutral"] if len(groups["neutral"]) < len(verdicts) else []
    told = verdicts_text([v for v in verdicts if v not in aside], outcomes)
    besides = f" Not called better or worse: {verdicts_text(aside, outcomes)}." if aside else ""
    return f"{reading(verdicts, outcomes)}: {told}.{besides}"


def judged_effect(record: Explanation | Frontier, verdicts: Sequence[Verdict]) -> str:
    """Whether it is better; where evidence is in doubt, that it is so there. Why it is in doubt, the advice says."""
    if not verdicts:
        return "No outcome is defined."
    if not doubts(record, [verdict for verdict in verdicts if verdict.valence is not None]):
        return effect_text(verdicts, record.outcomes)
    plain = [v if v.direction == "unknown" else replace(v, note=None) for v in verdicts]
    effect = effect_text(plain, record.outcomes)
    return f"In {evidence(record)}, {effect[0].lower()}{effect[1:]}"


def _losers(explanation: Explanation) -> str:
    losing = losers(explanation)
    if losing:
        losses: dict[str, list[str]] = {}
        for entry in losing:
            # the answer above has the figures of all starts; the section below has bounds
            loss = loss_text(explanation, entry, "none" if entry.start is None else "estimate")
            losses.setdefault(group_words(explanation, entry, share=True), []).append(loss)
        groups = [f"{who}: {few(lost)}" for who, lost in list(losses.items())[:MOST_NAMED]]
        least = len(losses) <= MOST_CHIPS  # of many groups a long one need not be told
        while len(groups) > least and len("".join(groups)) > MOST_LETTERS:
            groups.pop()
        more = len(losses) - len(groups)
        first = "; ".join(groups) + f"; and {counted(more, 'further group')}" * bool(more)
        first = first if groups else f"{more} groups of {explanation.world.starts} lose, told below"
        return f"{first[0].upper()}{first[1:]}.{_widest_loss(explanation) if more else ''}"
    if all(outcome.prefer is None for outcome in explanation.outcomes):
        return "Nobody can say before it is said which outcomes should rise or fall (prefer = “more” or “less”)."
    changed = [sentence for sentence in explanation.sentences if not acts_the_same(explanation, sentence)]
    verdicts = (*explanation.verdicts, *(v for sentence in changed for v in sentence.verdicts))
    unknown = sum(verdict.direction == "unknown" for verdict in verdicts)
    if not unknown:
        return "No group is shown to lose."
    remain = "1 comparison remains" if unknown == 1 else f"{unknown} comparisons remain"
    return f"No group is shown to lose, but {remain} unknown."


def _widest_loss(explanation: Explanation) -> str:
    """Of many groups that lose: on which outcome most starts do."""
    widest = max(explanation.tails, key=lambda tail: tail.share_worse, default=None)
    if widest is None or not widest.share_worse:
        return ""
    share = f"{percent(widest.share_worse)} of {explanation.world.starts}"
    return f" On {widest.outcome}, {share} lose, on no other outcome more."


def _footing(explanation: Explanation) -> str:
    if all(verdict.difference.exact for verdict in explanation.verdicts):
        known, played = "Exact for this table: every state and move of it is known", played_text(explanation)
        if not played:
            return f"{known}, and nothing was sampled."
        return f"{known}. Only the shares of episodes that meet changes come from {played}."
    level, world = percent(explanation.methods.level), explanation.world
    hold = "each interval holds" if explanation.methods.style == "paper" else "all intervals hold at once"
    behind = explanation.methods.evaluation.replace("paired", "played")
    if world.recorded:
        behind = f"the records of {people_text(world)}"
    return f"In {level} of such studies {hold}; they rest on {behind}.{in_doubt(explanation)}"


def in_doubt(record: Explanation | Frontier) -> str:
    """Which assumptions speak against a result; nothing where none does."""
    alarms = [f"{a.name} ({a.status})" for a in record.assumptions if a.alarming]
    return f" In doubt: {few(alarms)}." if alarms else ""
