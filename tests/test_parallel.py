"""Tasks on any engine: same answers in the same order, progress as they come."""

from __future__ import annotations

import gc
import math
import os
import signal
import threading
import time

import joblib
import numpy as np
import pytest

import polidiff
from polidiff import as_policy, parallel
from polidiff.domains import chain, navigation
from polidiff.errors import InvalidOptionError, WorkersLostError
from polidiff.parallel import on_engine, run_tasks, stream_tasks
from polidiff.progress import listening
from polidiff.worlds.rollouts import roll_out


def drawn(seed: int, count: int) -> bytes:
    return np.random.default_rng(seed).normal(size=count).tobytes()


class Counted:
    """Counts, in the driver, how often one of its kind is pickled."""

    pickled = 0

    def __reduce__(self):
        Counted.pickled += 1
        return Counted, ()


TASKS = [(seed, 10 + seed) for seed in range(6)]


@pytest.mark.parametrize(
    "engine", [{"n_jobs": 1}, {"backend": "threading", "n_jobs": 2}, {"backend": "loky", "n_jobs": 2}]
)
def test_answers_come_in_the_order_of_the_tasks_on_every_engine(engine):
    with joblib.parallel_config(**engine):
        assert run_tasks(drawn, TASKS, what="draws") == [drawn(*task) for task in TASKS]


@pytest.mark.parametrize("small", [-1.0, 0.0, math.inf], ids=["all sent", "all but the first sent", "none sent"])
def test_roll_outs_in_processes_give_the_bytes_of_a_plain_loop(monkeypatch, small):
    monkeypatch.setattr(parallel, "SMALL_JOB", small)
    policy = as_policy(navigation.current, n_actions=3)
    alone = roll_out(navigation.world(), policy, episodes=30_000, seed=(3,), record=True)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        apart = roll_out(navigation.world(), policy, episodes=30_000, seed=(3,), record=True)
    for one, other in (
        (alone.totals, apart.totals),
        (alone.lengths, apart.lengths),
        (alone.visits.states, apart.visits.states),
        (alone.visits.actions, apart.visits.actions),
    ):
        assert one.tobytes() == other.tobytes()


def where_done(tasks, *, quick):
    """Where each of so many tasks is done."""
    with joblib.parallel_config(backend="loky", n_jobs=2):
        return run_tasks(process, [(k,) for k in range(tasks)], what="tasks", quick=quick)


def test_quick_tasks_that_are_soon_done_stay_in_this_process():
    assert set(where_done(100, quick=True)) == {os.getpid()}


def test_tasks_that_are_not_said_to_be_quick_are_sent():
    assert os.getpid() not in where_done(4, quick=False)


def test_quick_tasks_that_together_take_long_are_sent_after_the_first(monkeypatch):
    monkeypatch.setattr(parallel, "SMALL_JOB", 0.0)
    first, *others = where_done(4, quick=True)
    assert first == os.getpid()
    assert first not in others


def test_quick_tasks_are_sent_together_but_not_in_too_few_parts(monkeypatch):
    sent, stream = [], parallel.stream_tasks

    def watched(function, tasks):
        sent.extend(len(group) for _, group in tasks)
        return stream(function, tasks)

    for name, value in (
        ("SMALL_JOB", 0.0),
        ("WORTH_SENDING", 1e6),
        ("FEWEST_GROUPS", 4),
        ("stream_tasks", watched),
    ):
        monkeypatch.setattr(parallel, name, value)
    tasks = [(seed, 3) for seed in range(42)]
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert run_tasks(drawn, tasks, what="draws", quick=True) == [drawn(*task) for task in tasks]
    assert sent == [10, 10, 10, 10, 1]


def test_progress_is_told_after_every_task_and_only_to_who_listens():
    heard = []
    with listening(lambda what, share, remark: heard.append((what, share))):
        run_tasks(drawn, TASKS, what="draws")
    assert heard == [("draws", pytest.approx((k + 1) / 6)) for k in range(6)]
    run_tasks(drawn, TASKS, what="draws")
    assert len(heard) == 6


def test_an_error_in_a_task_reaches_the_caller():
    with pytest.raises(ValueError, match="negative"):
        run_tasks(drawn, [(0, 1), (0, -1)], what="draws")


