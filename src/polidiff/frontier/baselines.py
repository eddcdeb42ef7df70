"""What simpler methods find, drawn beside the frontier.

Policy iteration can be read in three ways when the number of changes matters (PI over all states, the change with the
largest advantage :math:`Q - V`, the change with the largest gain in return); greedy top-k takes the optimum's changes
in order of what each brings alone. None of them lies above the frontier, and each misses points somewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from polidiff.frontier.hull import Hull
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.visits import (
    STRICT,
    PolicyWalk,
    greedy_switches,
    neighbours,
    pair_values,
    points_of,
    solved_values,
)
from polidiff.progress import Clock
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.plan import Baseline

MOST_STEPS = 200


def all_baselines(problem: FrontierProblem, hull: Hull, clock: Clock) -> tuple[Baseline, ...]:
    """The four baselines, each as far as it comes before time is up."""
    start = problem.start
    baselines = {
        "policy iteration, all states": partial(_every_state, problem, start),
        "policy iteration, largest advantage": partial(_one_by_one, problem, start, lambda w: w.advantages()[:, 1]),
        "policy iteration, largest gain": partial(_one_by_one, problem, start, _gain),
        "greedy top-k of the optimum": partial(_top_k, problem, start, hull.choices[-1].astype(np.int64)),
    }
    return tuple(Baseline(name, _distinct(find(clock))) for name, find in baselines.items() if not clock.over())


def _every_state(problem: FrontierProblem, choice: IntArray, clock: Clock) -> list[FloatArray]:
    weights = problem.reward[None]
    points = [_point(problem, choice)]
    for _ in range(MOST_STEPS):
        values = solved_values(problem, choice[None], weights)
        best, better = greedy_switches(problem, pair_values(problem, weights, values), values, choice[None], None)
        if not better.any() or clock.over():
            break
        choice = np.where(better[0], best[0], choice)
        points.append(_point(problem, choice))
    return points


def _one_by_one(
    problem: FrontierProblem, choice: IntArray, worth: Callable[[PolicyWalk], FloatArray], clock: Clock
) -> list[FloatArray]:
    """One switch at a time, that of the pair worth most."""
    walk = PolicyWalk(problem, choice)
    points = [walk.point()]
    for _ in range(MOST_STEPS):
        value = worth(walk)
        pair = int(value.argmax())
        if value[pair] <= STRICT * (1.0 + abs(points[-1][1])) or clock.over():
            break
        walk.switch(pair)
        points.append(walk.point())
    return points


def _gain(walk: PolicyWalk) -> FloatArray:
    """(pairs,) what the return gains by each switch alone."""
    around = neighbours(walk.problem, walk.choice[None], walk.inverse[None])
    return np.where(around.valid[0], around.returns[0] - around.own_returns[0], -np.inf)


def _top_k(problem: FrontierProblem, start: IntArray, best: IntArray, clock: Clock) -> list[FloatArray]:
    walk, choice = PolicyWalk(problem, start), start.copy()
    changed = np.flatnonzero(start != best)
    points = [walk.point()]
    for s in changed[np.argsort(-_gain(walk)[best[changed]], kind="stable")][:MOST_STEPS]:
        if clock.over():
            break
        choice[s] = best[s]
        if walk.goto(choice):
            points.append(walk.point())
    return points


def _point(problem: FrontierProblem, choice: IntArray) -> FloatArray:
    """(2,) changes and return; infinite where the policy never ends."""
    if not problem.ends(choice):
        return np.full(2, np.inf)
    return points_of(problem, choice[None])[:2, 0]


def _distinct(points: list[FloatArray]) -> tuple[tuple[float, float], ...]:
    """Points in order, less those that repeat the one before (a change in a state that is not reached)."""
    kept: list[tuple[float, float]] = []
    for changes, returns in points:
        point = (float(changes), float(returns))
        if not kept or not np.allclose(kept[-1], point, rtol=0, atol=1e-9):
            kept.append(point)
    return tuple(kept)
