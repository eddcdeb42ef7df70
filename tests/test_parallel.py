"""Tasks on any engine: same answers in the same order, progress as they come."""

from __future__ import annotations

import joblib
import numpy as np
import pytest

from polidiff import as_policy
from polidiff.domains import navigation
from polidiff.parallel import run_tasks
from polidiff.progress import listening
from polidiff.worlds.rollouts import roll_out


def drawn(seed: int, count: int) -> bytes:
    return np.random.default_rng(seed).normal(size=count).tobytes()


TASKS = [(seed, 10 + seed) for seed in range(6)]


@pytest.mark.parametrize(
    "engine", [{"n_jobs": 1}, {"backend": "threading", "n_jobs": 2}, {"backend": "loky", "n_jobs": 2}]
)
def test_answers_come_in_the_order_of_the_tasks_on_every_engine(engine):
    with joblib.parallel_config(**engine):
        assert run_tasks(drawn, TASKS, what="draws") == [drawn(*task) for task in TASKS]


def test_roll_outs_in_processes_give_the_bytes_of_a_plain_loop():
    policy = as_policy(navigation.current, n_actions=3)
    alone = roll_out(navigation.world(), policy, episodes=20_000, seed=(3,), record=True)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        apart = roll_out(navigation.world(), policy, episodes=20_000, seed=(3,), record=True)
    for one, other in (
        (alone.totals, apart.totals),
        (alone.lengths, apart.lengths),
        (alone.visits.states, apart.visits.states),
        (alone.visits.actions, apart.visits.actions),
    ):
        assert one.tobytes() == other.tobytes()


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
