"""Do plans of two rules from feature logs of several decisions bring what they promise?

Logs of 1,000 episodes of the current policy with 30 % random actions. A promise is kept if the low end of a plan's gain
is not above what the plan gains when it is played; where a plan has no rule, it does as the log did.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from benchmarks.logs.feature_worlds import WORLDS, World, chances, play
from polidiff import Log, improve
from polidiff.records.arrays import FloatArray
from polidiff.records.plan import Plan

NAMES = "glucose", "stock", "six"
SEED = 2311  # other seeds chose the settings
PLAYED = 40_000  # episodes that tell what a plan gains, with the same luck as the current policy


def rows(smoke: bool) -> Iterator[dict[str, Any]]:
    """All worlds."""
    return (measure(WORLDS[name], logs=1 if smoke else 40, episodes=200 if smoke else 1000) for name in NAMES)


def measure(world: World, *, logs: int, episodes: int = 1000) -> dict[str, Any]:
    """Promises beside the truth over many logs."""
    plans: list[tuple[float, float, float, float]] = []  # low, estimate, high, truth
    best: list[tuple[float, float, float, float]] = []
    seconds = 0.0
    for number in range(logs):
        log, began = log_of(world, episodes, number), time.process_time()
        frontier = improve(log, "log", max_rules=2)
        seconds += time.process_time() - began
        for plan in frontier.plans[1:]:
            assert plan.gain is not None
            plans.append((plan.gain.low, plan.gain.estimate, plan.gain.high, true_gain(world, plan)))
            if plan is frontier.best:
                best.append(plans[-1])
    low, estimate, high, truth = np.array(plans).T
    shown = low > 0
    result = {
        "world": world.name,
        "logs": logs,
        "episodes": episodes,
        "plans": len(plans),
        "promise kept": float((low <= truth).mean()),
        "inside the interval": float(((low <= truth) & (truth <= high)).mean()),
        "shown to gain": float(shown.mean()),
        "shown and losing": int((shown & (truth <= 0)).sum()),
        "mean promise of those shown": float(estimate[shown].mean()) if shown.any() else None,
        "mean truth of those shown": float(truth[shown].mean()) if shown.any() else None,
        "logs with a best plan": len(best),
        "mean promise of the best": float(np.mean([plan[1] for plan in best])) if best else None,
        "mean truth of the best": float(np.mean([plan[3] for plan in best])) if best else None,
        "cpu s per log": seconds / logs,
    }
    return {name: round(v, 3) if isinstance(v, float) else v for name, v in result.items()}


def log_of(world: World, episodes: int, number: int) -> Log:
    """A log of the current policy with random actions."""
    rows = play(world, world.current, episodes, np.random.default_rng([SEED, number]))
    names = [f"x{j}" for j in range(rows.states.shape[1])]
    step = np.arange(len(rows.actions)) % world.horizon
    frame = pl.DataFrame({**dict(zip(names, rows.states.T, strict=True)), "action": rows.actions})
    frame = frame.with_columns(
        reward=pl.Series(rows.gains[:, 0]), episode=pl.Series(rows.episode), step=pl.Series(step),
        ended=pl.Series(step == world.horizon - 1),
    )  # fmt: skip
    return Log(frame, state=names, action="action", reward="reward", episode="episode", step="step",
               terminated="ended", truncated=False, actions=[str(a) for a in range(world.n_actions)])  # fmt: skip


def true_gain(world: World, plan: Plan) -> float:
    """What the plan gains when it is played."""

    def policy(x: FloatArray) -> FloatArray:
        table, left = chances(world.current(x), world.n_actions), np.ones(len(x), dtype=bool)
        for edit in plan.patch.edits:
            inside = left & edit.rule.covers(x)
            table[inside] = np.eye(world.n_actions)[edit.proposed]
            left &= ~inside
        return table

    return _value(world, policy) - _value(world, lambda x: chances(world.current(x), world.n_actions))


def _value(world: World, policy: Any) -> float:
    g = np.random.default_rng(5)
    x, total = world.start(PLAYED, g), 0.0
    for _ in range(world.horizon):
        action = (g.random(PLAYED)[:, None] > np.cumsum(policy(x), axis=1)[:, :-1]).sum(axis=1)
        x, reward = world.step(x, action, g)
        total += float(reward.mean())
    return total
