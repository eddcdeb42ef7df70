"""The same bytes on every engine, and after a worker, a node or the driver has gone."""

from __future__ import annotations

import os
import sys
import threading
import time
from functools import partial

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, Simulator, TabularMDP, as_policy, explain, improve, parallel
from polidiff.domains import navigation
from polidiff.errors import WorkersLostError
from polidiff.records.codec import dumps
from polidiff.rules import RuleClassifier
from polidiff.worlds.rollouts import roll_out
from polidiff.worlds.shards import shard_files

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("default")]
ENGINES = ("loky", "dask", "ray")


def explained(folder):
    """Two policies of navigation."""
    return explain(navigation.world(), navigation.current, navigation.proposed_2, max_steps=200_000)


def improved(folder):
    """A table of 64 states, whose proof has parts."""
    rng = np.random.default_rng(0)
    moves = rng.dirichlet(np.full(64, 0.05), size=(64, 3))
    moves[:, :, -1] += 0.1
    moves /= moves.sum(axis=-1, keepdims=True)
    moves[-1] = np.eye(64)[-1]
    start = np.append(np.full(63, 1 / 63), 0.0)
    world = TabularMDP(moves, rng.normal(size=(64, 3)), start, absorbing=[63])
    return improve(world, np.zeros(64, dtype=int), gap=1e-2)


def improved_by_playing(folder):
    """Plans over regions of navigation."""
    return improve(navigation.world(), navigation.current, [navigation.proposed_1, navigation.proposed_2])


def studied(folder):
    """A log in six shards whose episodes do not end where the shards do."""
    log = Log(folder, state="s", action="a", episode="e", step="t", terminated="end", reward="r",
              return_range=(-40.0, 40.0), outcomes=[Outcome("steps", 1.0, prefer="less", range=(0, 9))])  # fmt: skip
    return explain(log, "log", np.array([0, 1, 0, 1, 0, 1]))


def explained_by_steps(folder):
    """Two policies of an environment that is stepped one by one: four groups of starts."""
    from faults import Corridor

    world = Simulator(Corridor, horizon=12)
    policies = [as_policy(lambda rows, k=k: (rows[:, 0] > k).astype(int), n_actions=2) for k in (1.5, 3.5)]
    return explain(world, *policies)


def ruled(folder):
    """Rules whose cost is chosen over five folds, with numbers, categories and missing values."""
    rng = np.random.default_rng(7)
    rows = np.empty((400, 3), dtype=object)
    rows[:, 0], rows[:, 1], rows[:, 2] = rng.random(400), rng.random(400), rng.choice(["a", "b", None], 400)
    label = (rows[:, 0] < 0.4) & (rows[:, 2] == "a") ^ (rng.random(400) < 0.1)
    model = RuleClassifier(clause_cost="auto", random_state=0).fit(rows, label)
    return repr((model.clause_cost_, model.objective_, model.decision_list_))


def text_of(result):
    return result if isinstance(result, str) else dumps(result)


JOBS = {job.__name__: job for job in (explained, explained_by_steps, improved, improved_by_playing, ruled, studied)}


@pytest.fixture(scope="module")
def log_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    rng = np.random.default_rng(1)
    length = rng.integers(1, 9, 900)
    size = int(length.sum())
    last = np.zeros(size, dtype=bool)
    last[np.cumsum(length) - 1] = True
    frame = pl.DataFrame({
        "e": np.repeat(np.arange(900), length), "t": np.concatenate([np.arange(n) for n in length]),
        "s": rng.integers(0, 6, size), "a": rng.integers(0, 2, size), "r": rng.normal(size=size), "end": last,
    })  # fmt: skip
    for number, part in enumerate(np.array_split(np.arange(size), 6)):
        frame[part].write_parquet(folder / f"{number}.parquet")
    return folder


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(shard_files, "PART_ROWS", 300)


@pytest.fixture(autouse=True)
def sent(monkeypatch):
    """Also what is so quick that it would be done here."""
    monkeypatch.setattr(parallel, "SMALL_JOB", -1.0)


