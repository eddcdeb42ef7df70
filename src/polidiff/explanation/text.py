"""Sentences about a difference: groups of starts, regions, who loses, how true it is, what it rests on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from polidiff.explanation.words import (
    MOST_LISTED,
    amount_text,
    counted,
    group_words,
    interval_text,
    listing,
    names_states,
    names_text,
    percent,
    place_text,
    rule_text,
    swap_text,
    verdicts_text,
)
from polidiff.records.explanation import Explanation, Meeting, Region, Sentence, Verdict, WorseOff
from polidiff.records.numbers import number
from polidiff.records.outcome import Outcome
from polidiff.records.plan import Frontier
from polidiff.records.rule import Rule

MOST_IN_A_ROW = 4  # regions of a path told one by one; a longer one is folded where it repeats itself
ALL = 1 - 1e-9  # share that is everything
MOST_CARRIED = 3  # outcomes of which it is said what one change does
MOST_MET = 5  # regions told where no path is
MOST_READ_ALOUD = 12  # conditions in one sentence; beyond, its regions are called by their names


def only_chances(explanation: Explanation) -> bool:
    """Whether what is done most often stays everywhere, and only how often it is done changes."""
    return bool(explanation.regions) and all(region.shift is not None for region in explanation.regions)


def parts_unseen(explanation: Explanation) -> bool:
    """Whether outcomes differ although no region tells why: they part where the test of next states is blind."""
    decided = any(verdict.direction in ("more", "less") for verdict in explanation.verdicts)
    return not explanation.regions and (decided or bool(explanation.worse_off))


def carrying_lines(explanation: Explanation) -> list[str]:
    """Which change carries the differences of outcomes: a line for each region that clearly does."""
    if len(explanation.regions) < 2 or explanation.methods.style == "paper":
        return []
    carried: dict[str, list[str]] = {}
    for verdict in explanation.verdicts:
        region = carrier(explanation.regions, verdict) if verdict.direction in ("more", "less") else None
        if region is not None:
            carried.setdefault(region.id, []).append(verdict.outcome)
    outcomes = {outcome.name: outcome for outcome in explanation.outcomes}
    return [
        _carried_text(region, [outcomes[name] for name in carried[region.id]])
        for region in explanation.regions
        if region.id in carried
    ]


def _carried_text(region: Region, outcomes: Sequence[Outcome]) -> str:
    assert region.effect is not None
    told, more = outcomes[:MOST_CARRIED], len(outcomes) - MOST_CARRIED
    alone, without = (
        listing([f"{outcome.name} {interval_text(effect[outcome.name], outcome=outcome)}" for outcome in told])
        for effect in (region.effect.alone, region.effect.without)
    )
    if more > 0:
        return (
            f"{region.id} carries this: its change alone brings {alone}, and {counted(more, 'more outcome')} likewise."
        )
    return f"{region.id} carries this: its change alone brings {alone}; all others together bring {without}."


def carrier(regions: Sequence[Region], verdict: Verdict) -> Region | None:
    """The region that alone brings at least half of a difference, beyond doubt more than any other, and without which
    at most half of it is left."""
    whole = verdict.difference.estimate
    sign, half = math.copysign(1.0, whole), abs(whole) / 2
    effects = [(region, region.effect) for region in regions if region.effect is not None]
    known = [(r, e) for r, e in effects if verdict.outcome in e.alone and verdict.outcome in e.without]
    for region, effect in known:
        alone, without = effect.alone[verdict.outcome], effect.without[verdict.outcome]
        surely = min(sign * alone.low, sign * alone.high)
        others = max((sign * e.alone[verdict.outcome].estimate for r, e in known if r is not region), default=0.0)
        if sign * alone.estimate >= half and sign * without.estimate <= half and surely > max(0.0, others):
            return region
    return None


def changes_text(explanation: Explanation) -> str:
    """How many decisions change: a share where every episode is one decision, else per episode."""
    if explanation.world.one_step:
        return f"{percent(explanation.changes)} of decisions"
    count = number(explanation.changes, 3)
    return f"{count} decision{'s' * (count != '1')} per episode"


def sentence_text(explanation: Explanation, sentence: Sentence, *, figures: bool = True) -> str:
    """One sentence: from where, what is done instead, what it leads to."""
    paper = explanation.methods.style == "paper"
    start = start_text(sentence, paper=paper)
    if not sentence.path and not sentence.meetings:
        if sentence.left_out:
            effect = verdicts_text(sentence.verdicts, explanation.outcomes, figures=figures)
            least = explanation.methods.min_group
            return (
                f"{start}, only changes behind which fewer than {least} episodes stand are met. They lead to {effect}."
            )
        decided = any(v.direction in ("more", "less") for v in sentence.verdicts)
        all_told = explanation.quality.recall >= ALL  # no change is left out, so none is met here
        if all(v.direction == "same" for v in sentence.verdicts) or (not decided and all_told):
            return f"{start}, the two policies act the same." if not paper else f"{start}, two policies act the same;"
        effect = verdicts_text(sentence.verdicts, explanation.outcomes)
        which = "rare changes" if explanation.regions else "changes"
        return f"{start}, only {which} that no rule tells are met. They lead to {effect}."
    by_id = {region.id: region for region in explanation.regions}
    if sentence.path and sentence.start == by_id[sentence.path[0]].rule and explanation.world.one_step:
        return _segment_text(explanation, sentence, by_id[sentence.path[0]], figures=figures)
    if sentence.meetings:
        deeds = _meetings_text(sentence, by_id)
    else:
        deeds = ", then ".join(f"{_where(by_id[k], paper)} {_do(by_id[k], paper)}" for k in _told_once(sentence.path))
        if len(sentence.path) > MOST_IN_A_ROW and len(set(sentence.path)) < len(sentence.path):
            deeds += f", and so on in turn, {len(sentence.path)} stretches in all"
    effect = (
        verdicts_text(sentence.verdicts, explanation.outcomes, figures=figures and not paper) or "no outcome is defined"
    )
    if paper:
        deeds = deeds.replace(", then ", " and then ")
        return f"{start}, {deeds} will lead to {effect};"
    share = f" ({percent(sentence.path_share)} of episodes)" if sentence.path and sentence.path_share < 0.995 else ""
    leads = "Together they lead" if len(sentence.meetings) > 1 else "This leads"
    return f"{start}, {deeds}{share}. {leads} to {effect}."


def _meetings_text(sentence: Sentence, by_id: Mapping[str, Region]) -> str:
    """The regions with the largest effects, by the share of episodes that meet them; the others are counted."""
    by_size = sorted(sentence.meetings, key=_effect_size(list(by_id.values()), sentence.meetings), reverse=True)
    told = sorted(by_size[:MOST_MET], key=lambda meeting: -meeting.share)
    long = sum(by_id[m.region].rule.literals for m in told) > MOST_READ_ALOUD
    parts = [
        f"{swap_text(by_id[m.region])} {f'in {m.region}' if long else place_text(by_id[m.region].rule)} "
        f"({percent(m.share)}{' of episodes' * (not place)})"
        for place, m in enumerate(told)
    ]
    if len(by_size) > len(told):
        parts.append(f"and {counted(len(by_size) - len(told), 'region')} more with smaller effects")
    return f"{'episodes meet different changes: ' * (len(parts) > 1)}{'; '.join(parts)}"


def _effect_size(regions: Sequence[Region], meetings: Sequence[Meeting]) -> Callable[[Meeting], tuple[float, float]]:
    """How large the effect of a met region is beside the largest one, over all outcomes; then how many meet it."""
    sizes: dict[str, float] = {}
    met = {meeting.region for meeting in meetings}
    effects = {region.id: region.effect.alone for region in regions if region.effect is not None and region.id in met}
    for outcome in dict.fromkeys(name for alone in effects.values() for name in alone):
        moved = {k: abs(alone[outcome].estimate) for k, alone in effects.items() if outcome in alone}
        most = max(moved.values()) or 1.0
        for k, size in moved.items():
            sizes[k] = max(sizes.get(k, 0.0), size / most)
    return lambda meeting: (sizes.get(meeting.region, 0.0), meeting.share)


def _told_once(path: tuple[str, ...]) -> tuple[str, ...]:
    """The path, or where a long one comes back to its regions, each of them once, in the order of first meeting.

    >>> _told_once(("S1", "S2", "S1")), _told_once(("S1", "S2", "S1", "S2", "S1"))
    (('S1', 'S2', 'S1'), ('S1', 'S2'))
    """
    return path if len(path) <= MOST_IN_A_ROW else tuple(dict.fromkeys(path))


def _segment_text(explanation: Explanation, sentence: Sentence, region: Region, *, figures: bool) -> str:
    effect = verdicts_text(sentence.verdicts, explanation.outcomes, figures=figures)
    place = place_text(region.rule)
    return (
        f"{place[0].upper()}{place[1:]} ({percent(sentence.share)} of decisions), {_do(region, paper=False)}. "
        f"This leads to {effect}."
    )


def start_text(sentence: Sentence, *, paper: bool = False) -> str:
    """Which starts the sentence speaks about."""
    if sentence.start is None:
        return "Starting from the initial region" if paper else "From any start"
    rules = [sentence.start, *sentence.also]
    if names_states(rules[0]):
        shown = _names(sentence.starts, rules)
        if paper:
            return f"Starting from initial region {shown}"
        return f"From {shown}"
    words = " or ".join(rule_text(rule) for rule in rules)
    return f"Starting where {words}" if paper else f"From a start where {words} ({percent(sentence.share)} of starts)"


def _names(starts: tuple[str, ...], rules: Sequence[Rule], last: str = "or") -> str:
    """The starts of a group by name: as listed, else those that its rules name."""
    names = list(starts) or [str(value) for rule in rules for value in rule.conditions[0].values or ()]
    return names_text(names, last, more=len(starts) >= MOST_LISTED)


def _where(region: Region, paper: bool) -> str:
    if names_states(region.rule):
        return f"in region {rule_text(region.rule)}," if paper else f"in {_names((), [region.rule])}"
    if not region.rule.conditions:
        return "everywhere,"
    return f"when reaching region {rule_text(region.rule)}," if paper else f"where {rule_text(region.rule)},"


def _do(region: Region, paper: bool) -> str:
    if paper:
        return f"doing {swap_text(region)}"
    return (
        f"do {swap_text(region)}"
        if region.shift is None and region.direction is None
        else f"choose {swap_text(region)}"
    )


def region_text(region: Region, people: str = "episodes") -> str:
    """A region with its support and how true it is; `people` is what stands behind it."""
    behind = f"{percent(region.support.share)} of decisions"
    if not names_states(region.rule):
        behind += (
            f", {counted(region.support.states, 'state')}" if region.states else f", {region.support.episodes} {people}"
        )
    true = f"right in {percent(region.precision)}, covers {percent(region.recall)} of such changes"
    mark = "; no record in the log supports it" if region.support.unsupported == 1.0 else ""
    together = f" ({len(region.states)} states told together)" if region.merged else ""
    where = rule_text(region.rule)
    place = region.id if where == region.id else f"{region.id}: {where}"
    return f"{place}: {swap_text(region)}{together} ({behind}; {true}{mark})"


def worse_off_text(explanation: Explanation, entry: WorseOff) -> str:
    """Who is worse off, by how much."""
    return f"{group_words(entry, share=True)}: {loss_text(explanation, entry)}"


def loss_text(explanation: Explanation, entry: WorseOff) -> str:
    """What a group loses, by how much."""
    outcome = next(o for o in explanation.outcomes if o.name == entry.outcome)
    return f"{lost_text(outcome, entry)}, by {amount_text(entry.difference, outcome)}"


def lost_text(outcome: Outcome, entry: WorseOff) -> str:
    """What a group loses, in words."""
    return outcome.phrase("more" if entry.difference.estimate > 0 else "less")


def quality_text(explanation: Explanation) -> str:
    """How true the text is."""
    quality = explanation.quality
    base = "over all visits" if explanation.world.enumerated else "on visits that did not make the rules"
    parts = [f"F1 {quality.f1:.2f} {base}"]
    told = [f"{percent(share)} of {name}" for name, share in quality.completeness.items() if share is not None]
    if not explanation.regions:
        small = explanation.changes > 0
        parts = (
            ["what differs is within policy_tolerance or transition_tolerance and has no region"] if small else parts
        )
    elif told:
        parts.append(f"patching the current policy with these rules recovers {listing(told)}")
    parts.append(explanation.methods.evaluation)
    if explanation.methods.classifier not in ("", "rules"):
        parts.append(f"regions learned by {explanation.methods.classifier}")
    if not all(verdict.difference.exact for verdict in explanation.verdicts):
        how = "each interval holds" if explanation.methods.style == "paper" else "intervals hold together"
        parts.append(f"{how} at {percent(explanation.methods.level)}")
    return "; ".join(parts) + "."


def rests_on_lines(record: Explanation | Frontier) -> list[str]:
    """What verdicts from a log rest on: what all share once, then each outcome, then what speaks against them."""
    told = [(v.outcome, v.rests_on) for v in record.verdicts] if isinstance(record, Explanation) else []
    if isinstance(record, Frontier):
        told = [("this plan", record.best.rests_on)]
    lines = [(name, *line.split(". ", 1)) for name, line in told if line is not None]
    groups: dict[str, list[str]] = {}
    for name, first, *_ in lines:
        groups.setdefault(f"{first.rstrip('.')}.", []).append(name)
    shared = [line if len(groups) == 1 else f"{listing(names)}: {line}" for line, names in groups.items()]
    own = [f"{name}: {rest[0]}" for name, _, *rest in lines if rest]
    against = [f"{a.name}: {a.detail}. {a.consequence}".rstrip() for a in record.assumptions if a.alarming]
    return [*shared, *own, *against]
