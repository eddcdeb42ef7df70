"""From two policies to an explanation: one line per stage, whatever the kind of world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from polidiff._version import versions
from polidiff.divergence import find_divergence
from polidiff.evaluation import compare
from polidiff.evaluation.comparison import GroupVerdicts, check_estimator, chosen_on, undecided
from polidiff.evaluation.verdicts import RARE_IN_GROUPS, by_papers_rule, rare_events, where_papers_rule_differs
from polidiff.explanation.groups import tails, worse_off
from polidiff.explanation.pictures import decisions_of, episode_pairs, pictures_of, sample_of
from polidiff.explanation.quality import quality_and_forms, rule_quality
from polidiff.explanation.region_places import losing_groups
from polidiff.explanation.regions import Difference, patch_of, printed_order, region_ids, region_records, with_effects
from polidiff.explanation.sentences import (
    GroupedStarts,
    confirmed,
    group_logged_starts,
    group_rules,
    group_starts,
    in_reading_order,
    rejudged,
    sentences_by_log,
    sentences_by_start,
)
from polidiff.explanation.text import sentence_text
from polidiff.explanation.words import place_text
from polidiff.journeys import Journeys, Meetings, Trajectory, follow
from polidiff.options import ExplainOptions
from polidiff.policies import PolicyLike, edit_rules
from polidiff.records.arrays import IntArray
from polidiff.records.explanation import (
    FOLLOWED,
    Explanation,
    Methods,
    Picture,
    Region,
    Sentence,
    Support,
    Tail,
)
from polidiff.records.numbers import percent
from polidiff.records.outcome import Assumption
from polidiff.records.rule import GroupRules
from polidiff.regions.describe import describe
from polidiff.rules.learners import as_learner
from polidiff.worlds.protocol import World


def methods_record(options: ExplainOptions, method: str, family: int, *, learns: bool) -> Methods:
    """How the result was made; `learns`: whether regions are learned from features."""
    return Methods(
        style=options.style,
        level=options.level,
        policy_tolerance=options.policy_tolerance,
        transition_tolerance=options.transition_tolerance,
        seed=options.seed,
        family=family,
        evaluation=method,
        versions=versions(),
        min_group=options.min_group,
        classifier=as_learner(options.classifier).name if learns else "",
    )


NEARLY_EVERYWHERE = 0.8
EVERYONE = GroupRules()
UNTOLD = 0.005  # share of starts in no group from which on that is said


def compose(world: World, current: PolicyLike, proposed: PolicyLike, options: ExplainOptions) -> Explanation:
    """Regions, paths, groups, verdicts, sentences, quality."""
    comparison = compare(world, current, proposed, seed=options.seed)
    check_estimator(options.evaluation, comparison.estimators)
    place = comparison.place
    unsure = comparison.unsure(options.transition_tolerance)
    divergence = find_divergence(place, *comparison.policies, options, unsure=unsure)
    described = describe(
        divergence,
        world.actions,
        world.feature_names,
        has_features=world.has_features,
        max_rules=options.max_rules,
        learner=as_learner(options.classifier),
        given=() if options.classifier is not None else edit_rules(proposed),
        seed=options.seed,
    )
    achieved = comparison.achieved(
        divergence.diverging,
        length=divergence.mean_length,
        max_steps=options.max_steps,
        level=options.level,
        seed=options.seed,
    )
    episodes = 0 if achieved.forming is None else len(achieved.forming.weight)
    journeys = follow(world, comparison, described.rules, seed=options.seed, episodes=episodes)
    if isinstance(journeys, Journeys) and journeys.by_chance:
        divergence = replace(divergence, facts={**divergence.facts, FOLLOWED: journeys.by_chance})
    order = printed_order([[rule] for rule in described.rules], journeys.order.tolist())
    ids = region_ids(described, order)
    regions = region_records(comparison, described, divergence, ids, options)
    chosen = chosen_on(world, current, proposed)
    if chosen is None:
        regions = with_effects(comparison, regions, divergence.mean_length, options)
    patch = patch_of(comparison, described, divergence)
    difference = Difference(comparison, divergence, described, achieved, ids, regions, patch, options, chosen)
    in_order = tuple(regions[k] for k in order)
    if isinstance(journeys, Meetings):
        return _words_counted(tell_log(difference, in_order, journeys, order))
    return _words_counted(judged_by_log(difference, tell_starts(difference, in_order, journeys)))


def tell_starts(difference: Difference, regions: tuple[Region, ...], journeys: Journeys) -> Explanation:
    """The explanation where single starts are known: groups of them with a path each."""
    options, place = difference.options, difference.comparison.place
    grouped = group_starts(difference.comparison, journeys, difference.achieved, options)
    judged = grouped.judged
    pairs = episode_pairs(difference.comparison, options.seed)
    sentences = sentences_by_start(grouped, difference.ids, difference.regions, worst_first=options.style != "paper")
    quality, forms = quality_and_forms(difference, grouped, sentences, pairs)
    changed = float(difference.divergence.judged[difference.divergence.diverging].sum())
    return _explanation(
        difference,
        regions,
        judged.method,
        grouped.family,
        sentences=sentences,
        verdicts=grouped.overall,
        worse_off=worse_off(judged, grouped.forming, place, options.level),
        quality=quality,
        tails=tails(judged, place.outcomes),
        warnings=_warnings(difference, sentences, journeys),
        assumptions=() if judged.exact else _unmet_events(grouped, parted=difference.achieved.changes > 0),
        forms=forms,
        pictures=_pictures(difference, pairs),
        episodes=decisions_of(pairs, place.actions),
        lead="complete" if changed > NEARLY_EVERYWHERE and place.has_features else "difference",
        context=(place, difference.comparison.current, difference.comparison.proposed),
    )


def _unmet_events(grouped: GroupedStarts, *, parted: bool) -> tuple[Assumption, ...]:
    """What played episodes may not have met: of all of them, and of a group whose verdict is decided.

    Where policies decide otherwise and nothing is shown to differ, also that an outcome never came under either.
    """
    judged = grouped.judged
    everyone = [(np.ones(len(judged.weight), dtype=np.bool_), "", grouped.overall)]
    groups = zip(grouped.members, grouped.groups, grouped.verdicts, strict=True)
    parts = [
        (inside, f" of {'other ' * bool(group.told.outside)}starts {' or '.join(map(place_text, group.rules))}", told)
        for inside, group, told in groups
        if group.rules
    ]
    samples, in_groups = (
        {
            f"the difference in {verdict.outcome}{where}": judged.difference[inside, m]
            for inside, where, verdicts in some
            for m, verdict in enumerate(verdicts)
            if not verdict.difference.exact and (not where or verdict.direction != "unknown")
        }
        for some in (everyone, parts)
    )
    if parted and all(verdict.direction in ("same", "unknown") for verdict in grouped.overall):
        both = np.hypot(judged.current, judged.proposed)  # 0 where neither policy met anything
        samples |= {v.outcome: both[:, m] for m, v in enumerate(grouped.overall) if not both[:, m].any()}
    return (*rare_events(samples), *rare_events(in_groups, RARE_IN_GROUPS))


def judged_by_log(difference: Difference, explanation: Explanation) -> Explanation:
    """The explanation with the log's own verdicts, where a model that a log supports has told it."""
    everyone = len(explanation.sentences)
    losing = [GroupRules(entry.rules) for entry in explanation.worse_off]
    judged = _judged(difference, [*group_rules(explanation.sentences), EVERYONE, *losing])
    if judged is None:
        return explanation
    episodes = int(judged.episodes[everyone])
    return replace(
        explanation,
        sentences=tuple(rejudged(sentence, judged, k, episodes) for k, sentence in enumerate(explanation.sentences)),
        verdicts=judged.verdicts[everyone],
        worse_off=confirmed(explanation.worse_off, judged, everyone + 1),
        tails=(),
        methods=replace(explanation.methods, family=judged.family, evaluation=judged.method),
        warnings=(*explanation.warnings, *judged.warnings),
        assumptions=judged.assumptions,
    )


