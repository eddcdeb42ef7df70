"""Vector environments: the same episodes, whatever the vector does after an end."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from polidiff.errors import RestoreError
from polidiff.worlds.gymnasium import EnvSource, GymnasiumStepper, describe
from polidiff.worlds.gymnasium.stepper import VectorStepper

AUTORESET = getattr(gymnasium.vector, "AutoresetMode", None)


class Countdown(gymnasium.Env):
    """Starts at a number given by the seed and counts down to 0; pays the number it leaves."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0, 100, (1,))

    def reset(self, *, seed=None, options=None):
        self.left = 2 + (seed or 0) % 5
        return np.array([self.left], dtype=np.float32), {"left": self.left}

    def step(self, action):
        paid = float(self.left)
        self.left -= 1
        return np.array([self.left], dtype=np.float32), paid, self.left == 0, False, {"left": self.left}


class Whole(gymnasium.vector.VectorEnv):
    """A vector that does not show its parts."""

    def __init__(self, count, mode):
        options = {} if mode is None else {"autoreset_mode": mode}
        self._inner = gymnasium.vector.SyncVectorEnv([Countdown] * count, **options)
        self.num_envs = count
        self.single_action_space = Countdown.action_space
        self.single_observation_space = Countdown.observation_space

    def reset(self, *, seed=None, options=None):
        return self._inner.reset(seed=seed)

    def step(self, actions):
        return self._inner.step(actions)


MODES = [None] if AUTORESET is None else [AUTORESET.NEXT_STEP, AUTORESET.SAME_STEP]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [3, 7])
def test_no_dummy_transition_is_counted_and_the_last_observation_is_seen(mode, count):
    seeds = np.arange(5)
    stepper = GymnasiumStepper.start(Whole(count, mode), seeds, info_keys=("left",))
    assert isinstance(stepper, VectorStepper)
    totals, lengths = np.zeros(5), np.zeros(5)
    running = np.arange(5)
    while running.size:
        step = stepper.step(np.zeros(len(running), dtype=int), running)
        totals[running] += step.rewards
        lengths[running] += 1
        assert np.array_equal(step.next_states[:, 0] == 0, step.terminated)
        assert np.array_equal(step.infos["left"], step.next_states[:, 0])
        running = running[~step.terminated]
    starts = 2 + seeds % 5
    assert lengths.tolist() == starts.tolist()
    assert totals.tolist() == (starts * (starts + 1) / 2).tolist()


def test_single_episodes_of_a_whole_vector_cannot_be_restored():
    stepper = GymnasiumStepper.start(Whole(2, MODES[0]), np.arange(2))
    with pytest.raises(RestoreError, match="factory of the single environment"):
        stepper.clone(np.array([0]))


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_vector_that_shows_its_parts_is_taken_apart(kind):
    vector = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode=kind)
    stepper = GymnasiumStepper.start(vector, np.arange(4))
    assert isinstance(stepper, GymnasiumStepper)
    assert stepper.restore_mode == "copy"
    assert np.array_equal(stepper.states, GymnasiumStepper.start("CartPole-v1", np.arange(4)).states)
    vector.close()


def test_the_wrappers_of_a_vector_stay_on_its_parts():
    wrappers = (lambda env: gymnasium.wrappers.TransformReward(env, lambda reward: 3 * reward),)
    vector = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="async", wrappers=wrappers)
    step = GymnasiumStepper.start(vector, np.arange(3)).step(np.zeros(3, dtype=int), np.arange(3))
    assert step.rewards.tolist() == [3.0, 3.0, 3.0]
    vector.close()


def test_a_vector_written_as_one_is_stepped_as_one():
    vector = gymnasium.make_vec("CartPole-v1", 4, vectorization_mode="vector_entry_point")
    described = describe(vector)
    assert (described["n_actions"], described["horizon"]) == (2, 500)
    stepper = GymnasiumStepper.start(EnvSource(vector), np.arange(6))
    before = np.array(stepper.states)
    step = stepper.step(np.array([1, 0]), np.array([0, 5]))
    assert step.next_states.shape == (2, 4)
    assert (step.next_states[:, 1] > before[[0, 5], 1]).tolist() == [True, False]
    assert np.array_equal(stepper.states[1:5], before[1:5])
