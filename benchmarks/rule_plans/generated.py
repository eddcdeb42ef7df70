"""Worlds made by a generator, never used while the search was written: are simpler ways ever better at equal K?

Three kinds. *Lakes*: a grid with holes, wind that differs by row, and a goal; row and column are features. *Clusters*:
a random process whose states lie in clusters of a feature space, so that rules can speak about it. *Tolls*: a grid
whose fields cost, with the cost's neighbourhood mean as a third feature. The current policy is a naive one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from polidiff.records.arrays import IntArray
from polidiff.worlds.tabular import TabularMDP

MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
NAMES = ("right", "down", "left", "up")
ENDING = 0.01


def lake(seed: int, side: int = 8) -> tuple[TabularMDP, IntArray]:
    """Random holes (a fifth of the fields, drawn until a way is left) and a slip of 0 to 0.5 by row."""
    rng = np.random.default_rng((seed, 1))
    holes = np.ones(side * side, dtype=bool)
    while not _passable(holes, side):
        holes = rng.random(side * side) < 0.2
        holes[[0, -1]] = False
    return _grid(side, rng.uniform(0, 0.5, size=side), holes, np.zeros(side * side), None)


def tolls(seed: int, side: int = 9) -> tuple[TabularMDP, IntArray]:
    """Fields that cost up to 1, a few of them much more."""
    rng = np.random.default_rng((seed, 2))
    cost = rng.random(side * side) * 0.2 + (rng.random(side * side) < 0.25)
    near = np.array([np.mean([cost[s] for s in _near(k, side)]) for k in range(side * side)])
    return _grid(side, np.full(side, 0.2), np.zeros(side * side, dtype=bool), cost, np.round(near, 1))


def clusters(seed: int, size: int = 150, features: int = 4) -> tuple[TabularMDP, IntArray]:
    """States in ten clusters of a feature space; what an action does is alike within a cluster."""
    rng = np.random.default_rng((seed, 3))
    centres = rng.normal(size=(10, features))
    cluster = rng.integers(0, 10, size=size)
    x = np.round(centres[cluster] + 0.4 * rng.normal(size=(size, features)), 1)
    n_actions = 4
    leads = rng.dirichlet(np.full(10, 0.3), size=(10, n_actions))
    gains = rng.normal(size=(10, n_actions))
    transitions = np.zeros((size + 1, n_actions, size + 1))
    for state in range(size):
        for action in range(n_actions):
            to = rng.choice(size, size=6, replace=False)
            weight = leads[cluster[state], action][cluster[to]] + 1e-3
            transitions[state, action, to] = 0.9 * weight / weight.sum()
            transitions[state, action, size] = 0.1
    transitions[size, :, size] = 1.0
    rewards = np.vstack([gains[cluster] + 0.3 * rng.normal(size=(size, n_actions)), np.zeros(n_actions)])
    world = TabularMDP(
        transitions, rewards, np.append(np.full(size, 1 / size), 0.0), absorbing=[size],
        features=np.vstack([x, x[:1]]), feature_names=[f"x{j}" for j in range(features)],
    )  # fmt: skip
    return world, rng.integers(0, n_actions, size=size + 1)


KINDS: dict[str, Callable[[int], tuple[TabularMDP, IntArray]]] = {"lakes": lake, "tolls": tolls, "clusters": clusters}


def _grid(
    side: int, slip: np.ndarray, holes: np.ndarray, cost: np.ndarray, more: np.ndarray | None
) -> tuple[TabularMDP, IntArray]:
    """Right, down, left, up on a grid; the last field is the goal (1), holes end the episode, every step may."""
    n = side * side
    transitions = np.zeros((n + 1, 4, n + 1))
    rewards, prize = np.zeros((n + 1, 4)), 1 + 2 * cost.sum() / side
    for state in range(n):
        row, column = divmod(state, side)
        for action in range(4):
            for turn, chance in ((0, 1 - slip[row]), (1, slip[row] / 2), (-1, slip[row] / 2)):
                down, right = MOVES[(action + turn) % 4]
                to = min(max(row + down, 0), side - 1) * side + min(max(column + right, 0), side - 1)
                ends = holes[to] or to == n - 1
                transitions[state, action, n if ends else to] += (1 - ENDING) * chance
                rewards[state, action] += (1 - ENDING) * chance * ((to == n - 1) * prize - cost[to])
            transitions[state, action, n] += ENDING
    transitions[n, :, n] = 1.0
    rows, columns = np.divmod(np.append(np.arange(n), 0), side)
    features = [rows, columns] if more is None else [rows, columns, np.append(more, 0.0)]
    names = ["row", "column", "cost around"][: len(features)]
    world = TabularMDP(
        transitions, rewards, np.eye(n + 1)[0], absorbing=[n], actions=list(NAMES), features=np.stack(features, axis=1),
        feature_names=names,
    )  # fmt: skip
    return world, np.where(columns < side - 1, 0, 1)


def _passable(holes: np.ndarray, side: int) -> bool:
    """Whether the last field can be reached from the first."""
    met, front = {0}, [0] if not holes[0] else []
    while front:
        row, column = divmod(front.pop(), side)
        for down, right in MOVES:
            to = (row + down) * side + column + right
            if 0 <= row + down < side and 0 <= column + right < side and not holes[to] and to not in met:
                met.add(to)
                front.append(to)
    return side * side - 1 in met


def _near(state: int, side: int) -> list[int]:
    row, column = divmod(state, side)
    return [
        r * side + c
        for r in range(max(0, row - 1), min(side, row + 2))
        for c in range(max(0, column - 1), min(side, column + 2))
    ]
