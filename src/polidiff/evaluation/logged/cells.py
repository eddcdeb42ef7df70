"""Feature states as cells, so that one engine serves both kinds of log.

A regression tree splits the feature space where the policies differ, where the logged actions differ, and where the
outcomes to come differ; the regions of an explanation split it further. A quarter of the episodes draws the cells and
the others are counted in them, so that no cell is judged by the rows that drew it. Within a cell a policy is its
average over the cell's rows: an approximation, which the weighted estimators check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polidiff.evaluation.logged.counts import BLOCKS, count_rows
from polidiff.evaluation.logged.encode import Encoder, fit_encoder
from polidiff.evaluation.logged.footing import LOG, Footing, as_log_policy
from polidiff.evaluation.logged.rows import outcomes_to_come, some_episodes
from polidiff.policies import one_hot, top_actions
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.rule import first_match

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

DRAWING = 4  # one episode in this many draws the cells
FEWEST_ROWS = 30  # per cell, among the rows that draw it
MOST_CELLS = 300


def cell_footing(log: Log, policies: Sequence[Any], regions: Sequence[Any], *, seed: int = 0) -> Footing:
    """A log with feature states, counted over cells."""
    rows = log.rows
    drawing = rows.episode % DRAWING == 0 if rows.n_episodes >= 2 * DRAWING else np.ones(len(rows.actions), dtype=bool)
    encode = fit_encoder(rows.states)
    given = [as_log_policy(log, policy) for policy in policies if not (isinstance(policy, str) and policy == LOG)]
    tree = _fit_tree(encode(rows.states[drawing]), _signals(log, given, drawing), seed)
    leaf = tree.apply(encode(rows.states))
    code = leaf * (len(regions) + 1) + _region_of(regions, rows.states)
    codes, cell = np.unique(code, return_inverse=True)
    counted = ~drawing if drawing.any() and not drawing.all() else drawing
    judging = replace(some_episodes(rows, counted), episode=rows.episode[counted])  # same blocks as the whole log
    counts = count_rows(judging, cell[counted], len(codes), log.n_actions, blocks=BLOCKS)
    described = _descriptions(tree.tree_, encode, log.feature_names)
    names = _named(codes, len(regions) + 1, described)

    def average(policy: Any) -> FloatArray:
        chosen = np.asarray(as_log_policy(log, policy).probabilities(rows.states), dtype=np.float64)
        size = np.maximum(np.bincount(cell, minlength=len(codes)), 1)
        return np.column_stack([np.bincount(cell, column, len(codes)) for column in chosen.T]) / size[:, None]

    first = rows.first
    return Footing(counts, names, cell[first], np.ones(int(first.sum()), dtype=np.int64), average, lambda: cell)


def _signals(log: Log, policies: Sequence[Any], drawing: BoolArray) -> FloatArray:
    """What cells should be homogeneous in, each on the scale of one standard deviation."""
    rows = log.rows
    parts = [one_hot(rows.actions[drawing], log.n_actions), outcomes_to_come(rows, log.discount)[drawing]]
    parts += [one_hot(top_actions(policy.probabilities(rows.states[drawing])), log.n_actions) for policy in policies]
    table = np.column_stack(parts)
    scale = table.std(axis=0)
    return np.asarray(table[:, scale > 0] / scale[scale > 0]) if (scale > 0).any() else table[:, :1]


def _fit_tree(x: FloatArray, signals: FloatArray, seed: int) -> Any:
    from sklearn.tree import DecisionTreeRegressor

    fewest = max(min(FEWEST_ROWS, len(x) // 4), 1)
    return DecisionTreeRegressor(max_leaf_nodes=MOST_CELLS, min_samples_leaf=fewest, random_state=seed).fit(x, signals)


def _region_of(regions: Sequence[Any], states: AnyArray) -> IntArray:
    if not regions:
        return np.zeros(len(states), dtype=np.int64)
    return np.asarray(first_match(list(regions), states) + 1, dtype=np.int64)


def _named(codes: IntArray, width: int, described: dict[int, str]) -> tuple[str, ...]:
    names = []
    for code in codes:
        leaf, region = divmod(int(code), width)
        names.append(described[leaf] + (f" (region {region})" if region else ""))
    return tuple(names)


def _descriptions(tree: Any, encode: Encoder, names: tuple[str, ...]) -> dict[int, str]:
    """Each leaf as the box of features that leads to it."""
    found: dict[int, str] = {}
    stack: list[tuple[int, dict[int, tuple[float, float]]]] = [(0, {})]
    while stack:
        node, box = stack.pop()
        if tree.children_left[node] < 0:
            found[node] = ", ".join(_side(encode, names[j], j, *ends) for j, ends in sorted(box.items())) or "any state"
            continue
        feature, cut = int(tree.feature[node]), float(tree.threshold[node])
        low, high = box.get(feature, (-np.inf, np.inf))
        stack.append((int(tree.children_left[node]), {**box, feature: (low, min(high, cut))}))
        stack.append((int(tree.children_right[node]), {**box, feature: (max(low, cut), high)}))
    return found


def _side(encode: Encoder, name: str, column: int, low: float, high: float) -> str:
    words = encode.words(column, low, high)
    if words is not None:
        return f"{name} in {{{words}}}"
    if np.isinf(low):
        return f"{name} ≤ {high:.4g}"
    return f"{name} > {low:.4g}" if np.isinf(high) else f"{low:.4g} < {name} ≤ {high:.4g}"
