"""Stable-Baselines3 models, trained for a few steps, against their own predictions."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.adapters
torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")
gymnasium = pytest.importorskip("gymnasium")

from polidiff import Discretised, Simulator, as_policy  # noqa: E402
from polidiff.errors import InvalidPolicyError, UntrustedFileError  # noqa: E402
from polidiff.policies import choose, top_actions  # noqa: E402
from polidiff.worlds.rollouts import roll_out  # noqa: E402

STATES = np.random.default_rng(0).normal(size=(1000, 4))


def trained(name, env="CartPole-v1", policy="MlpPolicy", **options):
    short = {"PPO": {"n_steps": 64, "n_epochs": 1}, "A2C": {"n_steps": 8}, "DQN": {"learning_starts": 10}}
    model = getattr(sb3, name)(policy, env, seed=1, device="cpu", **short.get(name, {}), **options)
    return model.learn(128)


@pytest.fixture(scope="module", params=["PPO", "A2C", "DQN"])
def model(request):
    return trained(request.param)


def test_the_top_action_is_the_one_the_library_predicts_single_and_batched(model):
    policy = as_policy(model)
    expected, _ = model.predict(STATES.astype(np.float32), deterministic=True)
    assert np.array_equal(top_actions(policy.probabilities(STATES)), expected)
    singly = np.concatenate([policy.probabilities(STATES[i : i + 1]) for i in range(1000)])
    assert np.array_equal(top_actions(singly), expected)


def test_probabilities_are_those_of_the_library():
    model = trained("PPO")
    tensor, _ = model.policy.obs_to_tensor(STATES.astype(np.float32))
    with torch.no_grad():
        expected = model.policy.get_distribution(tensor).distribution.probs.numpy()
    assert as_policy(model).probabilities(STATES) == pytest.approx(expected, abs=1e-6)


def test_the_model_is_left_as_it_was_and_no_gradient_is_kept(model):
    before = {key: value.clone() for key, value in model.policy.state_dict().items()}
    as_policy(model).probabilities(STATES)
    assert all(torch.equal(before[key], value) for key, value in model.policy.state_dict().items())
    assert all(parameter.grad is None or not parameter.grad.requires_grad for parameter in model.policy.parameters())


def test_an_archive_loads_with_trust_only_and_acts_the_same(model, tmp_path):
    path = tmp_path / "model.zip"
    model.save(path)
    with pytest.raises(UntrustedFileError, match="trust=True"):
        as_policy(path)
    again = as_policy(path, trust=True)
    assert np.allclose(again.probabilities(STATES), as_policy(model).probabilities(STATES))


def test_discrete_observations_are_indices():
    model = trained("PPO", "FrozenLake-v1")
    states = np.arange(16)
    expected, _ = model.predict(states, deterministic=True)
    assert np.array_equal(top_actions(as_policy(model).probabilities(states)), expected)


def test_combined_choices_have_the_probability_of_all_parts():
    class Knobs(gymnasium.Env):
        action_space = gymnasium.spaces.MultiDiscrete([2, 3])
        observation_space = gymnasium.spaces.Box(-1, 1, (4,))

        def reset(self, *, seed=None, options=None):
            return np.zeros(4, dtype=np.float32), {}

        def step(self, action):
            return np.zeros(4, dtype=np.float32), 0.0, False, True, {}

    model = trained("PPO", Knobs())
    table = as_policy(model).probabilities(STATES)
    assert table.shape == (1000, 6)
    tensor, _ = model.policy.obs_to_tensor(STATES.astype(np.float32))
    with torch.no_grad():
        first, second = (part.probs.numpy() for part in model.policy.get_distribution(tensor).distribution)
    assert table.reshape(-1, 2, 3).sum(axis=2) == pytest.approx(first, abs=1e-6)
    assert table.reshape(-1, 2, 3).sum(axis=1) == pytest.approx(second, abs=1e-6)


def test_dictionary_observations_are_put_together_again():
    class Parts(gymnasium.Env):
        action_space = gymnasium.spaces.Discrete(2)
        observation_space = gymnasium.spaces.Dict(
            {"a": gymnasium.spaces.Box(-1, 1, (3,)), "b": gymnasium.spaces.Box(-1, 1, (1,))}
        )

        def reset(self, *, seed=None, options=None):
            return {"a": np.zeros(3, dtype=np.float32), "b": np.zeros(1, dtype=np.float32)}, {}

        def step(self, action):
            return self.reset()[0], 0.0, False, True, {}

    model = trained("PPO", Parts(), policy="MultiInputPolicy")
    whole = {"a": STATES[:, :3].astype(np.float32), "b": STATES[:, 3:].astype(np.float32)}
    expected, _ = model.predict(whole, deterministic=True)
    assert np.array_equal(top_actions(as_policy(model).probabilities(STATES)), expected)


def test_observations_of_another_environment_are_refused(model):
    with pytest.raises(InvalidPolicyError, match="expects observations of 4 numbers; the world's have 2"):
        as_policy(model).probabilities(np.zeros((5, 2)))
    with pytest.raises(InvalidPolicyError, match="the world has 3 actions; the policy has 2"):
        as_policy(model, n_actions=3)


def test_real_actions_are_refused_and_levels_offered():
    model = trained("A2C", "Pendulum-v1")
    with pytest.raises(InvalidPolicyError, match=r"1 real numbers.*Discretised\(policy, bins\)"):
        as_policy(model)
    states = np.random.default_rng(1).normal(size=(1000, 3))
    policy = Discretised(model, 5)
    assert policy.bins.ravel().tolist() == [-2, -1, 0, 1, 2]
    chosen, _ = model.predict(states.astype(np.float32), deterministic=True)
    nearest = np.abs(chosen - policy.bins.ravel()).argmin(axis=1)
    assert np.array_equal(top_actions(as_policy(policy).probabilities(states)), nearest)


def test_episodes_are_those_the_library_plays(model):
    """Greedy, so that the only luck is the environment's."""
    world, policy = Simulator("CartPole-v1"), as_policy(model, greedy=True)
    played = roll_out(world, policy, episodes=6, seed=(3,))
    seeds = np.random.SeedSequence((3, 0)).generate_state(6)
    env = gymnasium.make("CartPole-v1")
    for episode, seed in enumerate(seeds):
        observation, _ = env.reset(seed=int(seed))
        length, over = 0, False
        while not over:
            action, _ = model.predict(observation, deterministic=True)
            observation, _, terminated, truncated, _ = env.step(int(action))
            length, over = length + 1, terminated or truncated
        assert played.lengths[episode] == length


