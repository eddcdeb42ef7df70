"""Where the model's assumption fails, what cells hide, and the bootstrap beside the analytic interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.logs import tasks
from benchmarks.logs.sampling import simulated_rows
from polidiff.evaluation.exact import exact_evaluator
from polidiff.evaluation.logged.bounds import bound_policy, value_bounds
from polidiff.evaluation.logged.counts import count_rows
from polidiff.evaluation.logged.model import Starts, bootstrap_values, split_policy
from polidiff.evaluation.scores.episodes import running_products
from polidiff.records.arrays import FloatArray
from polidiff.worlds.log_rows import LoggedRows


def run(smoke: bool, *, seed: int) -> dict[str, Any]:
    """All three."""
    repetitions = 3 if smoke else 100
    return {
        "state is not Markov": [not_markov(n, repetitions, seed=seed) for n in (1000, 10_000)],
        "logging policy estimated": estimated_behaviour(repetitions=repetitions, seed=seed),
        "bootstrap": bootstrap_coverage(repetitions=repetitions, seed=seed),
    }


def estimated_behaviour(episodes: int = 1000, *, repetitions: int, seed: int) -> dict[str, Any]:
    """FrozenLake from its start: the same intervals with the logging policy known, and with its shares in the log."""
    task = tasks.frozen_lake()
    starts = Starts(task.world.initial[None], np.array([np.inf]))
    truth = float(task.world.initial @ np.nan_to_num(task.truth(task.target)[:, 0]))
    hits: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}
    for r in range(repetitions):
        rows = simulated_rows(task.world, task.logging, episodes, rng=np.random.default_rng((seed, r, 7)))
        edges = count_rows(rows, rows.states, task.world.n_states, task.world.n_actions).edges
        shares = edges.visits / np.maximum(edges.state_visits, 1)[:, None]
        for name, logging in (("known", task.logging), ("estimated", shares)):
            target = split_policy(task.target, logging if name == "known" else None)
            _, low, high = value_bounds(bound_policy(edges, target, starts, [(0.0, 1.0)]), 0, 0.05)
            taken = [table[rows.states, rows.actions] for table in (task.target, logging)]
            middle, half = per_decision(rows, taken[0] / taken[1])
            for method, ends in (("careful", (low[0], high[0])), ("PDIS", (middle - half, middle + half))):
                hits.setdefault(f"{method}, {name}", []).append(bool(ends[0] <= truth <= ends[1]))
                widths.setdefault(f"{method}, {name}", []).append(float(ends[1] - ends[0]))
    return {
        "task": task.name,
        "episodes": episodes,
        "repetitions": repetitions,
        **{f"{name}: cover": round(float(np.mean(found)), 4) for name, found in hits.items()},
        **{f"{name}: s.e.": round(float(np.std(found) / np.sqrt(repetitions)), 4) for name, found in hits.items()},
        **{f"{name}: width": round(float(np.mean(found)), 4) for name, found in widths.items()},
    }


def per_decision(rows: LoggedRows, ratio: FloatArray) -> tuple[float, float]:
    """Per-decision importance sampling of the first outcome, and the half width of its interval."""
    parts = np.bincount(rows.episode, running_products(ratio, rows.first) * rows.gains[:, 0])
    return float(parts.mean()), float(1.96 * parts.std(ddof=1) / np.sqrt(len(parts)))


def not_markov(episodes: int, repetitions: int, *, seed: int) -> dict[str, Any]:
    """FrozenLake seen through its row only: what was learned in a row mixes cells with and without a hole ahead.

    The target acts on what is seen, so its truth is exact; the model of rows is wrong, importance sampling is not.
    """
    task = tasks.frozen_lake()
    seen = np.arange(task.world.n_states) // 4
    target = np.tile([0.1, 0.3, 0.5, 0.1], (task.world.n_states, 1))
    logging = np.full(target.shape, 0.25)
    gains = task.world.outcome_table(task.world.outcomes[0])
    truth = float(task.world.initial @ np.nan_to_num(exact_evaluator(task.world, target).values(gains)))
    model, weighted, warned = [], [], 0
    starts = Starts(np.eye(int(seen.max()) + 1)[:1], np.array([np.inf]))
    for r in range(repetitions):
        rows = simulated_rows(task.world, logging, episodes, rng=np.random.default_rng((seed, r, 6)))
        state = seen[rows.states]
        edges = count_rows(rows, state, int(seen.max()) + 1, 4).edges
        per_seen = np.full((int(seen.max()) + 1, 4), 0.25), np.tile(target[0], (int(seen.max()) + 1, 1))
        judged = bound_policy(edges, split_policy(per_seen[1], per_seen[0]), starts, [(0.0, 1.0)])
        _, low, high = value_bounds(judged, 0, 0.05)
        middle, half = per_decision(rows, target[0][rows.actions] / 0.25)
        model.append(low[0] <= truth <= high[0])
        weighted.append(abs(middle - truth) <= half)
        warned += bool(middle - half > high[0] or middle + half < low[0])
    return {
        "truth": round(truth, 4),
        "episodes": episodes,
        "repetitions": repetitions,
        "model cover": round(float(np.mean(model)), 3),
        "model cover s.e.": round(float(np.std(model) / np.sqrt(repetitions)), 4),
        "PDIS cover": round(float(np.mean(weighted)), 3),
        "PDIS cover s.e.": round(float(np.std(weighted) / np.sqrt(repetitions)), 4),
        "share of logs with a warning": round(warned / repetitions, 3),
    }


def bootstrap_coverage(episodes: int = 200, *, repetitions: int, seed: int) -> list[dict[str, Any]]:
    """J of chain and FrozenLake: percentile bootstrap over 200 blocks beside the careful interval."""
    found = []
    for task in (tasks.chain(), tasks.frozen_lake()):
        starts = Starts(task.world.initial[None], np.array([np.inf]))
        truth = float(task.world.initial @ np.nan_to_num(task.truth(task.target)[:, 0]))
        target, hits = split_policy(task.target, task.logging), []
        ranges = [outcome.range for outcome in task.world.outcomes]
        for r in range(repetitions):
            rows = simulated_rows(task.world, task.logging, episodes, rng=np.random.default_rng((seed, r, 8)))
            counts = count_rows(rows, rows.states, task.world.n_states, task.world.n_actions)
            drawn = bootstrap_values(counts, target, starts, np.zeros(len(ranges)), resamples=200, seed=r)[:, 0, 0]
            low, high = np.quantile(drawn, [0.025, 0.975])
            _, least, most = value_bounds(bound_policy(counts.edges, target, starts, ranges), 0, 0.05)
            hits.append((low <= truth <= high, least[0] <= truth <= most[0]))
        cover = np.mean(hits, axis=0)
        shares = {"bootstrap cover": round(float(cover[0]), 3), "careful cover": round(float(cover[1]), 3)}
        found.append({"task": task.name, "episodes": episodes, "repetitions": repetitions, **shares})
    return found