def tell_log(difference: Difference, regions: tuple[Region, ...], meetings: Meetings, order: IntArray) -> Explanation:
    """The explanation where only logged episodes are known; `regions` are printed in this `order`."""
    if meetings.halves is not None:
        sentences, judged = _logged_sentences(difference, meetings)
    else:
        groups = [GroupRules((region.rule,)) for region in regions] if meetings.one_step else []
        verdicts = _judged(difference, [EVERYONE, *groups])
        assert verdicts is not None
        judged, sentences = verdicts, sentences_by_log(meetings, regions, order, verdicts, _whole(difference))
    losing = losing_groups([sentence for sentence in sentences if sentence.start is not None])
    return _explanation(
        difference,
        regions,
        judged.method,
        judged.family,
        sentences=sentences,
        verdicts=judged.verdicts[0],
        worse_off=tuple(sorted(losing, key=lambda entry: -entry.share)),
        quality=rule_quality(difference, sentences),
        warnings=(*judged.warnings, *meetings.notes, *difference.described.notes),
        assumptions=judged.assumptions,
    )


def _logged_sentences(difference: Difference, meetings: Meetings) -> tuple[tuple[Sentence, ...], GroupVerdicts]:
    """Sentences by groups of starts, followed in the log's own moves; verdicts are the log's own."""
    grouped = group_logged_starts(
        meetings, difference.comparison.place, difference.options, difference.comparison.people
    )
    plain = sentences_by_start(grouped, difference.ids, difference.regions, worst_first=False)
    judged = _judged(difference, [EVERYONE, *(group.told for group in grouped.groups if group.rules)])
    assert judged is not None
    if plain[0].start is None:
        return (rejudged(plain[0], judged, 0, int(judged.episodes[0])),), judged
    rejudged_sentences = [replace(rejudged(s, judged, k + 1, 1), share=s.share) for k, s in enumerate(plain)]
    return in_reading_order(rejudged_sentences), judged


