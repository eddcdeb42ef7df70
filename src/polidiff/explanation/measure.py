"""Quality figures and the other forms, from the same material as the explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polidiff.divergence.record import Divergence
from polidiff.evaluation.exact import ExactEvaluator, outcome_tensor
from polidiff.evaluation.verdicts import direction_of
from polidiff.explanation.forms import (
    ChangedStep,
    Form,
    complete_policy,
    immediate_effects,
    nothing,
    outcomes_only,
    reach_of,
)
from polidiff.explanation.groups import StartGroup
from polidiff.explanation.journeys import Journeys, Path
from polidiff.explanation.judge import Judged
from polidiff.explanation.quality import completeness_of, length_of, measure, own_reading
from polidiff.explanation.reader import Exam
from polidiff.policies import PatchedPolicy, Policy
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.explanation import Quality, Region, Sentence, Verdict
from polidiff.records.patch import Patch
from polidiff.regions.describe import Described
from polidiff.streams import Stream
from polidiff.worlds.rollouts import Steppable, gain_of, roll_out
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.steppers import ModelStepper
from polidiff.worlds.tabular import TabularMDP

MOST_ASKED = 20_000


@dataclass(frozen=True, eq=False)
class Material:
    """Everything an explanation was made from."""

    world: Steppable
    current: Policy
    proposed: Policy
    divergence: Divergence
    described: Described
    journeys: Journeys
    groups: tuple[StartGroup, ...]
    paths: list[Path | None]
    verdicts: list[tuple[Verdict, ...]]


def quality_and_forms(
    material: Material,
    forming: Judged,
    judged: Judged,
    overall: tuple[Verdict, ...],
    sentences: Sequence[Sentence],
    regions: Sequence[Region],
    patch: Patch,
    seed: int,
) -> tuple[Quality, Mapping[str, str]]:
    """Figures for this explanation and for the other forms, and the texts of these."""
    rows = _asked(material, seed)
    exam = make_exam(material, forming, rows)
    length = length_of(regions, sentences)
    reading = own_reading(
        material.divergence,
        material.described,
        targets_of(patch, material.described),
        rows,
        material.groups,
        material.verdicts,
        exam,
    )
    forms = [Form("polidiff", "", length, reading), *_other_forms(material, exam, overall, len(regions), seed)]
    quality = measure(
        material.divergence,
        material.described,
        sentences,
        material.paths,
        material.groups,
        material.journeys,
        _completeness(material, judged, patch, seed),
        forms,
        exam,
        length,
    )
    return quality, {form.name: form.text for form in forms if form.text}


def make_exam(material: Material, forming: Judged, rows: IntArray) -> Exam:
    """Held-out visits and starts, with the right answers."""
    divergence = material.divergence
    weight = divergence.judged[rows]
    return Exam(
        divergence.features[rows],
        divergence.current[rows],
        divergence.proposed[rows],
        weight if weight.sum() > 0 else np.full(len(rows), 1 / len(rows)),
        forming.features,
        forming.weight,
        true_directions(material, forming),
        material.world.outcomes,
    )


def true_directions(material: Material, forming: Judged) -> tuple[Mapping[str, str], ...]:
    """Direction of each outcome from each start: exact, or that of the starts with the same path."""
    outcomes = material.world.outcomes
    if forming.exact:
        keys: list[object] = list(range(len(forming.weight)))
    else:
        keys = [material.journeys.modal(k) for k in range(len(forming.weight))]
    members: dict[object, list[int]] = {}
    for k, key in enumerate(keys):
        members.setdefault(key, []).append(k)
    answers: list[Mapping[str, str]] = [{} for _ in keys]
    for inside in members.values():
        mask = np.zeros(len(keys), dtype=np.bool_)
        mask[inside] = True
        found = {
            o.name: direction_of(forming.interval(forming.difference[:, m], mask, 0.95), o.margin)
            if forming.difference[mask, m].any()
            else "same"
            for m, o in enumerate(outcomes)
        }
        for k in inside:
            answers[k] = found
    return tuple(answers)


def targets_of(patch: Patch, described: Described) -> dict[tuple[int, int], int]:
    """(region, current action) → action, as the rules tell it."""
    position = {region.rule: k for k, region in enumerate(described.regions)}
    return {(position[edit.rule], edit.current): edit.proposed for edit in reversed(patch.edits)}


def _asked(material: Material, seed: int) -> IntArray:
    held = material.described.held_out
    rows = np.flatnonzero((held if held.any() else ~held) & (material.divergence.judged > 0))
    if len(rows) > MOST_ASKED:
        rows = np.sort(np.random.default_rng((seed, Stream.EXAM)).choice(rows, MOST_ASKED, replace=False))
    return rows


def _other_forms(material: Material, exam: Exam, overall: tuple[Verdict, ...], rules: int, seed: int) -> list[Form]:
    world = material.world
    names = tuple(action.name for action in world.actions)
    steps, start = _typical_steps(material)
    return [
        immediate_effects(exam, steps, start, reach_of(exam.features)),
        outcomes_only(exam, overall),
        complete_policy(exam, world.feature_names, names, rules + 1, seed),
        nothing(exam),
    ]


def _typical_steps(material: Material) -> tuple[tuple[ChangedStep, ...], str]:
    """The changed decisions of one trajectory of the proposed policy, from the first start that meets a difference."""
    journeys = material.journeys
    candidates = [k for k in range(len(journeys.paths)) if journeys.modal(k)]
    shown = range(len(journeys.trajectories))
    k = next((c for c in candidates if c in shown), None)
    if k is None:
        return (), "the first start"
    start = journeys.names[k] if journeys.names else "a typical start"
    return tuple(_changed_steps(material, k)), start


def _changed_steps(material: Material, k: int) -> list[ChangedStep]:
    world = material.world
    trajectory = material.journeys.trajectories[k]
    where = material.described.region_of(trajectory)
    steps = []
    for row, region in zip(trajectory, where, strict=True):
        if region < 0:
            continue
        told = material.described.regions[region]
        effects = _immediate(material, int(region))
        place = (
            str(row[0])
            if not world.has_features
            else ", ".join(f"{name} {float(value):.3g}" for name, value in zip(world.feature_names, row, strict=True))
        )
        index = [action.name for action in world.actions].index(told.swap.proposed)
        steps.append(ChangedStep(row, place, told.swap.proposed, index, effects))
    return steps


def _immediate(material: Material, region: int) -> Mapping[str, float]:
    """What the swap of a region adds to each outcome at once; 0 in environments that cannot be set to a state."""
    world, divergence = material.world, material.divergence
    if not isinstance(world, TabularMDP):
        return _immediate_in_model(world, divergence, material.described, region)
    inside = material.described.region_of(divergence.features) == region
    states = divergence.states[inside]
    gains = outcome_tensor(world)
    moved = world.transitions
    rows_b, rows_e = (states * world.n_actions + a[inside] for a in (divergence.current, divergence.proposed))
    arrive = gains.max(axis=1)
    effect = (gains[states, divergence.proposed[inside]] + moved[rows_e] @ arrive) - (
        gains[states, divergence.current[inside]] + moved[rows_b] @ arrive
    )
    return {outcome.name: float(effect[:, m].mean()) for m, outcome in enumerate(world.outcomes)}


def _immediate_in_model(
    world: Simulator, divergence: Divergence, described: Described, region: int
) -> Mapping[str, float]:
    rows = np.flatnonzero((described.region_of(divergence.features) == region) & divergence.diverging)[:100]
    if not world.is_model or not rows.size:
        return {outcome.name: 0.0 for outcome in world.outcomes}
    states, everyone = divergence.states[rows], np.arange(len(rows))
    actions = (divergence.current[rows], divergence.proposed[rows])
    steps = [ModelStepper(world.env, np.array(states), (0,)).step(taken, everyone) for taken in actions]
    gains = [
        [np.mean(gain_of(outcome, states, taken, step)) for outcome in world.outcomes]
        for taken, step in zip(actions, steps, strict=True)
    ]
    return {o.name: float(gains[1][m] - gains[0][m]) for m, o in enumerate(world.outcomes)}


def _completeness(material: Material, judged: Judged, patch: Patch, seed: int) -> dict[str, float | None]:
    world = material.world
    patched = PatchedPolicy(material.current, patch)
    means = [judged.weight @ values for values in (judged.current, judged.proposed)]
    if isinstance(world, TabularMDP):
        reached = _exact_means(world, patched)
    else:
        count = len(judged.weight)
        reached = roll_out(
            world, patched, episodes=count, seed=(seed, Stream.JUDGING), what="patched policy"
        ).totals.mean(axis=0)
    if reached is None:
        return {outcome.name: None for outcome in world.outcomes}
    return completeness_of(world.outcomes, means[0], means[1], reached)


def _exact_means(world: TabularMDP, policy: Policy) -> FloatArray | None:
    evaluator = ExactEvaluator(world, policy.probabilities(np.arange(world.n_states)))
    if not evaluator.ends[world.starts].all():
        return None
    values = evaluator.values(outcome_tensor(world))
    return np.asarray(world.initial[world.starts] @ values[world.starts])
