"""Tables read from environments, against what their own steps do."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from polidiff.errors import InvalidWorldError
from polidiff.evaluation.exact import ExactEvaluator, best_policy, exact_evaluator
from polidiff.policies import one_hot
from polidiff.worlds import TabularMDP
from polidiff.worlds.gymnasium import table_of

REGISTERED = list(gymnasium.registry)
TAXI = "Taxi-v4" if "Taxi-v4" in REGISTERED else "Taxi-v3"
CLIFF = "CliffWalking-v1" if "CliffWalking-v1" in REGISTERED else "CliffWalking-v0"


class TwoRooms(gymnasium.Env):
    """From room 0, action 0 may end the episode or move to room 1; room 1 leads back. Room 0 is entered both ways."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(1)

    def __init__(self):
        self.P = {0: {0: [(0.25, 0, 2.0, True), (0.75, 1, 1.0, False)]}, 1: {0: [(1.0, 0, 0.0, False)]}}
        self.initial_state_distrib = np.array([1.0, 0.0])

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        raise NotImplementedError


def test_a_state_entered_both_ways_sends_its_endings_to_an_extra_state():
    world = TabularMDP.from_gymnasium(TwoRooms())
    assert world.states == ("s0", "s1", "end")
    assert world.absorbing.tolist() == [False, False, True]
    # v = 0.25·2 + 0.75·(1 + v)  =>  v = 5
    values = exact_evaluator(world, [0, 0, 0]).values(world.rewards)
    assert values[:2] == pytest.approx([5.0, 5.0])


@pytest.mark.parametrize(
    ("env_id", "expected"),
    [("FrozenLake-v1", 14 / 17), ("FrozenLake8x8-v1", 1.0), (CLIFF, -13.0), (TAXI, 7.93)],
)
def test_the_best_policy_earns_the_known_return(env_id, expected):
    assert best_policy(TabularMDP.from_gymnasium(env_id)).expected_return == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", CLIFF, TAXI])
def test_exact_values_agree_with_episodes_of_the_environment(env_id):
    world = TabularMDP.from_gymnasium(env_id)
    best = best_policy(world)
    env = gymnasium.make(env_id, max_episode_steps=10_000).unwrapped
    returns = []
    for seed in range(150):
        state, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            state, reward, over, _, _ = env.step(int(best.actions[state]))
            total += reward
        assert world.absorbing[state]
        returns.append(total)
    error = 4 * np.std(returns) / np.sqrt(len(returns)) + 1e-9
    assert abs(np.mean(returns) - best.expected_return) <= error


def test_every_start_ends_and_unreached_states_do_not_disturb():
    world = TabularMDP.from_gymnasium(TAXI)
    evaluator = ExactEvaluator(world, one_hot(best_policy(world).actions, world.n_actions))
    assert np.isfinite(evaluator.values(world.rewards)[world.starts]).all()
    assert world.n_states == 500


def test_states_and_actions_have_natural_names_and_features():
    lake = TabularMDP.from_gymnasium("FrozenLake-v1")
    assert lake.feature_names == ("row", "column")
    assert lake.features[6].tolist() == [1, 2]
    assert lake.states[6] == "row 1, column 2"
    assert [action.name for action in lake.actions] == ["left", "down", "right", "up"]
    taxi = TabularMDP.from_gymnasium(TAXI)
    env = gymnasium.make(TAXI).unwrapped
    assert taxi.features[328].tolist() == list(env.decode(328))


def test_options_of_the_table_can_be_overruled():
    world = TabularMDP.from_gymnasium("FrozenLake-v1", discount=0.9, actions=["W", "S", "E", "N"])
    assert (world.discount, world.actions[0].name) == (0.9, "W")


def test_an_id_of_another_version_is_answered_with_the_present_one():
    with pytest.raises(InvalidWorldError, match=r"did you mean .*Taxi-v\d"):
        table_of("Taxi-v17")
    with pytest.raises(InvalidWorldError, match="FrozenLake-v1"):
        table_of("FrozenLak-v1")


def test_an_environment_without_a_table_is_sent_to_the_simulator():
    with pytest.raises(InvalidWorldError, match=r"no table P.*Simulator\(env\)"):
        table_of("CartPole-v1")


def test_a_table_without_a_start_distribution_is_refused():
    env = TwoRooms()
    del env.initial_state_distrib
    with pytest.raises(InvalidWorldError, match="initial_state_distrib"):
        table_of(env)


def test_a_passenger_who_changes_his_mind_is_not_in_the_table():
    if TAXI == "Taxi-v3" and not hasattr(gymnasium.make(TAXI).unwrapped, "fickle_passenger"):
        pytest.skip("this Taxi has no fickle passenger")
    with pytest.raises(InvalidWorldError, match="fickle"):
        table_of(gymnasium.make(TAXI, fickle_passenger=True))
