"""Logs from data sets of other libraries, recognised by what they have, not by what they are.

Minari episodes carry one observation more than actions, so that nothing after the last decision is lost there; d3rlpy
episodes say whether they ended (``terminated``); one that did not was cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from polidiff.errors import InvalidLogError
from polidiff.records.arrays import AnyArray
from polidiff.worlds.log import Log


def log_from_minari(dataset: Any, **options: Any) -> Log:
    """A log from a Minari data set: anything with ``iterate_episodes()``."""
    if not callable(getattr(dataset, "iterate_episodes", None)):
        raise InvalidLogError(f"expected a Minari data set with iterate_episodes(); got {type(dataset).__name__}")
    parts = (
        (e.observations[: len(e.actions)], e.actions, e.rewards, bool(e.terminations[-1]), bool(e.truncations[-1]))
        for e in dataset.iterate_episodes()
        if len(e.actions)
    )
    return _log(parts, options)


def log_from_d3rlpy(dataset: Any, **options: Any) -> Log:
    """A log from a d3rlpy data set or replay buffer: anything with ``episodes``."""
    if not hasattr(dataset, "episodes"):
        raise InvalidLogError(f"expected a d3rlpy data set with episodes; got {type(dataset).__name__}")
    parts = (
        (e.observations, e.actions, e.rewards, bool(e.terminated), not bool(e.terminated)) for e in dataset.episodes
    )
    return _log(parts, options)


def _log(parts: Iterable[tuple[Any, Any, Any, bool, bool]], options: dict[str, Any]) -> Log:
    frames = [_episode(number, *part) for number, part in enumerate(parts)]
    if not frames:
        raise InvalidLogError("the log must have one row per decision; the data set has no episodes")
    frame = pl.concat(frames)
    features = [name for name in frame.columns if name.startswith("x")]
    state: str | list[str] = "state" if "state" in frame.columns else features
    names = {"episode": "episode", "step": "step", "action": "action", "reward": "reward", "state": state}
    return Log(frame, **{**names, "terminated": "terminated", "truncated": "truncated", **options})


def _episode(number: int, observations: Any, actions: Any, rewards: Any, ended: bool, cut: bool) -> pl.DataFrame:
    chosen = np.asarray(actions).reshape(len(actions), -1)
    if chosen.shape[1] != 1 or not np.array_equal(chosen, chosen.astype(np.int64)):
        raise InvalidLogError(
            f"actions must be whole numbers, one per decision; episode {number} has shape {np.shape(actions)}. "
            "Hint: bin continuous actions into levels first"
        )
    size, last = len(chosen), np.zeros(len(chosen), dtype=np.bool_)
    last[-1] = True
    columns: dict[str, AnyArray] = {
        "episode": np.full(size, number),
        "step": np.arange(size),
        "action": chosen[:, 0].astype(np.int64),
        "reward": np.asarray(rewards, dtype=np.float64).reshape(size),
        "terminated": last & ended,
        "truncated": last & cut,
    }
    seen = np.asarray(observations)
    if seen.ndim == 1 or (seen.ndim == 2 and seen.shape[1] == 1 and np.issubdtype(seen.dtype, np.integer)):
        columns["state"] = seen.reshape(size)
    else:
        table = seen.reshape(size, -1)
        columns |= {f"x{j}": table[:, j].astype(np.float64) for j in range(table.shape[1])}
    return pl.DataFrame(columns)
