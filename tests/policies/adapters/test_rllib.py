"""RLlib modules (new stack) against their own inference."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.adapters
pytest.importorskip("ray.rllib")
torch = pytest.importorskip("torch")

import gymnasium  # noqa: E402
from ray.rllib.algorithms.ppo.torch.ppo_torch_rl_module import PPOTorchRLModule  # noqa: E402
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig  # noqa: E402
from ray.rllib.core.rl_module.rl_module import RLModuleSpec  # noqa: E402

from polidiff import as_policy  # noqa: E402
from polidiff.errors import InvalidPolicyError  # noqa: E402
from polidiff.policies import top_actions  # noqa: E402

STATES = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32)


def module(action_space):
    from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog

    spec = RLModuleSpec(
        module_class=PPOTorchRLModule,
        observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32),
        action_space=action_space,
        model_config=DefaultModelConfig(fcnet_hiddens=[16]),
        catalog_class=PPOCatalog,
        inference_only=True,
    )
    return spec.build()


def test_probabilities_are_those_of_the_librarys_distribution_single_and_batched():
    made = module(gymnasium.spaces.Discrete(3))
    with torch.no_grad():
        answer = made.forward_inference({"obs": torch.as_tensor(STATES)})
    distribution = made.get_inference_action_dist_cls().from_logits(answer["action_dist_inputs"])
    policy = as_policy(made)
    table = policy.probabilities(STATES)
    assert policy.n_actions == 3
    logs = np.stack([distribution.logp(torch.full((1000,), a)).numpy() for a in range(3)], axis=1)
    assert table == pytest.approx(np.exp(logs), abs=1e-5)
    assert np.array_equal(top_actions(table), distribution.to_deterministic().sample().numpy())
    singly = np.concatenate([policy.probabilities(STATES[i : i + 1]) for i in range(1000)])
    assert singly == pytest.approx(table, abs=1e-6)


def test_an_algorithm_is_asked_for_its_module():
    from ray.rllib.algorithms.algorithm import Algorithm

    made = module(gymnasium.spaces.Discrete(3))
    algorithm = Algorithm.__new__(Algorithm)  # without the workers that a whole one starts
    algorithm.get_module = lambda: made
    assert np.array_equal(as_policy(algorithm).probabilities(STATES), as_policy(made).probabilities(STATES))


def test_observations_of_another_width_are_refused():
    with pytest.raises(InvalidPolicyError, match="expects observations of 4 numbers; the world's have 2"):
        as_policy(module(gymnasium.spaces.Discrete(3))).probabilities(STATES[:, :2])


def test_real_actions_are_refused():
    with pytest.raises(InvalidPolicyError, match="Discretised"):
        as_policy(module(gymnasium.spaces.Box(-1, 1, (2,))))
