"""Torch modules and agents in the style of CleanRL."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.adapters
torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from polidiff import Discretised, as_policy  # noqa: E402
from polidiff.errors import InvalidPolicyError, UntrustedFileError  # noqa: E402
from polidiff.policies import top_actions  # noqa: E402

STATES = np.random.default_rng(0).normal(size=(1000, 4))


class Agent(nn.Module):
    """Shared body, so that the actor alone cannot take observations."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.actor = nn.Linear(8, 3)
        self.critic = nn.Linear(8, 1)

    def get_action_and_value(self, x, action=None):
        hidden = self.network(x)
        probs = torch.distributions.Categorical(logits=self.actor(hidden))
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action), probs.entropy(), self.critic(hidden)


def net(*, dropout=0.0, out=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, out))


def answer(module):
    module.eval()
    with torch.no_grad():
        return module(torch.as_tensor(STATES, dtype=torch.float32))


@pytest.mark.parametrize(
    ("output", "module", "expected"),
    [
        ("logits", net(), lambda module: torch.softmax(answer(module), 1)),
        (None, nn.Sequential(net(), nn.Softmax(dim=1)), answer),
        ("probabilities", nn.Sequential(net(), nn.Softmax(dim=1)), answer),
        ("values", net(), lambda module: nn.functional.one_hot(answer(module).argmax(1), 3)),
    ],
)
def test_a_module_is_read_as_told_single_and_batched(output, module, expected):
    policy = as_policy(module, output=output)
    assert policy.n_actions == 3
    assert policy.probabilities(STATES) == pytest.approx(expected(module).numpy(), abs=1e-6)
    singly = np.concatenate([policy.probabilities(STATES[i : i + 1]) for i in range(1000)])
    assert singly == pytest.approx(expected(module).numpy(), abs=1e-6)


def test_a_module_that_chooses_needs_the_number_of_actions():
    class Chooser(nn.Module):
        def forward(self, x):
            return (x[:, 0] > 0).long()

    policy = as_policy(Chooser(), output="action", n_actions=2)
    assert np.array_equal(top_actions(policy.probabilities(STATES)), (STATES[:, 0] > 0).astype(int))
    with pytest.raises(InvalidPolicyError, match="n_actions="):
        as_policy(Chooser(), output="action").probabilities(STATES)


def test_numbers_of_unknown_meaning_are_an_error_that_names_the_choices():
    with pytest.raises(InvalidPolicyError, match=r"output='logits'.*output='values'"):
        as_policy(net()).probabilities(STATES)
    with pytest.raises(InvalidPolicyError, match="output must be one of"):
        as_policy(net(), output="scores")


def test_dropout_is_off_while_asked_and_every_part_gets_its_mode_back():
    module = net(dropout=0.9)
    module.train()
    module[1].eval()
    policy = as_policy(module, output="logits")
    assert np.array_equal(policy.probabilities(STATES), policy.probabilities(STATES))
    assert (module.training, module[1].training, module[2].training) == (True, False, True)


def test_double_precision_and_no_gradient():
    module = net().double()
    table = as_policy(module, output="logits").probabilities(STATES)
    with torch.no_grad():
        expected = torch.softmax(module(torch.as_tensor(STATES)), 1)
    assert table == pytest.approx(expected.numpy(), abs=1e-12)
    assert all(parameter.grad is None for parameter in module.parameters())


def test_an_agent_gives_the_probabilities_of_its_distribution():
    torch.manual_seed(1)
    agent = Agent()
    with torch.no_grad():
        x = torch.as_tensor(STATES, dtype=torch.float32)
        expected = torch.softmax(agent.actor(agent.network(x)), 1).numpy()
    policy = as_policy(agent)
    assert policy.n_actions == 3
    assert policy.probabilities(STATES) == pytest.approx(expected, abs=1e-6)
    singly = np.concatenate([policy.probabilities(STATES[i : i + 1]) for i in range(len(STATES))])
    assert singly == pytest.approx(expected, abs=1e-6)


def test_an_agent_with_a_normal_distribution_is_refused():
    agent = Agent()
    agent.actor_mean, agent.actor_logstd = nn.Linear(4, 1), nn.Parameter(torch.zeros(1, 1))
    with pytest.raises(InvalidPolicyError, match="normal distribution"):
        as_policy(agent)
    levels = Discretised(agent.actor_mean, [-1.0, 0.0, 1.0])
    chosen = answer(agent.actor_mean).numpy()
    assert np.array_equal(top_actions(levels.probabilities(STATES)), np.abs(chosen - [[-1, 0, 1]]).argmin(axis=1))


def test_observations_of_another_width_are_refused():
    with pytest.raises(InvalidPolicyError, match=r"cannot take observations of shape \(5, 2\)"):
        as_policy(net(), output="logits").probabilities(np.zeros((5, 2)))


def test_a_module_file_needs_trust_and_weights_alone_are_no_policy(tmp_path):
    torch.save(net(), tmp_path / "module.pt")
    torch.save(net().state_dict(), tmp_path / "weights.pt")
    with pytest.raises(UntrustedFileError):
        as_policy(tmp_path / "module.pt", output="logits")
    loaded = as_policy(tmp_path / "module.pt", output="logits", trust=True)
    assert np.allclose(loaded.probabilities(STATES), as_policy(net(), output="logits").probabilities(STATES))
    with pytest.raises(InvalidPolicyError, match="weights only"):
        as_policy(tmp_path / "weights.pt", trust=True)
