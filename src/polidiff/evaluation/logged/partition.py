r"""Cells of feature states in which policies act alike and their values are level.

A cell may stand for its states if the value of each policy in question is the same in all of them. What the logging
policy's episodes brought is not enough: where it mends what a proposed policy would not, both sides of a border look
alike. So the cells are drawn several times. With :math:`V_\pi` solved on the last cells, a logged row whose action is
the policy's own shows

.. math:: V_\pi(c) + \frac{g + \gamma V_\pi(c') - Q_\pi(c, a)}{\sqrt{p_c}},

with :math:`p_c` the share of such rows in the cell (a row of another action shows :math:`V_\pi(c)`), and a regression
tree is grown on what all policies show. Dividing by the root keeps the scatter as large as that of the rows that speak.
A split must gain more than the best of many splits would if all that varies within the last cells were noise,

.. math:: \sum_j \varphi_j + 2 \sqrt{L \textstyle\sum_j \varphi_j^2} + 2 L \max_j \varphi_j

over the columns j (Laurent and Massart 2000), with L the logarithm of the places tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polidiff.evaluation.logged.counts import count_rows
from polidiff.evaluation.logged.episodes import outcomes_to_come
from polidiff.evaluation.logged.model import build_model, split_policy
from polidiff.policies import Policy, one_hot, top_actions
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.log_rows import LoggedRows
from polidiff.worlds.shards.transition_counts import CUT

FEWEST_ROWS = 30  # per cell, among the rows that draw it
MOST_CELLS = 300
ROUNDS = 4
SPLITS_TRIED = 3.0  # logarithm of how many places a split may be put


def fit_partition(
    rows: LoggedRows,
    x: FloatArray,
    policies: Sequence[Policy],
    n_actions: int,
    *,
    region: IntArray,
    discount: float,
    seed: int,
) -> Any:
    """A regression tree over encoded features x (n, d); its leaves are the cells, `region` (n,) is told apart first."""
    acted = [top_actions(policy.probabilities(rows.states)) for policy in policies]
    apart = [one_hot(region, int(region.max(initial=0)) + 1), *(one_hot(actions, n_actions) for actions in acted)]
    logged = outcomes_to_come(rows, discount)
    tree = _grow(x, [*apart, logged], np.zeros(len(x), dtype=np.int64), seed)
    for _ in range(ROUNDS if acted else 0):
        cell = _renumbered(tree.apply(x))
        tree = _grow(x, [*apart, logged, *_shown(rows, cell, acted, n_actions, discount)], cell, seed)
    return tree


def _shown(
    rows: LoggedRows, cell: IntArray, acted: Sequence[IntArray], n_actions: int, discount: float
) -> list[FloatArray]:
    """(n, K) per policy: what each row shows of the policy's value, given cells."""
    size = int(cell.max()) + 1
    edges = count_rows(rows, cell, size, n_actions).edges
    after = np.where(rows.follow >= 0, cell[rows.follow], size)
    members = np.bincount(cell, minlength=size)
    found = []
    for actions in acted:
        table = _averages(cell, one_hot(actions, n_actions), members)
        model = build_model(edges, split_policy(table, None), discount=discount, lend=True)
        own = np.flatnonzero((rows.actions == actions) & (rows.follow != CUT))
        here, pair = cell[own], cell[own] * n_actions + actions[own]
        share = np.bincount(here, minlength=size) / members
        shown = np.empty(rows.gains.shape)
        for k in range(edges.sums.shape[1]):
            values = model.values(k, 0.0)
            shown[:, k] = values[cell]
            drawn = rows.gains[own, k] + discount * np.append(values, 0.0)[after[own]]
            shown[own, k] += _off_mean(drawn, pair) / np.sqrt(share[here])
        found.append(shown)
    return found


def _off_mean(values: FloatArray, group: IntArray) -> FloatArray:
    total, count = np.bincount(group, values), np.bincount(group)
    return np.asarray(values - (total / np.maximum(count, 1))[group])


def _averages(cell: IntArray, table: FloatArray, members: IntArray) -> FloatArray:
    columns = [np.bincount(cell, column, len(members)) for column in table.T]
    return np.asarray(np.column_stack(columns) / members[:, None])


def _renumbered(leaf: IntArray) -> IntArray:
    return np.asarray(np.unique(leaf, return_inverse=True)[1])


def _grow(x: FloatArray, signals: Sequence[FloatArray], cell: IntArray, seed: int) -> Any:
    """A tree on signals, each on the scale of one standard deviation; what varies within cells may be noise."""
    from sklearn.tree import DecisionTreeRegressor

    table = np.column_stack(signals)
    scale = table.std(axis=0)
    kept = scale > 1e-12 * (1 + np.abs(table).max(axis=0))
    table = table[:, kept] / scale[kept] if kept.any() else np.zeros((len(x), 1))
    noise = np.array([_off_mean(column, cell).var() for column in table.T])
    luck = noise.sum() + 2 * np.sqrt(SPLITS_TRIED * (noise**2).sum()) + 2 * SPLITS_TRIED * noise.max()
    return DecisionTreeRegressor(
        max_leaf_nodes=MOST_CELLS,
        min_samples_leaf=max(min(FEWEST_ROWS, len(x) // 4), 1),
        min_impurity_decrease=luck / (table.shape[1] * len(x)),
        random_state=seed,
    ).fit(x, table)
