"""Intervals from played episodes: how often they hold, and when they may have no width."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from polidiff import Simulator, check, evaluate, explain, improve, load
from polidiff.domains import chain
from polidiff.evaluation import compare
from polidiff.evaluation.verdicts import (
    SKEWED,
    direction_of,
    mean_interval,
    papers_verdict,
    rare_events,
    skewness,
    verdict,
)
from polidiff.explanation.advice import advise
from polidiff.explanation.said import answers
from polidiff.policies import table_policy
from polidiff.records.codec import save_json
from polidiff.records.numbers import interval_numbers
from polidiff.records.outcome import Interval, Outcome
from polidiff.report.view import summary_cards
from polidiff.worlds.rollouts import roll_out


def test_over_300_seeds_the_interval_covers_the_exact_value_as_often_as_it_claims():
    world, policy = chain.world(slip=0.3), chain.proposed()
    exact = evaluate(world, policy).outcomes["trajectory length"].estimate
    covered = 0
    for seed in range(300):
        played = roll_out(world, table_policy(policy), episodes=100, seed=(seed,))
        covered += mean_interval(played.totals[:, 0], 0.95).contains(exact)
    low, high = stats.binom.ppf([0.0005, 0.9995], 300, 0.95)
    assert low <= covered <= high


def test_paired_differences_are_narrower_than_the_two_policies_apart():
    world = chain.world(slip=0.3)
    old, new = (
        roll_out(world, table_policy(policy), episodes=1_000, seed=(1,)).totals[:, 0]
        for policy in (chain.current(), chain.proposed())
    )
    together = mean_interval(new - old, 0.95)
    apart = math.hypot(mean_interval(new, 0.95).width, mean_interval(old, 0.95).width)
    assert together.width < 0.75 * apart
    told = [evaluate(world, policy()).outcomes for policy in (chain.current, chain.proposed)]
    exact = [outcomes["trajectory length"].estimate for outcomes in told]
    assert together.contains(exact[1] - exact[0])


@given(st.integers(0, 2**31), st.integers(2, 60), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_interval_is_students(seed, count, level):
    values = np.random.default_rng(seed).normal(3.0, 2.0, size=count)
    told = mean_interval(values, level)
    low, high = stats.t.interval(level, count - 1, loc=values.mean(), scale=stats.sem(values))
    skewed = count > 2 and abs(skewness(values)) > SKEWED
    assert (told.low, told.high) == pytest.approx((low, high)) or (skewed and told.low <= low and told.high >= high)
    assert told.level == level


# 1,000 other samples were covered in .822, .898, .937, .953; the floor is three standard errors of 400 below
@pytest.mark.parametrize(("count", "least"), [(10, 0.76), (30, 0.85), (100, 0.90), (1000, 0.92)])
def test_the_mean_of_a_skewed_reward_is_covered_far_more_often_than_by_student(count, least):
    rng, mean = np.random.default_rng(count), math.exp(1.125)  # of a lognormal with spread 1.5
    samples = [np.exp(1.5 * rng.normal(size=count)) for _ in range(400)]
    covered = np.mean([mean_interval(values, 0.95).contains(mean) for values in samples])
    students = [stats.t.interval(0.95, count - 1, loc=v.mean(), scale=stats.sem(v)) for v in samples]
    assert covered >= least
    assert covered >= np.mean([low <= mean <= high for low, high in students])


@pytest.mark.parametrize("size", [50.0, -50.0])
@pytest.mark.parametrize(("count", "noise"), [(10, 0.0), (30, 0.0), (100, 0.0), (10, 0.1), (30, 0.1), (99, 0.1)])
def test_a_rare_reward_is_never_missed_without_a_doubt(count, noise, size):
    rng = np.random.default_rng(count)
    for _ in range(300):
        totals = size * (rng.random(count) < 0.02) + noise * rng.normal(size=count)
        assert mean_interval(totals, 0.95).contains(0.02 * size) or rare_events({"reward": totals})


def test_enough_even_episodes_are_in_no_doubt():
    rng = np.random.default_rng(0)
    doubts = [rare_events({"reward": rng.normal(size=100)}) for _ in range(300)]
    assert not any(doubts)
    assert rare_events({"reward": np.full(1000, 2.5)}) == ()
    (doubt,) = rare_events({"reward": np.full(999, 2.5)})
    assert "all of 999 episodes" in doubt.detail


def test_no_width_only_from_a_thousand_equal_values():
    assert mean_interval(np.full(1000, 2.5), 0.95).width == 0
    few = mean_interval(np.full(999, 2.5), 0.95)
    assert few.width > 0
    assert few.contains(2.5)


def test_almost_nothing_gives_an_unbounded_interval():
    assert mean_interval(np.array([1.0]), 0.95) == Interval(1.0, -math.inf, math.inf, 0.95)
    none = mean_interval(np.array([]), 0.95)
    assert math.isnan(none.estimate)
    assert (none.low, none.high) == (-math.inf, math.inf)


@given(st.floats(-10, 10), st.floats(0, 5), st.floats(0, 5), st.floats(0, 3))
def test_the_four_verdicts_never_contradict_the_interval(estimate, below, above, margin):
    difference = Interval(estimate, estimate - below, estimate + above, 0.95)
    word = direction_of(difference, margin)
    if word == "more":
        assert difference.low > 0
    elif word == "less":
        assert difference.high < 0
    elif word == "same":
        assert max(-difference.low, difference.high) <= margin + 1e-7
    else:
        assert difference.low <= 1e-7
        assert difference.high >= -1e-7


def test_a_verdict_has_the_valence_of_its_outcome():
    up = Interval(1.0, 0.5, 1.5, 0.95)
    assert verdict(Outcome("cost", 1.0, prefer="less"), up, up).valence == "worse"
    assert verdict(Outcome("gain", 1.0, prefer="more"), up, up).valence == "better"
    assert verdict(Outcome("length", 1.0), up, up).valence is None


@pytest.mark.parametrize(
    ("current", "proposed", "expected"),
    [
        (1.0, Interval(2.0, 1.5, 2.5, 0.95), "more"),
        (3.0, Interval(2.0, 1.5, 2.5, 0.95), "less"),
        (2.0, Interval(2.0, 1.5, 2.5, 0.95), "unknown"),
        (2.0, Interval.exactly(2.0), "same"),
        (2.0 + 1e-12, Interval.exactly(2.0), "same"),
    ],
)
def test_the_papers_rule_compares_an_estimate_with_an_interval(current, proposed, expected):
    assert papers_verdict(current, proposed) == expected


class RareLoss:
    """One decision; action 1 pays about a half, and costs 100 once in a thousand times."""

    n_actions, horizon = 2, 1

    def reset(self, count, rng):
        return rng.random((count, 1))

    def step(self, states, actions, rng):
        paid = actions * (rng.normal(0.5, 0.1, len(states)) - 100.0 * (rng.random(len(states)) < 0.001))
        return states, paid, np.ones(len(states), dtype=bool)


@pytest.mark.parametrize("verb", ["evaluate", "explain", "improve by candidates", "improve by rules"])
def test_every_result_from_a_simulator_doubts_a_mean_that_few_episodes_carry(verb, tmp_path):
    world = Simulator(RareLoss())
    current, proposed = ((lambda states, a=a: np.full(len(states), a)) for a in (0, 1))
    result = {
        "evaluate": lambda: evaluate(world, proposed),
        "explain": lambda: explain(world, current, proposed, max_steps=1_000),
        "improve by candidates": lambda: improve(world, current, [proposed]),
        "improve by rules": lambda: improve(world, current, max_rules=1),
    }[verb]()
    (doubt,) = load(save_json(result, tmp_path / "result.json")).assumptions
    assert doubt.name == "rare events"
    assert "carry the mean of" in doubt.detail, "a loss in one of a thousand episodes has a skewness of about -31"
    if verb != "evaluate":
        assert f"Rare events: {doubt.detail}. {doubt.consequence}" in str(result)
        assert "rare events (doubtful)" in result.save(tmp_path / "page.html").read_text(encoding="utf-8")
    if verb == "explain":
        assert advise(result).kind == "test first"


def test_changed_decisions_are_counted_in_the_episodes_whose_paths_are_told():
    pytest.importorskip("gymnasium")

    def below(limit):
        return lambda seen: (np.asarray(seen)[:, 0] < limit).astype(int)  # hit

    told = explain(Simulator("Blackjack-v1"), below(20), below(17), max_steps=50_000)  # to stick ends the episode
    (sentence,) = told.sentences
    assert told.quality.f1 == 1.0
    assert told.changes == pytest.approx(sum(meeting.share for meeting in sentence.meetings))


class Draws:
    """A number between 0 and 1, and another until chance ends the episode, after four decisions on average."""

    n_actions = 2

    def reset(self, count, rng):
        return rng.random((count, 1))

    def step(self, states, actions, rng):
        return rng.random(states.shape), actions.astype(float), rng.random(len(states)) < 0.25


def test_the_interval_of_changed_decisions_covers_their_expected_number_as_often_as_it_claims():
    world = Simulator(Draws(), horizon=300)
    policies = [lambda seen: np.zeros(len(seen), dtype=int), lambda seen: (seen[:, 0] > 0.5).astype(int)]
    covered, everywhere = 0, np.zeros(0, dtype=bool)
    for seed in range(40):
        achieved = compare(world, *policies, seed=seed).achieved(
            everywhere, length=4, max_steps=1, level=0.9, seed=seed
        )
        covered += achieved.changes_interval.contains(2.0)  # half of four decisions
    low, high = stats.binom.ppf([0.0005, 0.9995], 40, 0.9)
    assert low <= covered <= high


def test_changed_decisions_counted_in_play_are_told_with_their_bounds():
    told = explain(
        Simulator(Draws(), horizon=300, feature_names=["x"]),
        *(lambda seen, bound=bound: (seen[:, 0] > bound).astype(int) for bound in (1.0, 0.5)),
        max_steps=2_000,
    )
    count, low, high = interval_numbers(told.changes_interval)
    first = f"{count} decisions per episode (between {low} and {high})"
    assert first in str(told).splitlines()[0]
    assert answers(told)[1].text.startswith(f"{first} change: ")
    assert summary_cards(told)[0].detail.startswith(f"between {low} and {high}; ")
    missed = check(told, max_changes=1.5).reasons[0]
    assert missed == f"{count} changed decisions per episode, between {low} and {high}; allowed 1.5"