def _judged(difference: Difference, groups: list[GroupRules]) -> GroupVerdicts | None:
    """What the log says about groups of starts; in paper style by the paper's rule, unless an assumption has failed.

    The paper's rule tests no assumption. What a failed one has made unknown stays so, and a remark says it.
    """
    options, outcomes = difference.options, difference.comparison.world.outcomes
    judged = difference.comparison.judge(groups, level=options.level, seed=options.seed, evaluation=options.evaluation)
    if judged is not None and difference.chosen is not None:
        judged = undecided(judged, difference.chosen, groups.index(EVERYONE))
    if judged is None or options.style != "paper":
        return judged
    papers = tuple(tuple(map(by_papers_rule, row, outcomes)) for row in judged.verdicts)
    everyone = groups.index(EVERYONE)
    failed = [assumption.name for assumption in judged.assumptions if assumption.alarming]
    remark = where_papers_rule_differs(judged.verdicts[everyone], papers[everyone], failed)
    rows = zip(judged.verdicts, papers, strict=True)
    verdicts = tuple(
        tuple(ours if failed and ours.direction == "unknown" else theirs for ours, theirs in zip(*row, strict=True))
        for row in rows
    )
    return replace(judged, verdicts=verdicts, warnings=(*judged.warnings, *filter(None, [remark])))


def _whole(difference: Difference) -> Support:
    facts = difference.comparison.summary(difference.divergence.features, {}).facts
    return Support(int(facts["rows"]), int(facts.get("people", facts["episodes"])), 1.0)


