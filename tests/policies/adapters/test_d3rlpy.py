"""d3rlpy algorithms against their own predictions."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.adapters
d3rlpy = pytest.importorskip("d3rlpy")

from polidiff import as_policy  # noqa: E402
from polidiff.errors import InvalidPolicyError, UntrustedFileError  # noqa: E402
from polidiff.policies import top_actions  # noqa: E402

STATES = np.random.default_rng(0).normal(size=(1000, 4))


def dataset(discrete=True):
    rng = np.random.default_rng(2)
    actions = rng.integers(3, size=200) if discrete else rng.normal(size=(200, 2)).astype(np.float32)
    return d3rlpy.dataset.MDPDataset(
        rng.normal(size=(200, 4)).astype(np.float32),
        actions,
        rng.normal(size=200),
        (np.arange(200) % 20 == 19).astype(float),
    )


@pytest.fixture(scope="module", params=["DQN", "DiscreteCQL", "DiscreteBC", "DiscreteBCQ"])
def algorithm(request):
    made = getattr(d3rlpy.algos, f"{request.param}Config")(batch_size=16).create(device=False)
    made.fit(
        dataset(),
        n_steps=20,
        n_steps_per_epoch=10,
        show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    )
    return made


def test_the_action_is_the_one_the_library_predicts_single_and_batched(algorithm):
    policy = as_policy(algorithm)
    expected = algorithm.predict(STATES.astype(np.float32))
    assert policy.n_actions == 3
    assert np.array_equal(top_actions(policy.probabilities(STATES)), expected)
    singly = np.concatenate([policy.probabilities(STATES[i : i + 1]) for i in range(1000)])
    assert np.array_equal(top_actions(singly), expected)


def test_an_archive_loads_with_trust_only(algorithm, tmp_path):
    path = tmp_path / "model.d3"
    algorithm.save(str(path))
    with pytest.raises(UntrustedFileError):
        as_policy(path)
    again = as_policy(path, trust=True)
    assert np.array_equal(again.probabilities(STATES), as_policy(algorithm).probabilities(STATES))


def test_observations_of_another_width_are_refused(algorithm):
    with pytest.raises(InvalidPolicyError, match="expects observations of 4 numbers"):
        as_policy(algorithm).probabilities(np.zeros((3, 2)))


def test_real_actions_are_refused():
    made = d3rlpy.algos.BCConfig(batch_size=16).create(device=False)
    made.fit(
        dataset(discrete=False),
        n_steps=2,
        n_steps_per_epoch=2,
        show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    )
    with pytest.raises(InvalidPolicyError, match="Discretised"):
        as_policy(made).probabilities(STATES)
