from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from polidiff.evaluation.assumptions.history import (
    REJECTED,
    deepen,
    earlier_actions_p_value,
    history_p_value,
    transitions_of,
)
from polidiff.evaluation.assumptions.log_checks import history_check
from polidiff.evaluation.logged.bounds import bound_policy, value_bounds
from polidiff.evaluation.logged.counts import FixedLength
from polidiff.evaluation.logged.model import Starts, split_policy
from polidiff.worlds.log_rows import LoggedRows


def played(episodes, rng, *, remembers, length=8, ends=False):
    """Three states, two actions, records cut after `length`; with `remembers` moves depend on the action before.

    With `ends`, episodes end there: the state does not know the time, so the end is no matter of the state.
    """
    state, action, before = rng.integers(0, 3, episodes), None, np.zeros(episodes, dtype=int)
    states, actions = [], []
    for _ in range(length):
        action = rng.integers(0, 2, episodes)
        states.append(state)
        actions.append(action)
        moved = rng.random(episodes) < (np.where(before == 1, 0.85, 0.3) if remembers else 0.5)
        state, before = np.where(moved, (state + 1 + action) % 3, state), action
    follow = np.arange(episodes * length) + 1
    follow[length - 1 :: length] = -1 if ends else -2
    flat = [np.stack(part, axis=1).ravel() for part in (states, actions)]
    gains = rng.normal(size=(episodes * length, 1))
    return LoggedRows(flat[0], flat[1], np.repeat(np.arange(episodes), length), follow, gains, None)


def test_the_row_before_is_unknown_at_the_start_and_after_a_gap():
    follow = np.array([1, -2, 3, -1])
    rows = LoggedRows(np.zeros(4), np.zeros(4, dtype=int), np.zeros(4, dtype=int), follow, np.zeros((4, 1)), None)
    assert rows.previous.tolist() == [-1, 0, -1, 2]


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


def test_actions_so_far_alarm_as_rarely_as_they_say():
    p_values = [
        earlier_actions_p_value(transitions_of(played(60, np.random.default_rng(seed), remembers=False)))
        for seed in range(600)
    ]
    assert np.mean(np.array(p_values) < 0.05) <= 0.07  # 600 times .05 is 30, give or take 11
    assert np.mean(np.array(p_values) < 0.005) <= 0.012


def test_actions_that_never_vary_tell_nothing():
    rows = played(30, np.random.default_rng(3), remembers=False)
    assert history_p_value(transitions_of(replace(rows, actions=np.zeros_like(rows.actions)))) == 1.0
    apart = replace(rows, states=np.arange(len(rows.states)))  # no state comes back
    assert history_p_value(transitions_of(apart)) == 1.0


def test_the_covariance_of_actions_so_far_is_that_of_a_loop():
    rows = played(30, np.random.default_rng(3), remembers=True, length=4)
    gains = rows.gains + (rows.states == 1)[:, None]
    rows = replace(rows, gains=gains)
    worth = {s: rows.to_come()[rows.states == s, 0].mean() for s in range(3)} | {-2: 0.0}
    records = []
    for i in range(len(rows.actions)):
        step, first = i % 4, i - i % 4
        if step and rows.follow[i] >= -1:
            own = rows.actions[first:i]
            second = rows.actions[i - 2] if step > 1 else None
            after = worth[rows.states[rows.follow[i]]] if rows.follow[i] >= 0 else 0.0
            past = [np.mean(own == 0), np.mean(own == 1), second == 0, second == 1]
            records.append(((rows.states[i], rows.actions[i]), np.array(past, dtype=float), gains[i, 0] + after))
    low, high = np.quantile([y for *_, y in records], [0.01, 0.99])
    total, variance = np.zeros(4), np.zeros(4)
    for key in {key for key, *_ in records}:
        x = np.array([x for other, x, _ in records if other == key])
        y = np.clip([y for other, _, y in records if other == key], low, high)
        x, y = x - x.mean(axis=0), y - y.mean()
        total += x.T @ y
        variance += (x**2).sum(axis=0) * (y**2).sum() / (len(y) - 1)
    by_loop = 4 * 2 * stats.norm.sf((np.abs(total) / np.sqrt(variance)).max())
    assert earlier_actions_p_value(transitions_of(rows)) == pytest.approx(min(1.0, by_loop))


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
    before = rows.previous
    second = np.where(before >= 0, before[before], -1)
    gains = rng.normal(size=len(rows.actions)) + np.where(second >= 0, 1.5 * rows.actions[second], 0.0)
    deepened = deepen(transitions_of(replace(rows, gains=gains[:, None])), 3)
    assert (deepened.depth, deepened.quiet) == (2, True)


