"""Costs chosen by inner cross-validation: how much a clause must explain is a property of the noise.

For costs :math:`c` from long to short rules the held-out loss of K folds is averaged; the largest cost whose mean loss
is within half a standard error of the least one is taken, because between equals the shorter rules are the better ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from polidiff.optimize import Clock
from polidiff.parallel import run_tasks
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.rules.peeling import Labelled, PeelingOptions, list_loss, peel

COSTS = (5e-4, 1.5e-3, 4e-3, 0.01, 0.03)
PARTS = (COSTS[:2], COSTS[2:])  # about the same work: low costs make many rules
FOLDS = 5
MOST_ROWS = 8_000  # rows used to choose; more would not change the choice


@dataclass(frozen=True, eq=False)
class Task:
    """One fold and some of the costs: learn from the other rows, tell the rows that were held out."""

    train: Labelled
    test: Labelled
    options: tuple[PeelingOptions, ...]  # one for each cost
    order: tuple[int, ...]  # of the classes that have rules
    names: tuple[str, ...]  # of all classes
    default: int
    clock: Clock
    rng: np.random.Generator


def choose_cost(
    rows: Labelled,
    task: Callable[[Labelled, Labelled, Sequence[float], np.random.Generator], Task],
    rng: np.random.Generator,
) -> float:
    """The cost of a clause; `task(train, test, costs, rng)` says how a fold is learnt. Tasks are independent."""
    used = np.flatnonzero(rows.weight > 0)
    if len(used) > MOST_ROWS:
        used = np.sort(rng.choice(used, MOST_ROWS, replace=False))
    folds = stratified_folds(rows.truth, used, rng)
    parts = [(rows.take(np.setdiff1d(used, fold)), rows.take(fold)) for fold in folds]
    own = iter(rng.spawn(len(PARTS) * len(parts)))
    tasks = [(task(train, test, costs, next(own)),) for costs in PARTS for train, test in parts]
    told = run_tasks(held_out_losses, tasks, what="choosing the cost of a rule")
    losses = [np.array(told[k : k + len(parts)]).T for k in range(0, len(told), len(parts))]
    return COSTS[shortest_of_the_best(np.ascontiguousarray(np.concatenate(losses)))]


def held_out_losses(task: Task) -> list[float]:
    """For each cost the share of held-out weight that is told wrong."""
    train, test = task.train, task.test
    losses = []
    for options in task.options:
        stages = peel(train, task.order, options, names=task.names, clock=task.clock, rng=task.rng)
        losses.append(list_loss(test, stages, task.default))
    return losses


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
