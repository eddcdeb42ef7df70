"""Costs chosen by inner cross-validation: how much a clause must explain is a property of the noise.

For costs :math:`c` from long to short rules the held-out loss of K folds is averaged; the largest cost whose mean loss
is within half a standard error of the least one is taken, because between equals the shorter rules are the better ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from polidiff.optimize import Clock
from polidiff.parallel import run_tasks
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.rules.peeling import Labelled, PeelingOptions, peel, rules_of, weight_told_wrong

COSTS = (5e-4, 1.5e-3, 4e-3, 0.01, 0.03)
PARTS = (COSTS[:2], COSTS[2:])  # about the same work: low costs make many rules
FOLDS = 5
MOST_ROWS = 8_000  # rows used to choose; more would not change the choice


def choose_cost(
    rows: Labelled,
    options: Callable[[float, float], PeelingOptions],
    order: Sequence[int],
    *,
    default: int,
    clock: Clock,
    rng: np.random.Generator,
) -> float:
    """The cost of a clause; `options(cost, weight)` are those of a fold of so much weight. Tasks are independent."""
    used = np.flatnonzero(rows.weight > 0)
    if len(used) > MOST_ROWS:
        used = np.sort(rng.choice(used, MOST_ROWS, replace=False))
    folds = stratified_folds(rows.truth, used, rng)
    parts = [(rows.take(np.setdiff1d(used, fold)), rows.take(fold)) for fold in folds]
    own = iter(rng.spawn(len(PARTS) * len(parts)))
    tasks = [
        (train, test, [options(cost, float(train.weight.sum())) for cost in costs], order, default, clock, next(own))
        for costs in PARTS
        for train, test in parts
    ]
    told = run_tasks(held_out_losses, tasks, what="choosing the cost of a rule")
    losses = [np.array(told[k : k + len(parts)]).T for k in range(0, len(told), len(parts))]
    return COSTS[shortest_of_the_best(np.ascontiguousarray(np.concatenate(losses)))]


def held_out_losses(
    train: Labelled,
    test: Labelled,
    options: Sequence[PeelingOptions],
    order: Sequence[int],
    default: int,
    clock: Clock,
    rng: np.random.Generator,
) -> list[float]:
    """For each of the options the share of held-out weight that is told wrong."""
    known = [label for label in order if (train.truth == label).any()]
    lists = (rules_of(peel(train, known, each, clock=clock, rng=rng)) for each in options)
    return [weight_told_wrong(test, listed, default) / float(test.weight.sum()) for listed in lists]


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
