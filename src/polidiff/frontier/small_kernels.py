"""Compiled depth-first search over the decisions of a small table."""

from __future__ import annotations

from polidiff.compiled import loops
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray

SINGULAR = 1e-9  # a switch that leaves less than this of its pivot may never end
SWITCHES = 50  # per state, after which a completion is taken to go round in circles


@loops
def complete(
    starts: AnyArray,
    index: AnyArray,
    chance: FloatArray,
    weight: FloatArray,
    state: IntArray,
    fixed: BoolArray,
    s: int,
    pair: int,
    choice: IntArray,
    inverse: FloatArray,
    value: FloatArray,
    work: FloatArray,
    strict: float,
) -> bool:
    """Take a pair in a state, then the largest gain where nothing is fixed until none is left; does it surely end?

    The inverse of I - P and the values (S,) of the weights follow each switch by rank one.
    """
    n = len(choice)
    for _ in range(SWITCHES * n):
        gain, old = weight[pair] - value[s], choice[s]
        for u in range(n):
            work[u] = 0.0
        for j in range(starts[pair], starts[pair + 1]):
            gain += chance[j] * value[index[j]]
            for u in range(n):
                work[u] += chance[j] * inverse[index[j], u]
        for j in range(starts[old], starts[old + 1]):
            for u in range(n):
                work[u] -= chance[j] * inverse[index[j], u]
        pivot = 1.0 - work[s]
        if pivot < SINGULAR:
            return False
        for t in range(n):
            f = inverse[t, s] / pivot
            if f != 0.0:
                value[t] += f * gain
                for u in range(n):
                    inverse[t, u] += f * work[u]
        choice[s] = pair
        s, lead = -1, strict
        for p in range(len(state)):
            if not fixed[state[p]]:
                gain = weight[p] - value[state[p]]
                for j in range(starts[p], starts[p + 1]):
                    gain += chance[j] * value[index[j]]
                if gain > lead:
                    s, pair, lead = state[p], p, gain
        if s < 0:
            return True
    return False


@loops
def next_state(
    starts: AnyArray,
    index: AnyArray,
    initial: FloatArray,
    choice: IntArray,
    inverse: FloatArray,
    fixed: BoolArray,
    sure: BoolArray,
) -> int:
    """The most visited state without a fixed decision among those that the fixed ones surely reach; -1 if none."""
    n = len(initial)
    for s in range(n):
        sure[s] = initial[s] > 0.0
    grew = True
    while grew:
        grew = False
        for s in range(n):
            if sure[s] and fixed[s]:
                for j in range(starts[choice[s]], starts[choice[s] + 1]):
                    if not sure[index[j]]:
                        sure[index[j]] = grew = True
    best, most = -1, -1.0
    for s in range(n):
        if sure[s] and not fixed[s]:
            visits = 0.0
            for t in range(n):
                visits += initial[t] * inverse[t, s]
            if visits > most:
                best, most = s, visits
    return best


@loops
def descend(
    starts: AnyArray,
    index: AnyArray,
    chance: FloatArray,
    weight: FloatArray,
    cost: FloatArray,
    state: IntArray,
    first: IntArray,
    initial: FloatArray,
    price: float,
    floor: float,
    strict: float,
    most: int,
    choices: IntArray,
    inverses: FloatArray,
    values: FloatArray,
    order: IntArray,
    tried: IntArray,
    fixed: BoolArray,
    sure: BoolArray,
    work: FloatArray,
    corners: FloatArray,
    found: FloatArray,
    plans: IntArray,
) -> tuple[int, int, bool]:
    """Every policy whose return less price times changes lies above the floor; those that beat a corner are kept.

    `choices` (S + 1, S), `inverses` (S + 1, S, S) and `values` (S + 1, S) hold the nodes on the way down, the first
    being the root. Nodes looked at, plans kept in `found` (k, 2) and `plans` (k, S), and whether the search came to
    its end.
    """
    n = len(initial)
    depth = nodes = kept = 0
    order[0] = next_state(starts, index, initial, choices[0], inverses[0], fixed, sure)
    tried[0] = first[order[0]]
    while depth >= 0:
        s = order[depth]
        fixed[s] = False
        if tried[depth] == first[s + 1]:
            depth -= 1
            continue
        pair = tried[depth]
        tried[depth] += 1
        nodes += 1
        if nodes > most:
            return nodes, kept, False
        fixed[s] = True
        below = depth + 1
        for t in range(n):
            choices[below, t] = choices[depth, t]
            values[below, t] = values[depth, t]
            for u in range(n):
                inverses[below, t, u] = inverses[depth, t, u]
        if pair != choices[depth, s]:
            policy = (choices[below], inverses[below], values[below], work, strict)
            if not complete(starts, index, chance, weight, state, fixed, s, pair, *policy):
                return nodes, kept, False
            total = changes = 0.0
            for t in range(n):
                total += initial[t] * values[below, t]
            if total <= floor:
                continue
            for t in range(n):
                for u in range(n):
                    changes += initial[t] * inverses[below, t, u] * cost[choices[below, u]]
            for i in range(len(corners)):
                if corners[i, 0] <= changes < corners[i, 1] and total + price * changes > corners[i, 2]:
                    if kept == len(plans):
                        return nodes, kept, False
                    found[kept, 0], found[kept, 1] = changes, total + price * changes
                    for t in range(n):
                        plans[kept, t] = choices[below, t]
                    kept += 1
                    break
        s = next_state(starts, index, initial, choices[below], inverses[below], fixed, sure)
        if s >= 0:
            depth = below
            order[depth] = s
            tried[depth] = first[s]
    return nodes, kept, True
