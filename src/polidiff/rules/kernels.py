"""The inner loops of the search, compiled: best cells of a feature, one level of a beam, coordinate ascent.

A feature is told by four whole numbers, a row of `axes`: cells that stand for values, whether a cell for "missing"
follows them, whether they are ordered, and whether the last value cell holds categories that cannot be named.

For a histogram :math:`h_0, \\dots, h_{m-1}` of gains the best interval is the maximum-sum sub-array,

.. math:: \\max_{a \\le b} \\; \\sum_{q=a}^{b} h_q - c_1 ([a > 0] + [b < m - 1]),

both bounds in one pass over the prefix sums; for categories it is the set of cells with a positive gain.

Arrays to work in come from the caller, and loops are spelled out: both keep the time to compile short.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

from polidiff.compiled import loops


@loops
def literals(masks: Any, k: int, place: int, axes: Any, j: int) -> int:
    """Comparisons that a reader makes for feature j, whose cells are `masks[k, place]`."""
    values, inside = axes[j, 0], 0
    for q in range(values):
        if masks[k, place, q]:
            inside += 1
    if inside == values and (axes[j, 1] == 0 or masks[k, place, values]):
        return 0
    if axes[j, 2] == 0 or inside == 0 or masks[k, place, 0] or masks[k, place, values - 1]:
        return 1
    return 2


@loops
def best_cells(gains: Any, place: int, axes: Any, j: int, cost: float, cells: Any) -> float:
    """Write the best cells of feature j into `cells` (1, 1, width); what they earn less the cost of their literals."""
    values = axes[j, 0]
    first, last, start = 0, values - 1, 0
    best, prefix, lowest, worth = -np.inf, 0.0, 0.0, 0.0
    if axes[j, 2]:
        for q in range(values):
            if q > 0 and prefix + cost < lowest:
                lowest = prefix + cost
                start = q
            prefix += gains[place, q]
            worth = prefix - lowest
            if q < values - 1:
                worth -= cost
            if worth > best:
                best = worth
                first = start
                last = q
        for q in range(values):
            cells[0, 0, q] = first <= q <= last
        if axes[j, 1]:
            worth = gains[place, values]
            whole = cost if last - first == values - 1 else 0.0  # "not missing" is a comparison of its own
            cells[0, 0, values] = worth > -whole
            best += worth if worth > -whole else -whole
            if worth - cost > best:
                best = worth - cost
                for q in range(values + 1):
                    cells[0, 0, q] = q == values
        return best
    best = -cost
    for q in range(values + axes[j, 1]):
        worth = gains[place, q]
        prefix += worth
        cells[0, 0, q] = worth > 0 and (axes[j, 3] == 0 or q != values - 1)
        if cells[0, 0, q]:
            best += worth
    if best > prefix and best > -cost:
        return best
    for q in range(values + axes[j, 1]):
        cells[0, 0, q] = True
    return prefix


@loops
def histogram(codes: Any, price: Any, rows: Any, size: int, k: int, hist: Any) -> None:
    """Prices of the positives and (as magnitudes) of the negatives among the rows of node k, per feature and cell."""
    _, d, width = hist.shape
    for j in range(d):
        for c in range(width):
            hist[0, j, c] = 0.0
            hist[1, j, c] = 0.0
    for r in range(size):
        i = rows[k, r]
        side = 1 if price[i] < 0 else 0
        for j in range(d):
            hist[side, j, codes[i, j]] += abs(price[i])


@loops
def insert(scores: Any, order: Any, keys: Any, side: int, place: int, score: float, key: int) -> int:
    """Make room in a list that ends at `place`, best first, for a score whose key is new; its slot, -1 if none."""
    if place < 0 or score <= scores[side, place]:
        return -1
    for s in range(place + 1):
        if keys[order[side, s]] == key:
            return -1
    slot = order[side, place]
    while place > 0 and scores[side, place - 1] < score:
        scores[side, place] = scores[side, place - 1]
        order[side, place] = order[side, place - 1]
        place -= 1
    scores[side, place] = score
    order[side, place] = slot
    keys[slot] = key
    return slot


@loops
def offer(asked: Any, nodes: Any, table: Any, room: Any, scores: Any, order: Any, slots: Any) -> None:
    """Rank the children of the nodes of one level: every feature with its best cells, for each weight of negatives.

    Two lists, best first, as places in `order` (2, slots): by enrichment and by the mean of value and upper bound. A
    slot holds the key of its clause, its parent and feature, its value, and the cells of the feature.
    """
    codes, price, axes, costs, weights, widths = asked
    masks, names, rows, size = nodes
    hist, gain, cells = room
    keys, told, values, picked = slots
    _, d, width = hist.shape
    zero = width - width
    for k in range(len(masks)):
        known, p, q = 0, 0.0, 0.0
        histogram(codes, price, rows, size[k], k, hist)
        for j in range(d):
            known += literals(masks, k, j, axes, j)
        for c in range(width):
            p += hist[0, 0, c]
            q += hist[1, 0, c]
        for j in range(d):
            others = known - literals(masks, k, j, axes, j)
            for w in range(len(weights)):
                scale = weights[w, 1]
                if weights[w, 0] > 0:
                    scale = scale * p / q if q > 0 else 0.0
                for c in range(width):
                    gain[0, c] = hist[0, j, c] - scale * hist[1, j, c]
                best_cells(gain, zero, axes, j, weights[w, 2], cells)
                inside, outside, key = 0.0, 0.0, names[k]
                for c in range(width):
                    if masks[k, j, c] and cells[0, 0, c]:
                        inside += hist[0, j, c]
                        outside += hist[1, j, c]
                    elif masks[k, j, c]:
                        key += table[j, c]
                    cells[0, 0, c] = masks[k, j, c] and cells[0, 0, c]
                paid = costs[0] + costs[1] * (others + literals(cells, zero, zero, axes, j))
                if key == names[k] or inside <= paid:
                    continue
                score = inside * (log(inside / (inside + outside)) - costs[2])
                for side in range(2):
                    slot = insert(scores, order, keys, side, widths[side] - 1, score, key)
                    score = inside - paid - outside / 2
                    if slot >= 0:
                        told[slot, 0] = k
                        told[slot, 1] = j
                        values[slot] = inside - outside - paid
                        for c in range(width):
                            picked[slot, c] = cells[0, 0, c]


@loops
def moves(codes: Any, price: Any, axes: Any, masks: Any, k: int, gains: Any, used: Any) -> float:
    """Prices per cell of each feature over the rows that satisfy the conditions of clause k on all other features.

    Returns the summed prices of the rows that the clause covers.
    """
    n, d = codes.shape
    count, total = 0, 0.0
    for j in range(d):
        for q in range(gains.shape[1]):
            gains[j, q] = 0.0
        if literals(masks, k, j, axes, j):
            used[count] = j
            count += 1
    for i in range(n):
        failed, where = 0, d
        for c in range(count):
            if not masks[k, used[c], codes[i, used[c]]]:
                failed += 1
                where = used[c]
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
def ascend(asked: Any, masks: Any, room: Any, values: Any, limit: int) -> None:
    """Move, in place, one feature's cells of each clause (K, d, width) at a time, the best feature first.

    The best cells of a feature replace the present ones when that gains enough: adding, moving and dropping a
    condition are all this one move. The costs are those of a clause, of a literal, and the least gain that counts;
    `limit` is the number of moves.
    """
    codes, price, axes, costs = asked
    gains, cells, used = room
    d = len(axes)
    for k in range(len(masks)):
        for turn in range(limit + 1):
            total = moves(codes, price, axes, masks, k, gains, used)
            known, most, feature = 0, costs[2], d
            for j in range(d):
                more = literals(masks, k, j, axes, j)
                known += more
                better = best_cells(gains, j, axes, j, costs[1], cells) - total + costs[1] * more
                if better > most:
                    most = better
                    feature = j
            values[k] = total - costs[0] - costs[1] * known
            if feature == d or turn == limit:
                break
            best_cells(gains, feature, axes, feature, costs[1], cells)
            for q in range(axes[feature, 0] + axes[feature, 1]):
                masks[k, feature, q] = cells[0, 0, q]
