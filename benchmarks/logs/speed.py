"""What it costs: a bootstrap on a large log and how that compares, and what tests cost beside the judge."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.logs import feature_worlds, tasks
from benchmarks.logs.sampling import each_state, simulated_rows
from polidiff import Log, Outcome
from polidiff.evaluation.logged.compare import judge_log
from polidiff.evaluation.logged.counts import count_rows
from polidiff.evaluation.logged.judge import Question, assess
from polidiff.evaluation.logged.model import bootstrap_values, split_policy
from polidiff.records.explanation import Verdict


def bootstrap(episodes: int, resamples: int, workers: int) -> dict[str, Any]:
    """Counting and resampling, all starts and three outcomes of ICU-Sepsis; processes are started before the clock."""
    import joblib

    task = tasks.icu_mixed()
    rows = simulated_rows(task.world, task.logging, episodes, rng=np.random.default_rng(0))
    target, ends = split_policy(task.target, task.logging), np.array([0.5, 100.0, 400.0])
    starts = each_state(task.world.n_states)
    with joblib.parallel_config(backend="loky", n_jobs=workers):
        joblib.Parallel()(joblib.delayed(_warm)() for _ in range(2 * workers))
        before, wall = time.process_time(), time.perf_counter()
        counts = count_rows(rows, rows.states, task.world.n_states, task.world.n_actions)
        bootstrap_values(counts, target, starts, ends, resamples=resamples)
        wall = time.perf_counter() - wall
    return {
        "episodes": episodes,
        "rows": len(rows.actions),
        "resamples": resamples,
        "outcomes": 3,
        "starts": task.world.n_states,
        "workers": workers,
        "wall s": round(wall, 2),
        "cpu s of this process": round(time.process_time() - before, 2),
    }


def _warm() -> int:
    import polidiff.evaluation.logged.model  # noqa: F401

    return 0


PEER = """
import sys, time, json
import numpy as np, d3rlpy, torch
torch.set_num_threads(1)
data = np.load(sys.argv[1])
observations = np.eye(int(data["n_states"]), dtype=np.float32)[data["states"]]
dataset = d3rlpy.dataset.MDPDataset(observations, data["actions"][:, None], data["gains"][:, None],
                                    data["ended"].astype(np.float32),
                                    action_space=d3rlpy.constants.ActionSpace.DISCRETE,
                                    action_size=int(data["n_actions"]))
