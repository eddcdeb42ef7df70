"""How much does comparing two policies cost beside stepping the same episodes by hand?

Measured stage: paired episodes of two Stable-Baselines3 policies on CartPole, as `explain` plays them to judge
outcomes. By hand: a `SyncVectorEnv` that asks `model.predict` and goes on with the next episode wherever one ends,
until it has made as many steps; none of its steps is idle. Time is processor time, one thread.
"""

from __future__ import annotations

import os
import time
from importlib.util import find_spec
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

WIDTH = 128


def run(smoke: bool = False) -> dict[str, Any]:
    """Ratios of processor time, ours over by hand, for each repetition."""
    if find_spec("stable_baselines3") is None:
        return {"skipped": "needs stable-baselines3"}
    import gymnasium
    import stable_baselines3
    import torch

    from polidiff import Simulator, as_policy

    torch.set_num_threads(1)
    episodes, repetitions = (16, 1) if smoke else (1000, 5)
    model = stable_baselines3.PPO("MlpPolicy", "CartPole-v1", n_steps=512, seed=0, device="cpu")
    models = []
    for steps in (2_000, 6_000):
        model.learn(64 if smoke else steps)
        models.append(stable_baselines3.PPO("MlpPolicy", "CartPole-v1", device="cpu"))
        models[-1].set_parameters(model.get_parameters())
    world = Simulator("CartPole-v1")
    policies = [as_policy(item, greedy=True) for item in models]
    ratios, steps = [], 0
    for repetition in range(repetitions):
        ours, lengths = _ours(world, policies, episodes, repetition)
        hand = _by_hand(models, lengths.sum(axis=1), repetition)
        ratios.append(ours / hand)
        steps += int(lengths.sum())
    return {
        "settings": {"episodes": episodes, "policies": 2, "side by side": WIDTH, "steps": steps},
        "versions": {"gymnasium": gymnasium.__version__, "stable-baselines3": stable_baselines3.__version__},
        "ratios": [round(ratio, 3) for ratio in ratios],
        "median ratio": round(float(np.median(ratios)), 3),
        "limit": 1.3,
    }


def _ours(world: Any, policies: list[Any], episodes: int, seed: int) -> tuple[float, Any]:
    from polidiff.worlds.rollouts import roll_out

    start = time.process_time()
    played = [roll_out(world, policy, episodes=episodes, seed=(seed,)) for policy in policies]
    return time.process_time() - start, np.stack([part.lengths for part in played])


def _by_hand(models: list[Any], steps: Any, seed: int) -> float:
    import gymnasium

    start = time.process_time()
    for model, needed in zip(models, steps, strict=True):
        vector = gymnasium.make_vec("CartPole-v1", WIDTH, vectorization_mode="sync")
        observations, _ = vector.reset(seed=seed)
        for _ in range(int(needed) // WIDTH):
            actions, _ = model.predict(observations, deterministic=True)
            observations, _, _, _, _ = vector.step(actions)
        vector.close()
    return time.process_time() - start
