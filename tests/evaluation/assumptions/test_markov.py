from dataclasses import replace

import numpy as np
import pytest

from polidiff.evaluation.assumptions.history import REJECTED, deepen, history_p_value, previous_row, transitions_of
from polidiff.worlds.log_rows import LoggedRows


def played(episodes, rng, *, remembers, length=8):
    """Three states, two actions, records cut after `length`; with `remembers` moves depend on the action before."""
    state, action, before = rng.integers(0, 3, episodes), None, np.zeros(episodes, dtype=int)
    states, actions = [], []
    for _ in range(length):
        action = rng.integers(0, 2, episodes)
        states.append(state)
        actions.append(action)
        moved = rng.random(episodes) < (np.where(before == 1, 0.85, 0.3) if remembers else 0.5)
        state, before = np.where(moved, (state + 1 + action) % 3, state), action
    follow = np.arange(episodes * length) + 1
    follow[length - 1 :: length] = -2  # an end at a fixed time would be a memory: the state does not know the time
    flat = [np.stack(part, axis=1).ravel() for part in (states, actions)]
    gains = rng.normal(size=(episodes * length, 1))
    return LoggedRows(flat[0], flat[1], np.repeat(np.arange(episodes), length), follow, gains, None)


def test_the_row_before_is_unknown_at_the_start_and_after_a_gap():
    follow = np.array([1, -2, 3, -1])
    rows = LoggedRows(np.zeros(4), np.zeros(4, dtype=int), np.zeros(4, dtype=int), follow, np.zeros((4, 1)), None)
    assert previous_row(rows).tolist() == [-1, 0, -1, 2]


def test_a_memory_is_seen_and_one_decision_of_it_mends_the_state():
    rows = played(400, np.random.default_rng(0), remembers=True)
    deepened = deepen(transitions_of(rows), 3)
    assert deepened.p_values[0] < REJECTED
    assert deepened.quiet
    assert deepened.depth == 1
    assert (deepened.original[deepened.rows.states] == rows.states).all()


def test_clean_logs_alarm_rarely():
    p_values = [
        history_p_value(transitions_of(played(60, np.random.default_rng(seed), remembers=False))) for seed in range(300)
    ]
    assert np.mean(np.array(p_values) < 0.01) <= 0.02
    assert min(p_values) > REJECTED / 10


def test_a_clean_log_is_not_deepened():
    rows = played(100, np.random.default_rng(1), remembers=False)
    deepened = deepen(transitions_of(rows), 5)
    assert deepened.depth == 0
    assert deepened.rows is rows
    assert deepened.original.tolist() == [0, 1, 2, 3, 4]


def test_every_state_keeps_a_number_so_that_policies_still_apply():
    rows = played(400, np.random.default_rng(2), remembers=True)
    assert set(deepen(transitions_of(rows), 6).original) == set(range(6))


def test_two_decisions_of_memory_need_two():
    rng = np.random.default_rng(3)
    rows = played(3000, rng, remembers=False)
    before = previous_row(rows)
    second = np.where(before >= 0, before[before], -1)
    gains = rng.normal(size=len(rows.actions)) + np.where(second >= 0, 1.5 * rows.actions[second], 0.0)
    deepened = deepen(transitions_of(replace(rows, gains=gains[:, None])), 3)
    assert (deepened.depth, deepened.quiet) == (2, True)


def test_rows_without_a_successor_do_not_speak():
    rows = played(50, np.random.default_rng(4), remembers=False)
    cut = LoggedRows(rows.states, rows.actions, rows.episode, np.full(400, -2), rows.gains, None)
    assert transitions_of(cut).p_value(rows.actions) == 1.0


@pytest.mark.parametrize("outcome", [0, 1])
def test_a_memory_in_any_outcome_is_seen(outcome):
    rng = np.random.default_rng(5)
    rows = played(400, rng, remembers=False)
    before = previous_row(rows)
    gains = rng.normal(size=(len(rows.actions), 2))
    gains[:, outcome] += np.where(before >= 0, rows.actions[before], 0)
    assert history_p_value(transitions_of(replace(rows, gains=gains))) < REJECTED
