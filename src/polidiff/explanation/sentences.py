"""Sentences: for these starts, which regions are met, in which order, and what that does.

Where single starts are known they are grouped by path and verdicts. Where only logged episodes are known, one sentence
tells how many of them meet each region; where every episode is one decision nothing is met in order, and each region is
a segment with verdicts of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from polidiff.evaluation.comparison import Achieved, Comparison, GroupVerdicts
from polidiff.evaluation.verdicts import StartOutcomes, judge_groups
from polidiff.explanation.groups import StartGroup, distinct_rows, form_groups, typical_path
from polidiff.explanation.words import MOST_LISTED
from polidiff.journeys import Journeys, Meetings, Path
from polidiff.options import ExplainOptions
from polidiff.records.arrays import BoolArray, IntArray
from polidiff.records.explanation import Meeting, PathShare, Region, Sentence, Support, Verdict, WorseOff
from polidiff.records.rule import Rule, covers_any
from polidiff.worlds.protocol import World


@dataclass(frozen=True, eq=False)
class GroupedStarts:
    """Groups of starts with the path and the verdicts of each."""

    journeys: Journeys  # that begin at the starts
    forming: StartOutcomes  # outcomes of the starts that formed the groups
    judged: StartOutcomes  # and of those that judge them
    groups: tuple[StartGroup, ...]
    members: list[BoolArray]  # which judged starts belong to each group
    paths: list[Path | None]
    verdicts: list[tuple[Verdict, ...]]
    overall: tuple[Verdict, ...]
    family: int


def group_starts(
    comparison: Comparison, journeys: Journeys, achieved: Achieved, options: ExplainOptions
) -> GroupedStarts:
    """Starts that share a path and the directions of outcomes, judged on other episodes than those that formed them."""
    assert achieved.forming is not None
    assert achieved.judged is not None
    outcomes, paper = comparison.place.outcomes, options.style == "paper"
    grouped = _grouped(journeys, achieved.forming, achieved.judged, comparison.place, options)
    single = len(grouped.groups) == 1 and not grouped.groups[0].rules
    family = len(outcomes) * (1 if single else len(grouped.groups) + 1)
    unchanged = [path == () for path in grouped.paths]
    everyone = np.ones(len(achieved.judged.weight), dtype=np.bool_)
    asked = [*grouped.members, everyone], [*unchanged, all(unchanged)]
    *verdicts, overall = judge_groups(achieved.judged, *asked, outcomes, options.level, family, papers_rule=paper)
    return replace(grouped, verdicts=verdicts, overall=overall, family=family)


def group_logged_starts(meetings: Meetings, world: World, options: ExplainOptions) -> GroupedStarts:
    """Starts of logged episodes that share a path and directions: half of the episodes form groups, others are told.

    Verdicts are left to the log's own judge.
    """
    assert meetings.halves is not None
    assert meetings.outcomes is not None
    forming, episodes = meetings.halves
    grouped = _grouped(forming, *meetings.outcomes, world, options)
    pairs = zip(grouped.groups, grouped.members, strict=True)
    groups = tuple(replace(group, members=np.flatnonzero(inside)) for group, inside in pairs)
    return replace(grouped, journeys=episodes, groups=groups)


def _grouped(
    journeys: Journeys, forming: StartOutcomes, judged: StartOutcomes, world: World, options: ExplainOptions
) -> GroupedStarts:
    """Groups before verdicts, as far as judged starts belong to them."""
    groups, members = _met(form_groups(journeys, forming, world, options), judged)
    paths = [_typical(journeys, group, forming) for group in groups]
    return GroupedStarts(journeys, forming, judged, groups, members, paths, [()] * len(groups), (), 0)


def _met(groups: tuple[StartGroup, ...], judged: StartOutcomes) -> tuple[tuple[StartGroup, ...], list[BoolArray]]:
    """Groups that some judged start belongs to, the first that covers it, and which ones those are."""
    left = np.ones(len(judged.weight), dtype=np.bool_)
    met, members = [], []
    for group in groups:
        inside = group.covers(judged.features) & left
        left &= ~inside
        if inside.any():
            met.append(group)
            members.append(inside)
    return tuple(met), members


def _typical(journeys: Journeys, group: StartGroup, forming: StartOutcomes) -> Path | None:
    """The typical path; "no region at all" only where nothing differs from these starts."""
    path = typical_path(journeys.shares(group.members))
    if path == () and forming.difference[group.members].any():
        return None
    return path


def sentences_by_start(
    grouped: GroupedStarts, ids: tuple[str, ...], regions: Sequence[Region], *, worst_first: bool
) -> tuple[Sentence, ...]:
    """A sentence per group, those for whom something gets worse first if asked for."""
    sentences = tuple(_sentence(grouped, k, ids) for k in range(len(grouped.groups)))
    sentences = tuple(sorted(sentences, key=rank)) if worst_first else sentences
    return tuple(_with_fidelity(sentence, grouped.journeys, ids, regions) for sentence in sentences)


def _sentence(grouped: GroupedStarts, k: int, ids: tuple[str, ...]) -> Sentence:
    group, path, inside = grouped.groups[k], grouped.paths[k], grouped.members[k]
    journeys, judged = grouped.journeys, grouped.judged
    shares = journeys.shares(group.members)
    usual_path = path if path is not None else ()
    others = tuple(PathShare(tuple(ids[r] for r in p), s) for p, s in list(shares.items())[:6] if p != usual_path)
    names = tuple(journeys.names[s] for s in group.members[:MOST_LISTED]) if journeys.names else ()
    share = float(judged.weight[inside].sum())
    distinct = distinct_rows(journeys.features[group.members])
    return Sentence(
        start=group.rules[0] if group.rules else None,
        share=share,
        path=tuple(ids[r] for r in usual_path),
        path_share=shares.get(usual_path, 0.0) if path is not None else 0.0,
        verdicts=grouped.verdicts[k],
        support=Support(distinct, int(inside.sum()), share),
        also=group.rules[1:],
        others=others,
        meetings=_meetings(journeys, group, ids) if path is None else (),
        starts=names,
    )


def _meetings(journeys: Journeys, group: StartGroup, ids: tuple[str, ...]) -> tuple[Meeting, ...]:
    weight = journeys.weight[group.members]
    weight = weight / weight.sum()
    share = weight @ journeys.meets[group.members]
    first = journeys.first_met[group.members]
    met = [k for k in range(len(ids)) if share[k] > 0]
    result = [Meeting(ids[k], float(share[k]), float(np.nanmedian(first[:, k]))) for k in met]
    return tuple(sorted(result, key=lambda meeting: meeting.first))


def rank(sentence: Sentence) -> int:
    """Groups for which something gets worse come first, those without a difference last."""
    if not sentence.path and not sentence.meetings:
        return 2
    return 0 if any(v.valence == "worse" for v in sentence.verdicts) else 1


def _with_fidelity(sentence: Sentence, journeys: Journeys, ids: tuple[str, ...], regions: Sequence[Region]) -> Sentence:
    """How true one sentence is: its path among its own starts, its swaps among its own visits."""
    named = sentence.path or tuple(meeting.region for meeting in sentence.meetings)
    inside = [region for region in regions if region.id in named]
    mass = sum(region.support.share for region in inside)
    precision = sum(r.support.share * r.precision for r in inside) / mass if mass > 0 else None
    if sentence.meetings:
        return replace(sentence, precision=precision)
    rules = start_rules(sentence)
    members = np.flatnonzero(covers_any(rules, journeys.features)) if rules else np.arange(len(journeys.weight))
    right = [tuple(ids[k] for k in journeys.modal(int(m))) == sentence.path for m in members]
    weight = journeys.weight[members]
    fidelity = float(weight @ np.array(right, dtype=float) / weight.sum()) if len(members) else None
    return replace(sentence, path_fidelity=fidelity, precision=precision)


def start_rules(sentence: Sentence) -> list[Rule]:
    """The rules over starts that a sentence speaks about; none: all starts."""
    return [] if sentence.start is None else [sentence.start, *sentence.also]


def sentences_by_log(
    meetings: Meetings, regions: Sequence[Region], order: IntArray, judged: GroupVerdicts, whole: Support
) -> tuple[Sentence, ...]:
    """One sentence over all logged episodes; a sentence per region where every episode is one decision.

    Group 0 of the verdicts is everyone, group k + 1 the episodes that begin in region k; `regions` are in
    the printed `order`, and `whole` is what the log holds.
    """
    if meetings.one_step and regions:
        return tuple(_segment(region, judged, k + 1) for k, region in enumerate(regions))
    met = tuple(
        Meeting(region.id, float(meetings.shares[k]), float(meetings.first[k]))
        for region, k in zip(regions, order, strict=True)
    )
    support = replace(whole, unsupported=float(judged.unsupported[0]))
    return (Sentence(None, 1.0, (), 0.0, judged.verdicts[0], support, meetings=met),)


def _segment(region: Region, judged: GroupVerdicts, group: int) -> Sentence:
    episodes = judged.episodes[group]
    share = float(episodes / judged.episodes[0])
    return Sentence(
        start=region.rule,
        share=share,
        path=(region.id,),
        path_share=1.0,
        verdicts=judged.verdicts[group],
        support=Support(int(episodes), judged.behind(group), share, float(judged.unsupported[group])),
        precision=region.precision,
    )


def rejudged(sentence: Sentence, judged: GroupVerdicts, group: int, episodes: int) -> Sentence:
    """A sentence with the verdicts of the log in place of those of the model that told it."""
    behind = float(judged.episodes[group])
    support = replace(sentence.support, episodes=judged.behind(group), unsupported=float(judged.unsupported[group]))
    return replace(sentence, verdicts=judged.verdicts[group], support=support, share=behind / max(1, episodes))


def losing_segments(sentences: Sequence[Sentence]) -> tuple[WorseOff, ...]:
    """Segments for which an outcome gets worse beyond doubt, the most people first."""
    losing = [
        WorseOff(verdict.outcome, sentence.start, sentence.share, verdict.difference, people=sentence.support.episodes)
        for sentence in sentences
        if sentence.start is not None
        for verdict in sentence.verdicts
        if verdict.valence == "worse"
    ]
    return tuple(sorted(losing, key=lambda entry: -entry.share))


def confirmed(entries: Sequence[WorseOff], judged: GroupVerdicts, first: int) -> tuple[WorseOff, ...]:
    """Groups that a model calls worse off and the log's own interval confirms; the first is group `first`."""
    losing = []
    for group, entry in enumerate(entries, start=first):
        verdict = next(v for v in judged.verdicts[group] if v.outcome == entry.outcome)
        if verdict.valence == "worse":
            losing.append(replace(entry, difference=verdict.difference, people=judged.behind(group)))
    return tuple(losing)
