"""Environments of mo-gymnasium: each part of the reward is an outcome."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff import Outcome, Simulator, evaluate

mo_gymnasium = pytest.importorskip("mo_gymnasium")


@pytest.mark.filterwarnings("ignore:.*precision lowered:UserWarning")
def test_the_parts_of_a_vector_reward_add_up_to_what_the_environment_pays():
    world = Simulator(
        lambda: mo_gymnasium.make("deep-sea-treasure-v0"),
        horizon=50,
        outcomes=[Outcome("treasure", "reward:0"), Outcome("time", "reward:1")],
    )

    def out_then_down(observations):
        return np.where(np.atleast_2d(observations)[:, 1] < 4, 3, 1)

    found = evaluate(world, out_then_down, episodes=3).outcomes
    env = mo_gymnasium.make("deep-sea-treasure-v0")
    observation, _ = env.reset(seed=0)
    paid, over = np.zeros(2), False
    while not over:
        observation, reward, over, _, _ = env.step(int(out_then_down(observation)[0]))
        paid += reward
    assert found["treasure"].estimate == pytest.approx(paid[0])
    assert found["time"].estimate == pytest.approx(paid[1])
    assert found["return"].estimate == pytest.approx(paid.sum())