def test_sampled_actions_follow_the_probabilities():
    policy = as_policy(trained("PPO"))
    state = np.repeat(STATES[:1], 20_000, axis=0)
    luck = np.random.default_rng(0).random(len(state))
    share = choose(policy, state, lambda: luck).mean()
    assert share == pytest.approx(policy.probabilities(STATES[:1])[0, 1], abs=0.02)


def test_statistics_beside_an_archive_normalise_what_the_model_sees(tmp_path):
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make("CartPole-v1")]))
    model = sb3.PPO("MlpPolicy", env, n_steps=64, n_epochs=1, seed=1, device="cpu").learn(128)
    expected, _ = model.predict(env.normalize_obs(STATES.astype(np.float32)), deterministic=True)
    path = tmp_path / "model.zip"
    model.save(path)
    with pytest.raises(InvalidPolicyError, match=r"normalised observations.*NAME\.pkl or vecnormalize\.pkl"):
        as_policy(path, trust=True)
    env.save(tmp_path / "model.pkl")
    for policy in (as_policy(path, trust=True), as_policy(model)):
        assert np.array_equal(top_actions(policy.probabilities(STATES)), expected)


def test_a_stack_of_frames_is_named_and_the_hint_works():
    from gymnasium.wrappers import FrameStackObservation
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

    env = VecFrameStack(DummyVecEnv([lambda: gymnasium.make("CartPole-v1")]), 4)
    model = sb3.PPO("MlpPolicy", env, n_steps=64, n_epochs=1, seed=1, device="cpu").learn(128)
    with pytest.raises(InvalidPolicyError, match=r"if it was trained on 4 frames, .*padding_type='zero'"):
        as_policy(model).probabilities(STATES)
    stacked = Simulator(lambda: FrameStackObservation(gymnasium.make("CartPole-v1"), 4, padding_type="zero"))
    seen = roll_out(stacked, as_policy(model, greedy=True), episodes=1, seed=(0,), record=True).visits.states
    assert np.array_equal(seen[0, :12], np.zeros(12))  # the newest frame comes last, as in the library's own stack
    assert np.array_equal(seen[1, 8:12], seen[0, 12:])


def test_a_recurrent_archive_is_refused_with_a_way_out(tmp_path):
    contrib = pytest.importorskip("sb3_contrib")
    path = tmp_path / "memory.zip"
    contrib.RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=16, device="cpu").save(path)
    with pytest.raises(InvalidPolicyError, match=r"remembers what it saw before.*Hint: train on a stack"):
        as_policy(path, trust=True)


@pytest.mark.parametrize("name", ["TRPO", "QRDQN"])
def test_archives_of_the_contributed_algorithms_act_as_they_did(name, tmp_path):
    contrib = pytest.importorskip("sb3_contrib")
    model = getattr(contrib, name)("MlpPolicy", "CartPole-v1", device="cpu", seed=1)
    model.save(tmp_path / "model.zip")
    expected, _ = model.predict(STATES.astype(np.float32), deterministic=True)
    policy = as_policy(tmp_path / "model.zip", trust=True)
    assert np.array_equal(top_actions(policy.probabilities(STATES)), expected)
