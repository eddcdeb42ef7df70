"""Tables whose episodes are nearly endless: told in seconds, without differences that are only rounding."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff import TabularMDP, explain, improve
from polidiff.errors import InvalidWorldError
from polidiff.journeys import table


def nearly_endless(leak: float) -> TabularMDP:
    """Two states that pay 1 a decision and end alike, whatever is done: policies differ in nothing that counts."""
    moves = np.zeros((3, 2, 3))
    moves[:2, :, 2], moves[2, :, 2] = leak, 1.0
    moves[0, 0, 0] = moves[0, 1, 1] = 1 - leak
    moves[1, :, 0] = 1 - leak
    return TabularMDP(moves, np.ones((3, 2)), [0.5, 0.5, 0], absorbing=[2])


@pytest.fixture(autouse=True)
def left_early(monkeypatch):
    monkeypatch.setattr(table, "LONGEST", 600)


@pytest.mark.parametrize("leak", [1e-1, 1e-6, 1e-9])
def test_what_the_arithmetic_may_be_off_by_is_no_difference(leak):
    found = explain(nearly_endless(leak), [0, 0, 0], [1, 1, 1])
    assert [verdict.direction for verdict in found.verdicts] == ["same"]
    assert any("longer than was followed" in line for line in found.warnings) == (leak < 1e-2)


def test_a_real_difference_of_long_episodes_is_told():
    world = nearly_endless(1e-6)
    rewards = world.rewards.copy()
    rewards[0, 1] = 1.001
    moves = world.transitions.toarray().reshape(3, 2, 3)
    found = explain(TabularMDP(moves, rewards, world.initial, absorbing=[2]), [0] * 3, [1] * 3)
    assert found.verdicts[0].direction == "more"
    assert found.verdicts[0].difference.estimate == pytest.approx(0.001 * 1e6 / 2, rel=1e-3)


def test_plans_that_no_proof_can_check_are_refused_in_one_line():
    with pytest.raises(InvalidWorldError, match="too long for proofs"):
        improve(nearly_endless(1e-12), [0, 0, 0])
