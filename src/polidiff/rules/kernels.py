"""The inner loops of the search, compiled: best cells of a feature, one level of a beam, coordinate ascent, all boxes.

A feature is told by four whole numbers, a row of `axes`: cells that stand for values, whether a cell for "missing"
follows them, whether they are ordered, and the cell of the categories that cannot be named (-1: none).

For a histogram :math:`h_0, \\dots, h_{m-1}` of gains the best interval is the maximum-sum sub-array,

.. math:: \\max_{a \\le b} \\; \\sum_{q=a}^{b} h_q - c_1 ([a > 0] + [b < m - 1]),

both bounds in one pass over the prefix sums; for categories it is the set of cells with a positive gain.

A new user waits for these loops to compile, so they are written to be short for a compiler: arrays to work in come from
the caller, no operation works on a whole array, and counters start from ``d - d``, because numba finds the types of all
that depends on a literal 0 twice.
"""

from __future__ import annotations

from math import log
from typing import TypeAlias

import numpy as np

from polidiff.compiled import inner, loops
from polidiff.records.arrays import AnyArray, FloatArray, IntArray

Arrays: TypeAlias = tuple[AnyArray, ...]


@inner
def best_cells(gains: AnyArray, j: int, axes: AnyArray, cost: float, cells: AnyArray) -> float:
    """Write the best cells of feature j into `cells` (d, width); what they earn less the cost of their literals."""
    values, absent = axes[j, 0], axes[j, 1]
    best, prefix, lowest = -cost, 0.0, 0.0
    if axes[j, 2]:
        best, first, last, start = -np.inf, values - values, values - 1, values - values
        for q in range(values):
            if prefix + cost < lowest:
                lowest = prefix + cost
                start = q
            prefix += gains[j, q]
            worth = prefix - lowest
            if q < values - 1:
                worth -= cost
            if worth > best:
                best, first, last = worth, start, q
        if absent:
            worth = gains[j, values]
            whole = cost if last - first == values - 1 else 0.0  # "not missing" is a comparison of its own
            kept = worth > -whole
            best += worth if kept else -whole
            if worth - cost > best:
                best, first, kept = worth - cost, values, True
            cells[j, values] = kept
        for q in range(values):
            cells[j, q] = first <= q <= last
        return best
    for q in range(values + absent):
        worth = gains[j, q]
        prefix += worth
        kept = worth > 0 and q != axes[j, 3]
        cells[j, q] = kept
        if kept:
            best += worth
    if best <= prefix or best <= -cost:
        best = prefix
        for q in range(values + absent):
            cells[j, q] = True
    return best


@inner
def literals(cells: AnyArray, j: int, axes: AnyArray) -> int:
    """Comparisons that a reader makes for feature j when only some of its cells are allowed."""
    values = axes[j, 0]
    inside = values - values
    for q in range(values):
        if cells[j, q]:
            inside += 1
    if inside == values and (axes[j, 1] == 0 or cells[j, values]):
        return 0
    if axes[j, 2] == 0 or inside == 0 or cells[j, 0] or cells[j, values - 1]:
        return 1
    return 2


@loops
def narrow(
    rows: AnyArray,
    size: AnyArray,
    told: AnyArray,
    picked: AnyArray,
    priced: Arrays,
    below: AnyArray,
    left: AnyArray,
    hist: AnyArray,
) -> None:
    """Rows of each child, those of its parent whose cell of the child's feature is picked; how many there are.

    Adds up what they are worth, per child, side (0 positives, 1 negatives), feature and cell.
    """
    codes, side, worth = priced
    _, d = codes.shape
    for k in range(len(left)):
        parent, feature, count = told[k, 0], told[k, 1], d - d
        for r in range(size[parent]):
            i = rows[parent, r]
            if picked[k, codes[i, feature]]:
                below[k, count] = i
                count += 1
                for j in range(d):
                    hist[k, side[i], j, codes[i, j]] += worth[i]
        left[k] = count


