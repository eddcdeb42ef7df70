"""Strong scaling: the same roll-outs in one process and in two, on a simulator whose every step takes a millisecond."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np

STEP_SECONDS = 0.001


class SlowWalk(gymnasium.Env[Any, Any]):
    """An environment whose steps take a millisecond, asleep, and that ends after `length` of them."""

    def __init__(self, length: int = 50) -> None:
        self.length, self.time = length, 0
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Back to the start."""
        self.time = 0
        return np.zeros(1), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One millisecond, in which the core is free."""
        time.sleep(STEP_SECONDS)
        self.time += 1
        return np.array([self.time / self.length]), float(action), self.time >= self.length, False, {}


def strong_scaling(episodes: int, length: int) -> dict[str, Any]:
    """Seconds of the same episodes, alone and with two workers that have started."""
    import joblib

    from polidiff import Simulator, as_policy
    from polidiff.worlds.rollouts import roll_out

    world = Simulator(lambda: SlowWalk(length), horizon=length)
    policy = as_policy(lambda states: np.ones(len(states), dtype=int), n_actions=2)
    seconds = {}
    totals = {}
    for workers in (1, 2):
        with joblib.parallel_config(backend="loky", n_jobs=workers):
            roll_out(world, policy, episodes=2 * world.chunk if workers > 1 else 2, seed=(1,), horizon=1)
            begin = time.perf_counter()
            totals[workers] = roll_out(world, policy, episodes=episodes, seed=(0,)).totals.tobytes()
            seconds[workers] = time.perf_counter() - begin
    return {
        "episodes": episodes,
        "decisions": episodes * length,
        "step": "1 ms, asleep",
        "tasks": -(-episodes // world.chunk),
        "seconds": {str(workers): round(value, 2) for workers, value in seconds.items()},
        "speed-up": round(seconds[1] / seconds[2], 2),
        "same bytes": totals[1] == totals[2],
    }
