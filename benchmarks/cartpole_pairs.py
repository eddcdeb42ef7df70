"""How much does comparing two policies cost beside stepping the same episodes by hand?

Measured stage: 1,000 paired episodes of two Stable-Baselines3 policies on CartPole, as `explain` plays them, up to the
interval of the difference. By hand: a `SyncVectorEnv` that asks `model.predict` and goes on with the next episode
wherever one ends, until it has made as many steps; none of its steps is idle, and it keeps nothing. It runs with 128
and with 512 environments side by side; the ratio that counts is against the faster of the two. Ours and the loops take
turns, in an order that changes. Time is processor time, one thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

WIDTHS = (128, 512)
LIMIT = 1.3


def run(smoke: bool = False) -> dict[str, Any]:
    """Ratios of processor time, ours over by hand, for each repetition."""
    if find_spec("stable_baselines3") is None:
        return {"skipped": "needs stable-baselines3"}
    import gymnasium
    import stable_baselines3
    import torch

    from polidiff import Simulator, as_policy

    torch.set_num_threads(1)
    episodes, repetitions = (16, 1) if smoke else (1000, 7)
    models = _checkpoints(64 if smoke else None)
    world = Simulator("CartPole-v1")
    policies = [as_policy(item, greedy=True) for item in models]
    needed = _steps(world, policies, episodes)  # also warms copies and caches up
    seconds: dict[str, list[float]] = {"ours": [], **{f"by hand, {width}": [] for width in WIDTHS}}
    for repetition in range(repetitions):
        tasks: list[tuple[str, Callable[[], Any]]] = [("ours", lambda: _compared(world, policies, episodes))]
        tasks += [(f"by hand, {w}", lambda w=w, r=repetition: _by_hand(models, needed, w, r)) for w in WIDTHS]
        shift = repetition % len(tasks)
        for name, task in tasks[shift:] + tasks[:shift]:
            start = time.process_time()
            task()
            seconds[name].append(time.process_time() - start)
    return {
        "settings": {"episodes": episodes, "policies": 2, "steps": int(sum(needed)), "repetitions": repetitions},
        "versions": {"gymnasium": gymnasium.__version__, "stable-baselines3": stable_baselines3.__version__},
        **_ratios(seconds),
        "limit": LIMIT,
    }


def _ratios(seconds: dict[str, list[float]]) -> dict[str, Any]:
    ours = np.array(seconds["ours"])
    found = {f"ratio to {width} side by side": ours / seconds[f"by hand, {width}"] for width in WIDTHS}
    found["ratio"] = np.max(list(found.values()), axis=0)
    told: dict[str, Any] = {}
    for name, ratios in found.items():
        told[name] = [round(float(ratio), 3) for ratio in ratios]
        told[f"median {name}"] = round(float(np.median(ratios)), 3)
    told["processor seconds, ours"] = [round(float(t), 2) for t in ours]
    return told


def _checkpoints(fewer: int | None) -> list[Any]:
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", n_steps=512, seed=0, device="cpu")
    models = []
    for steps in (2_000, 6_000):
        model.learn(fewer or steps)
        models.append(PPO("MlpPolicy", "CartPole-v1", device="cpu"))
        models[-1].set_parameters(model.get_parameters())
    return models


def _compared(world: Any, policies: list[Any], episodes: int) -> Any:
    """The interval of the difference in return."""
    from polidiff.evaluation.simulator import paired_outcomes

    judged, _ = paired_outcomes(world, *policies, episodes=episodes, seed=(0,))
    return judged.interval(judged.difference[:, 0], np.ones(episodes, dtype=np.bool_), 0.95)


def _steps(world: Any, policies: list[Any], episodes: int) -> list[int]:
    from polidiff.worlds.rollouts import roll_out

    return [int(roll_out(world, policy, episodes=episodes, seed=(0,)).lengths.sum()) for policy in policies]


def _by_hand(models: list[Any], steps: list[int], width: int, seed: int) -> None:
    import gymnasium

    for model, needed in zip(models, steps, strict=True):
        vector = gymnasium.make_vec("CartPole-v1", width, vectorization_mode="sync")
        observations, _ = vector.reset(seed=seed)
        for _ in range(needed // width):
            actions, _ = model.predict(observations, deterministic=True)
            observations, _, _, _, _ = vector.step(actions)
        vector.close()
