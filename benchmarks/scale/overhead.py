"""What tasks cost beside their own work: pickling, sending, waiting, with two processes that have started.

For every kind of job the CPU time that the tasks spend in their functions, on workers or in the driver, is set against
all other CPU time of the two workers and of the driver until it has all answers.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from polidiff import parallel

WORKERS = 2


@dataclass
class Spent:
    """CPU seconds, and how many tasks there were."""

    tasks: list[float] = field(default_factory=list)  # in their functions; what is sent together counts as one
    here: float = 0.0  # of them, in the driver
    driver: float = 0.0  # until it has all answers
    counting: bool = False  # whether a job hands out tasks


SPENT = Spent()


class Timed(parallel.Answer[Any]):
    """An answer that tells the driver how long the work took."""

    def value(self) -> Any:
        """The result of the task."""
        result, seconds = super().value()
        SPENT.tasks.append(seconds)
        return result


def timed_answer(function: Callable[..., Any], task: tuple[Any, ...]) -> Timed:
    """As `parallel._answer`, with the CPU time of the function alone."""
    found = parallel._answer(_clocked, (function, task))
    return Timed(found.result, found.error)


def _clocked(function: Callable[..., Any], task: tuple[Any, ...]) -> tuple[Any, float]:
    begin = time.process_time()
    result = function(*task)
    return result, time.process_time() - begin


def overheads(small: bool) -> dict[str, Any]:
    """Each job once to start and load what it needs, then measured."""
    import joblib

    with tempfile.TemporaryDirectory() as folder, joblib.parallel_config(backend="loky", n_jobs=WORKERS):
        jobs = _jobs(Path(folder), small)
        return {name: _measured(job) for name, job in jobs.items()}


def _measured(job: Callable[[], Any]) -> dict[str, Any]:
    with _watched():
        job()
        _forget()
        before = _workers_time()
        job()
        work, count, driver = sum(SPENT.tasks), len(SPENT.tasks), SPENT.driver - SPENT.here
        there = work - SPENT.here
        workers = sum(seconds - before.get(worker, 0.0) for worker, seconds in _workers_time().items())
    beside = max(0.0, workers - there) + driver
    return {
        "tasks": count,
        "work, CPU s": round(work, 2),
        "of it in the driver, CPU s": round(work - there, 2),
        "longest, CPU s": round(max(SPENT.tasks[:count], default=0.0), 2),
        "beside it: driver, CPU s": round(driver, 3),
        "beside it: workers, CPU s": round(workers - there, 3),
        "share": round(beside / work, 4),
    }


def _forget() -> None:
    SPENT.tasks, SPENT.here, SPENT.driver = [], 0.0, 0.0


@contextmanager
def _watched() -> Iterator[None]:
    """Tasks that tell their time, and a driver that counts its own."""
    answer, single, in_groups = parallel._answer, parallel._single_threaded, parallel._in_groups

    def here(function: Any, task: Any) -> Any:
        if not SPENT.counting:
            return single(function, task)
        result, seconds = single(_clocked, (function, task))
        SPENT.tasks.append(seconds)
        SPENT.here += seconds
        return result

    def counted(function: Any, tasks: Any, quick: bool) -> Iterator[Any]:
        begin, SPENT.counting = time.process_time(), True
        found = list(in_groups(function, tasks, quick))
        SPENT.driver, SPENT.counting = SPENT.driver + time.process_time() - begin, False
        yield from found

    _forget()
    parallel._answer, parallel._single_threaded, parallel._in_groups = timed_answer, here, counted  # type: ignore[assignment]
    try:
        yield
    finally:
        parallel._answer, parallel._single_threaded, parallel._in_groups = answer, single, in_groups


def _workers_time() -> dict[int, float]:
    """CPU time of every worker so far."""
    import joblib

    while True:
        found = dict(joblib.Parallel()(joblib.delayed(_own_time)(k) for k in range(2 * WORKERS)))
        if len(found) == WORKERS:
            return found


def _own_time(number: int) -> tuple[int, float]:
    time.sleep(0.1)
    return os.getpid(), time.process_time()


def _jobs(folder: Path, small: bool) -> dict[str, Callable[[], Any]]:
    from benchmarks.scale.scaling import SlowWalk, _acting
    from polidiff import Simulator, as_policy
    from polidiff.divergence import find_divergence
    from polidiff.domains import navigation
    from polidiff.options import ExplainOptions
    from polidiff.worlds.rollouts import roll_out

    world = navigation.world()
    policies = [as_policy(policy, n_actions=3) for policy in (navigation.current, navigation.proposed_2)]
    starts, episodes = (2_000, 20_000) if small else (16_000, 1_000_000)

    def split(starts: int) -> Any:
        options = ExplainOptions(starts=starts, max_steps=10_000 if small else 1_000 * starts)
        return find_divergence(world, *policies, options)

    slow = Simulator(partial(SlowWalk, 2 if small else 8), horizon=8)
    acts = [as_policy(partial(_acting, from_=k), n_actions=2) for k in (0.0, 0.5)]
    few = ExplainOptions(starts=50 if small else 100)
    return {
        "roll-outs of an environment, 1 ms a step": lambda: roll_out(
            slow, acts[0], episodes=600 if small else 1024, seed=(0,)
        ),
        "splitting roll-outs of an environment, 1 ms a step": lambda: find_divergence(slow, *acts, few),
        "roll-outs of a model": lambda: roll_out(world, policies[0], episodes=episodes, seed=(3,)),
        "roll-outs of a model, ten times as many": lambda: roll_out(
            world, policies[0], episodes=10 * episodes, seed=(3,)
        ),
        "splitting roll-outs of a model": lambda: split(starts),
        "splitting roll-outs of a model, four times as many": lambda: split(4 * starts),
        **_logs(folder, small),
        **_frontiers(small),
        "folds of rules": _rules(small),
    }


def _logs(folder: Path, small: bool) -> dict[str, Callable[[], Any]]:
    import polars as pl

    from benchmarks.scale.features import COLUMNS, write_features
    from polidiff import Log
    from polidiff.evaluation.logged.named import evaluate_by

    size, states = (2_000, 20) if small else (400_000, 700)
    rng = np.random.default_rng(0)
    counted = pl.DataFrame({
        "s": rng.integers(0, states, size), "a": rng.integers(0, 5, size), "e": np.arange(size) // 10,
        "t": np.arange(size) % 10, "r": rng.normal(size=size), "end": np.arange(size) % 10 == 9,
    })  # fmt: skip
    table = Log(counted, state="s", action="a", episode="e", step="t", reward="r", terminated="end", truncated=False,
                return_range=(-60.0, 60.0))  # fmt: skip
    choice = rng.integers(0, 5, states)
    write_features(folder, 200 if small else 500, per_file=10**6)
    measured = Log(str(folder / "*.parquet"), **COLUMNS)
    return {
        "bootstrap of a log": lambda: evaluate_by("model bootstrap", table, choice, level=0.95),
        "fitted-Q intervals": lambda: evaluate_by("fitted q", measured, _high_lactate, level=0.95),
    }


def _high_lactate(rows: Any) -> Any:
    return (rows[:, 1] > 2.0).astype(int)


def _frontiers(small: bool) -> dict[str, Callable[[], Any]]:
    from polidiff import TabularMDP, improve

    def table(states: int, actions: int, spread: float, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        moves = rng.dirichlet(np.full(states, spread), size=(states, actions))
        moves[:, :, -1] += 0.1
        moves /= moves.sum(axis=-1, keepdims=True)
        moves[-1] = np.eye(states)[-1]
        start = np.append(np.full(states - 1, 1 / (states - 1)), 0.0)
        return TabularMDP(moves, rng.normal(size=(states, actions)), start, absorbing=[states - 1])

    count = 64 if small else 200
    world = table(count, 3, 0.05, 0)
    return {
        "proof of a frontier": lambda: improve(world, np.zeros(count, dtype=int), gap=1e-2),
    }


def _rules(small: bool) -> Callable[[], Any]:
    from polidiff.rules import RuleClassifier

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200 if small else 1_500, 12))
    label = (rows[:, 0] + rows[:, 1] > 1) ^ (rng.random(len(rows)) < 0.1)
    return lambda: RuleClassifier(clause_cost="auto", random_state=0).fit(rows, label)
