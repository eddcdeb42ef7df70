"""The best cells of a feature, both bounds in one step.

For a histogram :math:`h_0, \\dots, h_{m-1}` of gains the best interval is the maximum-sum sub-array,

.. math:: \\max_{a \\le b} \\; \\sum_{q=a}^{b} h_q - c_1 ([a > 0] + [b < m - 1]),

found from running minima of the prefix sums; for categories it is the set of cells with a positive gain.

Arrays here have the cells as their *first* axis: a step from cell to cell is then one operation on whole rows, many
times faster than numpy's running sums along a short last axis.
"""

from __future__ import annotations

import numpy as np

from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.rules.grid import Grid


def best_segments(grid: Grid, gains: FloatArray, literal_cost: FloatArray | float) -> BoolArray:
    """Cells (width, …, d) that maximise the gains (width, …, d) less the cost of their literals, of shape (…, 1)."""
    cost = np.asarray(literal_cost, dtype=np.float64)
    if not grid.numeric.any():
        return _sets(grid, gains, cost)
    masks = _intervals(grid, gains, cost)
    return masks if grid.numeric.all() else np.where(grid.numeric, masks, _sets(grid, gains, cost))


def cells_first(array: FloatArray | BoolArray, ndim: int) -> FloatArray | BoolArray:
    """An array (d, width) as (width, 1, …, 1, d) with `ndim` axes."""
    return array.T.reshape(array.shape[1], *(1,) * (ndim - 2), array.shape[0])


def _intervals(grid: Grid, gains: FloatArray, cost: FloatArray) -> BoolArray:
    steps = range(1, len(gains))
    valued = cells_first(grid.valued, gains.ndim)
    prefix = gains.copy() if grid.plain else gains * valued
    for q in steps:
        prefix[q] += prefix[q - 1]
    before = np.empty_like(prefix)
    before[0] = 0.0
    np.add(prefix[:-1], cost, out=before[1:])
    lowest = before.copy()
    for q in steps:
        np.minimum(lowest[q - 1], lowest[q], out=lowest[q])
    inner = np.arange(len(gains))[:, None] < grid.values - 1
    total = prefix - lowest - np.where(valued, cost * cells_first(inner.T, gains.ndim), np.inf)
    best = total.max(axis=0)
    return _with_missing(grid, gains, _between(before, total == best), best, cost)


def _between(before: FloatArray, ends: BoolArray) -> BoolArray:
    """Cells from the lowest place of `before` to the first end."""
    upto = np.ones_like(ends)
    for q in range(1, len(ends)):
        np.greater(upto[q - 1], ends[q - 1], out=upto[q])
    since = before <= np.where(upto, before, np.inf).min(axis=0)
    for q in range(1, len(ends)):
        since[q] |= since[q - 1]
    since &= upto
    return np.asarray(since)


def _with_missing(grid: Grid, gains: FloatArray, masks: BoolArray, total: FloatArray, cost: FloatArray) -> BoolArray:
    if grid.plain or not grid.missing.any():
        return masks
    cell = cells_first(grid.full & ~grid.valued, gains.ndim)
    absent = np.where(cell, gains, 0.0).sum(axis=0)
    alone = grid.missing & (absent - cost > total + np.maximum(absent, 0.0))
    return np.where(alone, cell, masks | (cell & (absent > 0)))


def _sets(grid: Grid, gains: FloatArray, cost: FloatArray) -> BoolArray:
    full = cells_first(grid.full, gains.ndim)
    allowed = np.where(cells_first(grid.nameable, gains.ndim), gains, -np.inf)
    masks = allowed > 0
    rank = np.arange(len(gains)).reshape(-1, *(1,) * (gains.ndim - 1))
    masks |= ~masks.any(axis=0) & (rank == allowed.argmax(axis=0))
    worth = np.where(masks, gains, 0.0).sum(axis=0) - cost > np.where(full, gains, 0.0).sum(axis=0)
    return np.where(worth, masks, full)
