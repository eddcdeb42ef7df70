"""What it costs: a bootstrap on a large log, reading ten million rows, and how that compares."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.logs import tasks
from polidiff.evaluation.logged.bootstrap import bootstrap_values
from polidiff.evaluation.logged.counts import count_rows
from polidiff.evaluation.logged.starts import each_state
from polidiff.evaluation.logged.target import split_target
from polidiff.worlds.log_simulated import simulated_rows

BARE = """
import sys, time, resource, polars as pl
begin, cpu = time.perf_counter(), time.process_time()
lazy = pl.scan_parquet(sys.argv[1])
pl.DataFrame(lazy.group_by((pl.col("episode") % 200).alias("block"), "state", "action", "after")
    .agg(pl.len(), pl.col("reward").sum(), (pl.col("reward") ** 2).sum().alias("square")).collect(engine="streaming"))
print(time.perf_counter() - begin, time.process_time() - cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
OURS = """
import sys, time, resource
from polidiff import Log
from polidiff.evaluation.logged.counts import count_log
begin, cpu = time.perf_counter(), time.process_time()
count_log(Log(sys.argv[1], state="state", action="action", episode="episode", step="step", reward="reward",
              terminated="terminated"))
print(time.perf_counter() - begin, time.process_time() - cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def bootstrap(episodes: int, resamples: int) -> dict[str, Any]:
    """All starts and three outcomes of ICU-Sepsis."""
    task = tasks.icu_mixed()
    rows = simulated_rows(task.world, task.logging, episodes, rng=np.random.default_rng(0))
    wall, cpu = time.perf_counter(), time.process_time()
    counts = count_rows(rows, rows.states, task.world.n_states, task.world.n_actions)
    target, ends = split_target(task.target, task.logging), np.array([0.5, 100.0, 400.0])
    bootstrap_values(counts, target, each_state(task.world.n_states), ends, resamples=resamples)
    return {
        "episodes": episodes,
        "rows": len(rows.actions),
        "resamples": resamples,
        "outcomes": 3,
        "starts": task.world.n_states,
        "wall s": round(time.perf_counter() - wall, 2),
        "cpu s": round(time.process_time() - cpu, 2),
    }


def reading(rows: int, repeats: int = 3) -> dict[str, Any]:
    """Parquet to counts per (block, s, a, s'), against the bare group-by of the same file with the successor given."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        _write(path, rows)
        times = {name: [_timed(code, path) for _ in range(repeats)] for name, code in (("bare", BARE), ("ours", OURS))}
    best = {name: np.min(found, axis=0) for name, found in times.items()}
    return {
        "rows": rows,
        "wall ratio": round(float(best["ours"][0] / best["bare"][0]), 2),
        "cpu ratio": round(float(best["ours"][1] / best["bare"][1]), 2),
        "peak GB": round(float(max(found[2] for found in times["ours"]) / 1e6), 2),
        "bare peak GB": round(float(max(found[2] for found in times["bare"]) / 1e6), 2),
    }


def _write(path: Path, rows: int) -> None:
    """Ten decisions per episode over 716 states, 25 actions and few successors, as in ICU-Sepsis."""
    rng = np.random.default_rng(0)
    step = np.tile(np.arange(10), rows // 10)
    state = rng.integers(0, 716, rows // 10 * 10)
    state = (state // 8 * 8 + rng.integers(0, 2, len(state))).astype(np.int32)
    frame = pl.DataFrame({
        "episode": np.repeat(np.arange(rows // 10), 10), "step": step, "state": state,
        "action": rng.integers(0, 25, len(state)).astype(np.int16),
        "reward": (rng.random(len(state)) < 0.1).astype(float),
        "terminated": step == 9,
    })  # fmt: skip
    frame.with_columns(after=pl.col("state").shift(-1).fill_null(0)).write_parquet(path)


def _timed(code: str, path: Path) -> list[float]:
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return [float(part) for part in done.stdout.split()]


def run(smoke: bool) -> dict[str, Any]:
    """Both measures, and the peak memory of this process."""
    return {
        "bootstrap": bootstrap(200 if smoke else 100_000, 20 if smoke else 1000),
        "reading": reading(10_000 if smoke else 10_000_000, 1 if smoke else 3),
        "peak GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }
