"""The estimated model: exact where everything was seen, two ends where it was not, loops kept out."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from benchmarks.logs.sampling import each_state, simulated_rows
from polidiff import Log
from polidiff.evaluation.exact import exact_evaluator, outcome_tensor
from polidiff.evaluation.logged.bounds import bound_policy, difference, noise, spread, value_bounds
from polidiff.evaluation.logged.counted_log import counted_log
from polidiff.evaluation.logged.counts import BLOCKS, Counts, count_log, count_rows
from polidiff.evaluation.logged.model import Starts, bootstrap_values, build_model, split_policy
from polidiff.evaluation.logged.plan import MIN_SUPPORT, estimated_world, supported_world
from polidiff.worlds.log_rows import CUT, END


def counts_of(transitions, n_states, n_actions):
    """Counts of transitions (s, a, s', gain, times); s' is END, CUT or a state."""
    state, action, to, gain, times = (np.array(column) for column in zip(*transitions, strict=True))
    to = np.select([to == END, to == CUT], [n_states, n_states + 1], to)
    sums = (gain * times)[:, None].astype(float)
    starts = np.zeros((4, n_states))
    return Counts(n_states, n_actions, 4, np.arange(len(to)) % 4, state, action, to, times.astype(float), sums,
                  sums * gain[:, None], starts)  # fmt: skip


def test_values_are_those_of_the_table_of_shares_where_every_pair_was_seen(walk_log, keen):
    edges = count_log(walk_log).edges
    model = build_model(edges, split_policy(keen, None))
    world = supported_world(walk_log, counted_log(walk_log, blocks=BLOCKS), min_support=1)
    exact = exact_evaluator(world, np.vstack([keen, keen[:2]])).values(outcome_tensor(world))
    for k in range(2):
        np.testing.assert_allclose(model.values(k, 0.0)[:4], exact[:4, k], rtol=1e-10)


def test_the_logging_policy_is_valued_by_what_was_logged(walk_log, even):
    edges = count_log(walk_log).edges
    model = build_model(edges, split_policy(even, even))
    sums = np.bincount(walk_log.rows.episode, walk_log.rows.gains[:, 1])
    np.testing.assert_allclose(edges.starts / edges.starts.sum() @ model.values(1, 0.0), sums.mean(), rtol=1e-10)


def test_a_pair_nobody_tried_goes_to_both_ends_of_the_range():
    edges = counts_of([(0, 0, END, 0.5, 10)], 1, 2).edges
    judged = bound_policy(edges, split_policy(np.array([[0.7, 0.3]]), None), each_state(1), [(0.0, 2.0)])
    assert judged.low[0] == pytest.approx([0.35])
    assert judged.high[0] == pytest.approx([0.35 + 0.6])
    assert judged.unsupported == pytest.approx([0.3])
    _, low, high = value_bounds(judged, 0, 0.05)
    assert low[0] <= 0.35
    assert high[0] >= 0.95


def test_the_share_of_the_logging_policy_needs_no_pair():
    edges = counts_of([(0, 0, END, 0.5, 10)], 1, 2).edges
    logging = np.array([[0.9, 0.1]])
    judged = bound_policy(edges, split_policy(logging, logging), each_state(1), [(0.0, 2.0)])
    assert judged.unsupported == pytest.approx([0.0])
    mixed = bound_policy(edges, split_policy(np.array([[0.8, 0.2]]), logging), each_state(1), [(0.0, 2.0)])
    assert mixed.unsupported == pytest.approx([0.2 - 0.1 * 0.8 / 0.9])


def test_an_estimated_loop_without_exit_is_unknown_and_nothing_is_inverted():
    edges = counts_of([(0, 0, 1, 1.0, 5), (1, 0, 0, 1.0, 5), (2, 0, END, 1.0, 5)], 3, 1).edges
    judged = bound_policy(edges, split_policy(np.ones((3, 1)), None), each_state(3), [(0.0, 50.0)])
    np.testing.assert_array_equal(judged.model.loops, [True, True, False])
    np.testing.assert_allclose(judged.low[0], [0.0, 0.0, 1.0])
    np.testing.assert_allclose(judged.high[0], [50.0, 50.0, 1.0])


def test_rows_without_a_recorded_successor_do_not_make_ends_more_frequent():
    # pair (0, 0): 4 ends, 4 moves to state 1, 8 rows cut after it: it ends with chance 4 / 16
    moves = [(0, 0, END, 0.0, 4), (0, 0, 1, 0.0, 4), (0, 0, CUT, 0.0, 8), (1, 0, END, 1.0, 4)]
    edges = counts_of(moves, 2, 1).edges
    value = build_model(edges, split_policy(np.ones((2, 1)), None)).values(0, 0.0)
    assert edges.visits[0, 0] == pytest.approx(16)
    assert value == pytest.approx([0.75, 1.0])


def test_a_pair_that_only_ends_or_is_cut_is_unknown():
    edges = counts_of([(0, 0, END, 1.0, 2), (0, 0, CUT, 1.0, 2)], 1, 1).edges
    judged = bound_policy(edges, split_policy(np.ones((1, 1)), np.ones((1, 1))), each_state(1), [(0.0, 9.0)])
    assert (judged.low[0][0], judged.high[0][0]) == (0.0, 9.0)


def test_a_discount_makes_a_loop_worth_a_finite_sum():
    edges = counts_of([(0, 0, 1, 1.0, 5), (1, 0, 0, 1.0, 5)], 2, 1).edges
    model = build_model(edges, split_policy(np.ones((2, 1)), None), discount=0.9)
    np.testing.assert_allclose(model.values(0, 0.0), [10.0, 10.0])


def test_without_a_range_only_starts_that_meet_no_gap_have_an_interval():
    edges = counts_of([(0, 0, END, 0.5, 10), (0, 0, END, 1.0, 10), (1, 0, 0, 0.0, 9)], 3, 2).edges
    target = split_policy(np.array([[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]]), None)
    guess, low, high = value_bounds(bound_policy(edges, target, each_state(3), [None]), 0, 0.05)
    assert np.isfinite([low[0], high[0]]).all()
    assert low[0] < 0.75 < high[0]
    assert np.isinf(low[1:]).all()
    assert np.isinf(high[1:]).all()
    assert np.isnan(guess[1:]).all()


def test_a_pair_seen_once_is_never_certain():
    edges = counts_of([(0, 0, END, 1.0, 1), (1, 0, END, 0.0, 5), (1, 0, END, 1.0, 5)], 2, 1).edges
    _, low, high = value_bounds(
        bound_policy(edges, split_policy(np.ones((2, 1)), None), each_state(2), [(0, 1)]), 0, 0.05
    )
    assert high[0] - low[0] > high[1] - low[1] > 0.1


def test_policies_that_act_alike_differ_by_nothing(walk_log, even, keen):
    edges = count_log(walk_log).edges
    starts = each_state(5)
    partly = np.where(np.arange(5)[:, None] == 0, keen, even)
    closed = counts_of([(0, 0, END, 1.0, 4), (0, 1, END, 0.0, 4), (1, 0, END, 1.0, 4), (1, 1, END, 1.0, 4)], 2, 2).edges
    pair = [bound_policy(closed, split_policy(t, None), each_state(2), [(0, 1)]) for t in (partly[:2], even[:2])]
    _, low, high = difference(pair[0], pair[1], 0).bounds(0.05)
    assert (low[1], high[1]) == (0.0, 0.0)
    assert low[0] < high[0]
    both = [bound_policy(edges, split_policy(keen, even), starts, [(0, 1), (0, 60)]) for _ in range(2)]
    assert [float(np.abs(part).max()) for part in difference(both[0], both[1], 0).bounds(0.05)] == [0.0, 0.0, 0.0]


def test_the_spread_of_a_pair_is_shrunk_from_its_sample_variance():
    # gains 0 and 1 six times each: squares within the pair sum to 12 · ¼ = 3, over 11 degrees of freedom
    edges = counts_of([(0, 0, END, 0.0, 6), (0, 0, END, 1.0, 6)], 1, 1).edges
    zero = np.zeros(1)
    pooled = 3 / 11 + 3 / (11 + 3) * 0.25
    state = (2 * pooled + 3) / (2 + 11)
    found = spread(edges, 0, zero, zero, 1.0)
    assert found.state == pytest.approx([state])
    assert found.pair == pytest.approx([(2 * state + 3) / (2 + 11)])
    assert found.between == pytest.approx([0.0])


def test_analytic_standard_errors_agree_with_the_scatter_over_logs_and_with_the_bootstrap(walk, even, keen):
    starts = Starts(walk.initial[None], np.array([np.inf]))
    target, ends = split_policy(keen, even), np.array([0.0, 0.0])
    estimates, analytic, resampled = [], [], []
    for seed in range(120):
        rows = simulated_rows(walk, even, 300, rng=np.random.default_rng(seed))
        counts = count_rows(rows, rows.states, 5, 2)
        judged = bound_policy(counts.edges, target, starts, [(0, 1), (0, 60)])
        estimates.append([float(starts.weights[0] @ judged.centre[k]) for k in range(2)])
        parts = [noise(judged.model, judged.model, judged.usual(k)) for k in range(2)]
        analytic.append([float(np.sqrt(part.variance(judged.visits**2 * part.covariance)[0])) for part in parts])
        if seed < 5:
            resampled.append(bootstrap_values(counts, target, starts, ends, resamples=200)[:, 0].std(axis=0))
    np.testing.assert_allclose(np.mean(analytic, axis=0), np.std(estimates, axis=0), rtol=0.2)
    np.testing.assert_allclose(np.mean(resampled, axis=0), np.mean(analytic, axis=0), rtol=0.15)


def test_resamples_of_one_seed_are_paired(walk_log, even, keen):
    counts = count_log(walk_log)
    starts = Starts(counts.edges.starts[None] / counts.edges.starts.sum(), np.array([np.inf]))
    new, old = (
        bootstrap_values(counts, split_policy(t, even), starts, np.zeros(2), resamples=150) for t in (keen, even)
    )
    again = bootstrap_values(counts, split_policy(even, even), starts, np.zeros(2), resamples=150)
    np.testing.assert_array_equal(old, again)
    together = (new - old)[:, 0, 0].std()
    apart = np.hypot(new[:, 0, 0].std(), old[:, 0, 0].std())
    assert together < 0.9 * apart


def test_the_open_world_sends_untried_decisions_to_unknown_and_the_closed_one_forbids_them():
    log = Log(pl.DataFrame({"s": [0] * 12 + [1] * 12, "a": [0] * 12 + [0] * 11 + [1], "r": [1.0] * 24}),
              state="s", action="a", reward="r", actions=3)  # fmt: skip
    counted = counted_log(log, blocks=BLOCKS)
    opened, closed = estimated_world(log, counted), supported_world(log, counted, min_support=MIN_SUPPORT)
    unknown = opened.n_states - 1
    assert opened.states[unknown] == "unknown"
    assert opened.transitions[0 * 3 + 1, unknown] == 1.0
    np.testing.assert_array_equal(closed.allowed[:2], [[True, False, False], [True, False, False]])