@loops
def offer(
    hist: AnyArray, nodes: Arrays, asked: Arrays, room: Arrays, scores: AnyArray, order: AnyArray, slots: Arrays
) -> None:
    """Rank the children of the nodes of one level: every feature with its best cells, for each weight of negatives.

    Lists, best first and of different keys, as places in `order` (2, slots): by enrichment, and by the mean of value
    and upper bound where there is a second one. A slot holds the key of its clause, its parent, feature and literals,
    its value, and the cells of the feature.
    """
    masks, known, others, names, scales = nodes
    axes, table, costs, weights, lasts = asked
    gain, cells = room
    keys, told, values, picked = slots
    _, d, width = masks.shape
    for k in range(len(masks)):
        for j in range(d):
            for w in range(len(weights)):
                for c in range(width):
                    gain[j, c] = hist[k, 0, j, c] - scales[k, w] * hist[k, 1, j, c]
                best_cells(gain, j, axes, weights[w], cells)
                inside, outside, key = 0.0, 0.0, names[k]
                for c in range(width):
                    if masks[k, j, c]:
                        if cells[j, c]:
                            inside += hist[k, 0, j, c]
                            outside += hist[k, 1, j, c]
                        else:
                            key += table[j, c]
                    else:
                        cells[j, c] = False
                more = literals(cells, j, axes)
                paid = costs[0] + costs[1] * (others[k] - known[k, j] + more)
                if key == names[k] or inside <= paid:
                    continue
                score = inside * (log(inside / (inside + outside)) - costs[2])
                for side in range(len(lasts)):
                    place = lasts[side]
                    new = score > scores[side, place]
                    if new:
                        for s in range(place + 1):
                            new = new and keys[order[side, s]] != key
                    if new:
                        slot = order[side, place]
                        while place > 0 and scores[side, place - 1] < score:
                            scores[side, place] = scores[side, place - 1]
                            order[side, place] = order[side, place - 1]
                            place -= 1
                        scores[side, place] = score
                        order[side, place] = slot
                        keys[slot] = key
                        told[slot, 0] = k
                        told[slot, 1] = j
                        told[slot, 2] = more
                        values[slot] = inside - outside - paid
                        for c in range(width):
                            picked[slot, c] = cells[j, c]
                    score = inside - paid - outside / 2


@inner
def moves(
    codes: AnyArray, price: AnyArray, masks: AnyArray, known: AnyArray, k: int, gains: AnyArray, used: AnyArray
) -> float:
    """Prices per cell of each feature over the rows that satisfy the conditions of clause k on all other features.

    Returns the summed prices of the rows that the clause covers.
    """
    n, d = codes.shape
    _, width = gains.shape
    count, total = d - d, 0.0
    for j in range(d):
        for q in range(width):
            gains[j, q] = 0.0
        if known[k, j]:
            used[count] = j
            count += 1
    for i in range(n):
        failed, where = d - d, d
        for c in range(count):
            j = used[c]
            if not masks[k, j, codes[i, j]]:
                failed += 1
                where = j
                if failed > 1:
                    break
        if failed == 0:
            total += price[i]
            for j in range(d):
                gains[j, codes[i, j]] += price[i]
        elif failed == 1:
            gains[where, codes[i, where]] += price[i]
    return total


@loops
def ascend(asked: Arrays, masks: AnyArray, known: AnyArray, room: Arrays, totals: AnyArray, limit: int) -> None:
    """Move, in place, one feature's cells of each clause (K, d, width) at a time, the best feature first.

    The best cells of a feature replace the present ones when that gains enough: adding, moving and dropping a
    condition are all this one move. The costs are those of a literal and the least gain that counts; `limit` is the
    number of moves. `known` (K, d) are the literals, `totals` the summed prices of the rows covered.
    """
    codes, price, axes, costs = asked
    gains, cells, used = room
    d = len(axes)
    for k in range(len(masks)):
        for turn in range(limit + 1):
            total = moves(codes, price, masks, known, k, gains, used)
            most, feature = costs[1], d
            for j in range(d):
                better = best_cells(gains, j, axes, costs[0], cells) - total + costs[0] * known[k, j]
                if better > most:
                    most = better
                    feature = j
            totals[k] = total
            if feature == d or turn == limit:
                break
            for q in range(axes[feature, 0] + axes[feature, 1]):
                masks[k, feature, q] = cells[feature, q]
            known[k, feature] = literals(cells, feature, axes)


