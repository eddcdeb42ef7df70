"""How often do the intervals hold, and how wide are they, on worlds whose truth is known?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.logs.tasks import Task, chain
from polidiff.evaluation.logged.borrow import judge_borrowing
from polidiff.evaluation.logged.careful import Judged, difference_bounds, judge, value_bounds
from polidiff.evaluation.logged.counts import Edges, count_rows
from polidiff.evaluation.logged.noise import spread
from polidiff.evaluation.logged.starts import Starts
from polidiff.evaluation.logged.target import split_target
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.worlds.log_rows import LoggedRows
from polidiff.worlds.log_simulated import simulated_rows

LEVEL = 0.95
SUPPORTED = 0.01


@dataclass(frozen=True)
class Cell:
    """A task, a log size, how often it is repeated, and whether the logging policy is known."""

    task: Callable[[], Task]
    episodes: int
    repetitions: int
    known: bool = True


def one_repetition(task: Task, episodes: int, known: bool, seed: int) -> dict[str, Any]:
    """Hits and widths of one simulated log, for every state met and for the start distribution."""
    world, outcome = task.world, task.world.outcomes[0]
    rows = simulated_rows(world, task.logging, episodes, horizon=task.horizon, rng=np.random.default_rng(seed))
    edges = count_rows(rows, rows.states, world.n_states, world.n_actions).edges
    met = np.flatnonzero(edges.state_visits > 0)
    weights = np.vstack([np.eye(world.n_states)[met], world.initial])
    starts = Starts(weights, np.full(len(weights), np.inf))
    logging = task.logging if known else None
    new = split_target(task.target, logging)
    old = split_target(task.logging, task.logging)
    truth = [weights @ np.nan_to_num(task.truth(table)[:, 0]) for table in (task.target, task.logging)]
    ranges = [outcome.range]
    careful = judge(edges, new, starts, ranges)
    base = judge(edges, old, starts, ranges)
    lent = judge_borrowing(edges, new, starts, ranges, discount=1.0, level=LEVEL)
    span = outcome.range[1] - outcome.range[0]
    found: dict[str, Any] = {"unsupported": careful.unsupported}
    plug = _plug_in(edges, task, starts)
    for name, (low, high) in {
        "careful": value_bounds(careful, 0, 1 - LEVEL)[1:],
        "borrow": value_bounds(lent, 0, 1 - LEVEL)[1:],
        "plug-in": plug,
    }.items():
        found[name] = _hits(truth[0], low, high), (high - low) / span
    gap = truth[0] - truth[1]
    low, high = difference_bounds(careful, base, 0, 1 - LEVEL)[1:]
    found["difference"] = _hits(gap, low, high), (high - low) / span
    found |= _verdicts(careful, base, gap, len(met), outcome.margin)
    return found


def _verdicts(new: Judged, old: Judged, gap: FloatArray, starts: int, margin: float) -> dict[str, Any]:
    low, high = difference_bounds(new, old, 0, 1 - LEVEL)[1:]
    joint_low, joint_high = difference_bounds(new, old, 0, (1 - LEVEL) / starts)[1:]
    wrong = _wrong(gap, low, high)
    joint_wrong = _wrong(gap, joint_low, joint_high)[:-1]
    return {
        "sign errors": wrong[:-1],
        "family wrong": joint_wrong.any(),
        "unknown": _undecided(low, high, margin)[:-1],
        "family unknown": _undecided(joint_low, joint_high, margin)[:-1],
    }


def _wrong(gap: FloatArray, low: FloatArray, high: FloatArray) -> BoolArray:
    return ((low > 0) & (gap < -1e-9)) | ((high < 0) & (gap > 1e-9))


def _undecided(low: FloatArray, high: FloatArray, margin: float) -> BoolArray:
    return (low <= 0) & (high >= 0) & ~((low >= -margin) & (high <= margin))


def _hits(truth: FloatArray, low: FloatArray, high: FloatArray) -> BoolArray:
    slack = 1e-9 * (1 + np.abs(truth))
    return (low - slack <= truth) & (truth <= high + slack)


def _plug_in(edges: Edges, task: Task, starts: Starts) -> tuple[FloatArray, FloatArray]:
    """The plain delta method on the policy renormalised to what was seen: what others do."""
    seen = np.where(edges.visits > 0, task.target, 0.0)
    total = seen.sum(axis=1, keepdims=True)
    table = np.divide(seen, total, out=np.where(edges.visits > 0, 1.0, 0.0), where=total > 0)
    table = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
    judged = judge(edges, split_target(table, None), starts, [task.world.outcomes[0].range])
    values = judged.centre[0]
    n = edges.pair_visits
    raw = spread(edges, 0, values, values, 1.0)
    within = np.maximum((raw.pair * (2 + n - 1) - 2 * raw.state[edges.pair_state]) / n, 0.0)  # undo the shrinkage
    part = np.bincount(edges.pair_state, judged.model.weight**2 * n * within, edges.n_states)
    deviation = np.sqrt(np.maximum(judged.visits**2 @ part, 0.0))
    middle = starts.weights @ values
    return middle - 1.96 * deviation, middle + 1.96 * deviation


def measure(cell: Cell, *, seed: int = 0) -> dict[str, Any]:
    """All repetitions of a cell, summarised."""
    task = cell.task()
    runs = [one_repetition(task, cell.episodes, cell.known, 1000 * seed + r) for r in range(cell.repetitions)]
    summary: dict[str, Any] = {
        "task": task.name,
        "episodes": cell.episodes,
        "repetitions": cell.repetitions,
        "logging policy known": cell.known,
        "unsupported": _mean([run["unsupported"][:-1].mean() for run in runs]),
    }
    for name in ("careful", "borrow", "plug-in", "difference"):
        per_run = [run[name][0][:-1].mean() for run in runs]
        summary[f"{name} cover"] = _mean(per_run)
        summary[f"{name} cover s.e."] = round(float(np.std(per_run) / np.sqrt(len(per_run))), 4)
        summary[f"{name} width"] = _mean([np.median(run[name][1][:-1]) for run in runs])
        summary[f"{name} J cover"] = _mean([run[name][0][-1] for run in runs])
        summary[f"{name} J width"] = _mean([run[name][1][-1] for run in runs])
    thick = [run["careful"][0][:-1][run["unsupported"][:-1] < SUPPORTED] for run in runs]
    together = np.concatenate(thick) if thick else np.zeros(0)
    summary["cover where unsupported below 1 %"] = _mean(together) if together.size else None
    summary["share of starts with unsupported below 1 %"] = _mean(
        [len(t) / (len(r["unsupported"]) - 1) for t, r in zip(thick, runs, strict=True)]
    )
    for name in ("sign errors", "unknown", "family unknown"):
        summary[name] = _mean([run[name].mean() for run in runs])
    summary["family-wise error"] = _mean([run["family wrong"] for run in runs])
    return summary


def _mean(values: Any) -> float:
    return round(float(np.mean(np.asarray(values, dtype=float))), 4)


def noise_family(episodes: int, repetitions: int, *, outcomes: int = 10, seed: int = 0) -> dict[str, Any]:
    """Outcomes that no action moves, compared from five starts each: how often is any called different?"""
    task = chain()
    size, wrong, single = task.world.n_states, 0, []
    for r in range(repetitions):
        rng = np.random.default_rng(1000 * seed + r)
        rows = simulated_rows(task.world, task.logging, episodes, rng=rng)
        noisy = LoggedRows(rows.states, rows.actions, rows.episode, rows.follow,
                           rng.normal(size=(len(rows.actions), outcomes)), None)  # fmt: skip
        edges = count_rows(noisy, rows.states, size, task.world.n_actions).edges
        # lengths differ between the policies, the sum of centred noise does not
        starts = Starts(np.eye(size)[[0, 1, 3, 5, 7]], np.full(5, np.inf))
        new, old = (
            judge(edges, split_target(t, task.logging), starts, [(-40.0, 40.0)] * outcomes)
            for t in (task.target, task.logging)
        )
        alone = [difference_bounds(new, old, k, 0.05)[1:] for k in range(outcomes)]
        joint = [difference_bounds(new, old, k, 0.05 / (5 * outcomes))[1:] for k in range(outcomes)]
        single.append(np.mean([(low > 0) | (high < 0) for low, high in alone]))
        wrong += any(((low > 0) | (high < 0)).any() for low, high in joint)
    return {"episodes": episodes, "repetitions": repetitions, "one by one, per comparison": _mean(single),
            "family-wise error, Bonferroni": round(wrong / repetitions, 4)}  # fmt: skip
