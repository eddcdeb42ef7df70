"""Empty values of a feature that drives decisions and outcomes: two readings, and intervals that hold under both."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, explain, improve
from polidiff.evaluation.scores.scored_log import Gap, gaps_of, gaps_told

TRUTH = 0.4


def clinic(seed, *, known, n=600, empty=0.3, **given):
    """Severity drives outcome and drug; where its record is empty, who decided `known` it or did not."""
    g = np.random.default_rng(seed)
    severity, gap = g.normal(size=n), g.random(n) < empty
    reason = np.where(gap & (not known), 0.0, 1.2 * severity)
    new = g.random(n) < 1 / (1 + np.exp(-reason))
    outcome = 2 - severity + TRUTH * new + g.normal(size=n)
    table = {"age": g.integers(20, 90, n), "severity": np.where(gap, np.nan, severity), "score": outcome}
    frame = pl.DataFrame(table).with_columns(
        pl.Series("drug", np.where(new, "new", "old")), severity=pl.col("severity").fill_nan(None)
    )
    log = Log(frame, state=["age", "severity"], action="drug", reward="score", return_range=(-6, 10), **given)
    return log, int(gap.sum())


def test_the_second_reading_moves_the_mean_by_what_recorded_rows_say_times_the_share_that_is_empty():
    g = np.random.default_rng(1)
    empty, with_it, without = g.random(500) < 0.3, g.normal(size=(500, 2)), g.normal(1.0, 1.0, size=(500, 2))
    added = Gap((0,), empty).second_reading(with_it, without)
    by_hand = -empty.mean() * (without - with_it)[~empty].mean(axis=0)
    assert added.mean(axis=0) == pytest.approx(by_hand, abs=1e-12)
    assert (added[empty] == added[empty][0]).all()


def test_features_are_left_out_alone_while_they_are_few_and_never_where_next_to_nothing_is_empty():
    states = np.random.default_rng(2).normal(size=(1000, 6))
    for column, rows in enumerate((0, 5, 20, 40, 60, 80)):
        states[:rows, column] = np.nan
    assert [gap.features for gap in gaps_of(states, together=False)] == [(5,), (4,), (3,), (2,)]
    (whole,) = gaps_of(states, together=True)
    assert set(whole.features) == {2, 3, 4, 5}
    assert whole.empty.sum() == 80
    words = np.array([["a", None], ["b", "x"], [None, "x"]], dtype=object)
    assert [gap.empty.tolist() for gap in gaps_of(words, together=False)] == [
        [False, False, True],
        [True, False, False],
    ]


@pytest.mark.parametrize("known", [True, False])
def test_intervals_hold_the_truth_whether_or_not_who_decided_knew_what_is_empty(known):
    found = []
    for seed in range(6):
        log, gaps = clinic(seed, known=known)
        explanation = explain(log, "always:old", "always:new")
        found.append(explanation.verdicts[0].difference)
        assert f"'severity' is empty in {gaps} of 600 rows" in str(explanation)
    assert all(interval.contains(TRUTH) for interval in found)
    off = np.mean([interval.estimate for interval in found]) - TRUTH
    assert off < -0.1 if known else abs(off) < 0.12  # a level of its own is right only where nobody knew


def test_where_actions_were_drawn_by_lot_empty_values_are_counted_and_hide_nothing():
    g = np.random.default_rng(5)
    table = {
        "age": g.integers(20, 90, 300).astype(float),
        "drug": g.choice(["new", "old"], 300),
        "score": g.normal(size=300),
    }
    table["age"][:90] = np.nan
    frame = pl.DataFrame(table).with_columns(pl.col("age").fill_nan(None))
    log = Log(frame, state=["age"], action="drug", reward="score", return_range=(-6, 6), probability=0.5)
    text = str(explain(log, "log", "always:new"))
    assert "'age' is empty in 90 of 300 rows. Empty counts as a value of its own." in text
    assert "knew the value" not in text


def test_few_empty_values_are_not_counted_out():
    told = gaps_told({"age": 3, "bmi": 40}, ["age", "bmi"], 500, {}, spanned=False)
    assert told == ("'bmi' is empty in 40 of 500 rows, 'age' in fewer than 10. Empty counts as a value of its own.",)


def test_a_plan_gains_no_more_than_empty_values_leave_sure():
    log, _ = clinic(3, known=True)
    complete, _ = clinic(3, known=True, empty=0.0)
    spans = [improve(one, "log", max_rules=1)[-1] for one in (log, complete)]
    assert any("severity" in note for note in improve(log, "log", max_rules=1).warnings)
    assert spans[0].gain.width > spans[1].gain.width