@loops
def scan_boxes(
    codes: AnyArray,  # (d, n) cell of each feature and row
    sizes: IntArray,  # (d,) cells of each feature
    gains: FloatArray,  # (n, m) what each move adds in each row
    sides: IntArray,  # (k, 3) first cell, cell behind the last and bounds of each condition; the last is none
    begins: IntArray,  # (d + 1,) where the conditions on each feature begin
    price: FloatArray,  # (m,) of one bound
    most: int,  # bounds of a box
    deepest: int,  # features of a box: 2 or 3
    room: FloatArray,  # ((largest + 1) ** 3, m) sums of the rows below each corner
    best: FloatArray,  # (d, m) filled: worth of the best box that has the feature
    box: IntArray,  # (d, m, 9) filled: its (feature, first, last) three times; last < first: no condition
) -> None:
    """Every box with at most `most` bounds over at most three features, for every move."""
    d, n = codes.shape
    none = len(sides) - 1
    for f in range(d):
        for g in range(f, d):
            for h in range(g, d if deepest > 2 and g > f else g + 1):  # one feature: f = g = h; two: f < g = h
                b, c = (sizes[g] if g > f else 1), (sizes[h] if h > g else 1)
                more = 1 if h > g else 0  # bounds that the third feature needs at least
                up, left = (b + 1) * (c + 1), c + 1
                room[: (sizes[f] + 1) * up] = 0.0
                for i in range(n):
                    k = (codes[f, i] + 1) * up + (codes[g, i] + 1 if g > f else 1) * left
                    k += codes[h, i] + 1 if h > g else 1
                    for m in range(gains.shape[1]):
                        room[k, m] += gains[i, m]
                for x in range(1, sizes[f] + 1):
                    for y in range(1, b + 1):
                        for z in range(1, c + 1):
                            k = x * up + y * left + z
                            for m in range(gains.shape[1]):
                                room[k, m] += (
                                    room[k - up, m] + room[k - left, m] + room[k - 1, m]
                                    - room[k - up - left, m] - room[k - up - 1, m] - room[k - left - 1, m]
                                    + room[k - up - left - 1, m]
                                )  # fmt: skip
                for m in range(gains.shape[1]):
                    for p in range(begins[f], begins[f + 1]):
                        if sides[p, 2] + more + (1 if g > f else 0) > most:
                            break
                        low, high = sides[p, 0] * up, sides[p, 1] * up
                        for q in range(begins[g] if g > f else none, begins[g + 1] if g > f else none + 1):
                            if sides[p, 2] + sides[q, 2] + more > most:
                                break
                            y0, y1 = sides[q, 0] * left, sides[q, 1] * left
                            for r in range(begins[h] if h > g else none, begins[h + 1] if h > g else none + 1):
                                bounds = sides[p, 2] + sides[q, 2] + sides[r, 2]
                                if bounds > most:
                                    break
                                z0, z1 = sides[r, 0], sides[r, 1]
                                worth = (
                                    room[high + y1 + z1, m] - room[low + y1 + z1, m]
                                    - room[high + y0 + z1, m] - room[high + y1 + z0, m]
                                    + room[low + y0 + z1, m] + room[low + y1 + z0, m]
                                    + room[high + y0 + z0, m] - room[low + y0 + z0, m]
                                    - price[m] * bounds
                                )  # fmt: skip
                                for t in range(3):
                                    feature = f if t == 0 else (g if t == 1 else h)
                                    if worth > best[feature, m]:
                                        best[feature, m] = worth
                                        box[feature, m, 0:3] = f, sides[p, 0], sides[p, 1] - 1
                                        box[feature, m, 3:6] = g, sides[q, 0], (sides[q, 1] - 1 if g > f else -1)
                                        box[feature, m, 6:9] = h, sides[r, 0], (sides[r, 1] - 1 if h > g else -1)
