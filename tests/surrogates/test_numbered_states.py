"""Rule plans in environments whose observation is a number: rules speak about what the number stands for."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff import Simulator, TabularMDP, explain, improve
from polidiff.errors import InvalidInputError
from polidiff.records.numbers import interval_numbers

gymnasium = pytest.importorskip("gymnasium")


def test_numbered_states_have_the_features_of_their_table():
    world, table = Simulator("FrozenLake-v1"), TabularMDP.from_gymnasium("FrozenLake-v1")
    assert world.feature_names == table.feature_names == ("row", "column")
    states = np.arange(16)
    assert (world.features_of(states) == table.features_of(states)).all()
    renumbered = gymnasium.wrappers.TransformObservation(gymnasium.make("FrozenLake-v1"), lambda s: 15 - s, None)
    assert not Simulator(lambda: renumbered).has_features, "a wrapper may number states in another way"
    assert Simulator("FrozenLake-v1", feature_names=["cell"]).feature_names == ("cell",)


def test_a_difference_in_a_lake_that_is_played_is_told_by_row_and_column():
    def right(states):
        return np.full(len(states), 2)

    def down_in_the_first_column(states):
        return np.where(states % 4 == 0, 1, 2)

    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    told = explain(Simulator(lake), right, down_in_the_first_column, starts=5, max_steps=2_000)
    (region,) = told.regions
    assert (region.current, region.proposed) == ("right", "down")
    assert region.rule.covers({"row": np.arange(3), "column": np.zeros(3)}).all()
    assert not region.rule.covers({"row": np.arange(3), "column": np.ones(3)}).any()
    assert told.case("s4").proposed == told.case({"row": 1, "column": 0}).proposed == "down"
    assert told.case(5).proposed == "right"
    with pytest.raises(InvalidInputError, match="numbered from 0 to 15; got 16"):
        told.case("s16")


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
    assert frontier.best.changes_interval.contains(0.5), "two of four states"
    count, low, high = interval_numbers(frontier.best.changes_interval)
    assert f"  1 ({count} [{low}, {high}])  " in str(frontier)
