"""Worlds whose best rule is known: it is found, and what it gains is what episodes bring."""

from dataclasses import dataclass

import numpy as np
import pytest

from polidiff import Simulator, evaluate, improve


@dataclass
class Planted:
    """Features in the unit cube drift at random; acting pays 1 where the rule holds, and costs elsewhere."""

    width: int
    box: tuple[tuple[int, float, float], ...]  # feature, from, below
    horizon: int
    cost: float
    luck: float = 1.0
    n_actions: int = 2

    @property
    def feature_names(self):
        return [f"f{j}" for j in range(self.width)]

    def best(self, states):
        return np.all([(states[:, j] >= low) & (states[:, j] < high) for j, low, high in self.box], axis=0).astype(int)

    def reset(self, count, rng):
        return rng.random((count, self.width))

    def step(self, states, actions, rng):
        paid = actions * np.where(self.best(states) == 1, 1.0, -self.cost) + rng.normal(0, self.luck, len(states))
        moved = np.clip(states + rng.normal(0, 0.15, states.shape), 0, 1)
        return moved, paid, np.zeros(len(states), dtype=bool)


WORLDS = {
    "one decision, a strip of 3 % among five features": Planted(5, ((2, 0.4, 0.43),), 1, 0.3, luck=0.5),
    "ten decisions, a corner": Planted(3, ((0, 0.7, 2.0), (2, -1.0, 0.3)), 10, 0.3),
    "forty decisions, a box in the middle": Planted(4, ((0, 0.4, 0.6), (3, 0.4, 0.6)), 40, 0.5),
    "forty decisions, eight features": Planted(8, ((5, 0.8, 2.0), (1, -1.0, 0.5)), 40, 0.5),
}


def never(states):
    return np.zeros(len(states), dtype=int)


@pytest.mark.parametrize("name", WORLDS)
def test_the_rule_is_found_and_its_gain_is_what_it_brings(name):
    model = WORLDS[name]
    world = Simulator(model)
    best = improve(world, never, max_rules=1, seed=1).best
    reached, top = (
        evaluate(world, policy, episodes=20_000, seed=99).outcomes["return"] for policy in (best.policy, model.best)
    )
    assert reached.estimate >= 0.9 * top.estimate, "acting nowhere brings 0"
    slack = (reached.high - reached.low) / 2
    assert best.gain.low - slack <= reached.estimate <= best.gain.high + slack
