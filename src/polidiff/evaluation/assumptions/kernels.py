"""Compiled loops of the worst step under hidden reasons."""

from __future__ import annotations

import numpy as np

from polidiff.compiled import kernel, loops
from polidiff.records.arrays import FloatArray, IntArray


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
