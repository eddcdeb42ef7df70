"""From two policies to an explanation: one line per stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polidiff.divergence.record import Divergence
from polidiff.explanation.groups import StartGroup, form_groups, typical_path
from polidiff.explanation.journeys import Journeys, Path, follow, sample_trajectories
from polidiff.explanation.judge import Judged, judge_groups
from polidiff.explanation.measure import Material, quality_and_forms
from polidiff.explanation.patching import patch_of
from polidiff.explanation.pictures import graph_of, pictures_of, sample_of
from polidiff.explanation.reader import words_in
from polidiff.explanation.regions import meeting_order, region_ids, region_records, with_played_values
from polidiff.explanation.summary import methods_record, world_summary
from polidiff.explanation.text import sentence_text
from polidiff.explanation.worse import tails, worse_off
from polidiff.options import ExplainOptions
from polidiff.policies import Policy
from polidiff.records.arrays import BoolArray, IntArray
from polidiff.records.explanation import (
    Explanation,
    Meeting,
    PathShare,
    Region,
    Sentence,
    Support,
    Verdict,
)
from polidiff.records.rule import covers_any
from polidiff.regions.describe import Described, describe
from polidiff.worlds.rollouts import Steppable
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP

NEARLY_EVERYWHERE = 0.8
MOST_LISTED = 50


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the stages before found: where the policies part, and what they achieve."""

    divergence: Divergence
    forming: Judged  # forms groups
    judged: Judged  # judges them; the same in a table
    changes: float  # expected changed decisions per episode


def compose(
    world: Steppable, current: Policy, proposed: Policy, evidence: Evidence, options: ExplainOptions
) -> Explanation:
    """Regions, paths, groups, verdicts, sentences, quality."""
    described = _describe(world, evidence, options)
    journeys = follow(world, proposed, described, seed=options.seed, episodes=len(evidence.forming.weight))
    ids = region_ids(described, meeting_order(described, journeys))
    groups, members = _met(_groups(world, journeys, evidence, options), evidence.judged)
    paths = [_told_path(journeys, group, evidence.forming) for group in groups]
    verdicts, overall, family = _verdicts(world, evidence.judged, groups, members, paths, options)
    sentences = tuple(
        _sentence(world, journeys, group, path, told, inside, evidence.judged, ids)
        for group, path, told, inside in zip(groups, paths, verdicts, members, strict=True)
    )
    sentences = _worst_first(sentences) if options.style != "paper" else sentences
    patch = patch_of(world, described, evidence.divergence)
    regions = region_records(
        world, described, evidence.divergence, ids, _table(world, proposed) if isinstance(world, TabularMDP) else None
    )
    if isinstance(world, Simulator) and world.is_model:
        regions = with_played_values(world, proposed, described, evidence.divergence, regions, seed=options.seed)
    sentences = tuple(_with_fidelity(sentence, journeys, ids, regions) for sentence in sentences)
    material = Material(world, current, proposed, evidence.divergence, described, journeys, groups, paths, verdicts)
    quality, forms = quality_and_forms(
        material, evidence.forming, evidence.judged, overall, sentences, regions, patch, options.seed
    )
    where = described.region_of(evidence.divergence.features)
    told_features = tuple(name for region in regions for name in region.rule.features)
    before = sample_trajectories(world, current, seed=options.seed) if world.has_features else ()
    changed = float(evidence.divergence.judged[evidence.divergence.diverging].sum())
    told = Explanation(
        regions=_in_order(regions, ids, meeting_order(described, journeys)),
        sentences=sentences,
        changes=evidence.changes,
        outcomes=world.outcomes,
        verdicts=overall,
        worse_off=worse_off(
            evidence.judged,
            evidence.forming,
            world.outcomes,
            world.feature_names,
            has_features=world.has_features,
            level=options.level,
        ),
        tails=tails(evidence.judged, world.outcomes),
        patch=patch,
        quality=quality,
        tradeoff=described.tradeoff,
        world=world_summary(world, evidence.divergence),
        methods=methods_record(options, evidence.judged.method, family),
        warnings=_warnings(evidence, described, sentences),
        forms=forms,
        lead="complete" if changed > NEARLY_EVERYWHERE and world.has_features else "difference",
        pictures=pictures_of(
            evidence.divergence, where, ids, world.feature_names, told_features, (before, journeys.trajectories)
        ),
        graph=graph_of(world, _table(world, current), _table(world, proposed)) if isinstance(world, TabularMDP) else (),
        sample=sample_of(evidence.divergence, tuple(action.name for action in world.actions), options.seed),
        context=(world, current, proposed),
    )
    return _with_words(told)


