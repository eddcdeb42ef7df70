"""Tests of history and drift where states are features."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from polidiff import Log
from polidiff.domains import navigation
from polidiff.evaluation.assumptions.feature_history import _gain, _no_mean, drift_feature_check, feature_history_check
from polidiff.evaluation.logged.judge import assess
from polidiff.evaluation.scores.decisions import numbers_of
from polidiff.worlds.log_rows import LoggedRows


def one_step_rows(rng: np.random.Generator, count: int, late_effect: float) -> tuple[LoggedRows, np.ndarray]:
    """Single decisions in order of time; in the later half the outcome is higher by `late_effect`."""
    x = rng.normal(size=(count, 2))
    actions = rng.integers(0, 2, count)
    late = np.arange(count) >= count / 2
    gains = (x[:, 0] + actions + late_effect * late + rng.normal(size=count))[:, None]
    rows = LoggedRows(x, actions, np.arange(count), np.full(count, -1), gains, None)
    return rows, x


@pytest.mark.parametrize(("effect", "status"), [(0.0, "held"), (1.0, "failed")])
def test_missing_measurements_do_not_stop_the_test_of_drift(effect: float, status: str) -> None:
    rng = np.random.default_rng(3)
    rows, x = one_step_rows(rng, 1500, effect)
    x = numbers_of(np.where(rng.random(x.shape) < 0.2, np.nan, x))
    assert drift_feature_check(rows, x).status == status


def test_single_decisions_have_no_history_to_test() -> None:
    rows, x = one_step_rows(np.random.default_rng(0), 200, 0.0)
    assert feature_history_check(rows, x).status == "not testable"


@pytest.mark.parametrize(("matters", "status"), [("time", "held"), ("past", "failed")])
def test_what_changes_with_the_number_of_decisions_is_no_memory(matters: str, status: str) -> None:
    rng, steps = np.random.default_rng(5), 4
    x, actions = rng.normal(size=(200, steps, 2)), rng.integers(0, 2, (200, steps))
    before = np.column_stack([np.zeros(200), actions[:, :-1]])
    felt = 2.0 * np.arange(steps) if matters == "time" else 2.0 * before
    gains = x[:, :, 0] + actions + felt + rng.normal(size=(200, steps))
    follow = np.where(np.arange(200 * steps) % steps == steps - 1, -1, np.arange(200 * steps) + 1)
    flat = x.reshape(-1, 2)
    rows = LoggedRows(flat, actions.ravel(), np.repeat(np.arange(200), steps), follow, gains.reshape(-1, 1), None)
    assert feature_history_check(rows, flat).status == status


@pytest.mark.parametrize(("effect", "back", "status"), [(0.0, 1, "held"), (0.3, 1, "failed"), (0.4, 2, "failed")])
def test_a_weak_memory_of_an_action_before_is_seen(effect: float, back: int, status: str) -> None:
    rng, steps = np.random.default_rng(8), 5
    x, actions = rng.normal(size=(400, steps, 2)), rng.integers(0, 2, (400, steps))
    before = np.column_stack([np.zeros((400, back)), actions[:, :-back]])
    gains = x[:, :, 0] * actions + effect * before + rng.normal(size=(400, steps))
    follow = np.where(np.arange(400 * steps) % steps == steps - 1, -1, np.arange(400 * steps) + 1)
    flat = x.reshape(-1, 2)
    rows = LoggedRows(flat, actions.ravel(), np.repeat(np.arange(400), steps), follow, gains.reshape(-1, 1), None)
    assert feature_history_check(rows, flat).status == status


@pytest.mark.parametrize(("effect", "status"), [(0.0, "held"), (0.3, "failed")])
def test_a_hidden_cause_that_stays_with_a_person_is_seen_in_all_their_actions(effect: float, status: str) -> None:
    rng, steps = np.random.default_rng(7), 8
    hidden, x = rng.normal(size=(300, 1)), rng.normal(size=(300, steps, 2))
    actions = (rng.random((300, steps)) < 1 / (1 + np.exp(-hidden))).astype(int)
    gains = x[:, :, 0] * actions + effect * hidden + rng.normal(size=(300, steps))
    follow = np.where(np.arange(300 * steps) % steps == steps - 1, -1, np.arange(300 * steps) + 1)
    flat = x.reshape(-1, 2)
    rows = LoggedRows(flat, actions.ravel(), np.repeat(np.arange(300), steps), follow, gains.reshape(-1, 1), None)
    assert feature_history_check(rows, flat).status == status


def test_sums_of_one_direction_are_judged_as_student_judges_them() -> None:
    sums = np.random.default_rng(2).normal(0.2, 1.0, 60)
    expected = stats.ttest_1samp(sums, 0.0).pvalue
    assert _no_mean(np.column_stack([sums, -sums])) == pytest.approx(expected)


def test_a_gain_is_judged_as_scipy_does_and_without_a_warning_where_episodes_gain_alike():
    each = np.random.default_rng(0).normal(0.3, 1.0, size=60)
    tests = stats.ttest_1samp(each, 0.0, alternative="greater"), stats.wilcoxon(each, alternative="greater")
    assert _gain(each[:, None], np.arange(60)) == pytest.approx(max(test.pvalue for test in tests), rel=1e-12)
    whole = np.append(np.repeat(0.5, 60), [0.25, 0.25])  # the last episode is in two rows: scipy warns of each of these
    episode = np.append(np.arange(60), [60, 60])
    assert _gain(whole[:, None], episode) < 1e-10 < 1 - 1e-10 < _gain(-whole[:, None], episode)
    assert _gain(np.append(np.zeros(60), [1.0, -1.0])[:, None], episode) == 1.0
    assert _gain(np.array([[1.0], [2.0]]), np.zeros(2, dtype=np.int64)) == 1.0


def test_people_who_come_back_and_differ_are_no_drift() -> None:
    rng, found = np.random.default_rng(0), []
    for _ in range(4):
        person = np.arange(240) // 6
        x, action = rng.normal(size=240), rng.integers(0, 2, 240)
        paid = x + 2.0 * rng.normal(size=40)[person] + rng.normal(size=240)
        table = pl.DataFrame({"x": x, "action": action, "paid": paid, "who": person})
        found.append(assess(Log(table, state=["x"], action="action", reward="paid", group="who")).status("drift"))
    assert found == ["held"] * 4  # as episodes, these are early and late ones that differ


def test_an_outcome_with_sharp_borders_is_no_memory() -> None:
    rng, model = np.random.default_rng(107), navigation.NavigationModel()
    states, alive, parts = model.reset(500, rng), np.arange(500), []
    while len(alive):
        random = rng.random(len(states)) < 0.3
        actions = np.where(random, rng.integers(0, 3, len(states)), navigation.current(states))
        after, _, ended = model.step(states, actions, rng)
        inside = navigation.in_desired_region(states).astype(float)
        parts.append(pl.DataFrame({"episode": alive, "x": states[:, 0], "y": states[:, 1], "action": actions,
                                   "inside": inside, "ended": ended}))  # fmt: skip
        states, alive = after[~ended], alive[~ended]
    table = pl.concat(parts).sort("episode", maintain_order=True)
    log = Log(table, state=["x", "y"], action="action", episode="episode", reward="inside", terminated="ended")
    assert assess(log).status("history") == "held"  # p < 0.001 in eight of fourteen such logs before