def _explanation(
    difference: Difference,
    regions: tuple[Region, ...],
    method: str,
    family: int,
    *,
    tails: tuple[Tail, ...] = (),
    **parts: Any,
) -> Explanation:
    """The record: what is known of the difference, and other parts by the names of the record's fields."""
    comparison, divergence, options = difference.comparison, difference.divergence, difference.options
    names = tuple(action.name for action in comparison.world.actions)
    return Explanation(
        regions=regions,
        changes=difference.achieved.changes,
        changes_interval=difference.achieved.changes_interval,
        outcomes=comparison.world.outcomes,
        tails=tails,
        patch=difference.patch,
        tradeoff=difference.described.tradeoff,
        world=comparison.summary(divergence.features, divergence.facts),
        methods=methods_record(options, method, family, learns=comparison.world.has_features),
        graph=comparison.moves(),
        sample=sample_of(divergence, names, options.seed) if comparison.shows_episodes else (),
        **parts,
    )


def _words_counted(explanation: Explanation) -> Explanation:
    """The record with the words of its sentences counted as they are printed."""
    words = sum(len(sentence_text(explanation, sentence).split()) for sentence in explanation.sentences)
    quality, length = explanation.quality, replace(explanation.quality.length, words=words)
    forms = tuple(replace(form, length=length) if form.form == "polidiff" else form for form in quality.forms)
    return replace(explanation, quality=replace(quality, length=length, forms=forms))


def _pictures(difference: Difference, pairs: tuple[tuple[Trajectory, Trajectory], ...]) -> tuple[Picture, ...]:
    """Visits over pairs of features, with a few pairs of episodes."""
    place = difference.comparison.place
    told_features = tuple(name for region in difference.regions for name in region.rule.features)
    features = tuple((one.features, other.features) for one, other in pairs)
    where = difference.described.region_of(difference.divergence.features)
    return pictures_of(difference.divergence, where, difference.ids, place.feature_names, told_features, features)


def _warnings(difference: Difference, sentences: tuple[Sentence, ...], journeys: Journeys) -> tuple[str, ...]:
    notes, visits = [], difference.divergence
    changed = visits.judged[visits.diverging]
    untold = changed[difference.described.region_of(visits.features[visits.diverging]) < 0].sum()
    if difference.described.messages and untold > 0:
        notes.append(f"{percent(untold / changed.sum())} of the decisions that change are in none of the regions told.")
    notes += [*difference.comparison.place.notes, *difference.described.notes, *_split_notes(visits.facts)]
    cut = (0.0, 0.0) if difference.achieved.judged is None else difference.achieved.judged.cut
    if max(cut) > 0:
        shares = f"{percent(cut[0])} of the current and {percent(cut[1])} of the proposed policy's episodes"
        notes.append(f"{shares} reach the horizon and are cut there.")
    elif journeys.cut > 0:
        notes.append(f"{percent(journeys.cut)} of the episodes that show paths are longer than was followed.")
    apart = 1 - sum(sentence.share for sentence in sentences)
    if apart > UNTOLD:
        notes.append(f"{percent(apart)} of the starts are in no group that short rules tell; they count in the whole.")
    if any(region.merged for region in difference.described.regions):
        notes.append("States with the same swap are told together, as max_rules asks.")
    return tuple(notes)


def _split_notes(facts: Mapping[str, str | float | int]) -> list[str]:
    """How much of the splitting and comparing was done, where not all of it was."""
    notes, followed, made = [], facts.get("share of splits followed", 1.0), facts.get("share of comparisons made", 1.0)
    if isinstance(followed, float) and followed < 1:
        why = facts.get("splits limited by", "max_steps")
        notes.append(f"{percent(followed)} of the splits were followed ({why}); the others were left out at random.")
    if isinstance(made, float) and made < 1:
        notes.append(
            f"Next states were compared in {percent(made)} of the states where actions differ; others count as apart."
        )
    return notes
