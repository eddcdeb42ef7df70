r"""How true an explanation is (PAPER rows 1–9), and how it does beside other forms of telling the difference.

Fidelity, completeness, paths, length and a simulated reader are measured for one explanation. How much regions move
when the sample changes is asked of several: two of them agree on a visit when both or neither put it in a region with
the same swap, their overlap is :math:`J = w(\text{both tell the same swap}) / w(\text{either tells a swap})`, and
stability is its mean over all pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeAlias

import numpy as np

from polidiff.evaluation.verdicts import StartOutcomes, direction_of
from polidiff.explanation.forms import (
    ChangedStep,
    Exam,
    Form,
    Reading,
    complete_policy,
    detour,
    immediate_effects,
    nothing,
    outcomes_only,
    reach_of,
    score,
    states_visited,
)
from polidiff.explanation.groups import by_key
from polidiff.explanation.regions import Difference
from polidiff.explanation.sentences import GroupedStarts
from polidiff.journeys import Path, Trajectory, sample_trajectories
from polidiff.policies import PatchedPolicy
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.explanation import Explanation, Length, Quality, Region, Sentence, Verdict
from polidiff.records.numbers import number
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.rule import first_match
from polidiff.regions.describe import fidelity, fidelity_intervals
from polidiff.streams import Stream
from polidiff.worlds.protocol import World


def rule_quality(difference: Difference, sentences: Sequence[Sentence], *, bounded: bool = False) -> Quality:
    """How true the rules are, on visits that did not make them, `bounded` by intervals; the rest is measured later."""
    divergence, described = difference.divergence, difference.described
    held_out = bool(described.held_out.any())
    rows = described.held_out if held_out else np.ones(len(divergence.label), dtype=np.bool_)
    where = described.region_of(divergence.features)
    said = np.array([*(region.label for region in described.regions), 0])[where]
    truth = described.labels.label
    rules = fidelity(said[rows], truth[rows], divergence.judged[rows])
    verdicts = [verdict for sentence in sentences for verdict in sentence.verdicts]
    intervals: dict[str, Interval] = {}
    if bounded and held_out and divergence.sampled:
        told, changed = said[rows] > 0, truth[rows] > 0
        right, weight = changed & (said == truth)[rows], divergence.judged[rows]
        intervals = fidelity_intervals(told, changed, right, weight, divergence.episode[rows], difference.options.level)
    return Quality(
        precision=rules.precision,
        recall=rules.recall,
        f1=rules.f1,
        swap_accuracy=swap_accuracy(said[rows], truth[rows], divergence.judged[rows]),
        completeness={},
        path_fidelity=None,
        path_distance=None,
        length=length_of(difference.regions, sentences),
        abstained=sum(v.direction == "unknown" for v in verdicts) / len(verdicts) if verdicts else 0.0,
        held_out=held_out,
        intervals=intervals,
    )


def swap_accuracy(told: IntArray, truth: IntArray, weight: FloatArray) -> float | None:
    """Of the changed visits that a rule covers, the share whose pair is told rightly."""
    both = (told > 0) & (truth > 0)
    mass = float(weight[both].sum())
    return float(weight[both & (told == truth)].sum()) / mass if mass > 0 else None


def completeness_of(
    outcomes: Sequence[Outcome], current: FloatArray, proposed: FloatArray, patched: FloatArray
) -> dict[str, float | None]:
    r"""Share of each difference that the patch recovers, :math:`1 - |G_e - G_p| / |G_e - G_b|`.

    None where the difference is within the outcome's margin.
    """
    result: dict[str, float | None] = {}
    for m, outcome in enumerate(outcomes):
        gap = abs(proposed[m] - current[m])
        small = gap <= max(outcome.margin, 1e-9 * (1 + abs(current[m])))
        result[outcome.name] = None if small else float(1 - abs(proposed[m] - patched[m]) / gap)
    return result


def path_scores(grouped: GroupedStarts) -> tuple[float | None, float | None]:
    """Share of starts whose told path is their modal path, and the mean edit distance; None where no path is told."""
    journeys, right, distance, mass = grouped.journeys, 0.0, 0.0, 0.0
    pairs = [(path, group) for path, group in zip(grouped.paths, grouped.groups, strict=True) if path is not None]
    for path, group in pairs:
        for k in group.members:
            modal = journeys.modal(int(k))
            mass += journeys.weight[k]
            right += journeys.weight[k] * (modal == path)
            distance += journeys.weight[k] * edit_distance(path, modal)
    return (float(right / mass), float(distance / mass)) if mass > 0 else (None, None)


def edit_distance(one: Path, other: Path) -> int:
    """Fewest insertions, deletions and replacements.

    >>> edit_distance((1, 2, 3), (1, 3))
    1
    """
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def length_of(regions: Sequence[Region], sentences: Sequence[Sentence]) -> Length:
    """What a reader has to take in: each region and each start rule once; words are counted when they are written."""
    rules = [region.rule for region in regions]
    rules += [rule for s in sentences if s.start is not None for rule in (s.start, *s.also)]
    conditions = {condition for rule in rules for condition in rule.conditions}
    return Length(len(sentences), len(rules), sum(rule.literals for rule in rules), len(conditions), words=0)


def own_reading(difference: Difference, grouped: GroupedStarts, exam: Exam) -> Reading:
    """What a reader of this explanation predicts: rules for actions, the sentence of the start for directions."""
    where, actions = difference.described.region_of(exam.features), np.array(exam.current)
    position = {region.rule: k for k, region in enumerate(difference.described.regions)}
    for edit in difference.patch.edits[::-1]:
        if edit.proposed is not None:
            actions[(where == position[edit.rule]) & (exam.current == edit.current)] = edit.proposed
    said: list[Mapping[str, str]] = [{} for _ in exam.directions]
    for group, verdicts in zip(grouped.groups, grouped.verdicts, strict=True):
        for k in np.flatnonzero(group.told.covers(exam.start_features)):
            said[k] = {v.outcome: v.direction for v in verdicts}
    return Reading(actions, tuple(said))


MOST_ASKED = 20_000
Pairs: TypeAlias = Sequence[tuple[Trajectory, Trajectory]]  # episodes of both policies from the same starts


def quality_and_forms(
    difference: Difference, grouped: GroupedStarts, sentences: Sequence[Sentence], pairs: Pairs
) -> tuple[Quality, Mapping[str, str]]:
    """Figures for this explanation and for the other forms, and the texts of these; `pairs` were played already."""
    rows = _asked(difference)
    exam = make_exam(difference, grouped, rows)
    quality = rule_quality(difference, sentences, bounded=difference.comparison.shows_episodes)
    shares, patched = _completeness(difference, grouped.judged)
    reading = own_reading(difference, grouped, exam)
    forms = [Form("polidiff", "", quality.length, reading), *_other_forms(difference, grouped, exam, pairs)]
    fidelity, distance = path_scores(grouped)
    quality = replace(
        quality,
        completeness=shares,
        patched=patched,
        path_fidelity=fidelity,
        path_distance=distance,
        forms=tuple(score(form.name, form.reading, exam, form.length) for form in forms),
    )
    return quality, {form.name: form.text for form in forms if form.text}


def make_exam(difference: Difference, grouped: GroupedStarts, rows: IntArray) -> Exam:
    """Held-out visits and starts, with the right answers."""
    divergence, forming = difference.divergence, grouped.forming
    weight = divergence.judged[rows]
    return Exam(
        divergence.features[rows],
        divergence.current[rows],
        divergence.proposed[rows],
        weight if weight.sum() > 0 else np.full(len(rows), 1 / len(rows)),
        forming.features,
        forming.weight,
        true_directions(grouped, difference.comparison.place.outcomes),
        difference.comparison.place.outcomes,
    )


def true_directions(grouped: GroupedStarts, outcomes: Sequence[Outcome]) -> tuple[Mapping[str, str], ...]:
    """Direction of each outcome from each start: exact, or that of the starts with the same path."""
    forming, count = grouped.forming, len(grouped.forming.weight)
    members = by_key(range(count) if forming.exact else [grouped.journeys.modal(k) for k in range(count)])
    answers: list[Mapping[str, str]] = [{} for _ in range(count)]
    for inside in members.values():
        mask = np.zeros(count, dtype=np.bool_)
        mask[inside] = True
        directions = {
            o.name: direction_of(forming.interval(forming.difference[:, m], mask, 0.95), o.margin)
            if forming.difference[mask, m].any()
            else "same"
            for m, o in enumerate(outcomes)
        }
        for k in inside:
            answers[k] = directions
    return tuple(answers)


def _asked(difference: Difference) -> IntArray:
    held = difference.described.held_out
    rows = np.flatnonzero((held if held.any() else ~held) & (difference.divergence.judged > 0))
    if len(rows) > MOST_ASKED:
        rng = np.random.default_rng((difference.options.seed, Stream.EXAM))
        rows = np.sort(rng.choice(rows, MOST_ASKED, replace=False))
    return rows


@dataclass(frozen=True, eq=False)
class Example:
    """One episode of each policy from the same start, the first that meets a difference."""

    start: str
    states: AnyArray  # (steps, d) of the proposed policy
    current: tuple[str, ...]  # places it visits
    proposed: tuple[str, ...]


def _other_forms(difference: Difference, grouped: GroupedStarts, exam: Exam, pairs: Pairs) -> list[Form]:
    world, example = difference.comparison.place, _example(difference, pairs)
    names = tuple(action.name for action in world.actions)
    start, from_start = _from_start(grouped, example)
    return [
        immediate_effects(exam, _changed_steps(difference, example), example.start, reach_of(exam.features)),
        states_visited(exam, example.current, example.proposed, example.start),
        outcomes_only(exam, from_start, start),
        complete_policy(exam, world.feature_names, names, len(difference.regions) + 1, difference.options.seed),
        nothing(exam),
    ]


def _example(difference: Difference, pairs: Pairs) -> Example:
    """A pair of episodes; an empty one where none of a few meets a difference."""
    place, policies = difference.comparison.place, (difference.comparison.current, difference.comparison.proposed)
    played = pairs or list(
        zip(*(sample_trajectories(place, policy, seed=difference.options.seed) for policy in policies), strict=True)
    )
    for old, new in played:
        if (
            np.array_equal(old.features[:1], new.features[:1])
            and (difference.described.region_of(new.features) >= 0).any()
        ):
            ways = [tuple(_place_name(place, row) for row in way.features) for way in (old, new)]
            return Example("a typical start" if place.has_features else ways[0][0], new.features, *ways)
    return Example("the first start", np.empty((0, len(place.feature_names))), (), ())


def _place_name(world: World, row: AnyArray) -> str:
    if not world.has_features:
        return str(row[0])
    return ", ".join(f"{name} {_shown(value)}" for name, value in zip(world.feature_names, row, strict=True))


def _from_start(grouped: GroupedStarts, example: Example) -> tuple[str | None, tuple[Verdict, ...]]:
    """The start of the example with the verdicts of its group, where starts have names; else all starts."""
    names = grouped.journeys.names
    if example.start not in names:
        return None, grouped.overall
    k = names.index(example.start)
    of_group = [told for group, told in zip(grouped.groups, grouped.verdicts, strict=True) if k in group.members]
    return example.start, (*of_group, grouped.overall)[0]


def _shown(value: object) -> str:
    """A feature's value: a word as it is, a number for reading.

    >>> _shown("red"), _shown(0.12345)
    ('red', '0.123')
    """
    return number(float(value), 3) if isinstance(value, (int, float, np.integer, np.floating)) else str(value)


def _changed_steps(difference: Difference, example: Example) -> tuple[ChangedStep, ...]:
    """The changed decisions of the proposed policy's episode."""
    world, described = difference.comparison.place, difference.described
    names, steps = [action.name for action in world.actions], []
    for k, region in enumerate(described.region_of(example.states)):
        if region >= 0:
            action, longer = described.regions[region].swap.proposed, detour(example.current, example.proposed, k)
            effects = dict(_immediate(difference, int(region)))
            effects |= {
                o.name: longer * float(np.asarray(o.of)) for o in world.outcomes if isinstance(o.of, (int, float))
            }
            place = example.proposed[k]
            steps.append(ChangedStep(example.states[k], place, action, names.index(action), effects))
    return tuple(steps)


