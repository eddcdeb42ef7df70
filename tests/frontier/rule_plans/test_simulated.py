"""Rule plans in a simulator: found over cells, judged by playing."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from polidiff import Outcome, Simulator, as_policy, evaluate, improve
from polidiff.errors import InvalidOptionError, InvalidWorldError
from polidiff.frontier.rule_plans import Move
from polidiff.rules.cell_grid import grid_of_rows, met_grid
from polidiff.surrogates.simulator import as_cut
from polidiff.worlds.rollouts import roll_out


class Slope:
    """A ball on [0, 1] with a wind that blows down below a half; it is worth its height every step, twelve times."""

    n_actions = 2
    actions = ("left", "right")
    feature_names = ("place", "noise")

    def reset(self, count, rng):
        return np.column_stack([rng.uniform(0, 1, count), rng.uniform(0, 1, count)])

    def step(self, states, actions, rng):
        pushed = np.where(actions == 1, 0.1, -0.1) - np.where(states[:, 0] < 0.5, 0.02, 0.0)
        place = np.clip(states[:, 0] + pushed, 0, 1)
        place = np.where((place > 0.79) & (actions == 1), 0.3, place)  # too far to the right one falls back
        return np.column_stack([place, rng.uniform(0, 1, len(place))]), place, np.zeros(len(place), dtype=bool)


def slope():
    return Simulator(Slope(), horizon=12)


def always_left(states):
    return np.zeros(len(states), dtype=np.int64)


@pytest.fixture(scope="module")
def frontier():
    return improve(slope(), always_left, max_rules=2, seed=1)


def test_a_rule_is_found_that_truly_gains_and_its_interval_holds(frontier):
    best = frontier.best
    assert frontier.unit == "rules"
    assert [len(plan.rules) for plan in frontier] == sorted({len(plan.rules) for plan in frontier})
    again = [evaluate(slope(), policy, seed=77).outcomes["return"] for policy in (best.policy, always_left)]
    gain = again[0].estimate - again[1].estimate
    assert gain > 1.0
    assert best.gain.low - 0.05 <= gain <= best.gain.high + 0.05
    assert best.expected_return == pytest.approx(again[0].estimate, rel=0.02)
    assert any(told.move == "right" for told in best.rules)
    assert {c.feature for told in best.rules for c in told.rule.conditions} <= {"place", "noise"}


def test_the_policy_follows_the_rules_as_they_read(frontier):
    states = np.random.default_rng(0).uniform(0, 1, size=(300, 2))
    for plan in frontier:
        expected, left = np.zeros(len(states), dtype=int), np.ones(len(states), dtype=bool)
        for told in plan.rules:
            here = left & told.rule.covers(states)
            expected[here] = {"right": 1, "left": 0, "keep": 0}[told.move]
            left &= ~here
        np.testing.assert_array_equal(plan.policy.probabilities(states).argmax(axis=1), expected)
        np.testing.assert_array_equal(plan.patch.apply(always_left).probabilities(states).argmax(axis=1), expected)


@pytest.mark.slow
def test_fewer_rules_than_allowed_are_said_to_be_fewer_and_their_bounds_to_say_nothing_of_more(frontier):
    most = max(len(plan.rules) for plan in frontier)
    assert most == 1, "one cut is all that there is to find"
    assert sum("No plan of 2 rules was seen to gain over 1 rule" in note for note in frontier.warnings) == 1
    assert any("better ones may exist" in note for note in frontier.warnings)
    assert not any("No plan of" in note for note in improve(slope(), always_left, max_rules=1, seed=1).warnings)


def test_the_same_seed_gives_the_same_plans(frontier):
    assert improve(slope(), always_left, max_rules=2, seed=1).to_dict() == frontier.to_dict()


def test_frozen_states_are_never_changed():
    plan = improve(slope(), always_left, max_rules=1, freeze="place<0.3").best
    states = np.random.default_rng(0).uniform(0, 1, size=(300, 2))
    acts = plan.policy.probabilities(states).argmax(axis=1)
    assert (acts[states[:, 0] < 0.3] == 0).all()
    assert (acts == 1).any()


def test_rules_prescribe_actions_only():
    with pytest.raises(InvalidOptionError, match="rules in a simulator prescribe actions"):
        improve(slope(), always_left, max_rules=1, moves="levels")
    with pytest.raises(InvalidOptionError, match="rules in a simulator prescribe actions"):
        improve(slope(), always_left, max_rules=1, moves=[Move.level("dose", 1)])


def test_a_grid_has_readable_cuts_and_boxes_of_its_cells_are_boxes_of_features():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(3000, 2))
    grid = grid_of_rows(features, (features[:, :1] > 0.3).astype(float), ("a", "b"))
    assert any(abs(cut - 0.3) < 0.05 for cut in grid.axes[0].cuts), "a cut where the signal turns"
    assert grid.size <= 250
    codes = grid.codes.T[grid.of(features)]
    box = ((0, 1, int(grid.sizes[0]) - 1), (1, 0, 1))
    np.testing.assert_array_equal(grid.rule(box).covers(features), (codes[:, 0] >= 1) & (codes[:, 1] < 2))
    assert (grid.of(features) >= 0).all()


def test_a_grid_over_eighty_features_finds_each_row_in_its_cell():
    features = (np.random.default_rng(3).random((400, 80)) < 0.5) * 1.0
    names, halves = [f"x{k}" for k in range(80)], [np.array([0.5])] * 80  # 2^80 cells, of which 400 are met
    grid = met_grid(features, names, halves)
    assert grid.size == 400
    np.testing.assert_array_equal(grid.codes.T[grid.of(features)], features)


def test_features_that_are_constant_or_no_numbers_are_named():
    with pytest.raises(InvalidWorldError, match="do not: a, b"):
        grid_of_rows(np.ones((50, 2)), np.zeros((50, 1)), ("a", "b"))
    with pytest.raises(InvalidWorldError, match="'b' is nan in sampled state 3"):
        grid_of_rows(np.where(np.arange(8).reshape(-1, 2) == 7, np.nan, 1.0), np.zeros((4, 1)), ("a", "b"))


class Thermostat(gymnasium.Env):
    """Heat and damp that stay where they are unless heated, cooled or aired; it cuts its episodes itself."""

    observation_space = gymnasium.spaces.Box(-10, 10, (2,))
    action_space = gymnasium.spaces.MultiDiscrete([3, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = self.np_random.uniform(-5, 5, 2), 0
        return self.place.astype(np.float32), {}

    def step(self, action):
        heat, fan = int(action[0]) - 1, int(action[1])
        push = [heat - 0.5 * fan, 0.2 * self.np_random.normal() - 0.6 * fan]
        self.place, self.time = np.clip(self.place + push, -10, 10), self.time + 1
        paid = -float(np.abs(self.place).sum()) - 0.1 * abs(heat) - 0.2 * fan
        return self.place.astype(np.float32), paid, False, self.time >= 30, {"energy": abs(heat) + fan}


def idle(states):
    return np.full(len(states), 2)  # neither heat nor fan


@pytest.mark.parametrize(("horizon", "cut"), [(None, 30), (12, 12)])
def test_an_environment_that_cuts_its_episodes_is_planned_for_as_long_as_they_last(horizon, cut):
    world = Simulator(Thermostat, horizon=horizon)
    played = roll_out(world, as_policy(idle, n_actions=6), episodes=3, seed=(0,))
    assert as_cut(world, played).horizon == cut


@pytest.mark.slow
def test_choices_are_tried_where_the_current_policy_hardly_moves():
    world = Simulator(Thermostat, outcomes=[Outcome("energy", "info:energy")])
    best = improve(world, idle, max_rules=2).best
    assert len(best.rules) == 2
    assert best.gain.low > 30
    assert abs(best.model_gap) < 0.1 * abs(best.expected_return)
