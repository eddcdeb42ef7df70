"""Logs from data sets of other libraries, recognised by what they have, and logs that a known table would have written.

Minari episodes carry one observation more than actions, so that nothing after the last decision is lost there; d3rlpy
episodes say whether they ended (``terminated``); one that did not was cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from polidiff.errors import InvalidLogError
from polidiff.options import Setting
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.outcome import Outcome, called_gains
from polidiff.worlds.log import Log
from polidiff.worlds.steppers import next_states
from polidiff.worlds.tabular import TabularMDP

DataSet: TypeAlias = Any  # of a library that is never imported here; recognised by what it can do


def log_from_minari(dataset: DataSet, **options: Setting) -> Log:
    """A log from a Minari data set: anything with ``iterate_episodes()``."""
    if not callable(getattr(dataset, "iterate_episodes", None)):
        raise InvalidLogError(f"expected a Minari data set with iterate_episodes(); got {type(dataset).__name__}")
    parts = (
        (e.observations[: len(e.actions)], e.actions, e.rewards, bool(e.terminations[-1]), bool(e.truncations[-1]))
        for e in dataset.iterate_episodes()
        if len(e.actions)
    )
    return _log(parts, options)


def log_from_d3rlpy(dataset: DataSet, **options: Setting) -> Log:
    """A log from a d3rlpy data set or replay buffer: anything with ``episodes``."""
    if not hasattr(dataset, "episodes"):
        raise InvalidLogError(f"expected a d3rlpy data set with episodes; got {type(dataset).__name__}")
    parts = (
        (e.observations, e.actions, e.rewards, bool(e.terminated), not bool(e.terminated)) for e in dataset.episodes
    )
    return _log(parts, options)


def _log(parts: Iterable[tuple[AnyArray, AnyArray, AnyArray, bool, bool]], options: dict[str, Setting]) -> Log:
    frames = [_episode(number, *part) for number, part in enumerate(parts)]
    if not frames:
        raise InvalidLogError("the log must have one row per decision; the data set has no episodes")
    frame = pl.concat(frames)
    features = [name for name in frame.columns if name.startswith("x")]
    state: str | list[str] = "state" if "state" in frame.columns else features
    columns = {name: name for name in ("episode", "step", "action", "reward", "terminated", "truncated")}
    return Log(frame, **{**columns, "state": state, **options})


def _episode(
    number: int, observations: AnyArray, actions: AnyArray, rewards: AnyArray, ended: bool, cut: bool
) -> pl.DataFrame:
    chosen = np.asarray(actions).reshape(len(actions), -1)
    if chosen.shape[1] != 1:
        raise InvalidLogError(
            f"actions must be one number per decision; episode {number} has shape {np.shape(actions)}. Hint: keep one "
            "component"
        )
    size, last = len(chosen), np.zeros(len(chosen), dtype=np.bool_)
    last[-1] = True
    columns: dict[str, AnyArray] = {
        "episode": np.full(size, number),
        "step": np.arange(size),
        "action": chosen[:, 0],
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


def simulated_frame(
    world: TabularMDP, table: FloatArray, episodes: int, *, horizon: int = 10_000, rng: np.random.Generator
) -> pl.DataFrame:
    """Decisions of `episodes` episodes under a policy table (S, A); what outlives the horizon is cut.

    Columns episode, step, state, action, terminated, truncated, and one per outcome of the world.
    """
    cumulative = np.cumsum(table, axis=1)
    state = rng.choice(world.n_states, size=episodes, p=world.initial)
    running = np.flatnonzero(~world.absorbing[state])
    parts: list[tuple[IntArray, ...]] = []
    for step in range(horizon):
        if not running.size:
            break
        here = state[running]
        action = (cumulative[here] <= rng.random(len(here))[:, None] * cumulative[here, -1:]).sum(axis=1)
        after = next_states(world, here, action, rng.random(len(here)))
        parts.append((running, np.full(len(running), step), here, action, after))
        state[running] = after
        running = running[~world.absorbing[after]]
    return _frame(world, parts, horizon)


def simulated_log(
    world: TabularMDP, table: FloatArray, episodes: int, *, seed: int = 0, horizon: int = 10_000, **options: Setting
) -> Log:
    """The log of a policy in a table, with the table's states, actions and outcomes."""
    frame = simulated_frame(world, table, episodes, horizon=horizon, rng=np.random.default_rng(seed))
    outcomes = tuple(replace(outcome, of=outcome.name) for outcome in world.outcomes)
    columns = {name: name for name in ("state", "action", "episode", "step", "terminated", "truncated")}
    given = {**columns, "states": list(world.states), "actions": list(world.actions), "outcomes": outcomes, **options}
    return Log(frame, discount=world.discount, **given)


def _frame(world: TabularMDP, parts: list[tuple[IntArray, ...]], horizon: int) -> pl.DataFrame:
    episode, step, state, action, after = (np.concatenate([part[j] for part in parts]) for j in range(5))
    order = np.argsort(episode * (horizon + 1) + step, kind="stable")
    episode, step, state, action, after = (array[order] for array in (episode, step, state, action, after))
    ended = world.absorbing[after]
    gains = {outcome.name: _gains(world, outcome, state, action, after) for outcome in world.outcomes}
    cut = (step == horizon - 1) & ~ended
    columns = {"episode": episode, "step": step, "state": state, "action": action, "terminated": ended}
    return pl.DataFrame({**columns, "truncated": cut, **gains})


def _gains(world: TabularMDP, outcome: Outcome, state: IntArray, action: IntArray, after: IntArray) -> FloatArray:
    if callable(outcome.of):
        return np.broadcast_to(called_gains(outcome, state, action, after), state.shape).copy()
    return world.outcome_table(outcome)[state, action]