def _with_words(told: Explanation) -> Explanation:
    """The words of the sentences, counted as they are printed."""
    words = sum(words_in(sentence_text(told, sentence)) for sentence in told.sentences)
    length = replace(told.quality.length, words=words)
    own, *others = told.quality.forms
    return replace(told, quality=replace(told.quality, length=length, forms=(replace(own, length=length), *others)))


def _describe(world: Steppable, evidence: Evidence, options: ExplainOptions) -> Described:
    return describe(
        evidence.divergence,
        world.actions,
        world.feature_names,
        has_features=world.has_features,
        max_rules=options.max_rules,
        seed=options.seed,
    )


def _groups(
    world: Steppable, journeys: Journeys, evidence: Evidence, options: ExplainOptions
) -> tuple[StartGroup, ...]:
    signs = _signs(evidence.forming, world) if evidence.forming.exact else None
    return form_groups(
        journeys,
        signs,
        world.feature_names,
        has_features=world.has_features,
        max_rules=options.max_rules,
        seed=options.seed,
        apart=options.style == "paper" and not world.has_features,
    )


def _signs(judged: Judged, world: Steppable) -> IntArray:
    margin = np.array([max(o.margin, 1e-9) for o in world.outcomes])
    difference = judged.difference
    return (np.sign(difference) * (np.abs(difference) > margin)).astype(np.int64)


def _disjoint(groups: tuple[StartGroup, ...], judged: Judged) -> list[BoolArray]:
    """Which judged starts belong to which group, the first that covers a start."""
    left = np.ones(len(judged.weight), dtype=np.bool_)
    members = []
    for group in groups:
        inside = group.covers(judged.features) & left
        members.append(inside)
        left &= ~inside
    return members


def _met(groups: tuple[StartGroup, ...], judged: Judged) -> tuple[tuple[StartGroup, ...], list[BoolArray]]:
    """Groups that some judged episode belongs to, and which ones those are."""
    members = _disjoint(groups, judged)
    met = tuple(group for group, inside in zip(groups, members, strict=True) if inside.any())
    return met, [inside for inside in members if inside.any()]


def _told_path(journeys: Journeys, group: StartGroup, forming: Judged) -> Path | None:
    """The typical path; "no region at all" only where nothing differs from these starts."""
    path = typical_path(journeys.shares(group.members))
    if path == () and forming.difference[group.members].any():
        return None
    return path


def _verdicts(
    world: Steppable,
    judged: Judged,
    groups: tuple[StartGroup, ...],
    members: list[BoolArray],
    paths: list[Path | None],
    options: ExplainOptions,
) -> tuple[list[tuple[Verdict, ...]], tuple[Verdict, ...], int]:
    everyone = np.ones(len(judged.weight), dtype=np.bool_)
    single = len(groups) == 1 and not groups[0].rules
    family = len(world.outcomes) * (1 if single else len(groups) + 1)
    unchanged = [path == () for path in paths]
    shown = judge_groups(
        judged,
        [*members, everyone],
        [*unchanged, all(unchanged)],
        world.outcomes,
        options.level,
        family,
        papers_rule=options.style == "paper",
    )
    return shown[:-1], shown[-1], family


