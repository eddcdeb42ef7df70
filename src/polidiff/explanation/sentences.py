"""Sentences: for these starts, which regions are met, in which order, and what that does.

Where single starts are known they are grouped by path and verdicts. Where only logged episodes are known, one sentence
tells how many of them meet each region; where every episode is one decision nothing is met in order, and each region is
a segment with verdicts of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from polidiff.evaluation.comparison import Achieved, Comparison, GroupVerdicts
from polidiff.evaluation.verdicts import StartOutcomes, judge_groups
from polidiff.explanation.groups import StartGroup, distinct_rows, form_groups, typical_path
from polidiff.explanation.regions import printed_order
from polidiff.explanation.words import MOST_LISTED
from polidiff.journeys import Journeys, Meetings, Path
from polidiff.options import ExplainOptions
from polidiff.records.arrays import BoolArray, IntArray
from polidiff.records.explanation import Meeting, PathShare, Region, Sentence, Support, Verdict, WorseOff
from polidiff.records.rule import GroupRules
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
    grouped = _grouped(journeys, achieved.forming, achieved.judged, comparison.place, options, comparison.people)
    single = len(grouped.groups) == 1 and not grouped.groups[0].rules
    family = len(outcomes) * (1 if single else len(grouped.groups) + 1)
    unchanged = [path == () for path in grouped.paths]
    everyone = np.ones(len(achieved.judged.weight), dtype=np.bool_)
    asked = [*grouped.members, everyone], [*unchanged, all(unchanged)]
    *verdicts, overall = judge_groups(achieved.judged, *asked, outcomes, options.level, family, papers_rule=paper)
    return replace(grouped, verdicts=verdicts, overall=overall, family=family)


def group_logged_starts(meetings: Meetings, world: World, options: ExplainOptions, people: float) -> GroupedStarts:
    """Starts of logged episodes that share a path and directions: half of the episodes form groups, others are told.

    Verdicts are left to the log's own judge.
    """
    assert meetings.halves is not None
    assert meetings.outcomes is not None
    forming, episodes = meetings.halves
    grouped = _grouped(forming, *meetings.outcomes, world, options, people / len(meetings.halves))
    pairs = zip(grouped.groups, grouped.members, strict=True)
    groups = tuple(replace(group, members=np.flatnonzero(inside)) for group, inside in pairs)
    return replace(grouped, journeys=episodes, groups=groups)


def _grouped(
    journeys: Journeys,
    forming: StartOutcomes,
    judged: StartOutcomes,
    world: World,
    options: ExplainOptions,
    people: float,
) -> GroupedStarts:
    """Groups before verdicts, as far as judged starts belong to them."""
    groups = form_groups(journeys, forming, world, options, people)
    formed = [(group, group.told.covers(judged.features)) for group in groups]
    met = [(group, inside) for group, inside in formed if inside.any() and len(group.members)]
    groups, members = tuple(group for group, _ in met), [inside for _, inside in met]
    paths = [_typical(journeys, group, forming) for group in groups]
    return GroupedStarts(journeys, forming, judged, groups, members, paths, [()] * len(groups), (), 0)


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
    sentences = [_sentence(grouped, k, ids, regions) for k in range(len(grouped.groups))]
    return in_reading_order(sentences) if worst_first else tuple(sentences)


def in_reading_order(sentences: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """Groups for whom something gets worse first, those without one last; overlapping ones as they were formed.

    A start belongs to the first group told that covers it.
    """
    wanted = sorted(range(len(sentences)), key=lambda k: _rank(sentences[k]))
    return tuple(sentences[k] for k in printed_order([sentence.rules for sentence in sentences], wanted))


def _sentence(grouped: GroupedStarts, k: int, ids: tuple[str, ...], regions: Sequence[Region]) -> Sentence:
    group, path, inside = grouped.groups[k], grouped.paths[k], grouped.members[k]
    journeys, judged = grouped.journeys, grouped.judged
    shares = journeys.shares(group.members)
    usual_path = path if path is not None else ()
    others = tuple(PathShare(tuple(ids[r] for r in p), s) for p, s in list(shares.items())[:6] if p != usual_path)
    names = tuple(journeys.names[s] for s in group.members[:MOST_LISTED]) if journeys.names else ()
    share = float(judged.weight[inside].sum())
    distinct = distinct_rows(journeys.features[group.members])
    meetings = _meetings(journeys, group, ids) if path is None else ()
    named = {ids[r] for r in usual_path} | {meeting.region for meeting in meetings}
    met = [region for region in regions if region.id in named]
    mass = sum(region.support.share for region in met)
    return Sentence(
        start=group.rules[0] if group.rules else None,
        share=share,
        path=tuple(ids[r] for r in usual_path),
        path_share=shares.get(usual_path, 0.0) if path is not None else 0.0,
        verdicts=grouped.verdicts[k],
        support=Support(distinct, int(inside.sum()), share),
        also=group.rules[1:],
        others=others,
        meetings=meetings,
        starts=names,
        path_fidelity=None if meetings else _path_fidelity(journeys, group, usual_path),
        precision=sum(r.support.share * r.precision for r in met) / mass if mass > 0 else None,
    )


def _path_fidelity(journeys: Journeys, group: StartGroup, path: Path) -> float:
    """The share of a group's starts whose own most frequent path is the one told."""
    weight = journeys.weight[group.members]
    right = np.array([journeys.modal(int(member)) == path for member in group.members])
    return float(weight[right].sum() / weight.sum())


def _meetings(journeys: Journeys, group: StartGroup, ids: tuple[str, ...]) -> tuple[Meeting, ...]:
    weight = journeys.weight[group.members]
    weight = weight / weight.sum()
    share = weight @ journeys.meets[group.members]
    first = journeys.first_met[group.members]
    met = [k for k in range(len(ids)) if share[k] > 0]
    result = [Meeting(ids[k], float(share[k]), float(np.nanmedian(first[:, k]))) for k in met]
    return tuple(sorted(result, key=lambda meeting: meeting.first))


def _rank(sentence: Sentence) -> int:
    """Groups for which something gets worse come first, those without a difference last."""
    if not sentence.path and not sentence.meetings:
        return 2
    return 0 if any(v.valence == "worse" for v in sentence.verdicts) else 1


def group_rules(sentences: Sequence[Sentence]) -> list[GroupRules]:
    """The starts that each sentence speaks about: where its rules hold and none of an earlier sentence."""
    rules = [sentence.rules for sentence in sentences]
    return [GroupRules(own, tuple(chain.from_iterable(rules[:k]))) for k, own in enumerate(rules)]


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


def confirmed(entries: Sequence[WorseOff], judged: GroupVerdicts, first: int) -> tuple[WorseOff, ...]:
    """Groups that a model calls worse off and the log's own interval confirms; the first is group `first`."""
    losing = []
    for group, entry in enumerate(entries, start=first):
        verdict = next(v for v in judged.verdicts[group] if v.outcome == entry.outcome)
        if verdict.valence == "worse":
            losing.append(replace(entry, difference=verdict.difference, people=judged.behind(group)))
    return tuple(losing)
