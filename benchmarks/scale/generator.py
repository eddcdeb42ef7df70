"""A log of any number of distinct rows, written file by file: episodes in a random table of 716 states and 25 actions.

Every pair leads to eight states, about as in ICU-Sepsis, or to as many as are asked for, and ends the episode with
chance 0.1. Each state has two measurements. The reward of a row is that of its pair plus noise, so that no two rows are
alike. Episodes run on from one file into the next.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import sparse

from polidiff import TabularMDP
from polidiff.worlds.log_converters import simulated_frame

STATES, ACTIONS, FOLLOWERS, ENDS = 716, 25, 8, 0.1
COLUMNS: dict[str, Any] = {
    "state": "state",
    "action": "action",
    "episode": "episode",
    "step": "step",
    "reward": "reward",
    "terminated": "terminated",
    "truncated": False,
    "features": ["severity", "age"],
}


def table(seed: int = 0, *, followers: int = FOLLOWERS) -> TabularMDP:
    """The world that writes the log."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(STATES), followers)
    matrices = []
    for _ in range(ACTIONS):
        follow = rng.integers(0, STATES, STATES * followers)
        share = rng.dirichlet(np.ones(followers), STATES).ravel() * (1 - ENDS)
        data = np.concatenate([share, np.full(STATES, ENDS)])
        places = (np.concatenate([rows, np.arange(STATES)]), np.concatenate([follow, np.full(STATES, STATES)]))
        matrices.append(sparse.csr_array((data, places), shape=(STATES + 1, STATES + 1)))
    rewards = np.vstack([rng.normal(size=(STATES, ACTIONS)), np.zeros((1, ACTIONS))])
    start = np.append(rng.dirichlet(np.ones(STATES)), 0.0)
    return TabularMDP(matrices, rewards, start, absorbing=[STATES])


def logging_policy(seed: int = 1) -> Any:
    """Every action has a chance in every state, some a large one."""
    return np.random.default_rng(seed).dirichlet(np.full(ACTIONS, 0.5) + 0.1, STATES + 1)


def write_log(folder: Path, rows: int, *, per_file: int = 5_000_000, seed: int = 2, followers: int = FOLLOWERS) -> int:
    """Write at least so many rows; how many there are."""
    world, policy = table(followers=followers), logging_policy()
    rng = np.random.default_rng(seed)
    measured = np.round(rng.normal(size=(STATES + 1, 2)), 2)
    written = episodes = 0
    left: pl.DataFrame | None = None
    number = 0
    while written < rows:
        frame = simulated_frame(world, policy, int(per_file * ENDS), rng=rng)
        noisy = np.round(frame["return"].to_numpy() + rng.normal(size=frame.height), 3)
        state = frame["state"].to_numpy()
        frame = frame.select(
            (pl.col("episode") + episodes).cast(pl.Int64),
            pl.col("step").cast(pl.Int16),
            pl.col("state").cast(pl.Int16),
            pl.col("action").cast(pl.Int8),
            "terminated",
            after=pl.when("terminated").then(STATES).otherwise(pl.col("state").shift(-1)).cast(pl.Int16),
            reward=pl.Series(noisy),
            severity=pl.Series(measured[state, 0]),
            age=pl.Series(measured[state, 1]),
        )
        episodes += int(per_file * ENDS)
        whole = frame if left is None else pl.concat([left, frame])
        cut = min(per_file, whole.height - 3)  # in the middle of an episode, as often as not
        left = whole[cut:]
        whole[:cut].write_parquet(folder / f"{number:04}.parquet")
        written += cut
        number += 1
    if left is not None and left.height:
        left.write_parquet(folder / f"{number:04}.parquet")
        written += left.height
    return written
