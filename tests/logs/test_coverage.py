"""The intervals hold as often as they claim, on worlds whose truth is known (the large runs are benchmarks)."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.logs.sampling import each_state, simulated_rows
from polidiff.evaluation.exact import exact_evaluator, outcome_tensor
from polidiff.evaluation.logged.bounds import bound_policy, difference, value_bounds
from polidiff.evaluation.logged.counts import count_rows
from polidiff.evaluation.logged.model import split_policy


def repeated(walk, logging, target, *, episodes, repetitions, known=(True,)):
    """Hits of values and of differences over states and outcomes, and the unsupported mass: a row per who is known."""
    exact = [exact_evaluator(walk, table).values(outcome_tensor(walk)) for table in (target, logging)]
    counted = np.zeros((len(known), 3))
    ranges = [outcome.range for outcome in walk.outcomes]
    for seed in range(repetitions):
        rows = simulated_rows(walk, logging, episodes, rng=np.random.default_rng(seed))
        edges = count_rows(rows, rows.states, 5, 2).edges
        met = edges.state_visits > 0
        old = bound_policy(edges, split_policy(logging, logging), each_state(5), ranges)
        for row, writer in enumerate(known):
            new = bound_policy(edges, split_policy(target, logging if writer else None), each_state(5), ranges)
            for k in range(len(ranges)):
                _, low, high = value_bounds(new, k, 0.05)
                counted[row, 0] += ((low <= exact[0][:, k]) & (exact[0][:, k] <= high))[met].mean() / len(ranges)
                gap = exact[0][:, k] - exact[1][:, k]
                _, low, high = difference(new, old, k).bounds(0.05)
                counted[row, 1] += ((low <= gap) & (gap <= high))[met].mean() / len(ranges)
            counted[row, 2] += new.unsupported[met].mean()
    return counted / repetitions


@pytest.mark.slow
def test_intervals_hold_where_everything_was_tried_whoever_wrote_the_log(walk, even, keen):
    counted = repeated(walk, even, keen, episodes=150, repetitions=300, known=(True, False))
    hits, differences, unsupported = counted.T
    assert (unsupported < 0.01).all()
    assert ((hits >= 0.93) & (hits <= 0.97)).all()
    assert (differences >= 0.93).all()


def test_intervals_hold_where_the_proposed_action_was_hardly_ever_tried(walk, keen):
    seldom = np.tile([0.97, 0.03], (5, 1))
    ((hit, difference, unsupported),) = repeated(walk, seldom, keen, episodes=25, repetitions=60)
    assert unsupported > 0.2
    assert hit >= 0.93
    assert difference >= 0.93


def test_drawn_counts_are_those_of_episodes(walk, even):
    from benchmarks.logs.sampling import CountSampler
    from benchmarks.logs.tasks import Task

    counts = CountSampler(Task("walk", walk, even, even)).counts(200_000, np.random.default_rng(0))
    seen = np.zeros((5, 2))
    np.add.at(seen, (counts.state, counts.action), counts.count)
    expected = exact_evaluator(walk, even).visits()[:, None] * even
    np.testing.assert_allclose(seen[:4] / 200_000, expected[:4], atol=0.01)
    assert counts.starts.sum() == 200_000
    played = simulated_rows(walk, even, 20_000, rng=np.random.default_rng(1))
    paid = counts.sums[:, 0].sum() / 200_000, played.gains[:, 0].sum() / 20_000
    assert paid[0] == pytest.approx(paid[1], abs=0.015)
