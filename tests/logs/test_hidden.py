"""What cells of features hide: told in the interval where the log can show it, in a warning where it cannot."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, explain
from polidiff.domains import navigation
from polidiff.evaluation.logged.cell_history import ENDLESS, own_counts, own_decisions_before, own_way, way_levels
from polidiff.evaluation.logged.compare import compare_log
from polidiff.evaluation.logged.counted_log import counted_log
from tests.logs.test_explain_and_improve import navigation_log
from tests.logs.test_segments import offers_log
from tests.logs.test_segments import proposed as offers

POLICIES = (navigation.current, navigation.proposed_2)
TRUTH = {"return": 12.001, "stay": -8.5}  # exact, from the table of the task


def told(log, *, history):
    ground = counted_log(log, POLICIES, history=history)
    return {v.outcome: v.pointwise for v in compare_log(log, *POLICIES, counted=ground).verdicts[0]}


def test_intervals_over_feature_rows_hold_the_truth_where_plain_cells_do_not():
    """At a true cover of .95, fewer than 9 of 12 have a chance of .002 (binomial); .03 if outcomes miss together."""
    hits, plain = [], []
    for seed in range(900, 906):
        log = navigation_log(2000, 0.5, seed)
        hits += [interval.contains(TRUTH[name]) for name, interval in told(log, history=True).items()]
        plain.append(told(log, history=False)["return"].contains(TRUTH["return"]))
    assert sum(hits) >= 9
    assert sum(plain) <= 3


def test_a_log_of_6000_episodes_still_tells_the_direction():
    found = explain(navigation_log(6000, 0.3, 907), *POLICIES)
    assert {v.outcome: v.direction for v in found.verdicts}["return"] == "more"
    assert any("what a cell hides" in warning for warning in found.warnings)


def test_episodes_of_one_decision_have_no_way_to_tell_apart():
    log = offers_log(2000)
    one, other = (counted_log(log, (offers,), history=history) for history in (False, True))
    assert one.names == other.names
    assert (one.row_state() == other.row_state()).all()


def test_own_decisions_before_a_row_are_counted_within_its_episode():
    log = navigation_log(40, 0.5, 3)
    rows, own = log.rows, np.random.default_rng(0).random(len(log.rows.actions)) < 0.6
    expected, run = [], ENDLESS
    for row in range(len(own)):
        run = ENDLESS if rows.first[row] else run
        expected.append(run)
        run = 0 if not own[row] else run if run == ENDLESS else run + 1
    assert own_decisions_before(rows, own).tolist() == expected


def test_a_cell_with_few_own_decisions_is_not_told_apart():
    log = navigation_log(10, 0.5, 4)
    table = np.eye(3)[navigation.proposed_2(log.rows.states)]
    each = np.arange(len(table))  # every row a cell of its own
    own, run = own_way(log.rows, table, table.argmax(axis=1))
    assert own.any()
    assert (run >= way_levels(own_counts(each, own, run, len(each)))).all()


def two_steps(episodes, *, remembers):
    """Two decisions; the second pays if it is 1 or, in a world that remembers, if it repeats the first."""
    rng = np.random.default_rng(11)
    first, second = rng.integers(0, 2, (2, episodes))
    paid = (second == first if remembers else second == 1).astype(float)
    frame = pl.DataFrame({
        "e": np.repeat(np.arange(episodes), 2), "x": np.tile([0.0, 1.0], episodes), "z": rng.normal(size=2 * episodes),
        "a": np.column_stack([first, second]).ravel(), "r": np.column_stack([np.zeros(episodes), paid]).ravel(),
        "t": np.tile([False, True], episodes),
    })  # fmt: skip
    return Log(frame, state=["x", "z"], action="a", episode="e", reward="r", terminated="t", truncated=False,
               actions=2, return_range=(0, 1))  # fmt: skip


def leaning(states):
    return np.tile([0.34, 0.66], (len(states), 1))


def even(states):
    return np.full((len(states), 2), 0.5)


def test_a_world_that_remembers_is_told_with_both_estimates():
    (warning,) = [w for w in explain(two_steps(20_000, remembers=True), even, leaning).warnings if "robust" in w]
    assert warning.startswith("Proposed policy, return: the model says 0.")
    assert "the doubly robust estimate 0.5" in warning  # exactly 0.34² + 0.66² = 0.551; the cells say 0.5


@pytest.mark.parametrize("log", [two_steps(20_000, remembers=False), navigation_log(2000, 0.3, 908)])
def test_no_doubt_is_raised_without_cause(log):
    policies = (even, leaning) if log.n_actions == 2 else POLICIES
    assert not any("robust" in warning for warning in explain(log, *policies).warnings)