def dies_once(flag: str, number: int) -> int:
    """The third task kills its worker, unless one was killed before."""
    if number == 2:
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return number
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def process(number: int) -> int:
    return os.getpid()


def processes_below(number: int) -> set[int]:
    """Where the tasks of a task are done, and where it is done itself."""
    return {os.getpid(), *run_tasks(process, [(k,) for k in range(4)], what="tasks")}


def dies(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_killed_worker_costs_time_only(tmp_path):
    flag = tmp_path / "killed"
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert run_tasks(dies_once, [(str(flag), k) for k in range(6)], what="tasks") == list(range(6))
    assert flag.exists()


def test_tasks_of_a_task_are_done_where_it_is_done():
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert {len(found) for found in run_tasks(processes_below, [(0,), (1,)], what="tasks")} == {1}


def frozen(number: int) -> int:
    return gc.get_freeze_count()


def test_garbage_is_not_looked_for_in_loaded_modules_of_workers_and_only_there():
    before = gc.get_freeze_count()
    with joblib.parallel_config(backend="loky", n_jobs=2):
        run_tasks(process, [(k,) for k in range(8)], what="tasks")
        assert max(run_tasks(frozen, [(k,) for k in range(8)], what="tasks")) > 1_000
    assert gc.get_freeze_count() == before


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_what_is_sent_is_pickled_once(backend):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        Counted.pickled = 0
        run_tasks(repr, [(Counted(),), (Counted(),)], what="tasks")
    assert Counted.pickled == (2 if backend == "loky" else 0)


def test_what_cannot_be_sent_is_said_in_one_line():
    with (
        joblib.parallel_config(backend="loky", n_jobs=2),
        pytest.raises(WorkersLostError, match=r"cannot be sent to workers.*Hint") as caught,
    ):
        run_tasks(id, [(threading.Lock(),), (threading.Lock(),)], what="locks")
    assert "\n" not in str(caught.value)


def test_workers_that_die_again_and_again_are_given_up_in_one_line():
    with (
        joblib.parallel_config(backend="loky", n_jobs=2),
        pytest.raises(WorkersLostError, match=r"failed 3 times in a row at part 1 of 4: .*Hint") as caught,
    ):
        run_tasks(dies, [(k,) for k in range(4)], what="tasks")
    assert "\n" not in str(caught.value)


def test_answers_can_be_taken_one_by_one_and_left():
    taken = stream_tasks(drawn, TASKS)
    assert next(taken) == drawn(*TASKS[0])
    taken.close()


def test_an_engine_is_chosen_by_name_and_processes_are_the_default():
    pid = os.getpid()
    with on_engine():
        assert run_tasks(process, [(0,), (1,)], what="tasks") == [pid, pid]
    with on_engine(workers=2):
        assert pid not in run_tasks(process, [(0,), (1,)], what="tasks")
    for options, message in (
        ({"engine": "mpi"}, "one of loky, threading, dask, ray"),
        ({"workers": 0}, "at least 1"),
        ({"workers": 2, "address": "host:1"}, "belongs to dask or ray"),
    ):
        with pytest.raises(InvalidOptionError, match=message), on_engine(**options):
            pass


def test_threads_answer_in_order_no_more_at_once_than_asked_and_errors_are_those_of_the_task():
    running, most, lock = 0, 0, threading.Lock()

    def work(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02 if number % 2 else 0.001)
        with lock:
            running -= 1
        if number == 7:
            raise ValueError("seven")
        return number

    assert list(stream_tasks(work, [(n,) for n in range(7)], threads=2)) == list(range(7))
    assert most == 2
    answers = stream_tasks(work, [(n,) for n in range(20)], threads=2)
    assert [next(answers) for _ in range(7)] == list(range(7))
    with pytest.raises(ValueError, match="seven"):
        next(answers)
    assert running == 0


@pytest.mark.parametrize("verb", [polidiff.evaluate, polidiff.explain, polidiff.improve])
def test_every_verb_does_its_linear_algebra_on_one_thread(verb):
    """Sums come in one order on every machine, and threads do not wait for each other on a busy one."""
    from threadpoolctl import threadpool_info, threadpool_limits

    threads = set()

    def stay(states):
        threads.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return np.zeros(len(states), dtype=int)

    with threadpool_limits(2):
        verb(chain.world(), stay, *[chain.proposed()] * (verb is polidiff.explain))
    assert threads == {1}
