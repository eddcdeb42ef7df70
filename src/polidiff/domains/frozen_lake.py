"""FrozenLake with row and column as features: cross a frozen lake without falling into a hole.

The ice is slippery: a step goes the intended way or to one of the two sides, each with probability 1/3, and stays in
place at an edge. Holes and the goal end the episode; reaching the goal pays 1. Maps and rules are those published with
Gymnasium's FrozenLake-v1.
"""

from __future__ import annotations

import numpy as np

from polidiff.records.arrays import IntArray
from polidiff.worlds.tabular import TabularMDP

MAPS = {
    4: ("SFFF", "FHFH", "FFFH", "HFFG"),
    8: ("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"),
}
STEPS = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}  # in the published order of actions


def world(size: int = 8, *, slippery: bool = True) -> TabularMDP:
    """The lake as a table.

    >>> world(4).n_states, world(4).feature_names
    (16, ('row', 'column'))
    """
    cells = np.array([list(line) for line in MAPS[size]])
    ends = np.isin(cells, ["H", "G"]).ravel()
    transitions = np.zeros((size * size, 4, size * size))
    moves = list(STEPS.values())
    for state in range(size * size):
        for action in range(4):
            for turn in (-1, 0, 1) if slippery else (0,):
                arrival = _arrival(state, moves[(action + turn) % 4], size)
                transitions[state, action, arrival] += 1 / 3 if slippery else 1.0
    goal = (cells == "G").ravel()
    features = np.stack(np.divmod(np.arange(size * size), size), axis=1)
    return TabularMDP(
        transitions,
        transitions @ goal,
        (cells == "S").ravel().astype(np.float64),
        absorbing=ends,
        actions=list(STEPS),
        features=features,
        feature_names=["row", "column"],
    )


def current(size: int = 8) -> IntArray:
    """Right until the last column, then down."""
    column = np.arange(size * size) % size
    names = list(STEPS)
    return np.where(column < size - 1, names.index("right"), names.index("down"))


def _arrival(state: int, step: tuple[int, int], size: int) -> int:
    row, column = divmod(state, size)
    row, column = (min(max(x + by, 0), size - 1) for x, by in zip((row, column), step, strict=True))
    return row * size + column
