"""Search for clauses with a good reduced value: a beam over histograms.

Under row prices :math:`r_i` (≥ 0 for positives, :math:`-w_i` for negatives) the value of a clause is
:math:`\\sum_{i \\in k} r_i - c_0 - c_1 |k|`. One condition of a small box in a large background has a negative value,
so a beam ranked by value never gets to the second condition. Therefore two rankings share one beam. By *enrichment*:
the negatives of a node are weighed so that the node sums to zero, the best segment is taken under these weights, and
children are ranked by FOIL's gain

.. math:: p \\left( \\log \\frac{p}{p+q} - \\log \\frac{P}{P+Q} \\right).

By *value*: the best segment under the true prices (and under a share of the negatives), ranked by the mean of value
and upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray
from polidiff.rules.problem import Priced, Problem
from polidiff.rules.segments import best_segments


@dataclass(frozen=True)
class BeamOptions:
    """How widely to search."""

    enriched: int = 8  # nodes kept on each level by enrichment
    valued: int = 5  # nodes kept on each level by value
    depth: int = 6  # levels
    ratios: tuple[float, ...] = (1.0, 2.0, 0.7)  # weight of negatives in a node, relative to balance
    shares: tuple[float, ...] = (1.0, 0.3)  # weight of negatives, relative to the true prices


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
    rows: BoolArray  # (K, m) priced rows that each node covers


@dataclass(frozen=True, eq=False)
class _Children:
    """Every feature of every node with its best cells, for each weight of the negatives."""

    cells: BoolArray  # (width, weights, K, d)
    enrichment: FloatArray  # (weights, K, d) -inf where nothing is gained
    promise: FloatArray  # (weights, K, d) mean of value and upper bound, -inf where nothing is gained
    value: FloatArray  # (weights, K, d)


def beam(problem: Problem, prices: FloatArray, options: BeamOptions) -> Clauses:
    """All clauses that the beam kept, with their values."""
    priced = Priced.of(problem, prices)
    level = _Level(problem.grid.full[None], np.ones((1, len(priced.price)), dtype=np.bool_))
    found: list[Clauses] = []
    for _ in range(options.depth):
        if not (priced.price > 0).any() or not len(level.masks):
            break
        level, kept = _keep(priced, level, _children(priced, level, options), options)
        found.append(kept)
    if not found:
        return Clauses(np.empty((0, *problem.grid.full.shape), dtype=np.bool_), np.empty(0))
    return Clauses(np.concatenate([c.masks for c in found]), np.concatenate([c.values for c in found]))


def _children(priced: Priced, level: _Level, options: BeamOptions) -> _Children:
    problem, grid = priced.problem, priced.problem.grid
    plus, minus = _sides(priced, level)
    weights, costs = _weights(plus, minus, problem.literal_cost, options)
    present = level.masks.transpose(2, 0, 1)[:, None]
    cells = best_segments(grid, plus - weights * minus, costs)
    cells &= present
    p, q = (cells * plus).sum(axis=0), (cells * minus).sum(axis=0)
    others = grid.literals(level.masks)
    literals = grid.literals(cells.transpose(1, 2, 3, 0)) + (others.sum(axis=-1, keepdims=True) - others)
    price = problem.clause_cost + problem.literal_cost * literals
    useless = ~(cells != present).any(axis=0) | (p <= price)
    enrichment = p * (np.log(np.maximum(p, 1e-300) / np.maximum(p + q, 1e-300)) - np.log(priced.share))
    promise = p - price - q / 2
    enrichment[useless] = promise[useless] = -np.inf
    return _Children(cells, enrichment, promise, p - q - price)


def _sides(priced: Priced, level: _Level) -> tuple[FloatArray, FloatArray]:
    """Prices of positives and (as magnitudes) of negatives per cell, each (width, 1, K, d)."""
    node, row = np.nonzero(level.rows)
    side = 2 * node
    side += priced.price[row] < 0
    sums = priced.histograms(side, row, 2 * len(level.masks)).transpose(2, 0, 1)[:, None]
    return np.ascontiguousarray(sums[:, :, 0::2]), -sums[:, :, 1::2]


def _weights(
    plus: FloatArray, minus: FloatArray, literal_cost: float, options: BeamOptions
) -> tuple[FloatArray, FloatArray]:
    """What a negative weighs, (weights, K, 1), and what a literal costs, (weights, 1, 1)."""
    p, q = plus[..., 0].sum(axis=(0, 1)), minus[..., 0].sum(axis=(0, 1))
    balance = p / np.maximum(q, 1e-300) * (q > 0)
    enriched = np.multiply.outer(np.array(options.ratios), balance)
    valued = np.repeat(np.array(options.shares)[:, None], len(p), axis=1)
    costs = np.repeat([0.0, literal_cost], [len(enriched), len(valued)])
    return np.concatenate([enriched, valued])[:, :, None], costs[:, None, None]


def _keep(priced: Priced, level: _Level, children: _Children, options: BeamOptions) -> tuple[_Level, Clauses]:
    chosen = _distinct_best(children, children.enrichment, options.enriched)
    if options.valued:
        chosen = np.unique(np.concatenate([chosen, _distinct_best(children, children.promise, options.valued)]))
    weight, node, feature = np.unravel_index(chosen, children.value.shape)
    cells = children.cells[:, weight, node, feature].T
    masks = level.masks[node]
    masks[np.arange(len(node)), feature] = cells
    rows = level.rows[node] & cells[np.arange(len(node))[:, None], priced.codes[feature]]
    return _Level(masks, rows), Clauses(masks, children.value[weight, node, feature])


def _distinct_best(children: _Children, score: FloatArray, width: int) -> AnyArray:
    """Places of the `width` best children that differ, best first."""
    flat = score.ravel()
    most = min(4 * width, len(flat))
    top = np.sort(np.argpartition(-flat, most - 1)[:most])
    top = top[np.argsort(-flat[top], kind="stable")]
    top = top[flat[top] > -np.inf]
    weight, node, feature = np.unravel_index(top, score.shape)
    cells = children.cells[:, weight, node, feature].T
    seen: dict[tuple[int, int, bytes], int] = {}
    for k, place in enumerate(top.tolist()):
        seen.setdefault((int(node[k]), int(feature[k]), cells[k].tobytes()), place)
        if len(seen) == width:
            break
    return np.array(list(seen.values()), dtype=np.int64)
