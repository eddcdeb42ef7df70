"""A reader who has only the text and the current policy, and is asked about the proposed one.

The reader predicts the proposed action in visited states, the direction of each outcome from each start, and which
policy to pick for a stated preference. Every form of explanation is read the same way, so that forms compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.explanation import FormScore, Length
from polidiff.records.outcome import Outcome


@dataclass(frozen=True, eq=False)
class Exam:
    """What the reader is asked, and the right answers."""

    features: AnyArray  # (n, d) of visited states
    current: IntArray  # (n,) known to the reader
    proposed: IntArray  # (n,) to be predicted
    weight: FloatArray  # (n,)
    start_features: AnyArray  # (k, d)
    start_weight: FloatArray  # (k,)
    directions: tuple[Mapping[str, str], ...]  # (k,) outcome -> true direction, from the start's group
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, eq=False)
class Reading:
    """What a form lets the reader say."""

    actions: IntArray  # (n,) predicted proposed actions
    directions: tuple[Mapping[str, str], ...] | None  # (k,) predicted directions; None: the form tells nothing


def score(form: str, reading: Reading, exam: Exam, length: Length) -> FormScore:
    """Accuracy of a reader on the exam."""
    right = reading.actions == exam.proposed
    changed = exam.current != exam.proposed
    mass = float(exam.weight[changed].sum())
    directions, choices = _direction_scores(reading, exam)
    return FormScore(
        form,
        length,
        float(exam.weight[right].sum() / exam.weight.sum()),
        float(exam.weight[right & changed].sum() / mass) if mass > 0 else None,
        directions,
        choices,
    )


def _direction_scores(reading: Reading, exam: Exam) -> tuple[float | None, float | None]:
    """Share of directions told rightly, and of preferences ("more of this", "less of this") served rightly.

    A reader who has been told nothing picks by coin: half right.
    """
    if not exam.outcomes:
        return None, None
    told, served, mass = 0.0, 0.0, 0.0
    for k, truth in enumerate(exam.directions):
        said = reading.directions[k] if reading.directions is not None else {}
        for outcome in exam.outcomes:
            true, heard = truth[outcome.name], said.get(outcome.name)
            weight = float(exam.start_weight[k])
            mass += weight
            told += weight * (heard == true)
            if true in ("more", "less"):
                served += weight * (1.0 if heard == true else 0.5 if heard in (None, "same", "unknown") else 0.0)
            else:
                served += weight * (1.0 if heard == true else 0.5)
    return told / mass, served / mass


def words_in(text: str) -> int:
    """How many words a text has."""
    return len(text.split())
