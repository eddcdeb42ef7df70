"""What features hide: no verdict where weights of whole episodes, or too many changes, speak against the scores."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, explain
from polidiff.domains import navigation
from polidiff.evaluation.logged.compare import judge_log
from polidiff.evaluation.logged.judge import Question
from tests.logs.test_explain_and_improve import navigation_log

TRUTH = {"return": 12.001, "stay": -8.5}  # exact, from the table of the task


@pytest.mark.slow
def test_a_log_that_does_not_follow_a_policy_to_its_end_gives_no_verdict():
    """One decision in three is random: next to no episode follows the proposed policy to its end."""
    log = navigation_log(800, 0.3, 907)
    judged = judge_log(log, Question(navigation.current, navigation.proposed_2)).verdicts[0]
    assert [v.direction for v in judged] == ["unknown", "unknown"]
    assert all("does not follow a policy that far" in v.note for v in judged)
    assert all(v.difference.contains(0.0) for v in judged)


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


def test_a_world_that_remembers_gives_no_verdict():
    found = explain(two_steps(20_000, remembers=True), even, leaning)
    assert [v.direction for v in found.verdicts] == ["unknown"]
    assert "gives another answer: 0.05" in found.verdicts[0].note  # exactly 0.34² + 0.66² − 0.5 = 0.051


def test_no_doubt_is_raised_without_cause():
    (found,) = explain(two_steps(4_000, remembers=False), even, leaning).verdicts
    assert found.direction == "more"
    assert found.difference.contains(0.16)  # exactly 0.66 − 0.5
