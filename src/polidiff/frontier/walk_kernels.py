"""Compiled loops of walks from policy to policy (`visits.py`) and of the search along edges (`branch.py`).

Pairs lead where their `rows` say: where each one's transitions begin (pairs + 1,), the states they lead to, and with
which chance. A policy at hand is a `Walk`: its expected visits (S, S), and its changes and return from each state on
(S, 2), which sum up the weights of its pairs (pairs, 2).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from polidiff.compiled import inner, kernel
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

STEEP = 100.0  # a switch that visits its state so many times more or less costs digits, or never ends: it is not made
STRICT = 1e-10  # advantage, relative to the values, above which a switch counts as a gain
ALIKE = 1e-9  # by how much more the later of two pairs must pay, so that rounding does not choose
ROUNDS, SETTLED = 30, 1e-2  # steps of an episode over which sure visits are added up, and the growth that ends it

Rows: TypeAlias = tuple[IntArray, IntArray, FloatArray]
Walk: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]


@inner
def switch_pair(walk: Walk, rows: Rows, choice: IntArray, row: FloatArray, s: int, pair: int) -> bool:
    """Take a pair in state s from now on; False, and nothing changed, where that is too steep.

    `row` (S,) is room to work.
    """
    inverse, values, weights = walk
    starts, index, chance = rows
    count, old = len(choice), choice[s]
    changes, gain, left = weights[pair, 0] - weights[old, 0], weights[pair, 1] - weights[old, 1], 1.0
    row[:] = 0.0
    for sign, p in ((1.0, pair), (-1.0, old)):
        for k in range(starts[p], starts[p + 1]):
            u, share = index[k], sign * chance[k]
            changes += share * values[u, 0]
            gain += share * values[u, 1]
            left -= share * inverse[u, s]
            for t in range(count):
                row[t] += share * inverse[u, t]
    if not 1.0 <= left * STEEP <= STEEP * STEEP:
        return False
    choice[s] = pair
    for t in range(count):
        factor = inverse[t, s] / left
        if factor != 0.0:
            values[t, 0] += factor * changes
            values[t, 1] += factor * gain
            for u in range(count):
                inverse[t, u] += factor * row[u]
    return True


@inner
def advantage(walk: Walk, rows: Rows, s: int, p: int) -> tuple[float, float]:
    """What a pair of state s brings more than the policy, in changes and in return."""
    _, values, weights = walk
    starts, index, chance = rows
    changes, gain = weights[p, 0] - values[s, 0], weights[p, 1] - values[s, 1]
    for k in range(starts[p], starts[p + 1]):
        changes += chance[k] * values[index[k], 0]
        gain += chance[k] * values[index[k], 1]
    return changes, gain


@inner
def best_switch(
    walk: Walk, rows: Rows, state: IntArray, choice: IntArray, active: BoolArray, side: int, price: float
) -> int:
    """The active pair that gains most at a price (side 0), or gains first as the price falls (1) or rises (−1)."""
    values = walk[1]
    best, top = -1, -np.inf
    for p in range(len(state)):
        s = state[p]
        if not active[p] or choice[s] == p:
            continue
        changes, gain = advantage(walk, rows, s, p)
        if side == 0:
            rate = gain - price * changes
            pays = rate > STRICT * (1.0 + abs(values[s, 1]) + price * abs(values[s, 0]))
        elif side > 0:
            pays = gain > STRICT * (1.0 + abs(values[s, 1]))
            rate = gain / max(changes, 1e-12)
        else:
            pays = changes < -STRICT * (1.0 + abs(values[s, 0]))
            rate = -gain / changes
        if pays and (best < 0 or rate > top + ALIKE * abs(top)):
            best, top = p, rate
    return best


@kernel
def advance(
    walk: Walk, rows: Rows, state: IntArray, choice: IntArray, active: BoolArray, side: int, price: float, most: int
) -> tuple[int, int]:
    """Up to so many switches as `best_switch` says; how many were made, and the pair that could not be taken, or −1."""
    row = np.empty(len(choice))
    for made in range(most):
        pair = best_switch(walk, rows, state, choice, active, side, price)
        if pair < 0:
            return made, -1
        if not switch_pair(walk, rows, choice, row, state[pair], pair):
            return made, pair
    return most, -1


@kernel
def follow(walk: Walk, rows: Rows, choice: IntArray, target: IntArray, most: int) -> int:
    """Take the decisions of another policy; how many were switched, −1 if more than `most` differ or one cannot be."""
    away = 0
    for s in range(len(choice)):
        away += choice[s] != target[s]
    if away > most:
        return -1
    row = np.empty(len(choice))
    for s in range(len(choice)):
        if choice[s] != target[s] and not switch_pair(walk, rows, choice, row, s, target[s]):
            return -1
    return away


@kernel
def above_steps(
    left: FloatArray,
    right: FloatArray,
    beat: FloatArray,
    more: float,
    price: float,
    total: float,
    low: float,
    high: float,
    apart: float,
) -> tuple[float, float, float]:
    """The changes between which a line is above steps of a staircase, and by how much, not above 0 where it is nowhere.

    Steps that are no wider than `apart` between `low` and `high` do not count.
    """
    window = (low, high, 0.0)
    for i in range(np.searchsorted(right, low + apart, side="right"), len(right)):
        if left[i] >= high - apart:
            break
        corner = min(right[i], high)
        excess = total + (price * corner if price > 0.0 else 0.0) - beat[i] - more
        if excess > 0.0:
            start = window[0] if window[2] > 0.0 else max(low, left[i])
            window = (start, corner, max(window[2], excess))
    return window


@kernel
def rule_out(
    walk: Walk,
    rows: Rows,
    state: IntArray,
    first: IntArray,
    initial: FloatArray,
    active: BoolArray,
    price: float,
    excess: float,
) -> None:
    """Make pairs inactive that lose more than `excess` at a price by the visits that are sure.

    The walk is at a policy that no active pair improves at the price.
    """
    starts, index, chance = rows
    loss, visits, arriving = np.zeros(len(state)), initial.copy(), np.empty_like(initial)
    count = np.zeros(len(initial), dtype=np.int64)
    for p in range(len(state)):
        if active[p]:
            s = state[p]
            count[s] += 1
            changes, gain = advantage(walk, rows, s, p)
            loss[p] = price * changes - gain
    again = True
    while again:
        for _ in range(ROUNDS):
            for s in range(len(initial)):
                arriving[s] = initial[s]
            for s in range(len(initial)):
                if count[s] != 1 or visits[s] <= 0.0:
                    continue
                for p in range(first[s], first[s + 1]):
                    if active[p]:
                        for k in range(starts[p], starts[p + 1]):
                            arriving[index[k]] += visits[s] * chance[k]
            growth, total = 0.0, 0.0
            for s in range(len(initial)):
                growth += max(0.0, arriving[s] - visits[s])
                visits[s] = max(visits[s], arriving[s])
                total += visits[s]
            if growth <= SETTLED * total:
                break
        again = False
        for p in range(len(state)):
            s = state[p]
            if active[p] and count[s] > 1 and visits[s] * loss[p] > excess:
                active[p] = False
                count[s] -= 1
                again = again or count[s] == 1