algorithm = d3rlpy.algos.DQNConfig(batch_size=256).create(device=False)
algorithm.build_with_dataset(dataset)
fqe = d3rlpy.ope.DiscreteFQE(algo=algorithm, config=d3rlpy.ope.FQEConfig(batch_size=256))
steps = int(sys.argv[2])
fqe.fit(dataset, n_steps=10, n_steps_per_epoch=10, show_progress=False, save_interval=10**9,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory())
begin = time.process_time()
fqe.fit(dataset, n_steps=steps, n_steps_per_epoch=steps, show_progress=False, save_interval=10**9,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory())
print(json.dumps({"cpu s per step": (time.process_time() - begin) / steps, "version": d3rlpy.__version__}))
"""
FQE_STEPS = 1000  # gradient steps that a point estimate on ICU-Sepsis took; after 100 it was far off


def against_fqe(episodes: int, resamples: int, steps: int) -> dict[str, Any]:
    """CPU of one resample here, in one process, beside d3rlpy's fitted-Q evaluation of one outcome.

    ``POLIDIFF_D3RLPY`` names the Python of an environment that has d3rlpy; without it this part is left out. The peer
    is timed over some gradient steps; B times three outcomes times 1,000 steps is extrapolated from that.
    """
    python = os.environ.get("POLIDIFF_D3RLPY")
    if python is None:
        return {}
    task = tasks.icu_mixed()
    rows = simulated_rows(task.world, task.logging, episodes, rng=np.random.default_rng(0))
    begin = time.process_time()
    counts = count_rows(rows, rows.states, task.world.n_states, task.world.n_actions)
    target = split_policy(task.target, task.logging)
    bootstrap_values(counts, target, each_state(task.world.n_states), np.zeros(3), resamples=resamples)
    ours = (time.process_time() - begin) / resamples
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.npz"
        np.savez(path, states=rows.states, actions=rows.actions, gains=rows.gains[:, 0], ended=rows.follow < 0,
                 n_states=task.world.n_states, n_actions=task.world.n_actions)  # fmt: skip
        told = subprocess.run([python, "-c", PEER, str(path), str(steps)], capture_output=True, text=True, check=True)
    peer = json.loads(told.stdout.splitlines()[-1])
    theirs = 3 * FQE_STEPS * peer["cpu s per step"]
    return {
        "episodes": episodes,
        "resamples timed": resamples,
        "ours, cpu s per resample of all starts and three outcomes": round(ours, 4),
        "d3rlpy": peer["version"],
        "gradient steps timed": steps,
        "d3rlpy, cpu s per gradient step of 256 rows": round(peer["cpu s per step"], 5),
        "gradient steps taken for one estimate": FQE_STEPS,
        "ratio at equal B, extrapolated": round(theirs / ours),
    }


def doubt(smoke: bool) -> list[dict[str, Any]]:
    """CPU of all tests of a log and of all strengths Γ beside that of the judge alone, in the same run."""
    found = []
    for name, log_of, pair in _doubted_logs(smoke):
        times = []
        for _ in range(1 if smoke else 4):
            log, spent = log_of(), []
            log.rows  # noqa: B018 (read before the clock)
            for part in (assess, partial(_verdicts, pair=pair, lines=False), partial(_verdicts, pair=pair, lines=True)):
                began = time.process_time()
                told = part(log)
                spent.append(time.process_time() - began)
            times.append((spent[1], spent[0], max(spent[2] - spent[1], 0.0)))
        judge, tests, strengths = np.median(times[1:] or times, axis=0)
        decided = sum(v.direction in ("more", "less") for v in told)
        found.append({"log": name, "rows": log.check.rows, "verdicts decided": decided, "judge s": round(judge, 3),
                      "tests s": round(tests, 3), "strengths s": round(strengths, 3),
                      "ratio": round((tests + strengths) / judge, 2)})  # fmt: skip
    return found


def _verdicts(log: Log, pair: tuple[Any, Any], lines: bool) -> Sequence[Verdict]:
    return judge_log(log, Question(*pair, lines=lines)).verdicts[0]


def _doubted_logs(smoke: bool) -> list[tuple[str, Callable[[], Log], tuple[Any, Any]]]:
    episodes, logs = (200, []) if smoke else (10_000, [])
    for task in (tasks.icu_mixed(), tasks.icu_greedy()):
        rows = simulated_rows(task.world, task.logging, episodes, rng=np.random.default_rng(0))
        names = [outcome.name for outcome in task.world.outcomes]
        frame = pl.DataFrame({"episode": rows.episode, "state": rows.states, "action": rows.actions,
                              **dict(zip(names, rows.gains.T, strict=True)), "ended": rows.follow == -1})  # fmt: skip
        options = {
            "states": task.world.n_states, "actions": task.world.n_actions, "include_return": False,
            "outcomes": [Outcome(o.name, o.name, range=o.range) for o in task.world.outcomes],
        }  # fmt: skip
        make = partial(Log, frame, state="state", action="action", episode="episode", terminated="ended", **options)
        logs.append((task.name, make, (task.logging, task.target)))
    world = feature_worlds.WORLDS["glucose"]
    rows = feature_worlds.play(world, world.current, episodes // 10, np.random.default_rng(0))
    return [*logs, ("glucose (features)", partial(feature_worlds.as_log, world, rows), ("log", world.proposed))]


def run(smoke: bool) -> dict[str, Any]:
    """The bootstrap, its peer, and the peak memory of this process."""
    return {
        "bootstrap": bootstrap(200 if smoke else 100_000, 20 if smoke else 1000, 1 if smoke else 2),
        "fitted-Q evaluation": against_fqe(200 if smoke else 10_000, 10 if smoke else 50, 10 if smoke else 200),
        "peak GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }
