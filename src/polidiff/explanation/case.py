"""What changes for one case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from polidiff.errors import InvalidInputError
from polidiff.evaluation.exact import ExactEvaluator, outcome_tensor
from polidiff.evaluation.verdicts import verdict
from polidiff.explanation.words import number, rule_text, verdicts_text
from polidiff.policies import top_actions
from polidiff.records.arrays import AnyArray
from polidiff.records.explanation import Case, Explanation, Verdict
from polidiff.records.interval import Interval
from polidiff.records.rule import Rule
from polidiff.worlds.tabular import TabularMDP


def answer_case(explanation: Explanation, state: Any) -> Case:
    """Same or other action in a state, by which rule, and what to expect.

    `state` is a state's name or index (table), an observation (simulator), or a mapping of features to values. A
    result read from a file has no policies, so it answers from its rules alone.
    """
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


def _resolve(explanation: Explanation, state: Any) -> tuple[AnyArray | None, Any, str]:
    names = [feature.name for feature in explanation.world.features]
    if isinstance(state, Mapping):
        missing = [name for name in _needed(explanation) if name not in state]
        unknown = [name for name in state if name not in names]
        if unknown or missing:
            said = f"{unknown[0]!r} is not a feature" if unknown else f"{missing[0]!r} is needed and was not given"
            raise InvalidInputError(f"{said}. Hint: the features are {', '.join(map(repr, names))}")
        columns = {name: np.array([value]) for name, value in state.items()}
        raw = np.array([[state[name] for name in names]]) if _can_rebuild(explanation, state, names) else None
        return raw, columns, ", ".join(f"{k} = {_shown(v)}" for k, v in state.items())
    world = explanation.context[0] if explanation.context is not None else None
    if isinstance(state, str) and (world is None or world.kind == "table"):
        if world is None:
            return None, {"state": np.array([state], dtype=object)}, state
        if state not in world.states:
            raise InvalidInputError(f"there is no state {state!r}. Hint: states are {world.states[0]!r}, …")
        state = world.states.index(state)
    if world is None:
        raise InvalidInputError("a result read from a file answers for features by name, such as {'x': 0.05}")
    raw = np.array([state]) if world.kind == "table" else np.asarray(state)[None]
    shown = world.states[int(raw[0])] if world.kind == "table" else str(np.asarray(state))
    return raw, world.features_of(raw), shown


def _needed(explanation: Explanation) -> list[str]:
    told = [region.rule for region in explanation.regions]
    return list(dict.fromkeys(name for rule in told for name in rule.features if name != "state"))


def _can_rebuild(explanation: Explanation, state: Mapping[str, Any], names: list[str]) -> bool:
    """Whether an observation can be made from features: only where features are the observation."""
    if explanation.context is None or any(name not in state for name in names):
        return False
    world = explanation.context[0]
    return world.kind == "simulator" and world.sees_features


def _expected(explanation: Explanation, raw: AnyArray | None, features: Any) -> tuple[Verdict, ...]:
    """Exact from this state on in a table; else what the sentence for such starts says."""
    if explanation.context is not None and raw is not None and isinstance(explanation.context[0], TabularMDP):
        world, current, proposed = explanation.context
        state = int(raw[0])
        gains = outcome_tensor(world)
        values = [ExactEvaluator(world, policy.table).values(gains)[state] for policy in (current, proposed)]
        return tuple(_exact_verdict(o, values[0][m], values[1][m]) for m, o in enumerate(world.outcomes))
    for sentence in explanation.sentences:
        rules: list[Rule] = [] if sentence.start is None else [sentence.start, *sentence.also]
        if not rules or any(rule.covers(features)[0] for rule in rules):
            return sentence.verdicts
    return ()


def _exact_verdict(outcome: Any, before: float, after: float) -> Verdict:
    difference = Interval.exactly(after - before)
    return verdict(outcome, difference, difference, current=Interval.exactly(before), proposed=Interval.exactly(after))


def _text(
    explanation: Explanation, name: str, actions: tuple[str, str], rule: Rule | None, expected: tuple[Verdict, ...]
) -> str:
    if actions[0] == actions[1]:
        first = f"For {name}: {actions[0]}, as now."
    else:
        by = f" (because {rule_text(rule)})" if rule is not None and rule.features != ("state",) else ""
        first = f"For {name}: {actions[1]} instead of {actions[0]}{by}."
    effect = verdicts_text(expected, explanation.outcomes)
    return f"{first} To expect from there on: {effect}." if effect else first


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else number(float(value))
