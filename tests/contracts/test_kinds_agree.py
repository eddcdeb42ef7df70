"""One process, three kinds of world: a table, the same table as a simulator, and a log drawn from it must agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from polidiff import Simulator, TabularMDP, evaluate, explain, improve
from polidiff.policies import TablePolicy, one_hot
from polidiff.worlds.log_converters import simulated_log
from tests.strategies import random_arrays

LEVEL = 0.999  # so that a dozen comparisons of each test hold together
SEEDS = (1, 2, 3, 5, 8, 13)


@dataclass(frozen=True)
class Played:
    """The table as a vectorised model that observes the number of the state."""

    table: TabularMDP

    @property
    def n_actions(self) -> int:
        return self.table.n_actions

    @property
    def horizon(self) -> int:
        return 300  # every decision ends the episode with probability 0.1 at least: 0.9 ** 300 < 1e-13

    def reset(self, count: int, rng: np.random.Generator) -> np.ndarray:
        return rng.choice(self.table.n_states, size=count, p=self.table.initial)[:, None].astype(float)

    def step(self, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        here = states[:, 0].astype(int)
        chances = self.table.transitions[here * self.n_actions + actions].toarray()
        after = (np.cumsum(chances, axis=1) < rng.random(len(here))[:, None]).sum(axis=1)
        after = np.minimum(after, self.table.n_states - 1)
        return after[:, None].astype(float), self.table.rewards[here, actions], self.table.absorbing[after]


@dataclass(frozen=True)
class Observing:
    """A policy table (S, A) that sees the number of the state as an observation (n, 1)."""

    table: np.ndarray

    @property
    def n_actions(self) -> int:
        return self.table.shape[1]

    def probabilities(self, states: np.ndarray) -> np.ndarray:
        return self.table[np.asarray(states).reshape(len(states)).astype(int)]


def task(seed: int) -> tuple[TabularMDP, np.ndarray, np.ndarray]:
    """A table whose feature is the number of the state, and two deterministic policies (S, A)."""
    arrays = random_arrays(seed)
    size = len(arrays["initial"])
    world = TabularMDP(**arrays, features=np.arange(size, dtype=float)[:, None], feature_names=["number"])
    rng = np.random.default_rng(seed)
    tables = [one_hot(rng.integers(0, world.n_actions, size), world.n_actions) for _ in range(2)]
    return world, tables[0], tables[1]


def exact_return(world: TabularMDP, table: np.ndarray) -> float:
    return evaluate(world, table).outcomes["return"].estimate


@pytest.mark.parametrize("seed", SEEDS)
def test_the_difference_of_two_policies_is_the_same_in_every_kind_of_world(seed: int) -> None:
    world, current, proposed = task(seed)
    truth = exact_return(world, proposed) - exact_return(world, current)
    simulator = Simulator(Played(world), feature_names=["number"])
    played = explain(simulator, Observing(current), Observing(proposed), level=LEVEL).verdicts[0].difference
    logging = 0.5 * current + 0.5 * np.full_like(current, 1 / world.n_actions)
    log = simulated_log(world, logging, 4_000, seed=seed)
    logged = explain(log, current, proposed, level=LEVEL).verdicts[0].difference
    assert explain(world, current, proposed).verdicts[0].difference.estimate == pytest.approx(truth)
    for interval in (played, logged):
        assert interval.low - 1e-9 <= truth <= interval.high + 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_brings_what_it_promises_wherever_it_was_made(seed: int) -> None:
    world, current, proposed = task(seed)
    simulator = Simulator(Played(world), feature_names=["number"])
    for plan in improve(world, current, [proposed]):
        assert exact_return(world, plan.policy.probabilities(np.arange(world.n_states))) == pytest.approx(
            plan.expected_return
        )
    if (current == proposed).all():
        return
    plans = improve(simulator, Observing(current), [Observing(proposed)], level=LEVEL)
    numbers = np.arange(world.n_states, dtype=float)[:, None]
    for plan in plans:
        interval = plan.outcomes["return"]
        truth = exact_return(world, TablePolicy(plan.policy.probabilities(numbers)))
        assert interval.low - 1e-9 <= truth <= interval.high + 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_the_gain_of_a_plan_from_a_log_holds_in_the_table_that_wrote_it(seed: int) -> None:
    world, current, _ = task(seed)
    logging = 0.5 * current + 0.5 * np.full_like(current, 1 / world.n_actions)
    log = simulated_log(world, logging, 4_000, seed=seed)
    states = np.arange(world.n_states)
    base = exact_return(world, current)
    for plan in improve(log, current, level=LEVEL):
        if plan.gain is None or not plan.patch.edits:
            continue
        gain = exact_return(world, plan.patch.apply(TablePolicy(current)).probabilities(states)) - base
        assert plan.gain.low - 1e-9 <= gain <= plan.gain.high + 1e-9
