r"""Two queues: admit a customer or not, and to which queue.

Each slot a customer of class 1 or 2 arrives, or none. The decision is to send the customer to queue 1, to queue 2, or
to turn the customer away. An admitted customer pays the price of the class; a customer who has to wait costs
:math:`c` per slot; queue 1 is the faster one. In every slot the shop closes with a small probability, which ends the
episode.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from polidiff.records.arrays import IntArray
from polidiff.worlds.tabular import TabularMDP, Transition, move_matrices

ACTIONS = ("queue 1", "queue 2", "reject")
ARRIVALS = (0.35, 0.35)  # class 1, class 2, per slot
SERVICE = (0.40, 0.25)  # queue 1, queue 2, chance of finishing a customer in a slot
PRICES = (20.0, 8.0)
WAITING = 0.5
CLOSING = 0.002


def world(room: int = 15) -> TabularMDP:
    """A table with (room + 1)² · 3 + 1 states: both queues, who has arrived, and "closed".

    >>> world(3).n_states, world(3).feature_names
    (49, ('queue 1', 'queue 2', 'class'))
    """
    side = room + 1
    states = [(i, j, k) for i in range(side) for j in range(side) for k in range(3)]
    closed = len(states)
    rewards = np.zeros((closed + 1, 3))
    allowed = np.ones((closed + 1, 3), dtype=np.bool_)
    moves: list[Transition] = []
    for state, (first, second, kind) in enumerate(states):
        allowed[state, :2] = (kind > 0 and first < room, kind > 0 and second < room)
        for action in np.flatnonzero(allowed[state]).tolist():
            lengths = (first + (action == 0), second + (action == 1))
            paid = PRICES[kind - 1] if action < 2 else 0.0
            rewards[state, action] = paid - WAITING * sum(lengths)
            for chance, (left, right, arrival) in _next(lengths):
                moves.append((action, state, (left * side + right) * 3 + arrival, (1 - CLOSING) * chance))
            moves.append((action, state, closed, CLOSING))
    initial = np.zeros(closed + 1)
    initial[:3] = (1 - sum(ARRIVALS), *ARRIVALS)
    return TabularMDP(
        move_matrices(moves, len(ACTIONS), closed + 1), rewards, initial, absorbing=[closed], actions=list(ACTIONS),
        features=np.array([*states, (0, 0, 0)]), feature_names=["queue 1", "queue 2", "class"], allowed=allowed,
    )  # fmt: skip


def current(room: int = 15) -> IntArray:
    """Everyone to queue 1 while it has room, then to queue 2; turn away when both are full."""
    actions = np.full((room + 1) ** 2 * 3 + 1, ACTIONS.index("reject"))
    for state, (first, second, kind) in enumerate(product(range(room + 1), range(room + 1), range(3))):
        if kind > 0 and first < room:
            actions[state] = 0
        elif kind > 0 and second < room:
            actions[state] = 1
    return actions


def _next(lengths: tuple[int, int]) -> list[tuple[float, tuple[int, int, int]]]:
    """Chances of the next slot's queues and arrival."""
    chances = (1 - sum(ARRIVALS), *ARRIVALS)
    ends = []
    for length, rate in zip(lengths, SERVICE, strict=True):
        ends.append([(1 - rate, length), (rate, length - 1)] if length > 0 else [(1.0, 0)])
    return [
        (p * q * chances[arrival], (left, right, arrival))
        for p, left in ends[0]
        for q, right in ends[1]
        for arrival in range(3)
    ]
