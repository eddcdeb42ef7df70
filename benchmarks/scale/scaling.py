"""Strong scaling: the same work in one process and in two, on a simulator whose every step takes a millisecond.

A step either keeps its core busy, as a simulator does, or sleeps, as one does that waits for another machine. Busy
steps need two cores that nobody else uses.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np

STEP_SECONDS = 0.001


class SlowWalk(gymnasium.Env[Any, Any]):
    """An environment whose steps take a millisecond, and that ends after `length` of them."""

    def __init__(self, length: int = 50, *, busy: bool = True) -> None:
        self.length, self.time, self.busy = length, 0, busy
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Back to the start."""
        self.time = 0
        return np.zeros(1), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One millisecond, in which the core is busy or free."""
        if self.busy:
            end = time.thread_time() + STEP_SECONDS
            while time.thread_time() < end:
                pass
        else:
            time.sleep(STEP_SECONDS)
        self.time += 1
        return np.array([self.time / self.length]), float(action), self.time >= self.length, False, {}


def strong_scaling(episodes: int, length: int, starts: int) -> dict[str, Any]:
    """Roll-outs and the splitting roll-outs that look for divergence, with steps that are busy and steps that sleep."""
    from polidiff import Simulator, as_policy
    from polidiff.divergence import find_divergence
    from polidiff.options import ExplainOptions
    from polidiff.worlds.rollouts import roll_out

    found = {}
    for busy in (True, False):
        world = Simulator(partial(SlowWalk, length, busy=busy), horizon=length)
        policies = [as_policy(partial(_acting, from_=k), n_actions=2) for k in (0.0, 0.5)]
        options = ExplainOptions(starts=starts)

        def roll(world: Any = world, policies: Any = policies) -> bytes:
            return roll_out(world, policies[0], episodes=episodes, seed=(0,)).totals.tobytes()

        def split(world: Any = world, policies: Any = policies, options: Any = options) -> bytes:
            return find_divergence(world, *policies, options).states.tobytes()

        kind = "busy" if busy else "asleep"
        found[f"roll-outs, {kind}"] = {
            "episodes": episodes,
            "decisions": episodes * length,
            "tasks": -(-episodes // world.chunk),
            **_compared(roll),
        }
        found[f"splitting roll-outs, {kind}"] = {
            "starts": starts,
            "tasks": -(-starts // world.split_chunk),
            **_compared(split),
        }
    return {"step": "1 ms", **found}


def _acting(states: Any, from_: float) -> Any:
    return (states[:, 0] >= from_).astype(int)


def _compared(work: Callable[[], bytes]) -> dict[str, Any]:
    """Seconds alone and with two workers that have started, and whether both give the same bytes."""
    import joblib

    from polidiff.parallel import run_tasks

    seconds, said = {}, {}
    for workers in (1, 2):
        with joblib.parallel_config(backend="loky", n_jobs=workers):
            run_tasks(_awake, [(k,) for k in range(2 * workers)], what="starting")
            begin = time.perf_counter()
            said[workers] = work()
            seconds[workers] = time.perf_counter() - begin
    return {
        "seconds": {str(workers): round(value, 2) for workers, value in seconds.items()},
        "speed-up": round(seconds[1] / seconds[2], 2),
        "same bytes": said[1] == said[2],
    }


def _awake(number: int) -> int:
    import polidiff.divergence  # what a worker imports once

    time.sleep(0.2)
    return number if polidiff.divergence else 0
