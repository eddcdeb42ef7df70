"""Bounds under unrecorded reasons, against closed forms and linear programs."""

import numpy as np
import pytest
from scipy import optimize

from benchmarks.logs.believe_worlds import machine
from polidiff.evaluation.assumptions.confounding import (
    Comparison,
    LowerBounds,
    Moves,
    crossing,
    holds_up_to,
    lower_differences,
)
from polidiff.evaluation.assumptions.confounding_one_step import OneDecision, lower_scores, one_step_holds_up_to
from polidiff.evaluation.logged.bounds import bound_policy
from polidiff.evaluation.logged.counts import count_rows
from polidiff.evaluation.logged.model import Starts, split_policy
from polidiff.worlds.log_rows import LoggedRows


def one_decision(n=400, seed=0, values=5):
    rng = np.random.default_rng(seed)
    state, action = rng.integers(0, 2, n), rng.integers(0, 2, n)
    gains = rng.integers(0, values, n).astype(float) + action
    return LoggedRows(state, action, np.arange(n), np.full(n, -1), gains[:, None], None)


def walked(episodes=300, seed=0, length=5):
    rng = np.random.default_rng(seed)
    n = episodes * length
    follow = np.arange(n) + 1
    follow[length - 1 :: length] = -1
    state, action = rng.integers(0, 3, n), rng.integers(0, 2, n)
    gains = rng.integers(0, 3, n) + 0.5 * action
    return LoggedRows(state, action, np.repeat(np.arange(episodes), length), follow, gains[:, None], None)


def draws_of(rows, n_states):
    return Moves(count_rows(rows, rows.states, n_states, 2, blocks=1).edges, rows, 2).draws(0)


def bounded(rows, table, *, by_log=False, declared=None, start=None):
    """A policy (S, A) in the model of a log."""
    size = len(table)
    starts = Starts(np.full((1, size), 1 / size) if start is None else start[None], np.array([np.inf]))
    target = split_policy(table, None, same=np.full(size, by_log))
    return bound_policy(count_rows(rows, rows.states, size, 2, blocks=1).edges, target, starts, [declared])


def always(rows, action, n_states, **options):
    return bounded(rows, np.tile(np.eye(2)[action], (n_states, 1)), **options)


def least(rows, action, n_states, **options):
    return LowerBounds(draws_of(rows, n_states), always(rows, action, n_states, **options), 0)


def apart(rows, n_states, **options):
    new, old = (always(rows, action, n_states, **options) for action in (1, 0))
    return Comparison(draws_of(rows, n_states), new, old, 0, [0])


def worst_by_program(y, share, gamma):
    """Least mean of y under weights in [α, β] / n that sum to 1: the linear program that defines the bound."""
    low, high = share + (1 - share) / gamma, share + (1 - share) * gamma
    n = len(y)
    found = optimize.linprog(y / n, A_eq=np.ones((1, n)) / n, b_eq=[1.0], bounds=[(low, high)] * n)
    return found.fun


@pytest.mark.parametrize("gamma", [1.0, 1.3, 2.5])
def test_one_decision_gives_the_linear_programs_bound(gamma):
    rows = one_decision()
    values = least(rows, 1, 2).every(gamma)[0]
    for state in (0, 1):
        here = rows.states == state
        taken = here & (rows.actions == 1)
        expected = worst_by_program(rows.gains[taken, 0], taken.sum() / here.sum(), gamma)
        assert values[state] == pytest.approx(expected, abs=1e-5)


def test_several_decisions_are_a_fixed_point_of_the_worst_step():
    rows = walked()
    values = least(rows, 0, 3).every(1.5)[0]
    after = np.where(rows.follow >= 0, np.append(values[rows.states], 0)[rows.follow], 0.0)
    for state in range(3):
        taken = (rows.states == state) & (rows.actions == 0)
        share = taken.sum() / (rows.states == state).sum()
        assert values[state] == pytest.approx(worst_by_program((rows.gains[:, 0] + after)[taken], share, 1.5), abs=1e-4)


def test_one_decision_per_episode_lies_between_none_and_every():
    none, every = (least(walked(), 0, 3).every(gamma)[0] for gamma in (1.0, 2.0))
    once = least(walked(), 0, 3).once(2.0)
    assert (every < once).all()
    assert (once < none).all()


def test_bounds_fall_as_reasons_grow_stronger_and_meet_the_estimate_at_one():
    compared = apart(walked(), 3)
    low = [lower_differences(compared, gamma)[0][0] for gamma in (1.0, 1.2, 2.0, 4.0)]
    high = [-lower_differences(compared.negated(), gamma)[0][0] for gamma in (1.0, 1.2, 2.0, 4.0)]
    assert low[0] == pytest.approx(high[0])
    assert (np.diff(low) < 0).all()
    assert (np.diff(high) > 0).all()


