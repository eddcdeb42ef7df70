"""Logs from data sets of other libraries, recognised by what they have, and logs that a known table would have written.

Minari episodes carry one observation more than actions, so that nothing after the last decision is lost there; d3rlpy
episodes say whether they ended (``terminated``); one that did not was cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from polidiff.errors import InvalidLogError
from polidiff.options import Setting
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.outcome import Outcome
from polidiff.worlds.log import Log
from polidiff.worlds.log_rows import LoggedRows
from polidiff.worlds.shards.transition_counts import CUT, END
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
    names = {"episode": "episode", "step": "step", "action": "action", "reward": "reward", "state": state}
    return Log(frame, **{**names, "terminated": "terminated", "truncated": "truncated", **options})


def _episode(
    number: int, observations: AnyArray, actions: AnyArray, rewards: AnyArray, ended: bool, cut: bool
) -> pl.DataFrame:
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


def simulated_frame(
    world: TabularMDP, table: FloatArray, episodes: int, *, horizon: int = 10_000, rng: np.random.Generator
) -> pl.DataFrame:
    """Decisions of `episodes` episodes under a policy table (S, A); what outlives the horizon is cut.

    Columns episode, step, state, action, terminated, truncated, and one per outcome of the world.
    """
    moves = _Draws(world)
    cumulative = np.cumsum(table, axis=1)
    state = rng.choice(world.n_states, size=episodes, p=world.initial)
    running = np.flatnonzero(~world.absorbing[state])
    parts: list[tuple[IntArray, ...]] = []
    for step in range(horizon):
        if not running.size:
            break
        here = state[running]
        action = (cumulative[here] <= rng.random(len(here))[:, None] * cumulative[here, -1:]).sum(axis=1)
        after = moves.draw(here * world.n_actions + action, rng)
        parts.append((running, np.full(len(running), step), here, action, after))
        state[running] = after
        running = running[~world.absorbing[after]]
    return _frame(world, parts, horizon)


def simulated_rows(
    world: TabularMDP, table: FloatArray, episodes: int, *, horizon: int = 10_000, rng: np.random.Generator
) -> LoggedRows:
    """The same as rows in memory, without the checks that a log from outside needs."""
    frame = simulated_frame(world, table, episodes, horizon=horizon, rng=rng)
    ended, episode = frame["terminated"].to_numpy(), frame["episode"].to_numpy()
    last = np.append(np.diff(episode) > 0, True)
    follow = np.where(ended, END, np.where(last, CUT, np.arange(len(ended)) + 1))
    gains = np.column_stack([frame[outcome.name].to_numpy() for outcome in world.outcomes])
    number = np.cumsum(np.diff(episode, prepend=-1) > 0) - 1
    return LoggedRows(frame["state"].to_numpy(), frame["action"].to_numpy(), number, follow, gains, None)


def simulated_log(
    world: TabularMDP, table: FloatArray, episodes: int, *, seed: int = 0, horizon: int = 10_000, **options: Setting
) -> Log:
    """The log of a policy in a table, with the table's states, actions and outcomes."""
    frame = simulated_frame(world, table, episodes, horizon=horizon, rng=np.random.default_rng(seed))
    outcomes = tuple(
        Outcome(o.name, o.name, prefer=o.prefer, margin=o.margin, more=o.more, less=o.less, unit=o.unit, range=o.range)
        for o in world.outcomes
    )
    given = {"states": list(world.states), "actions": list(world.actions), "outcomes": outcomes, **options}
    return Log(
        frame,
        state="state",
        action="action",
        episode="episode",
        step="step",
        terminated="terminated",
        truncated="truncated",
        discount=world.discount,
        **given,
    )


class _Draws:
    """Next states by one search in the cumulative rows of a sparse table: row r fills the interval (r, r + 1]."""

    def __init__(self, world: TabularMDP) -> None:
        table = world.transitions
        counts = np.diff(table.indptr)
        rows = np.repeat(np.arange(table.shape[0]), counts)
        running = np.cumsum(table.data)
        before = np.concatenate(([0.0], running))[table.indptr[:-1]]
        total = np.maximum(np.asarray(table.sum(axis=1)).ravel(), 1e-300)
        self._cumulative = rows + np.minimum((running - before[rows]) / total[rows], 1.0)
        self._columns = table.indices
        self._last = table.indptr[1:] - 1

    def draw(self, rows: IntArray, rng: np.random.Generator) -> IntArray:
        place = np.searchsorted(self._cumulative, rows + rng.random(len(rows)), side="right")
        return self._columns[np.minimum(place, self._last[rows])].astype(np.int64)


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
        drawn = np.asarray(outcome.of(state, action, after), dtype=np.float64)
        return np.broadcast_to(drawn, state.shape).copy()
    gains: FloatArray = world.outcome_table(outcome)[state, action]
    return gains
