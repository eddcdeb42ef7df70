"""Boosted trees over binned features: every level of a tree asks one question of all its nodes."""

from __future__ import annotations

from polidiff.compiled import loops
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
def refit_leaves(
    leaves: AnyArray,  # (trees, n)
    rows: IntArray,  # (m,) that are fitted
    residual: FloatArray,  # (m,) what they show; what is left of it afterwards
    rate: float,
    shrink: float,
    fitted: FloatArray,  # (n,) added to
    sums: FloatArray,  # (leaves,) room
    mass: FloatArray,  # (leaves,) room
) -> None:
    """One tree after the other explains what those before it left; linear in what the rows show."""
    for t in range(len(leaves)):
        for k in range(len(sums)):
            sums[k] = 0.0
            mass[k] = shrink
        for j in range(len(rows)):
            k = leaves[t, rows[j]]
            sums[k] += residual[j]
            mass[k] += 1.0
        for k in range(len(sums)):
            sums[k] = rate * sums[k] / mass[k]
        for j in range(len(rows)):
            residual[j] -= sums[leaves[t, rows[j]]]
        for i in range(leaves.shape[1]):
            fitted[i] += sums[leaves[t, i]]
