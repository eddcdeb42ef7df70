"""What changes for one case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from polidiff.errors import InvalidInputError
from polidiff.evaluation import compare
from polidiff.evaluation.comparison import Comparison
from polidiff.evaluation.verdicts import verdict
from polidiff.explanation.words import number, rule_text, verdicts_text, withheld_text
from polidiff.policies import top_actions
from polidiff.records.arrays import AnyArray
from polidiff.records.explanation import Case, Explanation, Verdict
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.rule import Rule
from polidiff.records.suppression import suppressed

CaseLike: TypeAlias = "str | int | npt.ArrayLike | Mapping[str, float | str]"  # or an index
Features: TypeAlias = "AnyArray | Mapping[str, AnyArray]"  # a row, or columns by name


def answer_case(explanation: Explanation, state: CaseLike) -> Case:
    """Same or other action in a state, by which rule, and what to expect.

    `state` is a state's name or index (table), an observation (simulator), or a mapping of features to values. A
    result read from a file has no policies, so it answers from its rules alone.
    """
    explanation = suppressed(explanation)
    raw, features, name = _resolve(explanation, state)
    region = next((r for r in explanation.regions if r.rule.covers(features)[0]), None)
    if explanation.context is not None and raw is not None:
        world, current, proposed = explanation.context
        before = top_actions(current.probabilities(raw))
        after = top_actions(proposed.probabilities(raw), prefer=before)
        actions = (world.actions[int(before[0])].name, world.actions[int(after[0])].name)
    elif region is not None:
        actions = (region.current, region.proposed)
    else:
        actions = ("the current action", "the current action")
    expected = _expected(explanation, raw, features)
    text = _text(explanation, name, actions, None if region is None else region.rule, expected)
    return Case(name, actions[0], actions[1], None if region is None else region.id, expected, text)


def _resolve(explanation: Explanation, state: CaseLike) -> tuple[AnyArray | None, Features, str]:
    names = [feature.name for feature in explanation.world.features]
    if isinstance(state, Mapping):
        missing = [name for name in _needed(explanation) if name not in state]
        unknown = [name for name in state if name not in names]
        if unknown or missing:
            said = f"{unknown[0]!r} is not a feature" if unknown else f"{missing[0]!r} is needed and was not given"
            raise InvalidInputError(f"{said}. Hint: the features are {', '.join(map(repr, names))}")
        columns = {name: np.array([value]) for name, value in state.items()}
        asked = _asked(explanation)
        known = asked is not None and all(name in state for name in names)
        raw = asked.observation([state[name] for name in names]) if asked is not None and known else None
        return raw, columns, ", ".join(f"{k} = {_shown(v)}" for k, v in state.items())
    asked = _asked(explanation)
    if asked is None:
        if isinstance(state, str):
            return None, {"state": np.array([state], dtype=object)}, state
        raise InvalidInputError("a result read from a file answers for features by name, such as {'x': 0.05}")
    raw, shown = asked.find_state(state)
    return raw, asked.place.features_of(raw), shown


def _asked(explanation: Explanation) -> Comparison | None:
    """The two policies in their world, where the result still has them."""
    return None if explanation.context is None else compare(*explanation.context)


def _needed(explanation: Explanation) -> list[str]:
    told = [region.rule for region in explanation.regions]
    return list(dict.fromkeys(name for rule in told for name in rule.features if name != "state"))


def _expected(explanation: Explanation, raw: AnyArray | None, features: Features) -> tuple[Verdict, ...]:
    """Exact from this state on in a table; else what the sentence for such starts says."""
    asked = _asked(explanation)
    known = asked.expected_from(raw) if asked is not None and raw is not None else None
    if asked is not None and known is not None:
        return tuple(_exact_verdict(outcome, *both) for outcome, both in zip(asked.place.outcomes, known, strict=True))
    for sentence in explanation.sentences:
        rules: list[Rule] = [] if sentence.start is None else [sentence.start, *sentence.also]
        if not rules or any(rule.covers(features)[0] for rule in rules):
            return sentence.verdicts
    return ()


def _exact_verdict(outcome: Outcome, before: float, after: float) -> Verdict:
    difference = Interval.exactly(after - before)
    return verdict(outcome, difference, difference, current=Interval.exactly(before), proposed=Interval.exactly(after))


def _text(
    explanation: Explanation, name: str, actions: tuple[str, str], rule: Rule | None, expected: tuple[Verdict, ...]
) -> str:
    if actions[0] == actions[1]:
        unshown = withheld_text(explanation) if explanation.context is None else ""
        first = f"For {name}: {actions[0]}, as now{f', {unshown}' if unshown else ''}."
    else:
        by = f" (because {rule_text(rule)})" if rule is not None and rule.features != ("state",) else ""
        first = f"For {name}: {actions[1]} instead of {actions[0]}{by}."
    effect = verdicts_text(expected, explanation.outcomes)
    return f"{first} To expect from there on: {effect}." if effect else first


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else number(float(value))
