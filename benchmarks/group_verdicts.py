"""How often verdicts on groups of starts are wrong, where few episodes are played.

Two environments written for the purpose, whose true effect from every start is a formula. `places`: one decision that
pays the more the further right it is made and costs on the left, with even luck, and a second outcome on which nothing
has an effect. `errands`:
three decisions with skewed luck, good for some starts and bad for others. Groups are formed on some episodes and
judged on others, as `explain` does, again and again with new luck; the level promises that all intervals of one
explanation hold together.

::

    python -m benchmarks group_verdicts
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from polidiff import Outcome, Simulator
from polidiff.divergence import find_divergence
from polidiff.evaluation.comparison import Achieved
from polidiff.evaluation.simulator import compare, paired_outcomes
from polidiff.evaluation.verdicts import rare_events
from polidiff.explanation.sentences import group_starts
from polidiff.journeys import follow
from polidiff.options import ExplainOptions
from polidiff.records.arrays import FloatArray
from polidiff.records.explanation import Verdict
from polidiff.regions.describe import describe
from polidiff.streams import Stream

EPISODES = (100, 300)  # paired, that form groups; as many judge them
REPETITIONS = 1000
KNOWN = 200_000  # starts over which a true effect is averaged


class Places:
    """One decision at a random place; action 1 pays twice the place, and luck."""

    n_actions, horizon = 2, 1

    def reset(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Two numbers between −1 and 1; the second says nothing."""
        return rng.uniform(-1, 1, (count, 2))

    def step(self, states: FloatArray, actions: Any, rng: np.random.Generator) -> tuple[Any, ...]:
        """It ends at once; the second number becomes a luck that only action 1 draws, 0 on average."""
        paid = actions * (2 * states[:, 0] + rng.normal(size=len(states)))
        after = np.column_stack([states[:, 0], actions * rng.normal(size=len(states))])
        return after, paid, np.ones(len(states), dtype=bool)


class Errands:
    """Three decisions; action 1 draws a skewed luck of mean 1 below 0 and of mean −0.5 above it."""

    n_actions, horizon = 2, 3

    def reset(self, count: int, rng: np.random.Generator) -> FloatArray:
        """A place, and how many decisions were made."""
        return np.column_stack([rng.uniform(-1, 1, count), np.zeros(count)])

    def step(self, states: FloatArray, actions: Any, rng: np.random.Generator) -> tuple[Any, ...]:
        """The place stays."""
        luck = rng.exponential(1.5, len(states)) - 1.5
        after = states + np.array([0.0, 1.0])
        return after, actions * (np.where(states[:, 0] < 0, 1.0, -0.5) + luck), after[:, 1] >= 3


@dataclass(frozen=True)
class Case:
    """An environment, its outcomes, and the true effect (n, M) from every start of always doing 1 instead of 0."""

    model: Any
    outcomes: tuple[Outcome, ...]
    effect: Callable[[FloatArray], FloatArray]


def _toss(states: Any, actions: Any, next_states: Any) -> FloatArray:
    """The luck that was drawn: nothing on average, whatever is done."""
    return np.asarray(next_states)[:, 1]


CASES = {
    "places": Case(
        Places(),
        (Outcome("toss", _toss, prefer="more"),),
        lambda x: np.column_stack([2 * x[:, 0], np.zeros(len(x))]),
    ),
    "errands": Case(
        Errands(),
        (),
        lambda x: 3 * np.where(x[:, :1] < 0, 1.0, -0.5),
    ),
}


def run(smoke: bool = False) -> dict[str, Any]:
    """One row per environment and number of episodes."""
    sizes, repetitions = (EPISODES[:1], 3) if smoke else (EPISODES, REPETITIONS)
    return {"group verdicts": [_row(name, n, repetitions) for name in CASES for n in sizes]}


def _row(name: str, episodes: int, repetitions: int) -> dict[str, Any]:
    case, begin = CASES[name], time.process_time()
    world = Simulator(case.model, outcomes=case.outcomes)
    policies = [lambda states, a=a: np.full(len(states), a) for a in (0, 1)]
    comparison = compare(world, *policies)
    parted = find_divergence(world, comparison.current, comparison.proposed, ExplainOptions(starts=200))
    rules = describe(parted, world.actions, world.feature_names, has_features=True).rules
    runs = [_judged(case, comparison, rules, episodes, seed) for seed in range(1, repetitions + 1)]
    means = {key: float(np.mean([one[key] for one in runs])) for key in runs[0]}
    return {
        "environment": name,
        "episodes": episodes,
        "repetitions": repetitions,
        **{key: round(value, 4) for key, value in means.items()},
        "CPU s": round(time.process_time() - begin, 1),
    }


def _judged(case: Case, comparison: Any, rules: Any, episodes: int, seed: int) -> dict[str, float]:
    """One explanation's groups with their verdicts against the truth."""
    world, old, new = comparison.world, comparison.current, comparison.proposed
    forming, judged = (
        paired_outcomes(world, old, new, episodes=episodes, seed=(seed, stream))[0]
        for stream in (Stream.FORMING, Stream.JUDGING)
    )
    journeys = follow(world, comparison, rules, seed=seed, episodes=episodes)
    grouped = group_starts(comparison, journeys, Achieved(forming, judged, 0.0), ExplainOptions(seed=seed))
    starts = case.model.reset(KNOWN, np.random.default_rng(0))
    effect = case.effect(starts)
    pairs: list[tuple[Verdict, float]] = list(zip(grouped.overall, effect.mean(axis=0), strict=True))
    for group, verdicts in zip(grouped.groups, grouped.verdicts, strict=True):
        inside = group.told.covers(starts)
        pairs += zip(verdicts, effect[inside].mean(axis=0), strict=True)
    missed = [not verdict.difference.contains(truth) for verdict, truth in pairs]
    turned = [_against(verdict, truth) for verdict, truth in pairs]
    doubted = rare_events({str(m): column for m, column in enumerate(judged.difference.T)})
    return {
        "groups": float(len(grouped.groups)),
        "an interval misses": float(any(missed)),
        "a verdict is wrong": float(any(turned)),
        "decided": float(np.mean([verdict.direction != "unknown" for verdict, truth in pairs if truth])),
        "one interval by itself misses": float(np.mean([not v.pointwise.contains(truth) for v, truth in pairs])),
        "in doubt": float(bool(doubted)),
    }


def _against(verdict: Verdict, truth: float) -> bool:
    """Whether a direction is told that is not the true one."""
    return verdict.direction in ("more", "less") and (1 if verdict.direction == "more" else -1) != np.sign(truth)
