"""Other ways to tell the same difference, for comparison: two earlier forms, and the complete policy.

*Paths and immediate effects* (van der Waa et al. 2018, in the form the paper discusses): one typical trajectory and
what each changed decision does at once. *Outcomes only* (Sukkerd et al. 2020): what becomes more or less, not why.
*Complete policy*: a decision tree of the whole proposed policy, with as many leaves as the explanation has rules plus
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polidiff.explanation.reader import Exam, Reading, words_in
from polidiff.explanation.words import listing, number, verdicts_text
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.explanation import Length, Verdict
from polidiff.records.outcome import Outcome


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


def outcomes_only(exam: Exam, verdicts: tuple[Verdict, ...]) -> Form:
    """What becomes more or less over all starts."""
    told = verdicts_text(verdicts, exam.outcomes, figures=False)
    text = f"The proposed policy leads to {told}."
    said = {v.outcome: v.direction for v in verdicts}
    reading = Reading(exam.current, tuple(said for _ in exam.directions))
    return Form("outcomes only", text, Length(1, 0, 0, 0, words_in(text)), reading)


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
    return Form("paths and immediate effects", text, Length(1, len(steps), literals, literals, words_in(text)), reading)


def complete_policy(exam: Exam, names: tuple[str, ...], actions: tuple[str, ...], leaves: int, seed: int) -> Form:
    """A decision tree of the proposed policy."""
    from sklearn.tree import DecisionTreeClassifier

    matrix = _as_numbers(exam.features)
    tree = DecisionTreeClassifier(max_leaf_nodes=max(2, leaves), random_state=seed)
    tree.fit(matrix, exam.proposed, sample_weight=exam.weight)
    rules = _tree_rules(tree, names, actions)
    text = "The proposed policy: " + "; ".join(rules) + "."
    literals = sum(rule.count("<") + rule.count("≥") for rule in rules)
    length = Length(1, len(rules), literals, literals, words_in(text))
    return Form("complete policy", text, length, Reading(tree.predict(matrix).astype(np.int64), None))


def nothing(exam: Exam) -> Form:
    """No explanation: the reader assumes that nothing changes."""
    return Form("none", "", Length(0, 0, 0, 0, 0), Reading(exam.current, None))


def _effects_text(effects: Mapping[str, float], outcomes: tuple[Outcome, ...]) -> str:
    told = [f"adds {number(effects[o.name])} to {o.name}" for o in outcomes if abs(effects[o.name]) > 1e-9]
    return listing(told) if told else "changes nothing at once"


def _near(features: AnyArray, point: AnyArray, reach: FloatArray) -> Any:
    if features.dtype == object:
        return (features == point[None, :]).all(axis=1)
    return (np.abs(features - point[None, :]) <= reach).all(axis=1)


def _as_numbers(features: AnyArray) -> FloatArray:
    if features.dtype != object:
        return np.nan_to_num(features.astype(np.float64))
    columns = [np.unique(column.astype(str), return_inverse=True)[1] for column in features.T]
    return np.stack(columns, axis=1).astype(np.float64)


def _tree_rules(tree: Any, names: tuple[str, ...], actions: tuple[str, ...]) -> list[str]:
    inner = tree.tree_
    rules: list[str] = []
    stack: list[tuple[int, list[str]]] = [(0, [])]
    while stack:
        node, conditions = stack.pop()
        if inner.children_left[node] < 0:
            action = actions[int(tree.classes_[inner.value[node, 0].argmax()])]
            rules.append(f"{' and '.join(conditions) or 'always'}: {action}")
            continue
        name, cut = names[inner.feature[node]], number(float(inner.threshold[node]))
        stack.append((int(inner.children_right[node]), [*conditions, f"{name} ≥ {cut}"]))
        stack.append((int(inner.children_left[node]), [*conditions, f"{name} < {cut}"]))
    return rules


def reach_of(features: AnyArray) -> FloatArray:
    """How far a named state stands for its neighbours: a fiftieth of each feature's range."""
    if features.dtype == object:
        return np.zeros(features.shape[1])
    return np.asarray(np.ptp(np.nan_to_num(features.astype(float)), axis=0) / 50)


def told_actions(where: IntArray, targets: Mapping[tuple[int, int], int], current: IntArray) -> IntArray:
    """What a reader does who follows rules: the target of (region, current action), else the current action."""
    actions = np.array(current)
    for (region, action), target in targets.items():
        actions[(where == region) & (current == action)] = target
    return actions
