r"""What simpler methods find, drawn beside the frontier.

Policy iteration can be read in three ways when the number of changes matters (PI over all states, the change with the
largest advantage :math:`Q - V`, the change with the largest gain in return); greedy top-k takes the optimum's changes
in order of what each brings alone. None of them lies above the frontier, and each misses points somewhere.
"""

from __future__ import annotations

import numpy as np

from polidiff.frontier.hull import Hull
from polidiff.frontier.local_search import neighbours
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.visits import (
    STRICT,
    PolicyWalk,
    greedy_switches,
    pair_values,
    points_of,
    solved_values,
)
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.plan import Baseline

MOST_STEPS = 200


def all_baselines(problem: FrontierProblem, hull: Hull, scale: float) -> tuple[Baseline, ...]:
    """The four baselines, their changes times `scale`."""
    start = problem.ending_choice(problem.base)
    found = {
        "policy iteration, all states": _every_state(problem, start),
        "policy iteration, largest advantage": _largest_advantage(problem, start),
        "policy iteration, largest gain": _largest_gain(problem, start),
        "greedy top-k of the optimum": _top_k(problem, start, hull.choices[-1].astype(np.int64)),
    }
    return tuple(Baseline(name, _distinct(points, scale)) for name, points in found.items())


def _every_state(problem: FrontierProblem, choice: IntArray) -> list[FloatArray]:
    weights = problem.reward[None]
    points = [_point(problem, choice)]
    for _ in range(MOST_STEPS):
        values = solved_values(problem, choice[None], weights)
        best, better = greedy_switches(problem, pair_values(problem, weights, values), values, choice[None], None)
        if not better.any():
            break
        choice = np.where(better[0], best[0], choice)
        points.append(_point(problem, choice))
    return points


def _largest_advantage(problem: FrontierProblem, choice: IntArray) -> list[FloatArray]:
    walk = PolicyWalk(problem, choice)
    points = [walk.point()]
    for _ in range(MOST_STEPS):
        gain = walk.advantages()[:, 1]
        pair = int(gain.argmax())
        if gain[pair] <= STRICT * (1.0 + abs(walk.values[problem.state[pair], 1])):
            break
        walk.switch(pair)
        points.append(walk.point())
    return points


def _largest_gain(problem: FrontierProblem, choice: IntArray) -> list[FloatArray]:
    choice = choice.copy()
    points = [_point(problem, choice)]
    for _ in range(MOST_STEPS):
        around = neighbours(problem, choice[None])
        returns = np.where(around.valid[0], around.returns[0], -np.inf)
        pair = int(returns.argmax())
        if returns[pair] <= points[-1][1] + STRICT * (1.0 + abs(points[-1][1])):
            break
        choice[problem.state[pair]] = pair
        points.append(_point(problem, choice))
    return points


def _top_k(problem: FrontierProblem, start: IntArray, best: IntArray) -> list[FloatArray]:
    around = neighbours(problem, start[None])
    changed = np.flatnonzero(start != best)
    alone = np.where(around.valid[0, best[changed]], around.returns[0, best[changed]], -np.inf)
    choice, points = start.copy(), [_point(problem, start)]
    for s in changed[np.argsort(-alone, kind="stable")][:MOST_STEPS]:
        choice[s] = best[s]
        if np.isfinite(found := _point(problem, choice)).all():
            points.append(found)
    return points


def _point(problem: FrontierProblem, choice: IntArray) -> FloatArray:
    """(2,) changes and return; infinite where the policy never ends."""
    if not problem.ends(choice):
        return np.full(2, np.inf)
    found = points_of(problem, choice[None])
    return np.array([found.changes[0], found.returns[0]])


def _distinct(points: list[FloatArray], scale: float) -> tuple[tuple[float, float], ...]:
    """Points in order, less those that repeat the one before (a change in a state that is not reached)."""
    kept: list[tuple[float, float]] = []
    for changes, returns in points:
        point = (float(changes) * scale, float(returns))
        if not kept or not np.allclose(kept[-1], point, rtol=0, atol=1e-9):
            kept.append(point)
    return tuple(kept)
