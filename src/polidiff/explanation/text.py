"""An explanation or a frontier as plain text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from polidiff.explanation.advice import advise
from polidiff.explanation.words import (
    MOST_LISTED,
    counted,
    group_words,
    interval_text,
    listing,
    losers,
    names_states,
    names_text,
    number,
    percent,
    rule_text,
    signed,
    swap_text,
    verdict_text,
    verdicts_text,
    worth_text,
)
from polidiff.records.explanation import Explanation, Meeting, Region, Sentence, Verdict, WorseOff
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.plan import Frontier, Plan
from polidiff.records.rule import Rule
from polidiff.records.suppression import suppressed

MOST_IN_A_ROW = 4  # regions of a path told one by one; a longer one is folded where it repeats itself
ALL = 1 - 1e-9  # share that is everything
MOST_CARRIED = 3  # outcomes of which it is said what one change does
MOST_MET = 5  # regions told where no path is
MOST_READ_ALOUD = 12  # conditions in one sentence; beyond, its regions are called by their names


def render(explanation: Explanation) -> str:
    """The whole explanation, as printed."""
    explanation = suppressed(explanation)
    parts = [*_headline(explanation), ""]
    if explanation.lead == "complete":
        parts += ["The policies differ nearly everywhere, so the proposed policy is told whole:"]
        parts += [explanation.forms["complete policy"], ""]
    parts += [f"• {sentence_text(explanation, sentence)}" for sentence in explanation.sentences]
    worse = [worse_off_text(explanation, entry) for entry in losers(explanation)]
    if worse:
        parts += ["", "Worse off:", *(f"• {line}" for line in worse)]
    if explanation.regions and explanation.methods.style != "paper":
        people = "people" if "people" in explanation.world.facts else "episodes"
        parts += ["", "Where they differ:", *(f"• {region_text(region, people)}" for region in explanation.regions)]
    if explanation.methods.style != "paper":
        advice = advise(explanation)
        parts += ["", f"What now: {' '.join((advice.sentence, *advice.reasons))}"]
    parts += ["", quality_text(explanation)]
    parts += _resting(explanation)
    if explanation.warnings:
        parts += ["", "Note:", *(f"• {warning}" for warning in explanation.warnings)]
    return "\n".join(parts)


def _headline(explanation: Explanation) -> list[str]:
    count = len(explanation.regions)
    overall = verdicts_text(explanation.verdicts, explanation.outcomes)
    effect = [f"Over all starts: {overall}."] if overall else []
    if not count and explanation.withheld:
        return [f"{changes_text(explanation)} change, in groups too small to be shown.", *effect]
    if not count and parts_unseen(explanation):
        return ["Outcomes differ, though no region was found in which the two policies part.", *effect]
    if not count:
        return ["The two policies act the same wherever either of them gets."]
    regions = "one region" if count == 1 else f"{count} regions"
    return [f"They differ in {regions}, in {changes_text(explanation)}.", *effect, *carrying_lines(explanation)]


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
            f"{region.id} carries this: its change alone makes {alone}, and {counted(more, 'more outcome')} likewise."
        )
    return f"{region.id} carries this: its change alone makes {alone}; all others together make {without}."


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
        return f"{start}, only rare changes that no rule tells are met. They lead to {effect}."
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
    return f"{start}, {deeds}{share}. {'Together they lead' if sentence.meetings else 'This leads'} to {effect}."


def _meetings_text(sentence: Sentence, by_id: Mapping[str, Region]) -> str:
    """The regions with the largest effects, by the share of episodes that meet them; the others are counted."""
    by_size = sorted(sentence.meetings, key=_effect_size(list(by_id.values()), sentence.meetings), reverse=True)
    told = sorted(by_size[:MOST_MET], key=lambda meeting: -meeting.share)
    long = sum(by_id[m.region].rule.literals for m in told) > MOST_READ_ALOUD
    parts = [
        f"in {percent(m.share)}, {f'in {m.region}' if long else _place(by_id[m.region])}, {swap_text(by_id[m.region])}"
        for m in told
    ]
    if len(by_size) > len(told):
        parts.append(f"and {counted(len(by_size) - len(told), 'region')} more with smaller effects")
    return f"no path is met by half of the episodes; by the share that meets them: {'; '.join(parts)}"


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
    place = _place(region)
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


def _place(region: Region) -> str:
    if not region.rule.conditions:
        return "everywhere"
    if names_states(region.rule):
        return f"where the state is {_names((), [region.rule])}"
    return f"where {rule_text(region.rule)}"


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
    outcome = next(o for o in explanation.outcomes if o.name == entry.outcome)
    loss = f"{outcome.name} {interval_text(entry.difference, outcome=outcome)}"
    return f"{group_words(entry)} ({percent(entry.share)}): {loss}"


def quality_text(explanation: Explanation) -> str:
    """How true the text is."""
    quality = explanation.quality
    base = "over all visits" if explanation.world.enumerated else "on visits that did not make the rules"
    parts = [f"F1 {quality.f1:.2f} {base}"]
    told = [f"{percent(share)} of {name}" for name, share in quality.completeness.items() if share is not None]
    if told:
        parts.append(f"patching the current policy with these rules recovers {listing(told)}")
    parts.append(explanation.methods.evaluation)
    if explanation.methods.classifier not in ("", "rules"):
        parts.append(f"regions learned by {explanation.methods.classifier}")
    if not all(verdict.difference.exact for verdict in explanation.verdicts):
        how = "each interval holds" if explanation.methods.style == "paper" else "intervals hold together"
        parts.append(f"{how} at {percent(explanation.methods.level)}")
    return "How true this is: " + "; ".join(parts) + "."


def rests_on_lines(record: Explanation | Frontier) -> list[str]:
    """What verdicts from a log rest on: what all share once, then each outcome, then what speaks against them."""
    told = [(v.outcome, v.rests_on) for v in record.verdicts] if isinstance(record, Explanation) else []
    if isinstance(record, Frontier):
        told = [("this plan", record.best.rests_on)]
    lines = [(name, *line.split(". ", 1)) for name, line in told if line is not None]
    shared = list(dict.fromkeys(f"{first.rstrip('.')}." for _, first, *_ in lines))
    own = [f"{name}: {rest[0]}" for name, _, *rest in lines if rest]
    against = [f"{a.name}: {a.detail}. {a.consequence}".rstrip() for a in record.assumptions if a.alarming]
    return [*shared, *own, *against]


def _resting(record: Explanation | Frontier) -> list[str]:
    lines = rests_on_lines(record)
    return ["", "What this rests on:", *(f"• {line}" for line in lines)] if lines else []


def render_frontier(frontier: Frontier) -> str:
    """The frontier as a table, the bound and the ledger."""
    frontier = suppressed(frontier)
    told = [*_plan_rows(frontier), *_gain_rows(frontier), *_ledger_rows(frontier), *_resting(frontier)]
    return "\n".join([frontier_headline(frontier), "", *told, *_notes(frontier)])


def frontier_headline(frontier: Frontier) -> str:
    """How many plans there are, and what the best of them returns."""
    best = frontier.best
    if frontier.judged or (len(frontier) == 1 and not best.proven):
        return _judged_head(frontier)
    gain = Interval.exactly(best.expected_return - frontier[0].expected_return)
    proof = "all proven" if all(plan.proven for plan in frontier) else f"certified within {percent(frontier.gap)}"
    return (
        f"{counted(len(frontier), 'plan')} from {_returned(frontier[0], frontier)} (current) to "
        f"{_returned(best, frontier)} ({interval_text(gain, outcome=_objective(frontier))}), {proof}."
    )


def _objective(frontier: Frontier) -> Outcome | None:
    return next((outcome for outcome in frontier.outcomes if outcome.name == frontier.objective), None)


def _returned(plan: Plan, frontier: Frontier) -> str:
    """What a plan returns, as people say the outcome that it improves."""
    outcome = _objective(frontier)
    if outcome is not None and outcome.is_share:
        return f"{number(100 * plan.expected_return)} %"
    return number(plan.expected_return, 6)


def _judged_head(frontier: Frontier) -> str:
    """Plans whose gains are estimates: the one that is surest to gain, or none."""
    best, now = frontier.best, _returned(frontier[0], frontier)
    if len(frontier) == 1:
        return f"No plan but the current policy, which returns {now}."
    if best.gain is None or best is frontier[0]:
        return f"{len(frontier)} plans; none is shown to gain over the current policy, which returns {now}."
    return (
        f"{len(frontier)} plans; the surest to gain returns {_returned(best, frontier)} instead of {now} "
        f"({interval_text(best.gain, outcome=_objective(frontier))})."
    )


def _plan_rows(frontier: Frontier, limit: int = 20) -> list[str]:
    unit = {"total": "changes, all starts", "states": "changed states", "rules": "rules (changes)"}.get(
        frontier.unit, "changes per episode"
    )
    rows = [f"{unit:>20}  {'return':>10}  {'bound':>10}  change"]
    plans = list(frontier)
    shown = plans if len(plans) <= limit else [plans[round(k * (len(plans) - 1) / (limit - 1))] for k in range(limit)]
    for plan in shown:
        cost = number(plan.changes)
        if frontier.unit == "rules":
            cost = f"{len(plan.rules)} ({cost})"
        rows.append(
            f"{cost:>20}  {number(plan.expected_return, 6):>10}  {number(plan.bound, 6):>10}  {plan_words(plan)}"
        )
    if len(shown) < len(plans):
        rows.append(f"({len(plans) - len(shown)} plans between these are not shown)")
    return rows


def _gain_rows(frontier: Frontier) -> list[str]:
    """What each plan gains, where other data than those that chose it say so."""
    gains = [(plan, plan.gain) for plan in frontier if plan.gain is not None and plan.patch.changing]
    if not gains:
        return []
    level = "" if all(gain.exact for _, gain in gains) else f" ({percent(frontier.methods.level)} intervals)"
    rows = ["", f"Gain over the current policy, on data that did not choose the plan{level}:"]
    outcome = _objective(frontier)
    return rows + [f"• {_size_words(plan, frontier)}: {interval_text(gain, outcome=outcome)}" for plan, gain in gains]


def _size_words(plan: Plan, frontier: Frontier) -> str:
    if frontier.unit == "rules":
        return counted(len(plan.rules), "rule")
    count = number(plan.changes)
    return f"{count} changed decision{'s' * (count != '1')}"


def plan_words(plan: Plan, limit: int = 4) -> str:
    """What a plan changes, in one line."""
    if plan.rules:
        return "; ".join(f"{rule_text(r.rule)}: {r.move}" for r in plan.rules)
    edits = plan.patch.changing
    if not edits:
        return "nothing"
    names = plan.patch.actions
    words = [f"{rule_text(e.rule)}: {names[e.current]} → {names[e.proposed]}" for e in edits[:limit]]
    return "; ".join(words) + (f"; and {len(edits) - limit} more" if len(edits) > limit else "")


def _ledger_rows(frontier: Frontier, limit: int = 10) -> list[str]:
    if frontier.ledger is None or not frontier.ledger.entries:
        return []
    rows = ["", "What each change is worth (alone; if removed from the best plan; Shapley value):"]
    for entry in frontier.ledger.entries[:limit]:
        links = [f"needs {listing(list(entry.needs), 'or')}"] * bool(entry.needs)
        links += [f"conflicts with {listing(list(entry.conflicts))}"] * bool(entry.conflicts)
        place = "" if entry.state in entry.change else f" (where {entry.state})"
        rows.append(
            f"• {entry.change}{place}: {worth_text(entry.alone)}; {worth_text(entry.removed)}; "
            f"{signed(entry.shapley.estimate)}" + (f"; {'; '.join(links)}" if links else "")
        )
    return rows


def _notes(frontier: Frontier) -> list[str]:
    warnings = [*frontier.warnings, *frontier.best.warnings]
    return ["", "Note:", *(f"• {warning}" for warning in warnings)] if warnings else []


__all__ = [
    "changes_text",
    "plan_words",
    "quality_text",
    "region_text",
    "render",
    "render_frontier",
    "rests_on_lines",
    "rule_text",
    "sentence_text",
    "start_text",
    "verdict_text",
    "worse_off_text",
]
