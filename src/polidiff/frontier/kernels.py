r"""Compiled loops of the frontier: passes over sparse rows, and the last changes of a set of states.

*Sparse rows*: the rows of a policy, sweeps that evaluate it, and the search for better pairs. Row numbers and columns
are unsigned: a signed index would be tested for counting from the end at every transition, which doubles the time of a
pass.

*Last changes*: the best one to three more changes of a policy, tried one by one in closed form. With :math:`E(p, u)` by
how much one visit under the changed pair p adds to the visits of u, :math:`x` the visits and :math:`A` the advantages,
a change p at s turns them into

.. math:: x' = x + \frac{x_s E(p, \cdot)}{1 - E(p, s)}, \quad A'_q = A_q + \frac{E(q, s) A_p}{1 - E(p, s)}, \quad
          E'(q, \cdot) = E(q, \cdot) + \frac{E(q, s) E(p, \cdot)}{1 - E(p, s)}

and gains :math:`x_s A_p / (1 - E(p, s))`; the last two changes of three are a system of two equations.
"""

from __future__ import annotations

import numpy as np

from polidiff.compiled import kernel, loops
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

U32Array = np.ndarray[tuple[int, ...], np.dtype[np.uint32]]
SLOW = 0.5  # what a pair of sweeps may leave of the move before it, or sweeps go back as well


@kernel
def copy_rows(
    starts: U32Array,
    index: U32Array,
    chance: FloatArray,
    states: IntArray,
    choice: U32Array,
    own_starts: U32Array,
    own_ends: U32Array,
    own_index: U32Array,
    own_chance: FloatArray,
) -> None:
    """Copy the rows that a policy chose in some states to their places."""
    for s in states:
        p = np.uint64(choice[s])
        n = own_starts[s]
        for j in range(starts[p], starts[p + np.uint64(1)]):
            own_index[n] = index[j]
            own_chance[n] = chance[j]
            n += np.uint32(1)
        own_ends[s] = n


@loops
def arrivals(
    starts: U32Array,
    index: U32Array,
    chance: FloatArray,
    chosen: IntArray,
    reached: BoolArray,
    states: IntArray,
    place: U32Array,
    origin: U32Array,
    share: FloatArray,
) -> None:
    """From which states each one is entered under the rows that a policy chose, and with which chance: the transpose.

    `reached` says where episodes start, and then where they come; the others enter nothing. `states` (S,) is room to
    work, and `place` (S + 1,) is 0 before.
    """
    count, met = len(chosen), 0
    for s in range(count):
        if reached[s]:
            states[met] = s
            met += 1
    done = 0
    while done < met:
        p = chosen[states[done]]
        done += 1
        for j in range(starts[p], starts[p + 1]):
            into = index[j]
            place[into] += np.uint32(1)
            if chance[j] > 0.0 and not reached[into]:
                reached[into] = True
                states[met] = into
                met += 1
    for s in range(count):
        place[s + 1] += place[s]
    for i in range(met - 1, -1, -1):
        s = states[i]
        p = chosen[s]
        for j in range(starts[p], starts[p + 1]):
            into = index[j]
            place[into] -= np.uint32(1)
            origin[place[into]] = np.uint32(s)
            share[place[into]] = chance[j]


@kernel
def sweep(
    starts: U32Array,
    ends: U32Array,
    index: U32Array,
    chance: FloatArray,
    weight: FloatArray,
    values: FloatArray,
    back: bool,
) -> float:
    """Gauss–Seidel in place, from the first state to the last or from the last to the first; the largest move."""
    last, largest = len(weight) - 1, 0.0
    for i in range(len(weight)):
        s = last - i if back else i
        v = weight[s]
        for j in range(starts[s], ends[s]):
            v += chance[j] * values[index[j]]
        moved = abs(v - values[s])
        largest = largest if moved <= largest else moved
        values[s] = v
    return largest


@kernel
def settle(
    starts: U32Array,
    ends: U32Array,
    index: U32Array,
    chance: FloatArray,
    weight: FloatArray,
    values: FloatArray,
    target: float,
    most: int,
    back: bool,
) -> tuple[bool, bool]:
    """At most so many pairs of sweeps with mixing, until one moves no value by more than the target.

    Whether that was reached, and whether every second sweep goes back: it does once a pair leaves more than half of the
    move before it for the third time.
    """
    before, moved, after = np.empty_like(values), np.zeros_like(values), np.zeros_like(values)
    new, old = np.zeros((2, len(values))), np.zeros((2, len(values)))  # what a pair added to the step and to the move
    depth, slow, last = 0, 0, np.inf
    for _ in range(most):
        for s in range(len(values)):
            before[s] = values[s]
        sweep(starts, ends, index, chance, weight, values, False)
        largest = sweep(starts, ends, index, chance, weight, values, back)
        if largest <= target:
            return True, back
        slow += largest > SLOW * last
        if slow > 2 and not back:
            back, depth = True, 0
        depth = 0 if largest > 2.0 * last else depth
        last = largest
        new, old = old, new
        square, along, cross, older, behind = 0.0, 0.0, 0.0, 0.0, 0.0
        for s in range(len(values)):
            new[0, s], after[s] = values[s] - after[s], values[s]
            move = values[s] - before[s]
            new[1, s], moved[s] = move - moved[s], move
            square += new[1, s] * new[1, s]
            along += new[1, s] * move
            cross += new[1, s] * old[1, s]
            older += old[1, s] * old[1, s]
            behind += old[1, s] * move
        area = square * older - cross * cross
        if depth == 2 and area > 1e-12 * square * older:
            one, two = (along * older - behind * cross) / area, (behind * square - along * cross) / area
            for s in range(len(values)):
                values[s] -= one * new[0, s] + two * old[0, s]
        elif depth > 0 and square > 0:
            for s in range(len(values)):
                values[s] -= along / square * new[0, s]
        depth = min(depth + 1, 2)
    return False, back


