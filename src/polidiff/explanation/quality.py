"""How true an explanation is: fidelity, completeness, paths, length, and a simulated reader (PAPER rows 1–9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from polidiff.divergence.record import Divergence
from polidiff.explanation.groups import StartGroup
from polidiff.explanation.reader import Exam, Reading
from polidiff.journeys.record import Journeys, Path
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.explanation import Length, Quality, Region, Sentence, Verdict
from polidiff.records.outcome import Outcome
from polidiff.regions.describe import Described
from polidiff.regions.fidelity import fidelity


def rule_quality(
    divergence: Divergence, described: Described, regions: Sequence[Region], sentences: Sequence[Sentence]
) -> Quality:
    """How true the rules are, on visits that did not make them; what else is measured joins later."""
    rows = described.held_out if described.held_out.any() else np.ones(len(divergence.label), dtype=np.bool_)
    where = described.region_of(divergence.features)
    said = np.array([*(region.label for region in described.regions), 0])[where]
    truth = described.labels.label
    rules = fidelity(said[rows], truth[rows], divergence.judged[rows])
    verdicts = [verdict for sentence in sentences for verdict in sentence.verdicts]
    return Quality(
        precision=rules.precision,
        recall=rules.recall,
        f1=rules.f1,
        swap_accuracy=swap_accuracy(said[rows], truth[rows], divergence.judged[rows]),
        completeness={},
        path_fidelity=None,
        path_distance=None,
        length=length_of(regions, sentences),
        abstained=sum(v.direction == "unknown" for v in verdicts) / len(verdicts) if verdicts else 0.0,
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


def path_scores(
    told: Sequence[Path | None], groups: Sequence[StartGroup], journeys: Journeys
) -> tuple[float | None, float | None]:
    """Share of starts whose told path is their modal path, and the mean edit distance; None where no path is told."""
    right = distance = mass = 0.0
    done = np.zeros(len(journeys.weight), dtype=np.bool_)
    for path, group in zip(told, groups, strict=True):
        for k in group.members:
            if path is None or done[k]:
                continue
            done[k] = True
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


def own_reading(
    divergence: Divergence,
    described: Described,
    targets: Mapping[tuple[int, int], int],
    rows: IntArray,
    groups: Sequence[StartGroup],
    verdicts: Sequence[tuple[Verdict, ...]],
    exam: Exam,
) -> Reading:
    """What a reader of this explanation predicts: rules for actions, the sentence of the start for directions."""
    from polidiff.explanation.forms import told_actions

    where = described.region_of(divergence.features[rows])
    actions = told_actions(where, targets, exam.current)
    said: list[Mapping[str, str]] = [{} for _ in exam.directions]
    for group, told in reversed(list(zip(groups, verdicts, strict=True))):
        for k in np.flatnonzero(group.covers(exam.start_features)):
            said[k] = {v.outcome: v.direction for v in told}
    return Reading(actions, tuple(said))
