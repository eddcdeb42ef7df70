"""Compiled loops: boosted trees whose levels ask one question of all nodes, the best box, the worst hidden reasons."""

from __future__ import annotations

import numpy as np

from polidiff.compiled import kernel, loops
from polidiff.records.arrays import AnyArray, FloatArray, IntArray


@loops
def grow_tree(
    bins: AnyArray,  # (d, n) bin of each feature and row
    slope: FloatArray,  # (n,) what is left to explain
    weight: FloatArray,  # (n,) what a row counts for; 0: it takes no part
    shrink: float,  # added to every sum of weights
    question: IntArray,  # (depth, 2) filled: feature and last bin of the lower side
    node: IntArray,  # (n,) filled: leaf of each row
    sums: FloatArray,  # (leaves * bins,) room
    mass: FloatArray,  # (leaves * bins,) room
    leaf: FloatArray,  # (leaves,) filled: shrunken mean of each leaf
) -> None:
    """The tree whose leaves explain most."""
    d, n = bins.shape
    depth = len(question)
    width = len(sums) // (len(leaf))
    for i in range(n):
        node[i] = 0
    for level in range(depth):
        nodes = 1 << level
        best = -1.0
        for f in range(d):
            for k in range(nodes * width):
                sums[k] = 0.0
                mass[k] = 0.0
            for i in range(n):
                k = node[i] * width + bins[f, i]
                sums[k] += slope[i]
                mass[k] += weight[i]
            for v in range(nodes):  # running sums within each node
                for b in range(1, width):
                    sums[v * width + b] += sums[v * width + b - 1]
                    mass[v * width + b] += mass[v * width + b - 1]
            for b in range(width - 1):
                gain = 0.0
                for v in range(nodes):
                    low, whole = v * width + b, v * width + width - 1
                    right, heavy = sums[whole] - sums[low], mass[whole] - mass[low]
                    gain += sums[low] * sums[low] / (mass[low] + shrink) + right * right / (heavy + shrink)
                if gain > best + 1e-12 * best:
                    best = gain
                    question[level, 0] = f
                    question[level, 1] = b
        f, b = question[level, 0], question[level, 1]
        for i in range(n):
            node[i] = 2 * node[i] + (1 if bins[f, i] > b else 0)
    for k in range(len(leaf)):
        sums[k] = 0.0
        mass[k] = 0.0
    for i in range(n):
        sums[node[i]] += slope[i]
        mass[node[i]] += weight[i]
    for k in range(len(leaf)):
        leaf[k] = sums[k] / (mass[k] + shrink)


@loops
def find_leaves(bins: AnyArray, questions: IntArray, leaves: AnyArray) -> None:
    """Fill (trees, n) with the leaf of every row in every tree (trees, depth, 2)."""
    for t in range(len(questions)):
        for i in range(bins.shape[1]):
            k = 0
            for level in range(questions.shape[1]):
                k = 2 * k + (1 if bins[questions[t, level, 0], i] > questions[t, level, 1] else 0)
            leaves[t, i] = k


@loops
def fit_leaves(
    leaves: AnyArray,  # (trees, n)
    rows: IntArray,  # (m,) that are fitted
    residual: FloatArray,  # (m,) what they show; what is left of it afterwards
    rate: float,
    shrink: float,
    worth: FloatArray,  # (trees, leaves) filled
    mass: FloatArray,  # (leaves,) room
) -> None:
    """One tree after the other explains what those before it left; linear in what the rows show."""
    for t in range(len(leaves)):
        for k in range(len(mass)):
            worth[t, k] = 0.0
            mass[k] = shrink
        for j in range(len(rows)):
            k = leaves[t, rows[j]]
            worth[t, k] += residual[j]
            mass[k] += 1.0
        for k in range(len(mass)):
            worth[t, k] = rate * worth[t, k] / mass[k]
        for j in range(len(rows)):
            residual[j] -= worth[t, leaves[t, rows[j]]]


@loops
def add_leaves(leaves: AnyArray, worth: FloatArray, total: FloatArray) -> None:
    """Add to (n,) what the leaves (trees, n) are worth (trees, leaves)."""
    for t in range(len(leaves)):
        for i in range(leaves.shape[1]):
            total[i] += worth[t, leaves[t, i]]


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


@kernel
def worst_step(
    begin: IntArray,  # (pairs + 1,) where the draws of each begin
    gain: FloatArray,  # (m,) of each draw
    to: IntArray,  # (m,) state that follows it
    chance: FloatArray,  # (m,) within its pair
    ahead: FloatArray,  # (states + 1,) discounted worth of what follows
    alpha: FloatArray,  # (pairs,) share of the mean in the worst case
    tau: float,  # share of the draws, the worst, that the rest falls on
    order: IntArray,  # (m,) draws of each pair by worth as of the last call, sorted again
    worth: FloatArray,  # (m,) room
    weight: FloatArray,  # (m,) filled: chances in the worst case
    quantile: FloatArray,  # (pairs,) filled: of the worth, at tau
    worst: FloatArray,  # (pairs,) filled: worth in the worst case
) -> None:
    """The chances of draws that make each pair worth least."""
    for p in range(len(begin) - 1):
        low, high = begin[p], begin[p + 1]
        for d in range(low, high):
            worth[d] = gain[d] + ahead[to[d]]
        if high - low > 48:
            order[low:high] = low + np.argsort(worth[low:high], kind="mergesort")
        else:
            for t in range(low + 1, high):  # nearly in order since the last time
                d = order[t]
                u = t - 1
                while u >= low and worth[order[u]] > worth[d]:
                    order[u + 1] = order[u]
                    u -= 1
                order[u + 1] = d
        before, total = 0.0, 0.0
        for t in range(low, high):
            d = order[t]
            if before < tau * (1 - 1e-12):
                quantile[p] = worth[d]
            taken = min(max(tau - before, 0.0), chance[d]) / tau
            before += chance[d]
            weight[d] = alpha[p] * chance[d] + (1 - alpha[p]) * taken
            total += weight[d] * worth[d]
        worst[p] = total


@loops
def largest_loss(
    begin: IntArray,  # (pairs + 1,) where the draws of each begin
    state: IntArray,  # (pairs,) rising
    mass: FloatArray,  # (pairs,) chance of the action
    to: IntArray,  # (m,) states; beyond the last at the end
    chance: FloatArray,  # (m,) discounted
    loss: FloatArray,  # (pairs,) if the one decision is this
    short: float,  # steps that are no longer made
    lost: FloatArray,  # (states,) made better: what is lost if it is the worst decision of the episode
) -> None:
    r"""Sweeps of :math:`D(s) = \sum_a \pi(a) \max\{l(s, a), E[D(s') \mid s, a]\}`."""
    for _ in range(5000):
        moved, p = 0.0, 0
        while p < len(state):
            s, total = state[p], 0.0
            while p < len(state) and state[p] == s:
                later = 0.0
                for d in range(begin[p], begin[p + 1]):
                    if to[d] < len(lost):
                        later += chance[d] * lost[to[d]]
                total += mass[p] * max(loss[p], later)
                p += 1
            moved = max(moved, abs(total - lost[s]))
            lost[s] = total
        if moved <= short:
            break
