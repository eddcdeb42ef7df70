r"""Stock with a season and an order on the way.

Demand in a period is Poisson with a mean that depends on the season (low, middle, high); what is asked for and not in
stock is lost. An order arrives one period later, so that the state is the stock, the order on the way and the season.
Every unit sold pays a price; every unit held over, every unit ordered and every unit asked for in vain cost. In every
period the shop closes for good with a small probability, which ends the episode.
"""

from __future__ import annotations

from itertools import product
from math import exp, factorial

import numpy as np

from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.tabular import TabularMDP, Transition, move_matrices

SEASONS = (2.0, 4.0, 7.0)  # mean demand
TURN = 0.1  # chance that the season moves on in a period
PRICE, HOLDING, UNIT, LOST = 10.0, 0.5, 4.0, 4.0
CLOSING = 0.01


def world(room: int = 20, largest: int = 10, lot: int = 1) -> TabularMDP:
    """A table over stock 0 … room, an order on the way of 0, lot, …, largest, and three seasons; then "closed".

    >>> small = world(6, 4, 2)
    >>> small.n_states, small.feature_names
    (64, ('stock', 'on the way', 'season', 'position'))
    """
    orders = list(range(0, largest + 1, lot))
    states = _states(room, orders)
    closed, place = len(states), {state: index for index, state in enumerate(states)}
    rewards = np.zeros((closed + 1, len(orders)))
    moves: list[Transition] = []
    demand = [_poisson(mean, room + largest) for mean in SEASONS]
    for state, (stock, coming, season) in enumerate(states):
        sales, left = _period(stock, coming, room, demand[season])
        for action, order in enumerate(orders):
            rewards[state, action] = sales - UNIT * order
            for units, chance in left.items():
                for turned, share in ((season, 1 - TURN), ((season + 1) % 3, TURN)):
                    moves.append((action, state, place[units, order, turned], (1 - CLOSING) * chance * share))
            moves.append((action, state, closed, CLOSING))
    initial = np.zeros(closed + 1)
    initial[[place[room // 2, 0, season] for season in range(3)]] = 1 / 3
    features = np.array([(stock, coming, season, stock + coming) for stock, coming, season in states] + [(0, 0, 0, 0)])
    return TabularMDP(
        move_matrices(moves, len(orders), closed + 1), rewards, initial, absorbing=[closed],
        actions=[{"order": order} for order in orders],
        features=features, feature_names=["stock", "on the way", "season", "position"],
    )  # fmt: skip


def current(room: int = 20, largest: int = 10, lot: int = 1) -> IntArray:
    """Order a few units whenever the stock runs low, whatever is on the way and whatever the season."""
    orders = list(range(0, largest + 1, lot))
    few = min(range(len(orders)), key=lambda k: abs(orders[k] - largest / 4))
    return np.array([few if stock <= room // 4 else 0 for stock, _, _ in _states(room, orders)] + [0])


def _states(room: int, orders: list[int]) -> list[tuple[int, int, int]]:
    return list(product(range(room + 1), orders, range(len(SEASONS))))


def _poisson(mean: float, most: int) -> FloatArray:
    """Chances of a demand of 0, …, most; the last holds all larger ones."""
    chances = np.array([exp(-mean) * mean**k / factorial(k) for k in range(most + 1)])
    chances[-1] += 1 - chances.sum()
    return chances


def _period(stock: int, coming: int, room: int, demand: FloatArray) -> tuple[float, dict[int, float]]:
    """Expected earnings of a period (order cost apart) and chances of the stock left over."""
    asked = np.arange(len(demand))
    sold = np.minimum(asked, stock)
    left = np.minimum(stock - sold + coming, room)
    earned = PRICE * sold - LOST * (asked - sold) - HOLDING * (stock - sold)
    chances: dict[int, float] = {}
    for units, chance in zip(left, demand, strict=True):
        chances[int(units)] = chances.get(int(units), 0.0) + float(chance)
    return float(earned @ demand), chances
