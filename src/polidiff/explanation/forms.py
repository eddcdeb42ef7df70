"""Other ways to tell the same difference, and a reader who tells how well each of them does.

The reader has only the text and the current policy, and is asked about the proposed one: its action in visited
states, the direction of each outcome from each start, and which policy to pick for a stated preference. *Paths and
immediate effects* (van der Waa et al. 2018, in the form of section 7): one typical trajectory and what each
changed decision does at once. *States visited* (the same, in the form of section 2): the states that only one of the
two trajectories visits. *Outcomes only* (Sukkerd et al. 2020): what becomes more or less, not why. *Complete
policy*: a decision tree of the whole proposed policy, with as many leaves as the explanation has rules plus one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polidiff.explanation.verdict_words import verdicts_text
from polidiff.explanation.words import listing, place_text
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.explanation import FormScore, Length, Verdict
from polidiff.records.numbers import number
from polidiff.records.outcome import Outcome
from polidiff.records.rule import Condition, Rule
from polidiff.rules.learners import leaf_rules

MOST_PLACES = 6  # that a text names


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


@dataclass(frozen=True, eq=False)
class Form:
    """A text, its length, and what a reader makes of it."""

    name: str
    text: str
    length: Length
    reading: Reading


@dataclass(frozen=True, eq=False)
class ChangedStep:
    """One changed decision of a typical trajectory."""

    features: AnyArray  # (d,)
    place: str
    action: str
    action_index: int
    effects: Mapping[str, float]  # outcome -> what it adds at once, against the current action


def outcomes_only(exam: Exam, verdicts: tuple[Verdict, ...], start: str | None) -> Form:
    """What becomes more or less from one start, or over all of them."""
    effects = verdicts_text(verdicts, exam.outcomes, figures=False)
    text = (
        f"Starting from {start}, the proposed policy leads to {effects}."
        if start
        else f"The proposed policy leads to {effects}."
    )
    said = {v.outcome: v.direction for v in verdicts}
    reading = Reading(exam.current, tuple(said for _ in exam.directions))
    return Form("outcomes only", text, Length(1, 0, 0, 0, len(text.split())), reading)


def immediate_effects(exam: Exam, steps: tuple[ChangedStep, ...], start: str, reach: FloatArray) -> Form:
    """The changed decisions of one trajectory, each with what it does at once.

    The reader applies them to states within `reach` (d,) of the ones named, and adds up the effects from every start.
    """
    parts = [
        f"will reach {step.place} and perform {step.action}, which {_effects_text(step.effects, exam.outcomes)}"
        for step in steps
    ]
    text = f"Starting from {start}, the proposed policy " + (
        ". Then it ".join(parts) + "." if parts else "does what the current one does."
    )
    actions = np.array(exam.current)
    for step in reversed(steps):
        actions[_near(exam.features, step.features, reach)] = step.action_index
    total = {o.name: sum(step.effects[o.name] for step in steps) for o in exam.outcomes}
    said = {name: "more" if t > 1e-9 else "less" if t < -1e-9 else "same" for name, t in total.items()}
    reading = Reading(actions, tuple(said for _ in exam.directions))
    literals = sum(len(step.features) for step in steps)
    return Form(
        "paths and immediate effects", text, Length(1, len(steps), literals, literals, len(text.split())), reading
    )


def states_visited(exam: Exam, current: Sequence[str], proposed: Sequence[str], start: str) -> Form:
    """The set differences of two trajectories: places that one of them visits and the other does not."""
    here, there = ([place for place in dict.fromkeys(one) if place not in other] for one, other in
                   ((proposed, current), (current, proposed)))  # fmt: skip
    text, whole = (
        f"Starting from {start}, the proposed policy visits {_places(here, 'current', most)}. "
        f"The current one visits {_places(there, 'proposed', most)}."
        for most in (MOST_PLACES, None)
    )
    literals = (len(here) + len(there)) * exam.features.shape[1]
    length = Length(1, len(here) + len(there), literals, literals, len(whole.split()))
    return Form("states visited", text, length, Reading(exam.current, None))


def detour(current: Sequence[str], proposed: Sequence[str], at: int) -> int:
    """Decisions that the proposed way takes more than the current one from step `at` until both meet again; else 0.

    >>> detour(["s0", "s1", "s3"], ["s0", "s1", "s2", "s3"], 1)
    1
    """
    if proposed[at] not in current:
        return 0
    since = current.index(proposed[at])
    ahead = current[since + 1 :]
    again = set(ahead)
    met = next((k for k in range(at + 1, len(proposed)) if proposed[k] in again), None)
    return 0 if met is None else met - at - 1 - ahead.index(proposed[met])


def complete_policy(exam: Exam, names: tuple[str, ...], actions: tuple[str, ...], leaves: int, seed: int) -> Form:
    """A decision tree of the proposed policy."""
    from sklearn.tree import DecisionTreeClassifier

    matrix, levels = _as_numbers(exam.features)
    tree = DecisionTreeClassifier(max_leaf_nodes=max(2, leaves), random_state=seed % 2**32)
    tree.fit(matrix, exam.proposed, sample_weight=exam.weight)
    chosen = tree.classes_[tree.tree_.value[:, 0].argmax(axis=1)]
    rules = [(_in_words(rule, levels), do) for rule, do in leaf_rules(tree, matrix, names, chosen)]
    text = "The proposed policy: " + "; ".join(f"{actions[do]} {place_text(rule)}" for rule, do in rules) + "."
    literals = sum(rule.literals for rule, _ in rules)
    length = Length(1, len(rules), literals, literals, len(text.split()))
    return Form("complete policy", text, length, Reading(tree.predict(matrix).astype(np.int64), None))


def nothing(exam: Exam) -> Form:
    """No explanation: the reader assumes that nothing changes."""
    return Form("none", "", Length(0, 0, 0, 0, 0), Reading(exam.current, None))


def _effects_text(effects: Mapping[str, float], outcomes: tuple[Outcome, ...]) -> str:
    parts = [f"adds {number(effects[o.name])} to {o.name}" for o in outcomes if abs(effects[o.name]) > 1e-9]
    return listing(parts) if parts else "changes nothing at once"


def _places(places: Sequence[str], other: str, most: int | None) -> str:
    if not places:
        return f"no state that the {other} one does not"
    parted = [f"({place})" if "," in place else place for place in places[:most]]
    more = len(places) - len(parted)
    return f"{listing([*parted, *([f'{more} more'] if more else [])])}, the {other} one does not"


def _near(features: AnyArray, point: AnyArray, reach: FloatArray) -> BoolArray:
    if features.dtype == object:
        return (features == point[None, :]).all(axis=1)
    return (np.abs(features - point[None, :]) <= reach).all(axis=1)


def _as_numbers(features: AnyArray) -> tuple[FloatArray, list[AnyArray]]:
    """Features as numbers, and for features in words the word behind each number."""
    if features.dtype != object:
        return np.nan_to_num(features.astype(np.float64)), []
    columns = [np.unique(column.astype(str), return_inverse=True) for column in features.T]
    return np.stack([numbers for _, numbers in columns], axis=1).astype(np.float64), [words for words, _ in columns]


def _in_words(rule: Rule, levels: list[AnyArray]) -> Rule:
    """The rule over words, where numbers stand for these."""
    if not levels:
        return rule
    words_of = [[str(word) for k, word in enumerate(levels[c.column]) if c.low <= k < c.high] for c in rule.conditions]
    pairs = zip(rule.conditions, words_of, strict=True)
    return Rule(tuple(Condition(c.feature, c.column, values=tuple(words)) for c, words in pairs))


def reach_of(features: AnyArray) -> FloatArray:
    """How far a named state stands for its neighbours: a fiftieth of each feature's range."""
    if features.dtype == object:
        return np.zeros(features.shape[1])
    return np.asarray(np.ptp(np.nan_to_num(features.astype(float)), axis=0) / 50)
