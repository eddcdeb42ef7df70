"""How often do the intervals hold, and how wide are they, on worlds whose truth is known?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.logs.sampling import CountSampler
from benchmarks.logs.tasks import Task
from polidiff.evaluation.logged.bounds import PolicyBounds, bound_policy, difference, spread, value_bounds
from polidiff.evaluation.logged.counts import Edges
from polidiff.evaluation.logged.model import Starts, split_policy
from polidiff.records.arrays import BoolArray, FloatArray

LEVEL = 0.95
SUPPORTED = 0.01
METHODS = ("careful", "plug-in", "difference")


@dataclass(frozen=True)
class Cell:
    """A task, a log size, how often it is repeated, and whether the logging policy is known."""

    task: Callable[[], Task]
    episodes: int
    repetitions: int
    known: bool = True


@dataclass(frozen=True, eq=False)
class Truth:
    """Exact values (S,) of the first outcome under the target and under the logging policy."""

    target: FloatArray
    logging: FloatArray

    @classmethod
    def of(cls, task: Task) -> Truth:
        """By linear solve."""
        return cls(*(np.nan_to_num(task.truth(table)[:, 0]) for table in (task.target, task.logging)))


def one_repetition(
    sampler: CountSampler, truth: Truth, episodes: int, known: bool, rng: np.random.Generator
) -> dict[str, Any]:
    """Hits and widths of one simulated log, for every state met and, last, for the start distribution."""
    task, world, outcome = sampler.task, sampler.task.world, sampler.task.world.outcomes[0]
    edges = sampler.counts(episodes, rng).edges
    met = np.flatnonzero(edges.state_visits > 0)
    weights = np.vstack([np.eye(world.n_states)[met], world.initial])
    starts, ranges = Starts(weights, np.full(len(weights), np.inf)), [outcome.range]
    new = split_policy(task.target, task.logging if known else None)
    careful = bound_policy(edges, new, starts, ranges)
    base = bound_policy(edges, split_policy(task.logging, task.logging), starts, ranges)
    value, gap = weights @ truth.target, weights @ (truth.target - truth.logging)
    span = outcome.range[1] - outcome.range[0]
    bounds = {
        "careful": (value, *value_bounds(careful, 0, 1 - LEVEL)[1:]),
        "plug-in": (value, *_plug_in(edges, task, starts)),
        "difference": (gap, *difference(careful, base, 0).bounds(1 - LEVEL)[1:]),
    }
    found: dict[str, Any] = {
        name: (_hits(exact, low, high), (high - low) / span) for name, (exact, low, high) in bounds.items()
    }
    low, high = bounds["difference"][1:]
    return {"unsupported": careful.unsupported, **found, **_verdicts(careful, base, gap, low, high, outcome.margin)}


def _verdicts(
    new: PolicyBounds, old: PolicyBounds, gap: FloatArray, low: FloatArray, high: FloatArray, margin: float
) -> dict[str, Any]:
    """Verdicts one by one and over all starts together; the start distribution, last, is left out."""
    joint_low, joint_high = difference(new, old, 0).bounds((1 - LEVEL) / (len(gap) - 1))[1:]
    return {
        "sign errors": _wrong(gap, low, high)[:-1],
        "family wrong": _wrong(gap, joint_low, joint_high)[:-1].any(),
        "unknown": _undecided(low, high, margin)[:-1],
        "family unknown": _undecided(joint_low, joint_high, margin)[:-1],
    }


def _wrong(gap: FloatArray, low: FloatArray, high: FloatArray) -> BoolArray:
    return ((low > 0) & (gap < 1e-9)) | ((high < 0) & (gap > -1e-9))


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
    judged = bound_policy(edges, split_policy(table, None), starts, [task.world.outcomes[0].range])
    values = judged.centre[0]
    n = edges.pair_visits
    raw = spread(edges, 0, values, values, 1.0)
    within = np.maximum((raw.pair * (2 + n - 1) - 2 * raw.state[edges.pair_state]) / n, 0.0)  # undo the shrinkage
    part = np.bincount(edges.pair_state, judged.model.weight**2 * n * within, edges.n_states)
    deviation = np.sqrt(np.maximum(judged.visits**2 @ part, 0.0))
    middle = starts.weights @ values
    return middle - 1.96 * deviation, middle + 1.96 * deviation


def measure(cell: Cell, *, seed: int) -> dict[str, Any]:
    """All repetitions of a cell, summarised; each share with its Monte-Carlo standard error."""
    task = cell.task()
    sampler, truth = CountSampler(task), Truth.of(task)
    runs = [
        one_repetition(sampler, truth, cell.episodes, cell.known, np.random.default_rng((seed, cell.episodes, r)))
        for r in range(cell.repetitions)
    ]
    summary: dict[str, Any] = {
        "task": task.name,
        "episodes": cell.episodes,
        "repetitions": cell.repetitions,
        "logging policy known": cell.known,
        "unsupported": _mean([run["unsupported"][:-1].mean() for run in runs]),
    }
    for name in METHODS:
        summary |= _with_error(f"{name} cover", [run[name][0][:-1].mean() for run in runs])
        summary[f"{name} width"] = _mean([np.median(run[name][1][:-1]) for run in runs])
        summary |= _with_error(f"{name} J cover", [run[name][0][-1] for run in runs])
        summary[f"{name} J width"] = _mean([run[name][1][-1] for run in runs])
    summary |= _where_supported(runs)
    for name in ("sign errors", "unknown", "family unknown"):
        summary |= _with_error(name, [run[name].mean() for run in runs])
    return summary | _with_error("family-wise error", [run["family wrong"] for run in runs])


def _where_supported(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Coverage of the starts whose unsupported mass is below 1 %, and how many of the starts these are."""
    thick = [run["unsupported"][:-1] < SUPPORTED for run in runs]
    name, share = "cover where unsupported below 1 %", "share of starts with unsupported below 1 %"
    hits = [run["careful"][0][:-1][here].mean() for run, here in zip(runs, thick, strict=True) if here.any()]
    return {share: _mean([here.mean() for here in thick]), **(_with_error(name, hits) if hits else {name: None})}


def _with_error(name: str, values: Sequence[Any]) -> dict[str, float]:
    per_run = np.asarray(values, dtype=float)
    return {name: _mean(per_run), f"{name} s.e.": round(float(per_run.std() / np.sqrt(len(per_run))), 5)}


def _mean(values: Any) -> float:
    return round(float(np.mean(np.asarray(values, dtype=float))), 5)
