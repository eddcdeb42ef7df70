"""Rule plans in environments whose observation is a number: rules speak about what the number stands for."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff import Simulator, TabularMDP, improve

gymnasium = pytest.importorskip("gymnasium")


def test_numbered_states_have_the_features_of_their_table():
    world, table = Simulator("FrozenLake-v1"), TabularMDP.from_gymnasium("FrozenLake-v1")
    numbered = world.with_numbers()
    assert not world.has_features
    assert numbered.feature_names == table.feature_names == ("row", "column")
    states = np.arange(16)
    assert (numbered.features_of(states) == table.features_of(states)).all()
    assert not world.has_features, "the world itself stays as it is"


def test_states_without_known_features_are_told_by_their_number():
    class Walk(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = int(self.np_random.integers(4))
            return self.at, {}

        def step(self, action):
            return self.at, float(action == (self.at >= 2)), True, False, {}

    world = Simulator(Walk)
    assert world.with_numbers().feature_names == ("state number",)
    frontier = improve(world, lambda states: np.zeros(len(states), dtype=int), max_rules=1)
    (rule,) = frontier.best.rules
    assert [condition.feature for condition in rule.rule.conditions] == ["state number"]
    assert rule.rule.covers(np.arange(4.0)[:, None]).tolist() == [False, False, True, True]
    assert frontier.best.gain.low > 0
