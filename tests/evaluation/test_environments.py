"""Exact values of Gymnasium's tables against 4,000 episodes of the same environments."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from polidiff import Simulator, TabularMDP, evaluate
from polidiff.evaluation.exact import best_policy

TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
EPISODES = 4_000


@pytest.mark.parametrize(
    "env_id",
    [
        "FrozenLake-v1",
        pytest.param("FrozenLake8x8-v1", marks=pytest.mark.slow),
        pytest.param(TAXI, marks=pytest.mark.slow),
    ],
)
def test_the_exact_value_at_the_environments_limit_lies_in_the_interval_of_its_episodes(env_id):
    table = TabularMDP.from_gymnasium(env_id)
    actions = best_policy(table).actions
    simulator = Simulator(env_id)
    played = evaluate(simulator, actions, episodes=EPISODES, level=0.999)
    exact = evaluate(table, actions, horizon=simulator.horizon)
    assert exact.method == f"exact, horizon {simulator.horizon}"
    assert played.outcomes["return"].contains(exact.outcomes["return"].estimate)
    assert 0 < played.outcomes["return"].width < 0.095 * max(1.0, abs(exact.outcomes["return"].estimate))


def test_without_its_limit_the_small_lake_agrees_with_the_linear_solve():
    table = TabularMDP.from_gymnasium("FrozenLake-v1")
    actions = best_policy(table).actions
    unlimited = Simulator(gymnasium.make("FrozenLake-v1").unwrapped, horizon=5_000)
    played = evaluate(unlimited, actions, episodes=3_000, level=0.999)
    exact = evaluate(table, actions)
    assert played.truncated == 0.0
    assert exact.method == "exact"
    assert played.outcomes["return"].contains(exact.outcomes["return"].estimate)


def test_a_cut_lake_is_worth_less_than_an_uncut_one_and_says_what_was_cut():
    table = TabularMDP.from_gymnasium("FrozenLake8x8-v1")
    actions = best_policy(table).actions
    cut, whole = (evaluate(table, actions, horizon=horizon).outcomes["return"].estimate for horizon in (50, None))
    assert cut < 0.6 * whole
    played = evaluate(Simulator("FrozenLake8x8-v1", horizon=50), actions, episodes=300)
    assert played.truncated > 0.3


def test_a_stochastic_policy_agrees_as_well():
    table = TabularMDP.from_gymnasium("FrozenLake-v1")
    best = best_policy(table).actions
    mixed = np.full((table.n_states, 4), 0.05)
    mixed[np.arange(table.n_states), best] += 0.8
    exact = evaluate(table, mixed, horizon=100).outcomes["return"].estimate
    played = evaluate(Simulator("FrozenLake-v1"), mixed, episodes=4_000, level=0.999)
    assert played.outcomes["return"].contains(exact)
