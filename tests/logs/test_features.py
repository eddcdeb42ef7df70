"""Logs whose states are measurements: cells, estimated behaviour, fitted-Q, plans, converters."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, evaluate, improve
from polidiff.errors import InvalidLogError, InvalidOptionError
from polidiff.evaluation.exact import exact_evaluator, outcome_tensor
from polidiff.evaluation.log import evaluate_log
from polidiff.evaluation.logged.compare import judge_log
from polidiff.evaluation.logged.counted_log import counted_log
from polidiff.evaluation.logged.counts import BLOCKS
from polidiff.evaluation.logged.judge import Question
from polidiff.evaluation.logged.plan import choose_and_judge
from polidiff.evaluation.logged.policies import logging_policy, row_chances
from polidiff.records.rule import Condition, Rule
from polidiff.worlds.log_converters import log_from_d3rlpy, log_from_minari, simulated_frame, simulated_log

OUTCOMES = (Outcome("paid", "paid", prefer="more", range=(0, 1)), Outcome("length", "length", range=(0, 60)))


def measured(walk, table, episodes, seed):
    """The walk seen through a noisy measurement, beside one that means nothing and is often missing."""
    rng = np.random.default_rng(seed)
    frame = simulated_frame(walk, table, episodes, rng=rng)
    x = frame["state"].to_numpy() + rng.uniform(0, 0.9, frame.height)
    idle = np.where(rng.random(frame.height) < 0.3, np.nan, rng.normal(size=frame.height))
    return Log(frame.with_columns(x=x, idle=idle), state=["x", "idle"], action="action", episode="episode", step="step",
               terminated="terminated", truncated="truncated", outcomes=OUTCOMES)  # fmt: skip


def keen_on_features(states):
    return np.tile([0.1, 0.9], (len(states), 1))


def truth(walk, table):
    return walk.initial @ exact_evaluator(walk, table).values(outcome_tensor(walk))


def test_scores_give_intervals_that_hold_the_truth(walk, even, keen):
    exact, hits = truth(walk, keen), []
    for seed in range(5):
        found = evaluate_log(measured(walk, even, 400, seed), keen_on_features).outcomes
        hits += [found["paid"].contains(exact[0]), found["length"].contains(exact[1])]
    assert np.mean(hits) >= 0.8


def test_regions_are_cells_of_their_own(walk, even):
    log = measured(walk, even, 300, 0)
    rule = Rule((Condition("x", 0, low=2.2, high=2.6),))
    ground = counted_log(log, (keen_on_features,), [rule])
    inside = rule.covers(log.rows.states)
    cells = ground.row_state()
    assert not set(cells[inside]) & set(cells[~inside])
    assert ground.table(keen_on_features) == pytest.approx(np.tile([0.1, 0.9], (len(ground.names), 1)))


def test_verdicts_from_features_have_the_right_direction(walk, even):
    verdict = judge_log(measured(walk, even, 2000, 1), Question("log", keen_on_features)).verdicts[0][0]
    assert (verdict.outcome, verdict.direction) == ("paid", "more")


def test_estimated_behaviour_over_features_is_calibrated(walk):
    by_state = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.5, 0.5], [0.5, 0.5]])
    log = measured(walk, by_state, 500, 2)
    state, chances = np.floor(log.rows.states[:, 0]).astype(int), row_chances(log)
    assert np.abs(chances - by_state[state]).mean() < 0.08
    assert np.abs(logging_policy(log).probabilities(log.rows.states) - by_state[state]).mean() < 0.08


def test_fitted_q_agrees_with_the_truth(walk, even, keen):
    found = evaluate(measured(walk, even, 1500, 3), keen_on_features, evaluation="fitted q").outcomes["length"]
    assert found.estimate == pytest.approx(truth(walk, keen)[1], rel=0.08)
    assert found.low < found.estimate < found.high


def two_boxes(people=2000):
    """One decision each: drug 1 gains where x > .6 and y < .7 and where z < .3, and costs elsewhere."""
    rng = np.random.default_rng(3)
    x, drug = rng.uniform(size=(people, 3)), rng.integers(0, 2, people)
    pays = ((x[:, 0] > 0.6) & (x[:, 1] < 0.7)) | (x[:, 2] < 0.3)
    frame = pl.DataFrame({"x": x[:, 0], "y": x[:, 1], "z": x[:, 2], "drug": drug,
                          "well": np.where(pays, 0.5, -0.4) * drug + rng.normal(size=people) * 0.3})  # fmt: skip
    return Log(frame, state=["x", "y", "z"], action="drug", reward="well"), x, pays


def test_without_candidates_improve_finds_rules_over_the_features():
    log, x, pays = two_boxes()
    for plans, most in ((improve(log, "always:0"), 3), (improve(log, "always:0", max_states=1), 1)):
        assert max(len(plan.rules) for plan in plans) == most
        assert plans.best.gain.low > 0
    treated = improve(log, "always:0").best.policy.probabilities(x)[:, 1] == 1
    assert (treated == pays).mean() > 0.95


def test_the_two_halves_share_no_episode_and_make_up_the_log(walk, even):
    log = simulated_log(walk, even, 301, seed=7)
    halves = choose_and_judge(counted_log(log, blocks=BLOCKS))
    one, other = halves.choosing.counts, halves.judging.counts
    assert not set(one.block) & set(other.block)
    assert one.starts.sum() + other.starts.sum() == 301


def test_minari_and_d3rlpy_episodes_become_logs():
    minari = SimpleNamespace(
        observations=np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]), actions=np.array([0, 1]), rewards=np.ones(2),
        terminations=np.array([False, True]), truncations=np.array([False, False]),
    )  # fmt: skip
    log = log_from_minari(SimpleNamespace(iterate_episodes=lambda: [minari, minari]))
    assert (log.check.rows, log.check.terminated, log.feature_names) == (4, 2, ("x0", "x1"))
    d3rlpy = SimpleNamespace(
        observations=np.array([[3], [4]]), actions=np.array([[0], [1]]), rewards=np.ones((2, 1)), terminated=False
    )
    log = log_from_d3rlpy(SimpleNamespace(episodes=[d3rlpy]))
    assert (log.check.rows, log.check.cut, log.n_states) == (2, 1, 5)
    d3rlpy.actions = np.array([[0.25], [0.75]])  # told at levels, as in any log
    assert log_from_d3rlpy(SimpleNamespace(episodes=[d3rlpy])).levels.tolist() == [[0.25], [0.75]]
    d3rlpy.actions = np.array([[0, 1], [1, 1]])
    with pytest.raises(InvalidLogError, match=r"one number per decision; episode 0 has shape \(2, 2\)"):
        log_from_d3rlpy(SimpleNamespace(episodes=[d3rlpy]))


def test_text_features_make_cells(walk, even):
    frame = simulated_frame(walk, even, 2000, rng=np.random.default_rng(0))
    named = frame.with_columns(place=pl.format("place {}", pl.col("state")), x=pl.lit(1.0))
    log = Log(named, state=["place", "x"], action="action", episode="episode", step="step", terminated="terminated",
              truncated="truncated", outcomes=OUTCOMES)  # fmt: skip
    cells, places = counted_log(log, (), []).row_state(), log.rows.states[:, 0]
    assert not set(cells[places == "place 0"]) & set(cells[places != "place 0"])


def test_plans_of_a_few_feature_rows_are_refused_in_one_line():
    log, *_ = two_boxes(people=30)
    with pytest.raises(InvalidOptionError, match="plans from feature rows need at least 40 decisions; there are 30"):
        improve(log, "always:0")
