"""Episodes in lock-step, against the same environments stepped by hand."""

from __future__ import annotations

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from polidiff import evaluate, explain
from polidiff.errors import InvalidOutcomeError, InvalidWorldError, RestoreError
from polidiff.worlds import Simulator
from polidiff.worlds.gymnasium import EnvSource, GymnasiumStepper, describe


class Walk(gymnasium.Env):
    """A noisy walk on a line; `info` tells the luck of each step."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(-np.inf, np.inf, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.normal()
        return self.observation(), {}

    def observation(self):
        return np.array([self.x], dtype=np.float32)

    def step(self, action):
        luck = self.np_random.normal()
        self.x += (1 if action else -1) + luck
        return self.observation(), self.x, bool(abs(self.x) > 4), False, {"luck": luck}


class WalkWithState(Walk):
    def get_state(self):
        return self.x

    def set_state(self, state):
        self.x = state


class WalkThatCannotBeCopied(Walk):
    def __deepcopy__(self, memo):
        raise TypeError("a handle to a device")


class WalkWithoutSeed(WalkThatCannotBeCopied):
    luck = np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        self.x = self.luck.normal()
        return self.observation(), {}

    def step(self, action):
        self.x += self.luck.normal()
        return self.observation(), 0.0, False, False, {}


class TwoRewards(Walk):
    def step(self, action):
        observation, x, over, cut, info = super().step(action)
        return observation, np.array([x, -1.0]), over, cut, info


class Mixed(Walk):
    observation_space = spaces.Dict(
        {
            "level": spaces.Discrete(3),
            "place": spaces.Tuple((spaces.Box(-np.inf, np.inf, (2,)), spaces.MultiBinary(2))),
        }
    )

    def observation(self):
        return {"level": 2, "place": (np.array([self.x, 2 * self.x]), np.array([1, 0]))}


def by_hand(env, seed, actions):
    """Observations, rewards and endings of one episode."""
    observation, _ = env.reset(seed=seed)
    rows = [np.ravel(observation)]
    rewards = []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(int(action))
        rows.append(np.ravel(observation))
        rewards.append(reward)
        if terminated or truncated:
            break
    return np.array(rows, dtype=float), np.array(rewards)


def play(stepper, actions):
    """Observations and rewards of every episode of a stepper, by the same plan of actions (T, n)."""
    running = np.arange(stepper.n)
    rows = [[row] for row in np.array(stepper.states).reshape(stepper.n, -1)]
    rewards = [[] for _ in range(stepper.n)]
    for plan in actions:
        step = stepper.step(plan[running], running)
        for index, row, reward in zip(running, step.next_states, step.rewards, strict=True):
            rows[index].append(np.ravel(row))
            rewards[index].append(reward)
        running = running[~(step.terminated | step.truncated)]
        if not running.size:
            break
    return [np.array(r, dtype=float) for r in rows], [np.array(r) for r in rewards]


@pytest.mark.parametrize("origin", ["CartPole-v1", "FrozenLake-v1", "Acrobot-v1", Walk, "Blackjack-v1"])
def test_lock_step_episodes_are_those_of_the_environments_stepped_by_hand(origin):
    seeds = np.array([3, 14, 159, 26])
    source = EnvSource(origin)
    plan = np.random.default_rng(0).integers(source.actions.count, size=(700, len(seeds)))
    rows, rewards = play(GymnasiumStepper.start(source, seeds), plan)
    for k, seed in enumerate(seeds):
        env = gymnasium.make(origin) if isinstance(origin, str) else origin()
        expected_rows, expected_rewards = by_hand(env, int(seed), plan[:, k])
        assert np.array_equal(rows[k], expected_rows)
        assert np.array_equal(rewards[k], expected_rewards)


def test_the_time_limit_cuts_an_episode_where_the_environment_would():
    stepper = GymnasiumStepper.start("MountainCar-v0", np.array([0, 1]))
    everyone = np.arange(2)
    for time in range(1, 201):
        step = stepper.step(np.array([1, 1]), everyone)
        assert (step.truncated == (time == 200)).all()


@pytest.mark.parametrize(
    ("origin", "mode"),
    [
        (WalkWithState, "state"),
        ("CartPole-v1", "copy"),
        ("FrozenLake-v1", "copy"),
        (Walk, "copy"),
        (WalkThatCannotBeCopied, "replay"),
    ],
)
def test_clones_go_on_as_the_original_does_and_apart_from_it(origin, mode):
    stepper = GymnasiumStepper.start(origin, np.arange(6))
    assert stepper.restore_mode == mode
    stepper.step(np.ones(6, dtype=int), np.arange(6))
    chosen = np.array([4, 1])
    twin, other = stepper.clone(chosen), stepper.clone(chosen)
    assert np.array_equal(twin.states, stepper.states[chosen])
    other.step(np.zeros(2, dtype=int), np.arange(2))
    expected = stepper.step(np.ones(2, dtype=int), chosen)
    found = twin.step(np.ones(2, dtype=int), np.arange(2))
    assert np.array_equal(found.next_states, expected.next_states)
    assert np.array_equal(found.rewards, expected.rewards)
    again = twin.clone(np.array([0]))
    assert np.array_equal(
        again.step(np.zeros(1, dtype=int), np.array([0])).next_states[0],
        stepper.step(np.zeros(1, dtype=int), np.array([4])).next_states[0],
    )


def test_an_environment_that_cannot_be_restored_says_what_failed_and_what_to_provide():
    stepper = GymnasiumStepper.start(WalkWithoutSeed, np.arange(2))
    assert stepper.restore_mode == "none"
    stepper.step(np.zeros(2, dtype=int), np.arange(2))
    with pytest.raises(
        RestoreError, match=r"state: no get_state.*copy: a handle.*replay: .*differs.*Hint: give it get_state"
    ):
        stepper.clone(np.array([0]))


def test_copies_are_used_again_in_the_next_batch():
    made = []

    def factory():
        made.append(Walk())
        return made[-1]

    source = EnvSource(factory)
    for batch in range(5):
        GymnasiumStepper.start(source, np.arange(8) + batch)
    assert len(made) <= 8 + 5


def test_an_instance_is_copied_and_never_stepped_itself():
    env = gymnasium.make("CartPole-v1", max_episode_steps=7)
    env.reset(seed=5)
    before = np.array(env.unwrapped.state)
    stepper = GymnasiumStepper.start(env, np.arange(3))
    stepper.step(np.zeros(3, dtype=int), np.arange(3))
    assert np.array_equal(before, env.unwrapped.state)
    assert describe(env)["horizon"] == 7


def test_a_source_travels_to_another_process_without_its_copies():
    source = EnvSource("CartPole-v1")
    first = GymnasiumStepper.start(source, np.array([7])).states
    again = GymnasiumStepper.start(pickle.loads(pickle.dumps(source)), np.array([7])).states
    assert np.array_equal(first, again)


def test_info_keys_and_parts_of_the_reward_are_columns():
    stepper = GymnasiumStepper.start(TwoRewards, np.arange(3), info_keys=("luck", "reward:0", "reward:1"))
    before = np.array(stepper.states[:, 0])
    step = stepper.step(np.ones(3, dtype=int), np.arange(3))
    assert step.infos["reward:0"] == pytest.approx(step.next_states[:, 0], abs=1e-6)
    assert step.infos["reward:1"].tolist() == [-1, -1, -1]
    assert step.rewards == pytest.approx(step.infos["reward:0"] + step.infos["reward:1"])
    assert before + 1 + step.infos["luck"] == pytest.approx(step.next_states[:, 0], abs=1e-5)


def test_a_part_of_the_reward_that_does_not_exist_is_named():
    stepper = GymnasiumStepper.start(Walk, np.arange(1), info_keys=("reward:2",))
    with pytest.raises(InvalidOutcomeError, match="'reward:0' to 'reward:0'"):
        stepper.step(np.ones(1, dtype=int), np.arange(1))


def test_an_info_key_that_never_comes_is_an_error_by_the_end_of_an_episode():
    stepper = GymnasiumStepper.start(Walk, np.arange(3), info_keys=("speed",))
    with pytest.raises(InvalidOutcomeError, match=r"'speed'.*\['luck'\]"):
        play(stepper, np.ones((50, 3), dtype=int))


def test_mixed_observations_are_flattened_with_names():
    assert describe(Mixed)["feature_names"] == ("level", "place.0.0", "place.0.1", "place.1.0", "place.1.1")
    states = GymnasiumStepper.start(Mixed, np.arange(2)).states
    assert states.shape == (2, 5)
    assert states[:, 2] == pytest.approx(2 * states[:, 1])
    assert states[:, [0, 3, 4]].tolist() == [[2, 1, 0]] * 2


def test_classic_tasks_have_names():
    described = describe("CartPole-v1")
    assert described["feature_names"] == ("position", "velocity", "angle", "angular velocity")
    assert described["actions"] == ("push left", "push right")
    assert (described["n_actions"], described["horizon"], described["categorical"]) == (2, 500, False)
    assert describe("FrozenLake-v1")["categorical"]
    assert describe(Walk)["feature_names"] == ("x0",)


CIRCLE = {"Acrobot-v1": [(0, 1), (2, 3)], "Pendulum-v1": [(0, 1)]}


@pytest.mark.parametrize(
    ("env_id", "names", "n_actions"),
    [
        ("MountainCar-v0", ("position", "velocity"), 3),
        (
            "Acrobot-v1",
            ("cos angle 1", "sin angle 1", "cos angle 2", "sin angle 2", "velocity 1", "velocity 2"),
            3,
        ),
        ("Pendulum-v1", ("cos angle", "sin angle", "angular velocity"), 2),
        ("Blackjack-v1", ("player sum", "dealer card", "usable ace"), 2),
    ],
)
def test_names_stand_for_what_is_observed(env_id, names, n_actions):
    env = Simulator(env_id, actions=[-2.0, 2.0])._source if env_id == "Pendulum-v1" else env_id
    described = describe(env)
    assert (described["feature_names"], described["n_actions"]) == (names, n_actions)
    states = GymnasiumStepper.start(env, np.arange(5)).states
    for cosine, sine in CIRCLE.get(env_id, []):
        assert names[cosine].startswith("cos")
        assert np.hypot(states[:, cosine], states[:, sine]) == pytest.approx(1.0, abs=1e-6)
    if env_id == "Blackjack-v1":
        assert ((states[:, 0] >= 4) & (states[:, 1] <= 10) & np.isin(states[:, 2], (0, 1))).all()


def test_comparing_policies_in_a_world_that_cannot_be_restored_names_every_way_that_failed():
    world = Simulator(WalkWithoutSeed, horizon=5)
    with pytest.raises(RestoreError, match=r"state: .*copy: .*replay: .*Hint: give it get_state") as caught:
        explain(world, lambda states: 0 * states[:, 0], lambda states: 1 + 0 * states[:, 0], starts=4)
    assert "\n" not in str(caught.value)
    assert evaluate(world, lambda states: 0 * states[:, 0], episodes=4).outcomes["return"].estimate < np.inf


def test_a_world_of_dictionaries_is_explained_by_the_names_of_their_parts():
    class Rooms(gymnasium.Env):
        """Two rooms; in the far one it matters which door is taken."""

        observation_space = spaces.Dict({"room": spaces.Discrete(2), "light": spaces.Box(0, 1, (1,))})
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.room = int(self.np_random.integers(2))
            return self._seen(), {}

        def step(self, action):
            return self._seen(), float(self.room and action), True, False, {}

        def _seen(self):
            return {"room": self.room, "light": self.np_random.random(1).astype(np.float32)}

    world = Simulator(Rooms, horizon=3)
    assert world.feature_names == ("light", "room")
    told = explain(world, lambda rows: 0 * rows[:, 0], lambda rows: rows[:, 1], starts=60)
    (region,) = told.regions
    assert region.rule.features == ("room",)
    assert (region.current, region.proposed) == ("action 0", "action 1")
    assert told.verdicts[0].direction == "more"


def test_combined_choices_become_actions_with_levels():
    class Knobs(Walk):
        action_space = spaces.MultiDiscrete([2, 3])

        def step(self, action):
            return np.array([10 * action[0] + action[1]], dtype=np.float32), 0.0, False, False, {}

    described = describe(Knobs)
    assert described["n_actions"] == 6
    assert described["actions"][5] == {"choice 0": 1, "choice 1": 2}
    stepper = GymnasiumStepper.start(Knobs, np.arange(6))
    assert stepper.step(np.arange(6), np.arange(6)).next_states.ravel().tolist() == [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize("start", [0, 5])
def test_action_indices_count_from_zero_whatever_the_environment_calls_them(start):
    class Shifted(Walk):
        action_space = spaces.Discrete(2, start=start)

        def step(self, action):
            assert self.action_space.contains(action)
            return super().step(action - start)

    step = GymnasiumStepper.start(Shifted, np.array([1])).step(np.array([1]), np.array([0]))
    plain = GymnasiumStepper.start(Walk, np.array([1])).step(np.array([1]), np.array([0]))
    assert np.array_equal(step.next_states, plain.next_states)


def test_levels_of_real_actions_are_what_the_environment_takes():
    world = Simulator("Pendulum-v1", actions=[-2.0, 0.0, 2.0])
    assert [action.name for action in world.actions] == ["torque -2", "torque 0", "torque 2"]
    found = world.stepper(1, (4,)).step(np.array([2]), np.array([0])).next_states
    by_itself = gymnasium.make("Pendulum-v1")
    by_itself.reset(seed=int(np.random.SeedSequence((4,)).generate_state(1)[0]))
    assert found[0] == pytest.approx(by_itself.step(np.array([2.0], dtype=np.float32))[0])
    with pytest.raises(InvalidWorldError, match="level 0 is"):
        Simulator("Pendulum-v1", actions=[-9.0, 9.0])


@pytest.mark.parametrize("origin", [3.5, object()])
def test_something_else_is_refused(origin):
    with pytest.raises(InvalidWorldError, match="expected a Gymnasium environment"):
        describe(origin)


def test_a_simulator_keeps_its_copies_between_batches():
    world = Simulator("CartPole-v1")
    first = world.stepper(4, (0,))
    envs = {id(run.env) for run in first._episodes}
    del first
    assert envs & {id(run.env) for run in world.stepper(4, (1,))._episodes}


class Errand(Walk):
    """A walk whose observations come with words."""

    observation_space = spaces.Dict({"place": Walk.observation_space, "mission": spaces.Text(20)})

    def observation(self):
        return {"place": super().observation(), "mission": "stay near"}


def test_words_in_an_observation_are_refused_with_a_way_out():
    with pytest.raises(InvalidWorldError, match=r"'mission'.*FilterObservation"):
        Simulator(Errand)
    world = Simulator(lambda: gymnasium.wrappers.FilterObservation(Errand(), ["place"]), horizon=5)
    assert world.feature_names == ("place",)
    assert evaluate(world, "always:action 1", episodes=2).outcomes["return"].estimate > -100


class OldStep(Walk):
    def step(self, action):
        return super().step(action)[:3]


class OldReset(Walk):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class OtherShape(Walk):
    def observation(self):
        return np.zeros(3)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (OldStep, "step must return 5 values, as in Gymnasium; OldStep returned 3 values. Hint: "),
        (OldReset, "reset must return 2 values, as in Gymnasium; OldReset returned ndarray. Hint: "),
        (OtherShape, "observation must be as the observation space says, 1 number; one of shape (3,) came. Hint: "),
    ],
)
def test_an_environment_that_returns_something_else_is_refused_in_one_line(env, said):
    with pytest.raises(InvalidWorldError) as refused:
        evaluate(Simulator(env), lambda seen: np.zeros(len(seen), dtype=int), episodes=3)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_error_of_a_policy_is_what_it_says_to_many_states():
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 1"):
        evaluate(Simulator(Walk), lambda seen: seen[:, 9], episodes=3)
