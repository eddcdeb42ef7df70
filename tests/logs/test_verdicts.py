"""Verdicts from a log: right directions, honest unknowns, and who wrote the log."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from benchmarks.logs.sampling import simulated_rows
from polidiff import Log, explain
from polidiff.errors import InvalidOptionError, InvalidPolicyError
from polidiff.evaluation.assumptions.confounding import lower_differences
from polidiff.evaluation.exact import exact_evaluator, outcome_tensor
from polidiff.evaluation.log import evaluate_log
from polidiff.evaluation.logged.compare import StateJudge, judge_log
from polidiff.evaluation.logged.judge import Question
from polidiff.evaluation.logged.policies import wrote_the_log
from polidiff.worlds.log_converters import simulated_log


def test_clear_differences_have_a_direction_and_a_valence(walk, even, keen):
    log = simulated_log(walk, even, 3000, seed=1)
    verdicts = judge_log(log, Question(even, keen)).verdicts[0]
    assert (verdicts[0].outcome, verdicts[0].direction, verdicts[0].valence) == ("paid", "more", "better")
    truth = [(keen, 0), (even, 0)]
    values = [walk.initial @ exact_evaluator(walk, t).values(outcome_tensor(walk))[:, k] for t, k in truth]
    assert verdicts[0].difference.contains(values[0] - values[1])
    assert verdicts[0].pointwise.width < verdicts[0].difference.width


def test_what_nobody_tried_is_unknown_and_named():
    frame = pl.DataFrame({"s": ["calm", "ill"] * 50, "a": ["wait"] * 100, "r": [1.0, 0.0] * 50})
    log = Log(frame, state="s", action="a", reward="r", actions=["wait", "treat"], return_range=(0, 1))
    verdict = judge_log(log, Question("log", np.array([0, 1]))).verdicts[0][0]
    assert verdict.direction == "unknown"
    assert verdict.unsupported == pytest.approx(0.5)
    assert verdict.note == (
        "nobody has tried 'treat' in 'ill'; 50 % of the proposed policy's decisions meet such a gap"
    )
    assert verdict.proposed.low <= 0.5
    assert verdict.proposed.high >= 0.95


def test_without_a_declared_range_a_gap_has_no_interval():
    frame = pl.DataFrame({"s": [0, 1] * 50, "a": [0] * 100, "r": [1.0, 0.0] * 50})
    log = Log(frame, state="s", action="a", reward="r", actions=2)
    verdict = judge_log(log, Question("log", np.array([0, 1]))).verdicts[0][0]
    assert (verdict.direction, verdict.difference.low, verdict.difference.high) == ("unknown", -np.inf, np.inf)
    assert verdict.note.endswith("and 'return' has no declared range that would bound it")


def test_an_action_the_log_does_not_know_must_be_declared():
    frame = pl.DataFrame({"s": [0, 1] * 5, "a": [0, 1] * 5, "r": [1.0] * 10})
    log = Log(frame, state="s", action="a", reward="r", return_range=(0, 1))
    with pytest.raises(InvalidPolicyError, match=r"Log\(\.\.\., actions=3\) declares actions that nobody has tried"):
        judge_log(log, Question("log", np.array([0, 2])))


def test_the_policy_that_wrote_the_log_is_recognised_and_another_is_not(walk, even, keen, walk_log):
    visits = np.zeros((5, 2))
    np.add.at(visits, (walk_log.rows.states, walk_log.rows.actions), 1)
    rng = np.random.default_rng(0)
    assert wrote_the_log(visits, even, rng)
    assert not wrote_the_log(visits, keen, rng)
    assert not wrote_the_log(visits, np.tile([1.0, 0.0], (5, 1)), rng)
    found = judge_log(walk_log, Question(keen, even))
    assert "do not look like the current policy's" in found.warnings[0]


def test_a_true_logging_policy_is_rarely_refused(walk, even):
    refused = 0
    for seed in range(100):
        rows = simulated_rows(walk, even, 20, rng=np.random.default_rng(seed))
        visits = np.zeros((5, 2))
        np.add.at(visits, (rows.states, rows.actions), 1)
        refused += not wrote_the_log(visits, even, np.random.default_rng(seed))
    assert refused <= 3


def test_groups_are_judged_apart_and_the_family_widens(walk_log, even, keen):
    starts = walk_log.starts
    groups = [starts == 0, starts == 1]
    found = judge_log(walk_log, Question(even, keen, groups))
    assert found.family == 4
    assert found.episodes.sum() == 400
    alone = judge_log(walk_log, Question(even, keen, groups[:1], family=1)).verdicts[0][0]
    assert found.verdicts[0][0].difference.width > alone.difference.width
    with pytest.raises(InvalidOptionError, match="one entry per logged start"):
        judge_log(walk_log, Question(even, keen, [np.ones(7, dtype=bool)]))
    with pytest.raises(InvalidOptionError, match="level must be between 0 and 1"):
        explain(walk_log, even, keen, level=95)


def test_an_evaluation_tells_every_start_and_what_is_not_supported(walk_log, keen):
    found = evaluate_log(walk_log, keen)
    assert set(found.outcomes) == {"paid", "length"}
    assert set(found.per_start["paid"]) == {"s0", "s1"}
    assert found.details["unsupported"] == 0.0


def test_cutting_records_does_not_shorten_what_is_estimated(walk, even, keen):
    truth = walk.initial @ exact_evaluator(walk, keen).values(outcome_tensor(walk))
    found = evaluate_log(simulated_log(walk, even, 3000, seed=5, horizon=3), keen)
    assert found.truncated > 0.3
    assert found.outcomes["length"].contains(truth[1])


def test_a_state_that_hides_its_past_is_noticed():
    # two decisions; the second pays only if it repeats the first, which the state does not tell
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000)
    frame = pl.DataFrame({
        "e": np.repeat(np.arange(4000), 2), "t": np.tile([0, 1], 4000), "s": np.tile([0, 1], 4000),
        "a": np.column_stack([first, second]).ravel(), "end": np.tile([False, True], 4000),
        "r": np.column_stack([np.zeros(4000), first == second]).ravel().astype(float),
    })  # fmt: skip
    log = Log(frame, state="s", action="a", episode="e", step="t", reward="r", terminated="end", return_range=(0, 1))
    always = np.array([1, 1])  # truth 1; a model of the state alone would say one half
    found = evaluate_log(log, always)
    assert found.assumptions[0].status == "failed"
    assert found.outcomes["return"].low > 0.99


@pytest.mark.parametrize("current", ["log", "even"])
def test_without_unrecorded_reasons_their_bound_is_the_estimate_itself(walk, even, keen, current):
    log = simulated_log(walk, even, 40, seed=3)  # with pairs that were never seen: both ends of the range count
    judge = StateJudge(log, Question(even if current == "even" else "log", keen), None)
    new, old = judge.pair
    for k in range(len(log.outcomes)):
        least = judge.starts.weights @ (new.low[k] - old.high[k])
        assert lower_differences(judge.compared(k, [0]), 1.0)[0] == pytest.approx(least, abs=1e-6)


def test_states_from_which_the_proposed_policy_never_ends_are_counted():
    """From s0 "on" leads to s1, from where "on" ends the episode and "back" leads to s0."""
    rng, rows = np.random.default_rng(0), []
    for episode in range(60):
        state, ended = "s0", False
        while not ended:
            action = rng.choice(["back", "on"])
            rows.append((episode, state, action, 1.0, ended := state == "s1" and action == "on"))
            state = "s1" if state == "s0" and action == "on" else "s0"
    frame = pl.DataFrame(rows, schema=["episode", "state", "action", "reward", "ended"], orient="row")
    log = Log(frame, state="state", action="action", episode="episode", reward="reward", terminated="ended")
    warnings = explain(log, "log", ["on", "back"]).warnings
    assert "In the estimated moves no episode ends from 2 states, such as 's0'." in warnings