def test_bounds_fall_however_strong_the_reasons_in_a_world_that_goes_on_for_long():
    """Where an end is worth more than going on, and then less, steps towards the worst case overshoot both ways."""
    world = machine()
    rows = world.rows(300, np.random.default_rng(1))
    log = bounded(rows, world.logging, by_log=True, start=world.start)
    compared = Comparison(draws_of(rows, 6), bounded(rows, world.proposed, start=world.start), log, 0, [0])
    low = [lower_differences(compared, gamma)[0][0] for gamma in (1.0, 1.05, 1.35, 2.0, 4.0, 10.0, 30.0)]
    assert (np.diff(low) < 0).all()


def test_whoever_wrote_the_log_needs_no_bound():
    rows = walked()
    log = bounded(rows, draws_of(rows, 3).shares, by_log=True)
    compared = Comparison(draws_of(rows, 3), log, log, 0, [0])
    assert lower_differences(compared, 5.0)[0][0] == pytest.approx(0.0, abs=1e-9)


def test_what_nobody_tried_and_loops_without_end_are_worth_the_end_of_the_range():
    follow = np.array([1, 2, -2, -1])
    rows = LoggedRows(np.array([0, 1, 0, 2]), np.zeros(4, dtype=int), np.array([0, 0, 0, 1]), follow, np.ones((4, 1)),
                      None)  # fmt: skip
    values = least(rows, 0, 4, declared=(-7.0, 7.0)).every(1.5)[0]
    assert values.tolist() == [-7.0, -7.0, 1.0, -7.0]
    assert least(rows, 1, 4, declared=(-7.0, 7.0)).every(1.5)[0].tolist() == [-7.0] * 4


def test_the_interval_meets_zero_where_it_is_said_to():
    compared = apart(walked(2000), 3)
    bound, error = lower_differences(compared, 1.0)
    edge = bound - 1.96 * error
    ((gamma, once),) = holds_up_to(compared, edge, 1.96)
    low, off = lower_differences(compared, gamma)
    assert 1 < gamma < 3
    assert low[0] - 1.96 * off[0] == pytest.approx(0.0, abs=0.02 * edge[0])
    alone = compared.starts @ compared.sides[0].once(once) + compared.starts @ compared.sides[1].once(once)
    assert once > gamma
    assert edge[0] + alone[0] - bound[0] == pytest.approx(0.0, abs=0.02 * edge[0])
    assert holds_up_to(compared, np.array([-1.0]), 1.96) == [(1.0, 1.0)]
    assert crossing(lambda gamma: np.array([1.0]), np.array([1.0]))[0] == np.inf


def confounded(n, seed):
    """The treated do worse for a reason that is not recorded; the treatment itself does nothing."""
    rng = np.random.default_rng(seed)
    x, hidden = rng.normal(size=n), rng.random(n) < 0.5
    chance = 1 / (1 + np.exp(-0.4 * (2 * hidden - 1.0)))
    action = (rng.random(n) < chance).astype(int)
    outcome = x - 1.0 * hidden + rng.normal(0, 0.5, n)
    expected = np.column_stack([x - 0.4, x - 0.6])
    treat, leave = np.tile([0.0, 1.0], (n, 1)), np.tile([1.0, 0.0], (n, 1))
    return OneDecision(outcome, action, expected, np.full((n, 2), 0.5), treat, leave)


def test_with_features_the_truth_is_inside_at_the_true_strength_and_outside_at_none():
    true, inside, sure = np.exp(0.4), [], []
    for seed in range(20):
        rows = confounded(2000, seed)
        for gamma, kept in ((1.0, sure), (true, inside)):
            low, high = lower_scores(rows, gamma), -lower_scores(rows.negated(), gamma)
            off = 1.96 / np.sqrt(len(low))
            kept.append(low.mean() - off * low.std() <= 0.0 <= high.mean() + off * high.std())
    assert np.mean(inside) == 1.0
    assert np.mean(sure) < 0.2


def test_a_false_verdict_holds_up_to_less_than_the_true_strength():
    rows = confounded(2000, 0).negated()  # "worse" is the verdict: its mirror is above 0
    scores = lower_scores(rows, 1.0)
    edge = np.array([scores.mean() - 1.96 * scores.std() / np.sqrt(2000)])
    gamma = one_step_holds_up_to(rows, np.ones((1, 2000)), edge, 1.96)[0]
    assert edge[0] > 0
    assert 1.0 < gamma < np.exp(0.4)


@pytest.mark.parametrize("gamma", [1.1, 3.0])
def test_one_decision_of_an_episode_is_a_fixed_point_of_stopping_at_the_worst(gamma):
    side = least(walked(), 0, 3)
    values, draws = side.once(gamma), side.draws
    for state in range(3):
        own, share = draws.pair == 2 * state, draws.shares[state, 0]
        low, high = share + (1 - share) / gamma, share + (1 - share) * gamma
        limits = [(low * chance, high * chance) for chance in draws.chance[own]]
        worst = optimize.linprog(side.worth(side.plain)[own], A_eq=np.ones((1, own.sum())), b_eq=[1.0], bounds=limits)
        later = draws.chance[own] @ side.worth(values)[own]
        assert values[state] == pytest.approx(min(worst.fun, later), abs=1e-4)