def _sentence(
    world: Steppable,
    journeys: Journeys,
    group: StartGroup,
    path: Path | None,
    verdicts: tuple[Verdict, ...],
    inside: BoolArray,
    judged: Judged,
    ids: tuple[str, ...],
) -> Sentence:
    shares = journeys.shares(group.members)
    told = path if path is not None else ()
    others = tuple(PathShare(tuple(ids[k] for k in p), s) for p, s in list(shares.items())[:6] if p != told)
    names = tuple(journeys.names[k] for k in group.members[:MOST_LISTED]) if journeys.names else ()
    share = float(judged.weight[inside].sum())
    return Sentence(
        start=group.rules[0] if group.rules else None,
        share=share,
        path=tuple(ids[k] for k in told),
        path_share=shares.get(told, 0.0) if path is not None else 0.0,
        verdicts=verdicts,
        support=Support(len(group.members), int(inside.sum()), share),
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


def _with_fidelity(
    sentence: Sentence, journeys: Journeys, ids: tuple[str, ...], regions: tuple[Region, ...]
) -> Sentence:
    """How true one sentence is: its path among its own starts, its swaps among its own visits."""
    told = sentence.path or tuple(meeting.region for meeting in sentence.meetings)
    inside = [region for region in regions if region.id in told]
    mass = sum(region.support.share for region in inside)
    precision = sum(r.support.share * r.precision for r in inside) / mass if mass > 0 else None
    if sentence.meetings:
        return replace(sentence, precision=precision)
    rules = [] if sentence.start is None else [sentence.start, *sentence.also]
    members = np.flatnonzero(covers_any(rules, journeys.features)) if rules else np.arange(len(journeys.weight))
    right = [tuple(ids[k] for k in journeys.modal(int(m))) == sentence.path for m in members]
    weight = journeys.weight[members]
    fidelity = float(weight @ np.array(right, dtype=float) / weight.sum()) if len(members) else None
    return replace(sentence, path_fidelity=fidelity, precision=precision)


def _worst_first(sentences: tuple[Sentence, ...]) -> tuple[Sentence, ...]:
    """Groups for which something gets worse come first, those without a difference last; else the order of forming."""

    def rank(sentence: Sentence) -> int:
        if not sentence.path and not sentence.meetings:
            return 2
        return 0 if any(v.valence == "worse" for v in sentence.verdicts) else 1

    return tuple(sorted(sentences, key=rank))


def _in_order(regions: tuple[Any, ...], ids: tuple[str, ...], order: IntArray) -> tuple[Any, ...]:
    by_id = {region.id: region for region in regions}
    return tuple(replace(by_id[ids[k]]) for k in order)


def _table(world: TabularMDP, policy: Policy) -> Any:
    return policy.probabilities(np.arange(world.n_states))


def _warnings(evidence: Evidence, described: Described, sentences: tuple[Sentence, ...]) -> tuple[str, ...]:
    notes = []
    if described.messages:
        notes.append("Rare changes that no short rule covers are left out; F1 counts them as missed.")
    followed = evidence.divergence.facts.get("share of splits followed", 1.0)
    if isinstance(followed, float) and followed < 1:
        notes.append(
            f"{followed:.0%} of the splits were followed within max_steps; the others were left out at random."
        )
    made = evidence.divergence.facts.get("share of comparisons made", 1.0)
    if isinstance(made, float) and made < 1:
        notes.append(
            f"next states were compared in {made:.0%} of the states where actions differ; others count as apart."
        )
    if evidence.judged.truncated > 0:
        notes.append(f"{evidence.judged.truncated:.1%} of the episodes were cut at the horizon.")
    if any(region.merged for region in described.regions):
        notes.append("States with the same swap are told together, as max_rules asks.")
    if any(sentence.meetings for sentence in sentences):
        notes.append("No single path is typical, so regions are listed by the share of episodes that meet them.")
    return tuple(notes)
