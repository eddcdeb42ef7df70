"""Feature states as cells, so that one engine serves both kinds of log.

A regression tree splits the feature space where the policies differ and where their values do (`partition`); the
regions of an explanation split it further. A quarter of the episodes draws the cells and
the others are counted in them, so that no cell is judged by the rows that drew it. Within a cell a policy is its
average over the cell's rows: an approximation. With `history` cells are told apart by the policies' actions and by how
they were reached (`history`), and what the approximation hides is part of the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polidiff.evaluation.logged.counts import BLOCKS, count_rows
from polidiff.evaluation.logged.encode import Encoder, fit_encoder
from polidiff.evaluation.logged.footing import LOG, Footing, as_log_policy
from polidiff.evaluation.logged.history import acted_apart, reached_by_own
from polidiff.evaluation.logged.partition import FEWEST_ROWS, fit_partition
from polidiff.evaluation.logged.rows import some_episodes
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.rule import first_match

if TYPE_CHECKING:
    from polidiff.worlds.log import Log
    from polidiff.worlds.log_rows import LoggedRows

WAYS = (" (reached by other decisions)", " (reached by a policy's own decisions)")
DRAWING = 4  # one episode in this many draws the cells


def cell_footing(
    log: Log, policies: Sequence[Any], regions: Sequence[Any], *, seed: int = 0, history: bool = False
) -> Footing:
    """A log with feature states, counted over cells."""
    rows = log.rows
    drawing = rows.episode % DRAWING == 0 if rows.n_episodes >= 2 * DRAWING else np.ones(len(rows.actions), dtype=bool)
    encode = fit_encoder(rows.states)
    given = [as_log_policy(log, policy) for policy in policies if not (isinstance(policy, str) and policy == LOG)]
    drawn, region = some_episodes(rows, drawing), _region_of(regions, rows.states)
    x = np.column_stack([encode(rows.states), region])  # the tree may split by region, exactly
    tree = fit_partition(
        drawn, x[drawing], given, log.n_actions, region=region[drawing], discount=log.discount, seed=seed
    )
    codes, cell = _pieces(tree.apply(x), region, len(regions) + 1)
    counted = ~drawing if drawing.any() and not drawing.all() else drawing
    names = _named(codes, len(regions) + 1, _descriptions(tree.tree_, encode, log.feature_names))
    if history and given and len(rows.actions) > rows.n_episodes:
        tables = [np.asarray(policy.probabilities(rows.states), dtype=np.float64) for policy in given]
        names, cell = _told_apart(rows, names, cell, tables, counted)
    judging = replace(some_episodes(rows, counted), episode=rows.episode[counted])  # same blocks as the whole log
    counts = count_rows(judging, cell[counted], len(names), log.n_actions, blocks=BLOCKS)

    def average(policy: Any) -> FloatArray:
        chosen = np.asarray(as_log_policy(log, policy).probabilities(rows.states), dtype=np.float64)
        size = np.maximum(np.bincount(cell, minlength=len(names)), 1)
        return np.column_stack([np.bincount(cell, column, len(names)) for column in chosen.T]) / size[:, None]

    first = rows.first
    return Footing(counts, names, cell[first], np.ones(int(first.sum()), dtype=np.int64), average, lambda: cell)


def _told_apart(
    rows: LoggedRows, names: tuple[str, ...], cell: IntArray, tables: Sequence[FloatArray], counted: BoolArray
) -> tuple[tuple[str, ...], IntArray]:
    """Cells cut where the policies (n, A) act differently, then by whether own decisions of each led to the row."""
    apart = acted_apart(tables)
    width = int(apart.max()) + 1
    codes, piece = _pieces(cell + 1, apart, width)
    places = [names[code // width - 1] if code >= width else "other states" for code in codes]
    way = sum(reached_by_own(rows, piece, table, counted).astype(np.int64) << j for j, table in enumerate(tables))
    ways = 1 << len(tables)
    found, state = np.unique(piece * ways + way, return_inverse=True)
    split = np.bincount(found // ways)[found // ways] > 1
    told = [
        places[code // ways] + (WAYS[int(code % ways > 0)] if cut else "")
        for code, cut in zip(found, split, strict=True)
    ]
    return tuple(told), np.asarray(state)


def _pieces(leaf: IntArray, region: IntArray, width: int) -> tuple[IntArray, IntArray]:
    """Codes leaf · width + region and the piece of each row; slivers of a leaf join those of their region as leaf 0.

    Leaf 0 is the root, which is a leaf only if it is the only one: then nothing is left to join.
    """
    code = leaf * width + region
    codes, piece, size = np.unique(code, return_inverse=True, return_counts=True)
    cut = np.bincount(codes // width)[codes // width] > 1
    sliver = (cut & (size < FEWEST_ROWS))[piece]
    return np.unique(np.where(sliver, region, code), return_inverse=True)


def _region_of(regions: Sequence[Any], states: AnyArray) -> IntArray:
    if not regions:
        return np.zeros(len(states), dtype=np.int64)
    return np.asarray(first_match(list(regions), states) + 1, dtype=np.int64)


def _named(codes: IntArray, width: int, described: dict[int, str]) -> tuple[str, ...]:
    names = []
    for code in codes:
        leaf, region = divmod(int(code), width)
        place = described.get(leaf, "other states")
        names.append(place + (f" (region {region})" if region else ""))
    return tuple(names)


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