def test_rows_without_a_successor_do_not_speak():
    rows = played(50, np.random.default_rng(4), remembers=False)
    cut = LoggedRows(rows.states, rows.actions, rows.episode, np.full(400, -2), rows.gains, None)
    assert {test.p_value for test in transitions_of(cut).tests(rows.actions)} == {1.0}


@pytest.mark.parametrize("outcome", [0, 1])
def test_a_memory_in_any_outcome_is_seen(outcome):
    rng = np.random.default_rng(5)
    rows = played(400, rng, remembers=False)
    before = rows.previous
    gains = rng.normal(size=(len(rows.actions), 2))
    gains[:, outcome] += np.where(before >= 0, rows.actions[before], 0)
    assert history_p_value(transitions_of(replace(rows, gains=gains))) < REJECTED


def test_episodes_of_fixed_length_are_no_memory():
    logs = [played(60, np.random.default_rng(seed), remembers=False, length=5, ends=True) for seed in range(300)]
    found = [deepen(transitions_of(rows), 3) for rows in logs]
    assert np.mean([deepened.p_values[0] < 0.01 for deepened in found]) <= 0.02
    assert {deepened.steps for deepened in found} == {5}
    assert all(deepened.pooled for deepened in found if deepened.quiet)
    assert (found[0].original[found[0].rows.states] == logs[0].states).all()
    told = history_check(found[0])
    assert told.status == "held"
    assert told.consequence.startswith("The number of decisions so far counts as part of the state")


def test_a_memory_in_episodes_of_fixed_length_is_seen_and_mended():
    deepened = deepen(transitions_of(played(400, np.random.default_rng(0), remembers=True, ends=True)), 3)
    assert deepened.p_values[0] < REJECTED
    assert (deepened.depth, deepened.quiet, deepened.steps) == (1, True, 8)


def test_moves_that_change_with_the_number_of_decisions_are_seen_where_that_number_ends_episodes():
    rng = np.random.default_rng(6)
    rows = played(400, rng, remembers=False, length=5, ends=True)
    gains = rng.normal(size=(2000, 1)) + (rows.step == 2)[:, None]
    assert deepen(transitions_of(replace(rows, gains=gains)), 3).p_values[0] < REJECTED


def test_ends_by_chance_are_no_matter_of_length():
    rows = played(300, np.random.default_rng(7), remembers=False)
    ended = np.random.default_rng(8).random(2400) < 0.2
    ended[7::8] |= rows.states[7::8] == 0
    follow = np.where(ended, -1, rows.follow)
    kept = np.cumsum(ended.reshape(300, 8), axis=1).ravel() - ended == 0
    some = LoggedRows(rows.states[kept], rows.actions[kept], rows.episode[kept], np.where(follow[kept] >= 0,
                      (np.cumsum(kept) - 1)[follow[kept]], follow[kept]), rows.gains[kept], None)  # fmt: skip
    assert deepen(transitions_of(some), 3).steps == 1


@pytest.mark.parametrize("tail", [False, True])
def test_decisions_counted_whenever_they_are_made_give_the_value_by_hand(tail):
    steps, rows = 4, played(50, np.random.default_rng(9), remembers=False, length=4, ends=True)
    last, policy = rows.step == steps - 1, np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    counts = FixedLength(steps, tail).counts(replace(rows, states=rows.states * steps + rows.step), 3 * steps, 2, 1)
    alike = [(rows.states == s) & (rows.actions == a) & (~last | tail) for s in range(3) for a in range(2)]
    assert counts.edges.made.ravel().tolist() == [part.sum() for part in alike]
    begun = np.bincount(rows.states[rows.first], minlength=3) / 50
    weights = np.zeros((1, 3 * steps))
    weights[0, ::steps] = begun
    judged = bound_policy(counts.edges, split_policy(np.repeat(policy, steps, axis=0), None),
                          Starts(weights, np.array([np.inf])), [None])  # fmt: skip
    after, value = np.append(rows.states, 0)[rows.follow], np.zeros(3)
    for step in range(steps - 1, -1, -1):
        value, later = np.zeros(3), value
        for s in range(3):
            for a in range(2):
                alike = (rows.states == s) & (rows.actions == a)
                use = alike & (~last if step < steps - 1 else last if not tail else True)
                ahead = later[after[use]].mean() if step < steps - 1 else 0.0
                value[s] += policy[s, a] * (rows.gains[use, 0].mean() + ahead)
    np.testing.assert_allclose(judged.centre[0][::steps], value)
    assert value_bounds(judged, 0, 0.05)[1][0] < begun @ value


def test_long_episodes_whose_length_does_not_show_stay_as_they_are():
    rows = played(20, np.random.default_rng(10), remembers=False, length=400, ends=True)
    deepened = deepen(transitions_of(rows), 3)
    assert (deepened.steps, deepened.depth) == (1, 0)
