"""From a log of navigation with some random actions: are the regions, directions and plans of the task found?

One candidate takes the way through two boxes, the other the optimum. The best plan of one change returns 14.9885, that
of two changes 21.9895 (exact, from the table of the task); the current policy returns 9.9895.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import polars as pl

from polidiff import Log, Outcome, evaluate, explain, improve
from polidiff.domains import navigation
from polidiff.records.plan import Plan


def run(smoke: bool, *, seed: int) -> list[dict[str, Any]]:
    """The log sizes and shares of random actions that matter."""
    sizes = ((2000, 0.3),) if smoke else ((100_000, 0.1), (100_000, 0.0), (10_000, 0.1), (1000, 0.1))
    return [_one(episodes, exploring, seed) for episodes, exploring in sizes]


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


def _one(episodes: int, exploring: float, seed: int) -> dict[str, Any]:
    log = navigation_log(episodes, exploring, seed)
    candidates = {"proposed_1": navigation.proposed_1, "proposed_2": navigation.proposed_2}
    result: dict[str, Any] = {"episodes": episodes, "random actions": exploring, "rows": log.check.rows}
    for name, candidate in candidates.items():
        began = time.process_time()
        told = explain(log, navigation.current, candidate)
        result[f"explain {name}"] = {
            "regions": [f"{r.current} → {r.proposed}: {_box(r.rule)}" for r in told.regions],
            "verdicts": {v.outcome: [v.direction, v.difference.low, v.difference.high] for v in told.verdicts},
            "cpu s": round(time.process_time() - began, 1),
        }
    began = time.process_time()
    plans = improve(log, navigation.current, list(candidates.values()))
    result["plans"] = [_told(plan) for plan in plans]
    result["improve cpu s"] = round(time.process_time() - began, 1)
    result["not known"] = [text for text in plans.warnings if "not offered" in text]
    return result


def _told(plan: Plan) -> dict[str, Any]:
    table = navigation.table()
    chosen = navigation.current if not plan.patch.edits else plan.policy.probabilities
    truth = evaluate(table, np.asarray(chosen(table.features))).outcomes["collected reward"].estimate
    gain = None if plan.gain is None else [plan.gain.low, plan.gain.high]
    return {
        "changes": round(plan.changes, 4),
        "edits": [f"{_box(edit.rule)}: {navigation.ACTIONS[edit.proposed]}" for edit in plan.patch.edits],
        "return": [plan.outcomes["return"].low, plan.outcomes["return"].high],
        "gain": gain,
        "true return": round(truth, 4),
        "not known": list(plan.warnings),
    }


def _box(rule: Any) -> str:
    return ", ".join(f"{c.feature} [{c.low:.3g}, {c.high:.3g})" for c in rule.conditions)
