"""Compiled loops: boosted trees whose levels ask one question of all nodes, and the worst hidden reasons."""

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
