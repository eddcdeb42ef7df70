"""Costs chosen by inner cross-validation: how much a clause must explain is a property of the noise.

For costs :math:`c` from long to short rules the held-out loss of K folds is averaged; the largest cost whose mean loss
is within half a standard error of the least one is taken, because between equals the shorter rules are the better ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from polidiff.records.arrays import AnyArray, FloatArray, IntArray

COSTS = (5e-4, 1.5e-3, 4e-3, 0.01, 0.03)
FOLDS = 5
MOST_ROWS = 8_000  # rows used to choose; more would not change the choice


def choose_cost(
    truth: IntArray, weight: FloatArray, loss: Callable[[float, AnyArray, AnyArray], float], rng: np.random.Generator
) -> float:
    """The cost of a clause; `loss(cost, train, test)` is the share of held-out weight told wrong."""
    rows = np.flatnonzero(weight > 0)
    if len(rows) > MOST_ROWS:
        rows = np.sort(rng.choice(rows, MOST_ROWS, replace=False))
    parts = [(np.setdiff1d(rows, fold), fold) for fold in stratified_folds(truth, rows, rng)]
    losses = np.array([[loss(cost, train, test) for train, test in parts] for cost in COSTS])
    return COSTS[shortest_of_the_best(losses)]


def stratified_folds(truth: IntArray, rows: IntArray, rng: np.random.Generator) -> list[IntArray]:
    """Rows dealt to folds class by class, in random order."""
    shuffled = rng.permutation(rows)
    dealt = shuffled[np.argsort(truth[shuffled], kind="stable")]
    return [np.sort(dealt[k::FOLDS]) for k in range(FOLDS) if len(dealt[k::FOLDS])]


def shortest_of_the_best(losses: FloatArray | Sequence[Sequence[float]]) -> int:
    """Index of the last row whose mean is within half a standard error of the least mean.

    >>> shortest_of_the_best([[0.2, 0.3], [0.1, 0.2], [0.11, 0.2], [0.4, 0.4]])
    2
    """
    table = np.asarray(losses)
    mean = table.mean(axis=1)
    best = int(mean.argmin())
    error = table[best].std(ddof=1) / np.sqrt(table.shape[1]) if table.shape[1] > 1 else 0.0
    return int(np.flatnonzero(mean <= mean[best] + error / 2)[-1])
