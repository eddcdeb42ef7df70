"""Search for clauses with a good reduced value: a beam over histograms.

Under row prices :math:`r_i` (≥ 0 for positives, :math:`-w_i` for negatives) the value of a clause is
:math:`\\sum_{i \\in k} r_i - c_0 - c_1 |k|`. One condition of a small box in a large background has a negative value,
so a beam ranked by value never gets to the second condition. The *enrichment* beam weighs the negatives of a node so
that the node sums to zero, takes the best segment under these weights, and ranks children by FOIL's gain

.. math:: p \\left( \\log \\frac{p}{p+q} - \\log \\frac{P}{P+Q} \\right).

The *value* beam takes the best segment under the true prices and ranks by the mean of value and upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.rules.problem import Problem
from polidiff.rules.segments import best_segments


@dataclass(frozen=True)
class BeamOptions:
    """How widely to search."""

    width: int = 8  # nodes kept on each level
    depth: int = 6  # levels
    ratios: tuple[float, ...] = (1.0, 2.0, 0.7)  # weight of negatives in a node, relative to balance
    by_value: bool = False  # rank by value and bound instead of enrichment


@dataclass(frozen=True, eq=False)
class Clauses:
    """Clauses on the grid with their values under the prices they were made for."""

    masks: BoolArray  # (K, d, width)
    values: FloatArray  # (K,)

    def best(self, count: int) -> Clauses:
        """The most valuable ones, first come first on ties."""
        order = np.argsort(-self.values, kind="stable")[:count]
        return Clauses(self.masks[order], self.values[order])


@dataclass(frozen=True, eq=False)
class _Level:
    masks: BoolArray  # (K, d, width)
    rows: tuple[IntArray, ...]  # rows covered by each node


def histograms(problem: Problem, prices: FloatArray, rows: tuple[IntArray, ...]) -> tuple[FloatArray, FloatArray]:
    """Positive and (as magnitudes) negative prices per node, feature and cell: each (K, d, width)."""
    d, width = problem.grid.full.shape
    chosen = np.concatenate(rows)
    node = np.repeat(np.arange(len(rows)) * 2, [len(r) for r in rows])
    weight = prices[chosen]
    node += weight < 0
    cells = problem.flat[chosen] + (node * (d * width))[:, None]
    counts = np.bincount(cells.ravel(), weights=np.repeat(np.abs(weight), d), minlength=2 * len(rows) * d * width)
    both = counts.astype(np.float64, copy=False).reshape(len(rows), 2, d, width)
    return both[:, 0], both[:, 1]


def beam(problem: Problem, prices: FloatArray, options: BeamOptions) -> Clauses:
    """All clauses that the beam kept, with their values."""
    level = _Level(problem.grid.full[None], (np.flatnonzero(prices),))
    total = prices[prices > 0].sum(), -prices[prices < 0].sum()
    found: list[Clauses] = []
    for _ in range(options.depth):
        if total[0] <= 0 or not level.rows:
            break
        level, kept = _children(problem, prices, level, total, options)
        found.append(kept)
    if not found:
        return Clauses(np.empty((0, *problem.grid.full.shape), dtype=np.bool_), np.empty(0))
    return Clauses(np.concatenate([c.masks for c in found]), np.concatenate([c.values for c in found]))


def _children(
    problem: Problem, prices: FloatArray, level: _Level, total: tuple[float, float], options: BeamOptions
) -> tuple[_Level, Clauses]:
    plus, minus = histograms(problem, prices, level.rows)
    masks = _segments(problem, plus, minus, options) & level.masks  # (ratios, K, d, width)
    p = (masks * plus).sum(axis=-1)
    q = (masks * minus).sum(axis=-1)
    literals = problem.grid.literals(masks)
    others = problem.grid.literals(level.masks)
    literals = literals + (others.sum(axis=-1, keepdims=True) - others)
    price = problem.clause_cost + problem.literal_cost * literals
    useful = (np.count_nonzero(masks, axis=-1) < np.count_nonzero(level.masks, axis=-1)) & (p > price)
    if options.by_value:
        score = p - price - q / 2
    else:
        score = p * (np.log(np.maximum(p, 1e-300) / np.maximum(p + q, 1e-300)) - np.log(total[0] / sum(total)))
    return _keep(problem, level, masks, np.where(useful, score, -np.inf), p - q - price, options.width)


def _segments(problem: Problem, plus: FloatArray, minus: FloatArray, options: BeamOptions) -> BoolArray:
    """The best cells of every feature, for each weight of the negatives: (ratios, K, d, width)."""
    ratios = np.array(options.ratios)[:, None, None, None]
    if options.by_value:
        return best_segments(problem.grid, plus - ratios * minus, problem.literal_cost)
    p, q = plus[:, 0].sum(axis=-1), minus[:, 0].sum(axis=-1)
    balance = np.where(q > 0, p / np.maximum(q, 1e-300), 0.0)[:, None, None]
    return best_segments(problem.grid, plus - ratios * balance * minus, 0.0)


def _keep(
    problem: Problem, level: _Level, masks: BoolArray, score: FloatArray, value: FloatArray, width: int
) -> tuple[_Level, Clauses]:
    boxes: list[BoolArray] = []
    values: list[float] = []
    rows: list[IntArray] = []
    seen: set[bytes] = set()
    for place in np.argsort(-score, axis=None, kind="stable"):
        ratio, node, j = np.unravel_index(int(place), score.shape)
        if score[ratio, node, j] == -np.inf or len(boxes) == width:
            break
        box = level.masks[node].copy()
        box[j] = masks[ratio, node, j]
        key = box.tobytes()
        if key in seen:
            continue
        seen.add(key)
        inside = level.rows[node]
        boxes.append(box)
        values.append(value[ratio, node, j])
        rows.append(inside[box[j].take(problem.codes[j].take(inside))])
    kept = np.array(boxes, dtype=np.bool_).reshape(-1, *problem.grid.full.shape)
    return _Level(kept, tuple(rows)), Clauses(kept, np.array(values))