def _immediate(difference: Difference, region: int) -> Mapping[str, float]:
    """What the swap of a region adds to each outcome at once."""
    divergence = difference.divergence
    inside = difference.described.region_of(divergence.features) == region
    parts = (divergence.states, divergence.current, divergence.proposed, divergence.diverging)
    return difference.comparison.immediate_effects(*(part[inside] for part in parts))


def _completeness(difference: Difference, judged: StartOutcomes) -> tuple[dict[str, float | None], dict[str, float]]:
    """The share of each difference that the patch recovers, and what it adds instead where it recovers nothing."""
    comparison = difference.comparison
    before, after = (judged.weight @ values for values in (judged.current, judged.proposed))
    patched = PatchedPolicy(comparison.current, difference.patch)
    reached = comparison.mean_outcomes(patched, judged, seed=difference.options.seed)
    outcomes = comparison.place.outcomes
    if reached is None:
        return {outcome.name: None for outcome in outcomes}, {}
    shares = completeness_of(outcomes, before, after, reached)
    added = dict(zip(shares, (reached - before).tolist(), strict=True))
    return shares, {name: added[name] for name, share in shares.items() if share is not None and share < 0}


def region_stability(explanations: Sequence[Explanation], features: AnyArray, weight: FloatArray) -> float:
    """Mean overlap of the regions of several explanations over visited states; 1 if none tells a difference."""
    labelled = [_told(explanation, features) for explanation in explanations]
    overlaps = [_overlap(one, other, weight) for one, other in combinations(labelled, 2)]
    return float(np.mean(overlaps)) if overlaps else 1.0


def _told(explanation: Explanation, features: AnyArray) -> AnyArray:
    names = np.array([*(f"{region.current}→{region.proposed}" for region in explanation.regions), ""], dtype=object)
    return np.asarray(names[first_match([region.rule for region in explanation.regions], features)])


def _overlap(one: AnyArray, other: AnyArray, weight: FloatArray) -> float:
    either = weight[(one != "") | (other != "")].sum()
    both = weight[(one == other) & (one != "")].sum()
    return float(both / either) if either > 0 else 1.0
