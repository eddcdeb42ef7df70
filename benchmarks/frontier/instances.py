"""Problems to measure on: generators with a seed, and two published tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from polidiff.frontier.problem import FrontierProblem, build_problem
from polidiff.frontier.setting import prepare


def _problem(moves: Any, rewards: Any, base: Any, initial: Any) -> FrontierProblem:
    cost = (np.arange(rewards.shape[1])[None, :] != base[:, None]).astype(np.float64)
    return build_problem(moves, rewards, cost, initial, np.ones_like(cost, dtype=bool), base)


def random_sparse(n_states: int, n_actions: int, seed: int, starts: int | None = None) -> FrontierProblem:
    """Five random successors, 2–20 % of ending at every step; half of the current actions are the best of one step."""
    rng = np.random.default_rng(seed)
    count = n_states * n_actions
    share = rng.exponential(size=(count, 5))
    share *= (1.0 - rng.uniform(0.02, 0.2, size=count))[:, None] / share.sum(axis=1, keepdims=True)
    columns = rng.integers(0, n_states, size=(count, 5))
    moves = sparse.csr_matrix((share.ravel(), columns.ravel(), np.arange(0, 5 * count + 1, 5)), (count, n_states))
    moves.sum_duplicates()
    rewards = rng.normal(size=(n_states, n_actions))
    base = np.where(rng.random(n_states) < 0.5, rewards.argmax(axis=1), rng.integers(0, n_actions, n_states))
    initial = np.zeros(n_states)
    chosen = rng.choice(n_states, size=starts or max(1, n_states // 10), replace=False)
    initial[chosen] = 1.0 / len(chosen)
    return _problem(moves, rewards, base, initial)


def inventory(capacity: int, seed: int) -> FrontierProblem:
    """Stock 0…capacity, order up to four lots, Poisson demand, discount 0.95; the current rule orders when low."""
    rng = np.random.default_rng(seed)
    lots = np.array([0, 1, 2, 4]) * max(1, capacity // 10)
    mean = capacity / 8
    demand = np.arange(3 * int(mean) + 10)
    chance = np.exp(-mean + demand * np.log(mean) - np.cumsum(np.log(np.maximum(demand, 1))))
    chance /= chance.sum()
    moves = np.zeros(((capacity + 1) * 4, capacity + 1))
    rewards = np.zeros((capacity + 1, 4))
    for stock in range(capacity + 1):
        for a, lot in enumerate(lots):
            have = min(capacity, stock + lot)
            sold = np.minimum(have, demand)
            rewards[stock, a] = chance @ sold * 4 - 2.0 * lot - 0.1 * have - (3.0 if lot else 0.0)
            np.add.at(moves[stock * 4 + a], have - sold, 0.95 * chance)
    base = np.where(np.arange(capacity + 1) < capacity // 5, 3, rng.integers(0, 2, capacity + 1))
    return _problem(sparse.csr_matrix(moves), rewards, base, np.full(capacity + 1, 1.0 / (capacity + 1)))


def machine_replacement(ages: int, seed: int) -> FrontierProblem:
    """Wear 0…ages; run, service or replace; wear breaks down more often; discount 0.97; replaced by age today."""
    rng = np.random.default_rng(seed)
    moves = np.zeros((ages * 3, ages))
    rewards = np.zeros((ages, 3))
    wear = np.arange(ages) / ages
    for age in range(ages):
        for action, back in enumerate((0, ages // 4, ages)):
            level = max(0, age - back)
            breaks = 0.5 * wear[level] ** 2
            moves[age * 3 + action, min(ages - 1, level + 1)] += 0.97 * (0.7 * (1 - breaks))
            moves[age * 3 + action, min(ages - 1, level + 3)] += 0.97 * (0.3 * (1 - breaks))
            moves[age * 3 + action, 0] += 0.97 * breaks
            rewards[age, action] = 5.0 * (1 - breaks) - 12.0 * breaks - (0.0, 2.0, 6.0)[action] + 0.05 * rng.normal()
    base = np.where(np.arange(ages) > 0.9 * ages, 2, 0)
    return _problem(sparse.csr_matrix(moves), rewards, base, np.full(ages, 1.0 / ages))


def grid(side: int, seed: int) -> FrontierProblem:
    """A slippery grid with a goal in the far corner and costs per cell; today: right, then down."""
    rng = np.random.default_rng(seed)
    initial = np.zeros(side * side)
    initial[0] = 1.0
    return _grid(rng.uniform(0.2, 1.8, size=(side, side)), initial)


def slippery_grid(side: int, seed: int) -> FrontierProblem:
    """As `grid`, from three starts: the first corner, the middle of the first row and that of the first column."""
    rng = np.random.default_rng([5, side, seed])
    initial = np.zeros(side * side)
    initial[[0, side // 2, (side // 2) * side]] = 1 / 3
    return _grid(rng.uniform(0.3, 1.7, size=(side, side)), initial)


def _grid(cost: Any, initial: Any) -> FrontierProblem:
    """A step goes astray to either side with probability 0.1 each, and stays where a wall is in the way."""
    side, steps = len(cost), ((0, 1), (1, 0), (0, -1), (-1, 0))
    count = side * side
    moves = sparse.lil_matrix((count * 4, count))
    for row, column, action in np.ndindex(side, side, 4):
        for turn, chance in ((0, 0.8), (1, 0.1), (3, 0.1)):
            down, right = steps[(action + turn) % 4]
            r, c = min(max(row + down, 0), side - 1), min(max(column + right, 0), side - 1)
            if (r, c) != (side - 1, side - 1):
                moves[(row * side + column) * 4 + action, r * side + c] += chance
    rewards = np.repeat(-cost.reshape(-1, 1), 4, axis=1)
    base = np.where(np.arange(count) % side < side - 1, 0, 1)
    return _problem(moves.tocsr(), rewards, base, initial)


def frozen_lake() -> FrontierProblem:
    """FrozenLake 8x8, slippery, with the policy of its domain."""
    from polidiff.domains import frozen_lake as domain

    return prepare(domain.world(8), domain.current(8), None).problem


def icu_sepsis() -> FrontierProblem:
    """ICU-Sepsis with admissible actions; today: the clinicians' most frequent action."""
    from polidiff.domains import icu_sepsis as domain

    return prepare(domain.world(), domain.current(), None).problem
