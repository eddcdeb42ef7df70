"""Logs of navigation: episodes of the current policy with some random actions."""

from __future__ import annotations

import numpy as np
import polars as pl

from polidiff import Log, Outcome
from polidiff.domains import navigation


def navigation_log(episodes: int, exploring: float, seed: int, max_rows: int | None = None) -> Log:
    """Episodes of the current policy with a share of uniformly random actions."""
    rng = np.random.default_rng((seed, episodes))
    model = navigation.NavigationModel()
    states, alive, parts, step = model.reset(episodes, rng), np.arange(episodes), [], 0
    while len(alive):
        actions = navigation.current(states)
        actions = np.where(rng.random(len(actions)) < exploring, rng.integers(0, 3, len(actions)), actions)
        after, rewards, ended = model.step(states, actions, rng)
        stay = navigation.in_desired_region(states)
        columns = {"episode": alive, "step": step, "x": states[:, 0], "y": states[:, 1], "action": actions}
        parts.append(pl.DataFrame({**columns, "reward": rewards, "stay": stay, "ended": ended}))
        states, alive, step = after[~ended], alive[~ended], step + 1
    return Log(pl.concat(parts).sort("episode", "step"), state=["x", "y"], action="action", episode="episode",
               step="step", reward="reward", terminated="ended", truncated=False, actions=list(navigation.ACTIONS),
               return_range=(-1, 150), outcomes=[Outcome("stay", "stay", prefer="more", range=(0, 60))],
               max_rows=max_rows)  # fmt: skip
