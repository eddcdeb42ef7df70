"""Small worlds with a known truth, and logs that they write."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff import Outcome, TabularMDP
from polidiff.worlds.log_converters import simulated_log


@pytest.fixture
def walk():
    """Four states in a row: action 1 steps on with chance 0.8, action 0 with 0.4; the last step pays 1."""
    moves = np.zeros((5, 2, 5))
    for state in range(4):
        for action, chance in enumerate((0.4, 0.8)):
            moves[state, action, state + 1] = chance
            moves[state, action, max(state - 1, 0)] += 0.9 - chance
            moves[state, action, 4] += 0.1
    start = np.array([0.5, 0.5, 0.0, 0.0, 0.0])
    paid = Outcome("paid", lambda s, a, n: (s == 3) & (n == 4), prefer="more", range=(0, 1), margin=0.01)
    length = Outcome("length", 1.0, prefer="less", range=(0, 60))
    return TabularMDP(moves, np.zeros((5, 2)), start, absorbing=[4], outcomes=(paid, length), include_return=False)


@pytest.fixture
def even():
    """Half of each action."""
    return np.full((5, 2), 0.5)


@pytest.fixture
def keen():
    """Action 1 nearly always."""
    return np.tile([0.1, 0.9], (5, 1))


@pytest.fixture
def walk_log(walk, even):
    """Four hundred episodes of the even policy."""
    return simulated_log(walk, even, 400, seed=3)
