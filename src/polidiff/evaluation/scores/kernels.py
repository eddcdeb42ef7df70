"""Compiled loops over binned features: boosted trees whose levels ask one question of all nodes, and the best box."""

from __future__ import annotations

from polidiff.compiled import loops
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray


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
    named: BoolArray,  # (d,) features of which a box holds the last cell or all
    price: FloatArray,  # (m,) of one bound
    most: int,  # bounds of a box
    deepest: int,  # features of a box: 2 or 3
    room: FloatArray,  # ((largest + 1) ** 3, m) sums of the rows below each corner
    best: FloatArray,  # (d, m) filled: worth of the best box that has the feature
    box: IntArray,  # (d, m, 9) filled: its (feature, first, last) three times; last < first: no condition
) -> None:
    """Every box with at most `most` bounds over at most three features, for every move."""
    d, n = codes.shape
    for f in range(d):
        for g in range(f, d):
            for h in range(g, d if deepest > 2 else g + 1):
                if (f == g) != (g == h) and f == g:
                    continue  # one feature: f = g = h; two: f < g = h; three: f < g < h
                a, b, c = sizes[f], (sizes[g] if g > f else 1), (sizes[h] if h > g else 1)
                third = 1 if h > g else 0
                rest = third + (1 if g > f else 0)  # bounds that the features after the first need at least
                for k in range((a + 1) * (b + 1) * (c + 1)):
                    for m in range(gains.shape[1]):
                        room[k, m] = 0.0
                for i in range(n):
                    y = codes[g, i] if g > f else 0
                    z = codes[h, i] if h > g else 0
                    k = ((codes[f, i] + 1) * (b + 1) + y + 1) * (c + 1) + z + 1
                    for m in range(gains.shape[1]):
                        room[k, m] += gains[i, m]
                for x in range(1, a + 1):
                    for y in range(1, b + 1):
                        for z in range(1, c + 1):
                            k, up, left = (x * (b + 1) + y) * (c + 1) + z, (b + 1) * (c + 1), c + 1
                            for m in range(gains.shape[1]):
                                room[k, m] += (
                                    room[k - up, m] + room[k - left, m] + room[k - 1, m]
                                    - room[k - up - left, m] - room[k - up - 1, m] - room[k - left - 1, m]
                                    + room[k - up - left - 1, m]
                                )  # fmt: skip
                for m in range(gains.shape[1]):
                    for x0 in range(a):
                        for x1 in range(x0 + 1, a + 1):
                            s = (1 if x0 > 0 else 0) + (1 if x1 < a else 0)
                            if s == 0 or s + rest > most or (named[f] and x1 < a):
                                continue
                            for y0 in range(b):
                                for y1 in range(y0 + 1, b + 1):
                                    t = s + (1 if y0 > 0 else 0) + (1 if y1 < b else 0)
                                    if t + third > most or (g > f and (t == s or (named[g] and y1 < b))):
                                        continue
                                    for z0 in range(c):
                                        for z1 in range(z0 + 1, c + 1):
                                            u = t + (1 if z0 > 0 else 0) + (1 if z1 < c else 0)
                                            if u > most or (h > g and (u == t or (named[h] and z1 < c))):
                                                continue
                                            lo, hi = x0 * (b + 1), x1 * (b + 1)
                                            worth = (
                                                room[(hi + y1) * (c + 1) + z1, m] - room[(lo + y1) * (c + 1) + z1, m]
                                                - room[(hi + y0) * (c + 1) + z1, m] - room[(hi + y1) * (c + 1) + z0, m]
                                                + room[(lo + y0) * (c + 1) + z1, m] + room[(lo + y1) * (c + 1) + z0, m]
                                                + room[(hi + y0) * (c + 1) + z0, m] - room[(lo + y0) * (c + 1) + z0, m]
                                                - price[m] * u
                                            )  # fmt: skip
                                            for q in range(3):
                                                feature = f if q == 0 else (g if q == 1 else h)
                                                if worth > best[feature, m]:
                                                    best[feature, m] = worth
                                                    box[feature, m, 0:3] = f, x0, x1 - 1
                                                    box[feature, m, 3:6] = g, y0, (y1 - 1 if g > f else -1)
                                                    box[feature, m, 6:9] = h, z0, (z1 - 1 if h > g else -1)