@pytest.fixture(scope="module")
def alone(log_folder):
    """What each job says in a plain loop."""
    before, shard_files.PART_ROWS = shard_files.PART_ROWS, 300
    said = {name: text_of(job(log_folder)) for name, job in JOBS.items()}
    shard_files.PART_ROWS = before
    return said


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("name", ENGINES)
def test_results_are_the_same_to_the_byte(engine, alone, log_folder, name, job):
    with engine(name):
        assert text_of(JOBS[job](log_folder)) == alone[job]


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("name", ENGINES)
def test_results_are_the_same_after_a_worker_was_killed(engine, alone, log_folder, tmp_path, monkeypatch, name, job):
    faults = sys.modules.get("faults") or __import__("faults")
    with engine(name):
        monkeypatch.setattr(parallel, "_answer", partial(faults.deadly, str(tmp_path), os.getpid()))
        assert text_of(JOBS[job](log_folder)) == alone[job]
    assert (tmp_path / "killed").exists()


@pytest.mark.parametrize("job", ["explained", "improved", "studied"])
def test_results_are_the_same_after_a_ray_node_was_removed(
    engine, alone, log_folder, tmp_path, monkeypatch, ray_cluster, job
):
    faults = sys.modules.get("faults") or __import__("faults")
    gone = threading.Event()

    def remove():
        while not (tmp_path / "2").exists():
            time.sleep(0.05)
        ray_cluster.remove_node(ray_cluster.worker_nodes.copy().pop())
        gone.set()

    remover = threading.Thread(target=remove, daemon=True)
    with engine("ray"):
        monkeypatch.setattr(parallel, "_answer", partial(faults.slow, str(tmp_path), os.getpid()))
        remover.start()
        said = text_of(JOBS[job](log_folder))
    remover.join(timeout=60)
    ray_cluster.add_node(num_cpus=1)
    ray_cluster.wait_for_nodes()
    assert gone.is_set()
    assert said == alone[job]


@pytest.mark.parametrize("name", ENGINES)
def test_quick_tasks_may_begin_here_and_go_on_there_together(engine, monkeypatch, name):
    policy = as_policy(navigation.current, n_actions=3)
    alone = roll_out(navigation.world(), policy, episodes=80_000, seed=(1,))
    for setting, value in (("SMALL_JOB", 0.0), ("WORTH_SENDING", 1e6), ("FEWEST_GROUPS", 3)):
        monkeypatch.setattr(parallel, setting, value)
    with engine(name):
        apart = roll_out(navigation.world(), policy, episodes=80_000, seed=(1,))
    assert alone.totals.tobytes() == apart.totals.tobytes()
    assert alone.starts.tobytes() == apart.starts.tobytes()


@pytest.mark.parametrize("name", ENGINES)
def test_an_error_of_a_task_is_told_and_not_tried_again(engine, name):
    with engine(name), pytest.raises(ZeroDivisionError):
        parallel.run_tasks(divmod, [(1, 1), (1, 0), (1, 1)], what="divisions")


@pytest.mark.parametrize("name", ENGINES)
def test_what_cannot_be_sent_to_workers_is_said_in_a_line(engine, name):
    with engine(name), pytest.raises(WorkersLostError, match=r"cannot be sent to workers.*survive pickling") as caught:
        parallel.run_tasks(id, [(threading.Lock(),), (threading.Lock(),)], what="locks")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ENGINES)
def test_functions_without_a_name_are_sent_like_any_other(engine, name):
    base = 3
    with engine(name):
        assert parallel.run_tasks(lambda x: base + x, [(1,), (2,)], what="sums") == [4, 5]


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_the_command_line_starts_an_engine_of_its_own(tmp_path, name, log_folder):
    import subprocess

    pytest.importorskip({"dask": "distributed", "ray": "ray"}[name])
    policy = tmp_path / "new.npy"
    np.save(policy, np.array([0, 1, 0, 1, 0, 1]))
    columns = {"state": "s", "action": "a", "episode": "e", "step": "t", "terminated": "end", "reward": "r"}
    flags = [part for key, column in columns.items() for part in (f"--{key}", column)]
    command = [sys.executable, "-W", "ignore", "-m", "polidiff", "explain", "--log", str(log_folder), *flags]
    command += ["--current", "log", "--proposed", str(policy), "--json"]
    runs = [
        subprocess.run([*command, *more], capture_output=True, text=True, timeout=120)
        for more in ([], ["--engine", name, "--workers", "2"])
    ]
    assert [run.returncode for run in runs] == [0, 0], runs[1].stderr
    assert runs[0].stdout == runs[1].stdout
