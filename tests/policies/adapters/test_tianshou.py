"""tianshou policies against their own actions."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.adapters
pytest.importorskip("tianshou")
torch = pytest.importorskip("torch")

import gymnasium  # noqa: E402
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy  # noqa: E402
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy  # noqa: E402
from tianshou.data import Batch  # noqa: E402
from tianshou.utils.net.common import Net  # noqa: E402
from tianshou.utils.net.discrete import DiscreteActor  # noqa: E402

from polidiff import as_policy  # noqa: E402
from polidiff.errors import InvalidPolicyError  # noqa: E402
from polidiff.policies import top_actions  # noqa: E402

STATES = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32)
SPACES = {
    "observation_space": gymnasium.spaces.Box(-np.inf, np.inf, (4,)),
    "action_space": gymnasium.spaces.Discrete(3),
}


def q_learner():
    torch.manual_seed(0)
    return DiscreteQLearningPolicy(model=Net(state_shape=4, action_shape=3, hidden_sizes=[16]), **SPACES)


def actor():
    torch.manual_seed(0)
    net = Net(state_shape=4, hidden_sizes=[16])
    return DiscreteActorPolicy(actor=DiscreteActor(preprocess_net=net, action_shape=3), **SPACES)


def test_the_action_is_the_one_the_library_computes_single_and_batched():
    learner = q_learner()
    learner.eval()
    policy = as_policy(learner)
    chosen = top_actions(policy.probabilities(STATES))
    assert policy.n_actions == 3
    assert np.array_equal(chosen, [learner.compute_action(state) for state in STATES])
    singly = np.concatenate([policy.probabilities(STATES[i : i + 1]) for i in range(1000)])
    assert np.array_equal(top_actions(singly), chosen)


def test_probabilities_are_those_of_the_distribution():
    made = actor()
    made.eval()
    with torch.no_grad():
        expected = made(Batch(obs=STATES, info={})).dist.probs.numpy()
    assert as_policy(made).probabilities(STATES) == pytest.approx(expected, abs=1e-6)
    singly = np.concatenate([as_policy(made).probabilities(STATES[i : i + 1]) for i in range(1000)])
    assert singly == pytest.approx(expected, abs=1e-6)


def test_an_algorithm_is_asked_for_its_policy():
    from tianshou.algorithm import Reinforce
    from tianshou.algorithm.optim import AdamOptimizerFactory

    made = actor()
    algorithm = Reinforce(policy=made, optim=AdamOptimizerFactory())
    assert np.array_equal(as_policy(algorithm).probabilities(STATES), as_policy(made).probabilities(STATES))


def test_observations_of_another_width_are_refused():
    with pytest.raises(InvalidPolicyError, match="expects observations of 4 numbers; the world's have 2"):
        as_policy(q_learner()).probabilities(STATES[:, :2])
