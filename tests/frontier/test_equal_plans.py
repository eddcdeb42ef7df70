"""Plans of a symmetric table: of equal ones a rule chooses, not what the linear algebra of a processor rounds to."""

from __future__ import annotations

import pytest

from tests.kernels import printed_with_each

RING = """
import numpy as np
from polidiff import TabularMDP, improve

size, stay, pay = 6, (0.58, 0.36, 0.22), (0.0, 0.04, 0.05)
moves = np.zeros((size + 1, 3, size + 1))
for s in range(size):
    for a in range(3):
        moves[s, a, [(s + 1) % size, (s - 1) % size, s]] = np.array([0.45, 0.35, 0.2]) * stay[a]
        moves[s, a, size] = 1 - stay[a]
moves[size, :, size] = 1
rewards = np.vstack([np.tile(pay, (size, 1)), np.zeros(3)])
initial, end = np.append(np.full(size, 1 / size), 0.0), np.arange(size + 1) == size
found = improve(TabularMDP(moves, rewards, initial, absorbing=end), np.zeros(size + 1, dtype=int))
for plan in found.plans:
    print(*(f"{edit.rule.conditions[0].values[0]}={edit.proposed}" for edit in plan.patch.edits))
print(*found.ledger.order, sep=", ")
"""


@pytest.fixture(scope="module")
def told() -> list[list[str]]:
    """What two sets of kernels find on a ring of states that are all alike."""
    return printed_with_each(RING)


def test_equal_plans_are_the_same_on_every_machine(told: list[list[str]]) -> None:
    assert told[0] == told[1]
    assert len(told[0]) > 5


def test_of_equal_plans_the_lowest_states_are_changed(told: list[list[str]]) -> None:
    single = [plan for plan in told[0][:-1] if plan.count("=") == 1]
    assert single
    assert all(plan.startswith("s0=") for plan in single)
