"""A current policy that draws its actions is told as one that does."""

import numpy as np
import pytest

from polidiff import TabularMDP, explain
from polidiff.explanation.words import swap_text
from polidiff.report.answers import when


def one_decision(current):
    """Three actions, of which the proposed policy takes the last."""
    moves = np.zeros((2, 3, 2))
    moves[:, :, 1] = 1.0
    table = TabularMDP(moves, [[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]], [1, 0], absorbing=[False, True], actions=list("ABD"))
    return explain(table, np.array([current, [1.0, 0.0, 0.0]]), np.array([2, 0]))


@pytest.mark.parametrize(
    ("current", "told"),
    [
        ([1.0, 0.0, 0.0], "D instead of A"),
        ([0.95, 0.05, 0.0], "D instead of A"),
        ([0.34, 0.33, 0.33], "D (33 % → 100 %) instead of A (34 % → 0 %)"),
        ([0.6, 0.4, 0.0], "D (0 % → 100 %) instead of A (60 % → 0 %)"),
    ],
)
def test_how_often_it_was_done_is_told_where_it_was_done_at_times(current, told):
    (region,) = one_decision(current).regions
    assert swap_text(region) == told


def test_every_action_of_the_mix_is_answered():
    answer = when(one_decision([0.34, 0.33, 0.33]), "B")
    assert "no longer (33 % → 0 %)" in answer
    assert "log" not in answer
