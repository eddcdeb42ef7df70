"""Sentences about a difference: groups of starts, regions, who loses, how true it is, what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from polidiff.explanation.region_places import after_another, earlier, group_words, outside, places_told
from polidiff.explanation.verdict_words import verdicts_text
from polidiff.explanation.words import (
    MOST_LISTED,
    MOST_NAMED,
    RARELY,
    Figures,
    assumption_text,
    changes_numbers,
    few,
    interval_text,
    listing,
    moved_text,
    names_states,
    names_text,
    other_parts,
    place_text,
    rule_text,
    swap_text,
)
from polidiff.records.action import Action
from polidiff.records.explanation import (
    FOLLOWED,
    IDLE,
    Explanation,
    Meeting,
    Quality,
    Region,
    Sentence,
    WorldSummary,
    WorseOff,
)
from polidiff.records.numbers import counted, number, percent, share_text
from polidiff.records.outcome import Assumption, Evaluation, Interval
from polidiff.records.plan import Frontier
from polidiff.records.rule import Rule

MOST_IN_A_ROW = 4  # regions of a path told one by one; a longer one is folded where it repeats itself
ALL = 1 - 1e-9  # share that is everything
NEARLY_ALL = 0.995  # share that is told as 100 %
MOSTLY = 0.9  # of what differs: regions that tell as much carry the effect
MOST_MET = 5  # regions told where no path is
UNITS = {
    "expected": "{}changed decisions per episode",
    "total": "{}changed decisions over all starts",
    "rules": "rules",
    "states": "changed states",
}
SHORT_UNITS = {
    "expected": "{}changes per episode",
    "total": "{}changes, all starts",
    "states": "changed states",
    "rules": "rules ({}changes)",
}


def only_chances(explanation: Explanation) -> bool:
    """Whether the regions tell only that actions are chosen more or less often."""
    shifts = all(region.shift is not None for region in explanation.regions)
    return bool(explanation.regions) and (shifts or not explanation.changes)


def parts_unseen(explanation: Explanation) -> bool:
    """Whether outcomes differ although no region tells why: they part where the test of next states is blind."""
    decided = any(verdict.direction in ("more", "less") for verdict in explanation.verdicts)
    return not explanation.regions and (decided or bool(explanation.worse_off))


def untold(explanation: Explanation) -> bool:
    """Whether policies that were played decide otherwise, and no region tells where that matters."""
    return explanation.world.played and explanation.changes > 0 and not explanation.regions


def unit_text(world: WorldSummary, unit: str = "expected", *, short: bool = False) -> str:
    """What changes are counted in."""
    if world.one_step and unit == "expected":
        return "changes per decision"
    return (SHORT_UNITS if short else UNITS)[unit].format(world.discounted)


def changes_text(explanation: Explanation) -> str:
    """How many decisions change: a share where every episode is one decision, else per episode."""
    if explanation.world.one_step:
        return f"{percent(explanation.changes)} of decisions"
    count, between = changes_numbers(explanation)
    unit = f"{explanation.world.discounted}decision{'s' * (count != '1')} per episode"
    return f"{count} {unit}{between and f' ({between})'}"


def mostly_told(explanation: Explanation) -> bool:
    """Whether regions tell (nearly) all that differs; else an effect is not theirs alone."""
    return explanation.quality.recall >= MOSTLY


def idle_text(explanation: Explanation) -> str:
    """Which share of the changed decisions no region holds, as they make no difference; nothing where it is small."""
    idle = explanation.world.facts.get(IDLE)
    if not isinstance(idle, float) or idle <= RARELY:
        return ""
    return f"{percent(idle)} of these make little or no difference at once"


def same_text(explanation: Explanation) -> str:
    """What two policies do where no change is told: some decisions may change, though nothing follows from that."""
    return "the two policies act the same" + " wherever it matters" * (IDLE in explanation.world.facts)


def sentence_text(explanation: Explanation, sentence: Sentence, *, figures: bool = True) -> str:
    """One sentence: from where, what is done instead, what it leads to."""
    paper = explanation.methods.style == "paper"
    start = start_text(explanation, sentence)
    if not sentence.path and not sentence.meetings:
        if sentence.left_out:
            least = f"fewer than {explanation.methods.min_group} {explanation.world.counted_in}"
            effect = _brought(explanation, sentence, "They", figures=figures)
            return f"{start}, the only changes are in regions where they concern {least}. {effect}"
        if acts_the_same(explanation, sentence) and _some_unmet(explanation):
            return f"{start}, none of the changes named here is met."
        if acts_the_same(explanation, sentence):
            surely = explanation.quality.recall >= ALL or all(
                v.difference.exact and v.difference.estimate == 0 for v in sentence.verdicts
            )
            rare = "" if surely else ", but for rare changes, if any, that no rule tells"
            return f"{start}, two policies act the same;" if paper else f"{start}, {same_text(explanation)}{rare}."
        meets_none = sentence.path_share < NEARLY_ALL or explanation.world.played
        if sentence.path_share > 0 and meets_none and not untold(explanation):
            none = f"{percent(sentence.path_share)} of {_those(sentence)} meet no change that a rule tells"
            none = none if sentence.path_share < NEARLY_ALL else "few episodes meet a change"
            return f"{start}, {none}. {_brought(explanation, sentence, 'All changes together', figures=figures)}"
        which = "rare changes" if explanation.regions else "changes"
        return f"{start}, only {which} that no rule tells are met. {_brought(explanation, sentence, 'They')}"
    by_id = {region.id: region for region in explanation.regions}
    begins_there = bool(sentence.path) and sentence.start == by_id[sentence.path[0]].rule and not sentence.also
    if begins_there and explanation.world.one_step:
        return _segment_text(explanation, sentence, by_id[sentence.path[0]], figures=figures)
    if sentence.meetings:
        deeds = _meetings_text(sentence, by_id)
    elif begins_there and len(sentence.path) == 1 and not earlier(explanation.regions)[sentence.path[0]]:
        deeds = f"{_do(by_id[sentence.path[0]], paper)} there"
    else:
        met = _told_once(sentence.path)
        where = _papers_places(explanation.regions) if paper else places_told(met, explanation.regions, comma=",")
        first = met if paper or len(met) <= MOST_NAMED else met[: MOST_NAMED - 1]
        deeds = ", then ".join(f"{where[k]} {_do(by_id[k], paper)}" for k in first)
        if len(met) < len(sentence.path) or len(first) < len(met):
            turns = " in turn" * (len(met) < len(sentence.path))
            deeds += f", and so on{turns}, {len(sentence.path)} stretches in all"
    if paper:
        deeds = deeds.replace(", then ", " and then ")
        effect = verdicts_text(sentence.verdicts, explanation.outcomes, figures=False) or "no outcome is defined"
        return f"{start}, {deeds} will lead to {effect};"
    who = _whose_effect(explanation, sentence)
    share = _path_share_text(sentence)
    return f"{start}, {deeds}{share}. {_brought(explanation, sentence, who, figures=figures)}"


def _brought(explanation: Explanation, sentence: Sentence, who: str, *, figures: bool = True) -> str:
    """What changes bring: more or less of something, or an effect that nobody knows."""
    if not sentence.verdicts:
        return "No outcome is defined."
    unknown = all(verdict.direction == "unknown" for verdict in sentence.verdicts)
    verb = ("has" if unknown else "leads to") if who == "This" else ("have" if unknown else "lead to")
    return f"{who} {verb} {verdicts_text(sentence.verdicts, explanation.outcomes, figures=figures)}."


def _names_all(sentence: Sentence) -> bool:
    """Whether (nearly) all episodes meet no other change than those named; what is not listed may be another."""
    named_regions = set(sentence.path)
    named = sentence.path_share + sum(other.share for other in sentence.others if named_regions.issuperset(other.path))
    return not sentence.left_out and (bool(sentence.meetings) or named >= NEARLY_ALL)


def _whose_effect(explanation: Explanation, sentence: Sentence) -> str:
    """What brings the effect: the effect of a group is that of all changes which its episodes meet, named or not."""
    if not (_names_all(sentence) and mostly_told(explanation)):
        return "All changes together"
    return "Together they" if len(sentence.meetings) > 1 else "This"


def _path_share_text(sentence: Sentence) -> str:
    """How many episodes are on the path told, unless nearly all are."""
    if not sentence.path or sentence.path_share >= NEARLY_ALL:
        return ""
    exactly = "follow exactly this path" if len(sentence.path) > 1 else "meet only this change"
    met = "reach it" if len(sentence.path) == 1 and _names_all(sentence) else exactly
    return f" ({percent(sentence.path_share)} of {_those(sentence)} {met})"


def _those(sentence: Sentence) -> str:
    return "episodes" if sentence.start is None else "these episodes"


def acts_the_same(explanation: Explanation, sentence: Sentence) -> bool:
    """Whether nothing changes from these starts: no change is met, and no outcome is shown to differ."""
    met = sentence.path or sentence.meetings or sentence.left_out
    met = met or 0 < sentence.path_share < NEARLY_ALL or untold(explanation)
    if explanation.world.played:  # with common luck, episodes that meet no change end alike
        met = met or any(verdict.difference.estimate != 0 for verdict in sentence.verdicts)
    undecided = all(verdict.direction in ("same", "unknown") for verdict in sentence.verdicts)
    return not met and undecided and bool(explanation.regions or explanation.quality.recall >= ALL)


def _some_unmet(explanation: Explanation) -> bool:
    """Whether regions are states by name and there may be states that nobody has met."""
    return explanation.world.played and any(names_states(region.rule) for region in explanation.regions)


def _meetings_text(sentence: Sentence, by_id: Mapping[str, Region]) -> str:
    """The regions with the largest effects, by the share of episodes that meet them; the others are counted."""
    by_size = sorted(sentence.meetings, key=_effect_size(list(by_id.values()), sentence.meetings), reverse=True)
    most = sorted(by_size[:MOST_MET], key=lambda meeting: -meeting.share)
    where = places_told([m.region for m in most], list(by_id.values()))
    deed = _one_part if len(by_size) > 1 else partial(_do, paper=False)
    parts = [
        f"{deed(by_id[m.region])} {where[m.region]} ({percent(m.share)} of {_those(sentence)} reach it)" for m in most
    ]
    if len(by_size) > len(most):
        parts.append(f"and {counted(len(by_size) - len(most), 'more region')} with smaller effects")
    directions = [by_id[m.region].direction for m in most]
    several = "multi-part " * any(direction is not None and bool(direction.also) for direction in directions)
    return f"{f'episodes meet different {several}changes: ' * (len(parts) > 1)}{'; '.join(parts)}"


def _papers_places(regions: Sequence[Region]) -> dict[str, str]:
    return {
        region.id: f"{'in' if names_states(region.rule) else 'when reaching'} region {rule_text(region.rule)},"
        if region.rule.conditions
        else "everywhere,"
        for region in regions
    }


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
    place = place_text(region.rule) + outside(explanation.regions)[region.id]
    effect = _brought(explanation, sentence, "This", figures=figures)
    share = f"{percent(sentence.share)} of decisions"
    if any(region.id in before for before in earlier(explanation.regions).values()):
        share = f"{region.id}, {share}"
    return f"{place[0].upper()}{place[1:]} ({share}), {_do(region, paper=False)}. {effect}"


def start_text(explanation: Explanation, sentence: Sentence) -> str:
    """Which starts the sentence speaks about."""
    paper = explanation.methods.style == "paper"
    rules = sentence.rules
    if not rules:
        return "Starting from the initial region" if paper else "From any start"
    if names_states(rules[0]):
        names = list(sentence.starts) or [str(value) for rule in rules for value in rule.conditions[0].values or ()]
        shown = names_text(names, more=len(sentence.starts) >= MOST_LISTED)
        return f"Starting from initial region {shown}" if paper else f"From {shown}"
    where = starts_where(rules, other=after_another(explanation.sentences, sentence))
    if paper:
        return f"Starting from {where}".replace("from a start where", "where")
    return f"From {where} ({percent(sentence.share)} of starts)"


def starts_where(rules: Sequence[Rule], *, other: bool) -> str:
    """One start of a group.

    >>> from polidiff.records.rule import Condition
    >>> starts_where([Rule((Condition("x", 0, high=0.1),))], other=True), starts_where([Rule()], other=True)
    ('any other start where x < 0.1', 'any other start')
    """
    first = "any other start" if other else "a start" if all(rule.conditions for rule in rules) else "any start"
    return f"{first} where {' or '.join(map(rule_text, rules))}" if all(rule.conditions for rule in rules) else first


def _do(region: Region, paper: bool) -> str:
    often = region.shift is not None or region.direction is not None
    return f"{'doing' if paper else 'choose' if often else 'do'} {swap_text(region)}"


def _one_part(region: Region) -> str:
    """The swap of a region without what other parts of the action do, which is told once beside it."""
    direction = region.direction and replace(region.direction, also=())
    return swap_text(replace(region, direction=direction))


def whose_decisions(explanation: Explanation) -> str:
    """Which decisions the shares of regions are of; of a log they are the recorded ones, which nobody asks."""
    if explanation.world.recorded:
        return ""
    if explanation.world.enumerated:
        return "each share of decisions is the mean of the current and the proposed policy's"
    return "shares are of all decisions that both policies made from the same starts"


def _also_moved(region: Region, actions: Sequence[Action]) -> str:
    """Where a direction is told, the other components that its pairs of actions change, and how often."""
    moved = other_parts(region.direction, region.swaps, actions)
    return "".join(f"; {name} changes there too, in {percent(share)}" for name, share in moved.items())


def region_text(region: Region, apart: str, people: str, actions: Sequence[Action]) -> str:
    """A region with its support and how true it is; `people` is what stands behind it."""
    behind = f"{percent(region.support.share)} of decisions"
    if not names_states(region.rule):
        behind += (
            f", {counted(region.support.states, 'state')}"
            if region.states
            else f", {number(region.support.episodes)} in all"
            if people == "decision"
            else f", seen in {counted(region.support.episodes, people)}"
        )
    right, covered = (share_text(getattr(region, of), region.intervals.get(of)) for of in ("precision", "recall"))
    true = f"right in {right}, covers {covered} of such changes"
    mark = "; no record in the log supports it" if region.support.unsupported == 1.0 else ""
    together = f" ({len(region.states)} states told together)" if region.merged else ""
    where = rule_text(region.rule)
    place = region.id if where == region.id else f"{region.id}: {where}{apart}"
    how = f"{behind}; {true}{mark}" if region.support.share else "met only where the two policies take turns"
    return f"{place}: {_one_part(region)}{together} ({how}{_also_moved(region, actions)})"


def worse_off_text(explanation: Explanation, entry: WorseOff) -> str:
    """Who is worse off, by how much."""
    return f"{group_words(explanation, entry, share=True)}: {loss_text(explanation, entry)}"


def loss_text(explanation: Explanation, entry: WorseOff, figures: Figures = "bounds") -> str:
    """What a group loses, by how much."""
    outcome = next(o for o in explanation.outcomes if o.name == entry.outcome)
    return moved_text(outcome, entry.difference, figures)


def quality_text(explanation: Explanation) -> str:
    """How true the text is."""
    quality = explanation.quality
    base = "on visits that did not make the rules" if quality.held_out else "on the visits that made the rules"
    base = "over all visits" if explanation.world.enumerated else base
    parts = [f"F1 {f1_text(quality)} {base}"]
    if explanation.withheld and not explanation.regions:
        parts = ["what differs is in groups too small to be shown"]
    elif not explanation.regions and explanation.changes > 0:
        within = "what differs is within policy_tolerance or transition_tolerance and has no region"
        parts = ["no rule was found that tells where they differ" if explanation.tradeoff else within]
    elif explanation.regions:
        parts += recovered_text(explanation)
    sampled = f", but for shares of episodes that meet changes, which come from {played_text(explanation)}"
    by = explanation.methods.evaluation
    parts.append(by + sampled if played_text(explanation) and by == "exact" else by)
    if explanation.methods.classifier not in ("", "rules"):
        parts.append(f"regions learned by {explanation.methods.classifier}")
    if not all(verdict.difference.exact for verdict in explanation.verdicts):
        how = "each interval holds" if explanation.methods.style == "paper" else "intervals hold together"
        alone = ["changes"] * (explanation.changes_interval is not None) + ["F1", "rules"] * bool(quality.intervals)
        apart = f", those of {listing(alone)} each by itself and counted by episodes" * bool(alone)
        parts.append(f"{how} at {percent(explanation.methods.level)}{apart}")
    return "; ".join(parts) + "."


def f1_text(quality: Quality) -> str:
    """F1, with its interval where it was counted in a sample."""
    interval = quality.intervals.get("f1")
    return f"{quality.f1:.2f}" + ("" if interval is None else f" [{interval.low:.2f}–{interval.high:.2f}]")


def recovered_text(explanation: Explanation) -> list[str]:
    """How much of each difference the rules alone bring; where they go another way or too far, what they do instead."""
    names: dict[str, list[str]] = {}
    for name, share in explanation.quality.completeness.items():
        if share is not None and share >= 0:
            names.setdefault(percent(share), []).append(name)
    shares = [f"{share} of {few(recovered)}" for share, recovered in names.items()]
    parts = [f"patching the current policy with these rules recovers {listing(shares)}"] if shares else []
    whole = {verdict.outcome: verdict.difference.estimate for verdict in explanation.verdicts}
    for outcome in explanation.outcomes:
        added = explanation.quality.patched.get(outcome.name)
        if added is not None:
            loses = "lose" if outcome.valence("more" if added > 0 else "less") == "worse" else "bring"
            alone, all_changes = (
                moved_text(outcome, Interval.exactly(value)) for value in (added, whole[outcome.name])
            )
            parts.append(f"these rules alone {loses}: {alone}, where the proposed policy brings {all_changes}")
    return parts


def people_text(world: WorldSummary) -> str:
    """How many stand behind a log: people where it knows them, else episodes, which may be single decisions."""
    return counted(int(world.units), unit_noun(world))


def unit_noun(world: WorldSummary) -> str:
    """One of those that stand behind a number: a person, a single decision or an episode."""
    return world.counted_in.removesuffix("s")


def played_text(explanation: Explanation) -> str:
    """How many episodes were played to count who meets which change; nothing where none was."""
    played = explanation.world.facts.get(FOLLOWED)
    return counted(int(played), "played episode") if played else ""


def rests_on_lines(record: Explanation | Frontier) -> list[str]:
    """What verdicts from a log rest on: what all share once, then each outcome, then what speaks against them."""
    rests = [(v.outcome, v.rests_on) for v in record.verdicts] if isinstance(record, Explanation) else []
    if isinstance(record, Frontier):
        rests = [(f"plan {record.number(record.best)}", record.best.rests_on)]
    lines = [(name, *line.split(". ", 1)) for name, line in rests if line is not None]
    groups: dict[str, list[str]] = {}
    for name, first, *_ in lines:
        groups.setdefault(f"{first.rstrip('.')}.", []).append(name)
    shared = [line if len(groups) == 1 else f"{listing(names)}: {line}" for line, names in groups.items()]
    own = [f"{name}: {rest[0]}" for name, _, *rest in lines if rest]
    return [*shared, *own, *_against(record.assumptions)]


def _against(assumptions: Sequence[Assumption]) -> list[str]:
    """What speaks against numbers from a log."""
    return [assumption_text(a, follows=True) for a in assumptions if a.alarming]


def evaluation_text(evaluation: Evaluation) -> str:
    """What a policy achieves, a line per outcome, how that is known, and what speaks against it."""
    values = [f"{name}: {interval_text(one, difference=False)}" for name, one in evaluation.outcomes.items()]
    levels = {one.level for one in evaluation.outcomes.values() if not one.exact}
    known = f"Method: {evaluation.method}" + "".join(f", {percent(level)} intervals" for level in levels)
    cut = f"{percent(evaluation.truncated)} of the episodes are cut." if evaluation.truncated else ""
    return "\n".join([*values, f"{known}. {cut}".rstrip(), *_against(evaluation.assumptions)])
