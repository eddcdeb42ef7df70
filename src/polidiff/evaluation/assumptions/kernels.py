"""Compiled loops of the tests: Pearson's statistic over many thin tables, and the worst step under hidden reasons."""

from __future__ import annotations

import numpy as np

from polidiff.compiled import kernel, loops
from polidiff.records.arrays import BoolArray, FloatArray, IntArray


@loops
def sort_by(code: IntArray, begin: IntArray, order: IntArray) -> None:
    """Rows in the order of their codes (n,), ties as they come; `begin` (codes + 1,) is filled: where each begins."""
    for i in range(len(begin)):
        begin[i] = 0
    for c in code:
        begin[c] += 1
    total = 0
    for i in range(len(begin)):
        count = begin[i]
        begin[i] = total
        total += count
    for i in range(len(code)):
        order[begin[code[i]]] = i
        begin[code[i]] += 1
    for i in range(len(begin) - 1, 0, -1):
        begin[i] = begin[i - 1]
    begin[0] = 0


@loops
def first_times(episode: IntArray, code: IntArray, last: IntArray, first: BoolArray) -> None:
    """Which rows (n,) have a code for the first time in their episode; `last` (codes,) holds -1 before."""
    for i in range(len(code)):
        first[i] = last[code[i]] != episode[i]
        last[code[i]] = episode[i]


@loops
def pearson_tables(
    order: IntArray,  # (n,) rows, those of a stratum together, in it those of a level of the factor
    begin: IntArray,  # (strata + 1,) where each stratum begins
    factor: IntArray,  # (n,)
    response: IntArray,  # (n,) from 0 on
    rare: int,  # levels of a stratum with fewer rows are one
    room: IntArray,  # (5, codes of the response) zeros
    found: FloatArray,  # (strata, 6) filled: rows, levels, levels, sum of n_ij^2 / (n_i n_j), sums of 1 / n_i, 1 / n_j
) -> None:
    """What Pearson's statistic and its moments need of each stratum's table."""
    count, level, size, cell, others = room[0], room[1], room[2], room[3], room[4]
    for s in range(len(begin) - 1):
        low, high = begin[s], begin[s + 1]
        for t in range(low, high):
            count[response[order[t]]] += 1
        columns = 1  # the first is that of rare levels
        for t in range(low, high):
            code = response[order[t]]
            if count[code] >= rare and level[code] == 0:
                level[code] = columns
                columns += 1
            size[level[code]] += 1
        rows, few, inverse, share, t = 0, 0, 0.0, 0.0, low
        while t < high:
            end = t
            while end < high and factor[order[end]] == factor[order[t]]:
                end += 1
            n = end - t
            if n < rare:
                few += n
                for u in range(t, end):
                    others[level[response[order[u]]]] += 1
            else:
                rows += 1
                inverse += 1.0 / n
                for u in range(t, end):
                    cell[level[response[order[u]]]] += 1
                for u in range(t, end):
                    c = level[response[order[u]]]
                    share += cell[c] * cell[c] / (n * size[c])
                    cell[c] = 0
            t = end
        met, inverse_columns = 0, 0.0
        for c in range(columns):
            if few > 0 and others[c] > 0:
                share += others[c] * others[c] / (few * size[c])
            if size[c] > 0:
                met += 1
                inverse_columns += 1.0 / size[c]
            size[c] = 0
            others[c] = 0
        for t in range(low, high):
            count[response[order[t]]] = 0
            level[response[order[t]]] = 0
        found[s, 0], found[s, 1], found[s, 2], found[s, 3] = high - low, rows + (few > 0), met, share
        found[s, 4], found[s, 5] = inverse + (1.0 / few if few > 0 else 0.0), inverse_columns


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
