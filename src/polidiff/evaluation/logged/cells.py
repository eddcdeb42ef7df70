"""Feature states as cells, so that one engine serves both kinds of log.

A regression tree splits the feature space where the policies differ and where their values do (`partition`); the
regions of an explanation split it further. A quarter of the episodes draws the cells and
the others are counted in them, so that no cell is judged by the rows that drew it. Within a cell a policy is its
average over the cell's rows: an approximation. With `history` cells are told apart by the policies' actions and by how
they were reached (`cell_history`), and what the approximation hides is part of the interval.

Of a log that is too long to be held, episodes that are held draw the cells, and all rows are then put into them
(`all_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polidiff.evaluation.logged.all_rows import DRAWING, Asked, answers, count_all_rows, share_that_draws
from polidiff.evaluation.logged.cell_map import CellMap, cut_by_actions, join_slivers, leaf_of, region_of
from polidiff.evaluation.logged.counted_log import LOG, CountedLog, as_log_policy
from polidiff.evaluation.logged.counts import BLOCKS, count_rows
from polidiff.evaluation.logged.encoder import Encoder, fit_encoder
from polidiff.evaluation.logged.episodes import some_episodes
from polidiff.evaluation.logged.partition import fit_partition
from polidiff.evaluation.logged.rule_coverage import rule_coverage
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.worlds.log_stream import limit_of

if TYPE_CHECKING:
    from polidiff.policies import Policy
    from polidiff.worlds.log import Log


def count_cells_of(
    log: Log,
    policies: Sequence[Any],
    regions: Sequence[Any],
    *,
    seed: int = 0,
    blocks: int = BLOCKS,
    history: bool = False,
    rules: Sequence[Any] = (),
) -> CountedLog:
    """A log with feature states, counted over cells; `rules` are those whose share of all rows is wanted."""
    rows = log.rows
    named = [policy for policy in policies if not (isinstance(policy, str) and policy == LOG)]
    given = [as_log_policy(log, policy) for policy in named]
    several = history and len(rows.actions) > rows.n_episodes
    tables = [answers(policy, rows.states) for policy in given] if several else []
    drawing, encode = _drawing(log), fit_encoder(rows.states)
    x = encode(rows.states)
    cells = draw_cells(log, given, regions, encode, x, drawing, tables, seed)
    if log.sampled:
        limit = limit_of(share_that_draws(log))
        asked = Asked(cells, tuple(given), log.n_actions, len(log.outcomes), limit, blocks, tuple(rules))
        return count_all_rows(log, asked, named)
    counted = ~drawing if drawing.any() and not drawing.all() else drawing
    if cells.turns is not None:
        cells = cells.with_levels(cells.ways_to(rows, x, tables, counted))
    met, cell = np.unique(cells.number(rows, x, tables), return_inverse=True)
    judging = replace(some_episodes(rows, counted), episode=rows.episode[counted])  # same blocks as the whole log
    counts = count_rows(judging, cell[counted], len(met), log.n_actions, blocks=BLOCKS)

    def average(policy: Any) -> FloatArray:
        chosen = answers(as_log_policy(log, policy), rows.states)
        size = np.maximum(np.bincount(cell, minlength=len(met)), 1)
        return np.column_stack([np.bincount(cell, column, len(met)) for column in chosen.T]) / size[:, None]

    first = rows.first
    return CountedLog(
        counts,
        cells.named(met),
        cell[first],
        np.ones(int(first.sum()), dtype=np.int64),
        average,
        lambda: cell,
        region_of(regions, rows.states[first]),
        rule_coverage(rows, rules, x),
    )


def draw_cells(
    log: Log,
    policies: Sequence[Policy],
    regions: Sequence[Any],
    encode: Encoder,
    x: FloatArray,
    drawing: BoolArray,
    tables: Sequence[FloatArray],
    seed: int,
) -> CellMap:
    """Cells from the rows (n,) that draw them, with encoded features x (n, d); cut by `tables` (n, A), if any."""
    rows, width, region = log.rows, len(regions) + 1, region_of(regions, log.rows.states)
    drawn = np.column_stack([x[drawing], region[drawing]])  # the tree may split by region, exactly
    tree = fit_partition(
        some_episodes(rows, drawing), drawn, policies, log.n_actions, region=region[drawing], discount=log.discount,
        seed=seed,
    ).tree_  # fmt: skip
    leaf = leaf_of(tree, x, region)
    places = join_slivers(leaf, region, width, np.arange(width))
    turns = cut_by_actions(places.of(leaf, region), tables) if tables else None
    return CellMap(encode, tree, tuple(regions), _descriptions(tree, encode, log.feature_names), places, turns)


def _drawing(log: Log) -> BoolArray:
    """(n,) rows of the episodes that draw the cells; all of them if there are few."""
    rows = log.rows
    if rows.hashed is not None:
        small: BoolArray = rows.hashed < limit_of(share_that_draws(log))
        return small if small.any() else ~small
    if rows.n_episodes < 2 * DRAWING:
        return np.ones(len(rows.actions), dtype=np.bool_)
    return rows.episode % DRAWING == 0


def _descriptions(tree: Any, encode: Encoder, names: tuple[str, ...]) -> dict[int, str]:
    """Each leaf as the box of features that leads to it."""
    found: dict[int, str] = {}
    stack: list[tuple[int, dict[int, tuple[float, float]]]] = [(0, {})]
    while stack:
        node, box = stack.pop()
        if tree.children_left[node] < 0:
            sides = [_side(encode, names[j], j, *ends) for j, ends in sorted(box.items()) if j < len(names)]
            found[node] = ", ".join(sides) or "any state"
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
