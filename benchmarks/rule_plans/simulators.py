"""What do rules over cells of a simulator gain, and does the interval of the gain hold?

Navigation is stepped as a model, CartPole through Gymnasium. The gain that is told comes from paired episodes that
neither made the table nor chose the plan; here it is played once more with other seeds.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from polidiff import Simulator, evaluate, improve
from polidiff.domains import navigation


def cartpole() -> tuple[Simulator, Any]:
    """CartPole, pushed towards the middle whatever the pole does."""
    world = Simulator("CartPole-v1", feature_names=["x", "v", "angle", "spin"], actions=["left", "right"])
    return world, lambda states: (np.asarray(states)[:, 0] < 0).astype(int)


def two_moves() -> tuple[Simulator, Any]:
    """Navigation with horizon 60, so that going round in circles does not pay for ever."""
    return Simulator(navigation.NavigationModel(), horizon=60), navigation.current


CASES = {"navigation": two_moves, "CartPole": cartpole}


def study(names: tuple[str, ...]) -> dict[str, Any]:
    """Every case once."""
    return {name: measure(*CASES[name]()) for name in names}


def measure(world: Simulator, current: Any, rules: int = 2) -> dict[str, Any]:
    """Plans of up to `rules` rules, and what fresh episodes say about the best."""
    began = time.process_time()
    frontier = improve(world, current, max_rules=rules)
    seconds = time.process_time() - began
    best = frontier.best
    again = [evaluate(world, policy, seed=990).outcomes["return"].estimate for policy in (best.policy, current)]
    return {
        "returns": [round(plan.expected_return, 3) for plan in frontier],
        "gain": [round(v, 3) for v in (best.gain.estimate, best.gain.low, best.gain.high)] if best.gain else None,
        "gain_with_other_seeds": round(again[0] - again[1], 3),
        "changes": [round(plan.changes, 2) for plan in frontier],
        "model_gap": [round(float(plan.model_gap or 0.0), 3) for plan in frontier],
        "rules": [f"{told.move}: {told.rule}" for told in best.rules],
        "cpu_seconds": round(seconds, 1),
    }