@kernel
def improve(
    starts: U32Array,
    index: U32Array,
    chance: FloatArray,
    first: U32Array,
    weight: FloatArray,
    values: FloatArray,
    written: FloatArray,
    choice: U32Array,
    expiry: FloatArray,
    drift: float,
    strict: float,
) -> tuple[int, float]:
    """Switch every state whose margin has expired to its best pair; how many were switched, and the largest gain.

    What the pair is worth is written; where that goes into the values themselves, this is a Gauss–Seidel sweep.

    A state's margin is by how much its best pair led; while the values have drifted by less, it leads still.
    """
    switched, largest = 0, 0.0
    for s in range(len(choice)):
        if expiry[s] > drift:
            continue
        mine = choice[s]
        best, top, second, own = mine, -np.inf, -np.inf, 0.0
        for p in range(first[s], first[s + 1]):
            q = weight[p]
            for j in range(starts[p], starts[p + np.uint64(1)]):
                q += chance[j] * values[index[j]]
            own = q if p == mine else own
            second = max(second, min(q, top))
            best = np.uint32(p) if q > top else best
            top = max(q, top)
        if top > own + strict * (1.0 + abs(own)):
            choice[s] = best
            switched += 1
            largest = max(largest, top - own)
            own = top
        written[s] = own
        expiry[s] = drift + top - second
    return switched, largest


@kernel
def best_pair(
    effect: FloatArray, advantage: FloatArray, visits: FloatArray, pairs: IntArray, state: IntArray
) -> tuple[float, int, int]:
    """The largest gain of one or two changes among some pairs, the first of them with a positive advantage."""
    most, one, two = 0.0, -1, -1
    for p in pairs:
        gain = advantage[p]
        if gain <= 0.0:
            continue
        s = state[p]
        own = 1.0 - effect[p, s]
        if visits[s] * gain / own > most:
            most, one, two = visits[s] * gain / own, p, -1
        for q in pairs:
            t = state[q]
            if t == s:
                continue
            other = 1.0 - effect[q, t]
            area = own * other - effect[p, t] * effect[q, s]
            first = visits[s] * other + visits[t] * effect[q, s]
            second = visits[t] * own + visits[s] * effect[p, t]
            both = (first * gain + second * advantage[q]) / area
            if both > most:
                most, one, two = both, p, q
    return most, one, two


@kernel
def best_three(
    effect: FloatArray,
    advantage: FloatArray,
    visits: FloatArray,
    order: IntArray,
    offered: BoolArray,
    state: IntArray,
    floor: float,
) -> tuple[float, int, int, int]:
    """The largest gain above a floor of up to three changes on offer, and the changes, −1 for none.

    In any set that gains, some change has a positive advantage: those, in `order`, are tried first, and each is no
    longer on offer after its turn. After it the same holds for the two that are left.
    """
    most, found = floor, (-1, -1, -1)
    open_pairs = offered.copy()
    after, changed, moved = np.empty_like(advantage), np.empty_like(effect), np.empty_like(visits)
    for p in order:
        s = state[p]
        share = 1.0 / (1.0 - effect[p, s])
        gain = visits[s] * advantage[p] * share
        open_pairs[p] = False
        count = 0
        pairs = np.empty(len(order) + len(state), dtype=np.int64)
        for u in range(len(visits)):
            moved[u] = visits[u] + visits[s] * share * effect[p, u]
        for q in range(len(state)):
            if not open_pairs[q] or state[q] == s:
                continue
            pairs[count] = q
            count += 1
            by = effect[q, s] * share
            after[q] = advantage[q] + by * advantage[p]
            for u in range(len(visits)):
                changed[q, u] = effect[q, u] + by * effect[p, u]
        more, one, two = best_pair(changed, after, moved, pairs[:count], state)
        if gain + more > most:
            most, found = gain + more, (p, one, two)
    return most, found[0], found[1], found[2]
