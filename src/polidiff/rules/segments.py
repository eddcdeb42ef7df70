"""The best cells of a feature, both bounds in one step.

For a histogram :math:`h_0, \\dots, h_{m-1}` of gains the best interval is the maximum-sum sub-array,

.. math:: \\max_{a \\le b} \\; \\sum_{q=a}^{b} h_q - c_1 ([a > 0] + [b < m - 1]),

found from running minima of the prefix sums; for categories it is the set of cells with a positive gain.
"""

from __future__ import annotations

import numpy as np

from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.rules.grid import Grid


def best_segments(grid: Grid, gains: FloatArray, literal_cost: float) -> BoolArray:
    """Masks (K, d, width) that maximise the gains (K, d, width) less the cost of their literals."""
    masks = _intervals(grid, gains, literal_cost)
    if not grid.numeric.all():
        masks = np.where(grid.numeric[:, None], masks, _sets(grid, gains, literal_cost))
    return masks


def _intervals(grid: Grid, gains: FloatArray, literal_cost: float) -> BoolArray:
    rank = np.arange(gains.shape[-1])
    value = grid.valued
    inside = gains * value
    prefix = inside.cumsum(axis=-1)
    before = prefix - inside
    before[..., 1:] += literal_cost
    lowest = np.minimum.accumulate(before, axis=-1)
    total = prefix - lowest - np.where(value, literal_cost * (rank < grid.values[:, None] - 1), np.inf)
    high = total.argmax(axis=-1)[..., None]
    opens = before <= np.take_along_axis(lowest, high, -1)
    low = opens.argmax(axis=-1)[..., None]
    masks: BoolArray = (rank >= low) & (rank <= high)
    if not grid.missing.any():
        return masks
    return _with_missing(grid, gains, masks, np.take_along_axis(total, high, -1)[..., 0], literal_cost)


def _with_missing(grid: Grid, gains: FloatArray, masks: BoolArray, total: FloatArray, literal_cost: float) -> BoolArray:
    rank = np.arange(gains.shape[-1])
    cell = grid.missing[:, None] & (rank == grid.values[:, None])
    absent = np.where(cell, gains, 0.0).sum(axis=-1)
    alone = grid.missing & (absent - literal_cost > total + np.maximum(absent, 0.0))
    joined = masks | (cell & (absent > 0)[..., None])
    chosen: BoolArray = np.where(alone[..., None], cell, joined)
    return chosen


def _sets(grid: Grid, gains: FloatArray, literal_cost: float) -> BoolArray:
    allowed = np.where(grid.nameable, gains, -np.inf)
    masks = allowed > 0
    best = allowed.argmax(axis=-1)[..., None]
    masks |= ~masks.any(axis=-1, keepdims=True) & (np.arange(gains.shape[-1]) == best)
    everything = np.where(grid.full, gains, 0.0).sum(axis=-1)
    worth = np.where(masks, gains, 0.0).sum(axis=-1) - literal_cost > everything
    return np.where(worth[..., None], masks, grid.full)
