"""Environments whose episodes are a few decisions: enough of them are followed to learn what differs."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff import Simulator, explain

gymnasium = pytest.importorskip("gymnasium")


class Cards(gymnasium.Env):
    """One decision on a card and a coin."""

    observation_space = gymnasium.spaces.Tuple((gymnasium.spaces.Discrete(12), gymnasium.spaces.Discrete(2)))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen = int(self.np_random.integers(12)), int(self.np_random.integers(2))
        return self.seen, {}

    def step(self, action):
        pays = self.seen[0] - 5 + 3 * self.seen[1] + self.np_random.normal(0, 2)
        return self.seen, float(action and pays), True, False, {}


class Shoves(gymnasium.Env):
    """Five shoves in a plane, each of two numbers."""

    observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.time = self.np_random.uniform(-2, 2, 2), 0
        return self.at.copy(), {}

    def step(self, action):
        self.at, self.time = self.at + 0.5 * action + self.np_random.normal(0, 0.1, 2), self.time + 1
        return self.at.copy(), -float(np.abs(self.at).sum()), False, self.time >= 5, {}


def test_of_one_decision_enough_are_followed_to_tell_a_rare_difference():
    told = explain(
        Simulator(Cards, feature_names=["card", "coin"]),
        lambda seen: (seen[:, 0] > 6).astype(int),
        lambda seen: (seen[:, 0] + 3 * seen[:, 1] > 5).astype(int),
        max_steps=20_000,
        seed=11,
    )
    assert told.quality.f1 == 1.0
    assert told.quality.intervals["f1"].low > 0.9


def test_what_is_said_to_be_done_more_or_less_is_true_in_every_region():
    def before(seen):
        return -0.2 * seen

    def after(seen):
        return -np.clip(seen, -1, 1) * np.array([1.0, 0.2])

    told = explain(Simulator(Shoves, feature_names=["x", "y"]), before, after, max_steps=5_000)
    places = np.random.default_rng(0).uniform(-2, 2, (5_000, 2))
    moved, left = after(places) - before(places), np.ones(len(places), dtype=bool)
    for region in told.regions:
        inside = left & region.rule.covers(places)
        left &= ~inside
        for j, name in enumerate(("action 0", "action 1")):
            for sign, word in ((1, "more"), (-1, "less")):
                if f"{word} {name}" in region.proposed:
                    assert (sign * moved[inside, j] >= 0).mean() > 0.95
