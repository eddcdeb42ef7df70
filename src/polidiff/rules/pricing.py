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
from functools import lru_cache

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.rules.problem import Problem, priced


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


def beam(problem: Problem, prices: FloatArray, options: BeamOptions) -> Clauses:
    """All clauses that the beam kept, with their values."""
    codes, price = priced(problem, prices)
    positive = float(price[price > 0].sum())
    if positive <= 0:
        return Clauses(np.empty((0, *problem.grid.full.shape), dtype=np.bool_), np.empty(0))
    share = np.log(positive / float(np.abs(price).sum()))
    work = _Work.of(problem, codes, price, share, options)
    level = _Level(
        problem.grid.full[None],
        np.zeros(1, dtype=np.int64),
        np.arange(len(price), dtype=np.int32)[None],
        np.array([len(price)]),
    )
    found: list[Clauses] = []
    for _ in range(options.depth):
        level, kept = _children(work, level)
        if not len(kept.values):
            break
        found.append(kept)
    return Clauses(
        np.concatenate([problem.grid.full[None][:0], *(c.masks for c in found)]),
        np.concatenate([np.empty(0), *(c.values for c in found)]),
    )


@dataclass(frozen=True, eq=False)
class _Level:
    masks: BoolArray  # (K, d, width)
    names: IntArray  # (K,) a number for each set of cells
    rows: AnyArray  # (K, m) priced rows that each node covers, the first `size` entries
    size: IntArray  # (K,)


@dataclass(frozen=True, eq=False)
class _Work:
    """What a beam asks, and arrays to work in."""

    asked: tuple[AnyArray, ...]  # codes, prices, axes, costs, weights of negatives, widths of the two lists
    names: IntArray  # (d, width) a random number for every cell
    room: tuple[AnyArray, ...]  # histograms, gains of one feature, its cells
    scores: FloatArray  # (2, slots) of the two lists, best first
    order: IntArray  # (2, slots) slots in that order
    slots: tuple[AnyArray, ...]  # key, (parent, feature), value, cells of each slot

    @classmethod
    def of(cls, problem: Problem, codes: AnyArray, price: FloatArray, share: float, options: BeamOptions) -> _Work:
        d, width = problem.grid.full.shape
        costs = np.array([problem.clause_cost, problem.literal_cost, share])
        weights = [(1.0, ratio, 0.0) for ratio in options.ratios]
        weights += [(0.0, share, problem.literal_cost) for share in options.shares]
        widths = np.array([options.enriched, options.valued])
        most = int(widths.max())
        return cls(
            (codes, price, problem.grid.told, costs, np.array(weights), widths),
            _names(d, width),
            (np.empty((2, d, width)), np.empty((1, width)), np.zeros((1, 1, width), dtype=np.bool_)),
            np.empty((2, most)),
            np.arange(2 * most).reshape(2, most),
            (
                np.empty(2 * most, dtype=np.int64),
                np.empty((2 * most, 2), dtype=np.int64),
                np.empty(2 * most),
                np.zeros((2 * most, width), dtype=np.bool_),
            ),
        )


def _children(work: _Work, level: _Level) -> tuple[_Level, Clauses]:
    """The best children of a level that differ."""
    from polidiff.rules.kernels import offer

    nodes = (level.masks, level.names, level.rows, level.size)
    keys, told, values, picked = work.slots
    work.scores[:], keys[:] = -np.inf, -1
    offer(work.asked, nodes, work.names, work.room, work.scores, work.order, work.slots)
    first: dict[int, int] = {}
    for slot in work.order[work.scores > -np.inf].tolist():
        first.setdefault(int(keys[slot]), slot)
    kept = list(first.values())
    told, picked = told[kept], picked[kept]
    below, left = _rows_of(work.asked[0], level, told, picked)
    masks = level.masks[told[:, 0]]
    masks[np.arange(len(kept)), told[:, 1]] = picked
    return _Level(masks, keys[kept], below, left), Clauses(masks, values[kept])


def _rows_of(codes: AnyArray, level: _Level, told: IntArray, picked: BoolArray) -> tuple[AnyArray, IntArray]:
    """Rows of each child, those of its parent whose cell of the feature is allowed, and how many there are."""
    below, left = np.empty((len(told), level.rows.shape[1]), dtype=np.int32), np.empty(len(told), dtype=np.int64)
    for child, (parent, feature) in enumerate(told):
        rows = level.rows[parent, : level.size[parent]]
        rows = rows[picked[child, codes[rows, feature]]]
        left[child] = len(rows)
        below[child, : len(rows)] = rows
    return below, left


@lru_cache(maxsize=16)
def _names(d: int, width: int) -> IntArray:
    """A random number for every cell; a clause is named by the sum over the cells it leaves out."""
    return np.random.default_rng(0).integers(0, 2**62, (d, width))
