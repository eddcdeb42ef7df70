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
    wage: float = 0.0  # of every decision, whatever is done
    n_actions: int = 2

    @property
    def feature_names(self):
        return [f"f{j}" for j in range(self.width)]

    def best(self, states):
        return np.all([(states[:, j] >= low) & (states[:, j] < high) for j, low, high in self.box], axis=0).astype(int)

    def reset(self, count, rng):
        return rng.random((count, self.width))

    def step(self, states, actions, rng):
        effect = actions * np.where(self.best(states) == 1, 1.0, -self.cost)
        paid = self.wage + effect + rng.normal(0, self.luck, len(states))
        moved = np.clip(states + rng.normal(0, 0.15, states.shape), 0, 1)
        return moved, paid, np.zeros(len(states), dtype=bool)


WORLDS = {
    "one decision, a strip of 3 % among five features": Planted(5, ((2, 0.4, 0.43),), 1, 0.3, luck=0.5),
    "ten decisions, a corner": Planted(3, ((0, 0.7, 2.0), (2, -1.0, 0.3)), 10, 0.3),
    "forty decisions, a box in the middle": Planted(4, ((0, 0.4, 0.6), (3, 0.4, 0.6)), 40, 0.5),
    "forty decisions, eight features": Planted(8, ((5, 0.8, 2.0), (1, -1.0, 0.5)), 40, 0.5),
    "two hundred decisions, each paid": Planted(3, ((0, 0.7, 2.0), (1, -1.0, 0.3)), 200, 1.0, wage=5.0),
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
    nothing, slack = model.wage * model.horizon, (reached.high - reached.low) / 2
    gained = reached.estimate - nothing
    assert gained >= 0.9 * (top.estimate - nothing)
    assert best.gain.low - slack <= gained <= best.gain.high + slack


class Valley:
    """A weak car between two hills: it must swing back to get out on the right; every step costs 1."""

    n_actions, feature_names, horizon = 3, ("place", "speed"), 200

    def reset(self, count, rng):
        return np.stack([rng.uniform(-0.6, -0.4, count), np.zeros(count)], axis=1)

    def step(self, states, actions, rng):
        place, speed = states.T
        speed = np.clip(speed + 0.001 * (actions - 1) - 0.0025 * np.cos(3 * place), -0.07, 0.07)
        moved = np.clip(place + speed, -1.2, 0.6)
        speed = np.where((moved == -1.2) & (speed < 0), 0.0, speed)
        return np.stack([moved, speed], axis=1), np.full(len(states), -1.0), moved >= 0.5


def test_a_rule_of_one_condition_is_found_where_few_changed_decisions_show_nothing():
    """No episode of the current policy gets out, nor one that changes a few decisions: only the whole rule pays."""
    world = Simulator(Valley())
    best = improve(world, lambda states: np.full(len(states), 2), max_rules=1).best
    swings = evaluate(world, lambda states: np.where(states[:, 1] < 0, 0, 2), episodes=2_000, seed=99)
    reached = evaluate(world, best.policy, episodes=2_000, seed=99)
    gain, top = (200 + value.outcomes["return"].estimate for value in (reached, swings))
    assert gain >= 0.9 * top > 60
    assert abs(best.gain.estimate - gain) < 3


@pytest.mark.slow
def test_a_way_that_pays_only_when_all_of_it_is_taken_is_found():
    """The way along the cliff saves four steps; leaving it half-way saves none."""
    current = np.select([np.arange(48) % 12 == 11, np.arange(48) < 12], [2, 1], 0)
    assert improve(Simulator("CliffWalking-v1"), current, max_rules=2).best.expected_return == -13
