r"""Is a response independent of a factor, given a stratum? Pearson's statistic, summed over many thin tables.

With :math:`n_{ij}` the counts of one stratum's table (R rows, C columns, N rows of the log),

.. math:: X^2 = N \Bigl(\sum_{ij} \frac{n_{ij}^2}{n_{i\cdot}\, n_{\cdot j}} - 1\Bigr), \qquad
          E X^2 = \frac{N (R-1)(C-1)}{N-1},

given the margins, exactly and however thin the table; so is the variance (Haldane 1940, Dawson 1954), with
:math:`v = (R-1)(N-R)/(N-1)` and :math:`w = (N \sum_i 1/n_{i\cdot} - R^2)/(N-2)` for rows and alike for columns,

.. math:: \operatorname{var} X^2 = \frac{2N}{N-3} (v_1 - w_1)(v_2 - w_2) + \frac{N^2}{N-1} w_1 w_2 .

The sum over strata is compared with the gamma distribution of the same mean and variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from polidiff.records.arrays import AnyArray, FloatArray, IntArray

RARE = 5  # levels of a stratum with fewer rows are merged: they cannot speak, and cost power
FEWEST = 5  # rows of a stratum that is looked at
BINS = 3  # of a response with many values, within its stratum


@dataclass(frozen=True)
class PooledTest:
    """A sum of Pearson statistics and how likely one as large is by chance."""

    statistic: float
    mean: float  # expected by chance
    strata: int  # tables that can show anything
    p_value: float


def pooled_chi2(stratum: IntArray, factor: IntArray, response: IntArray) -> PooledTest:
    """Whether responses (n,) depend on factors (n,) within strata (n,); any whole numbers.

    >>> half = np.repeat([0, 1], 50)
    >>> pooled_chi2(np.zeros(100, dtype=int), half, half).p_value < 1e-9
    True
    >>> pooled_chi2(np.zeros(100, dtype=int), half, np.arange(100) % 2).p_value > 0.9
    True
    """
    if len(stratum) == 0:
        return PooledTest(0.0, 0.0, 0, 1.0)
    of, total = _number(stratum)
    row, row_of, row_sum = _levels(of, factor)
    column, column_of, column_sum = _levels(of, response)
    cell, count = np.unique(row * (len(column_sum)) + column, return_counts=True)
    i, j = np.divmod(cell, len(column_sum))
    share = np.bincount(row_of[i], count / row_sum[i] * (count / column_sum[j]), len(total))
    rows, columns = (np.bincount(owner, minlength=len(total)) for owner in (row_of, column_of))
    inverse: list[FloatArray] = [
        np.bincount(o, 1.0 / s, len(total)).astype(float) for o, s in ((row_of, row_sum), (column_of, column_sum))
    ]
    use = (rows > 1) & (columns > 1) & (total >= FEWEST)
    if not use.any():
        return PooledTest(0.0, 0.0, 0, 1.0)
    n = total[use].astype(np.float64)
    statistic = float((n * (share[use] - 1)).sum())
    mean, variance = _moments(n, rows[use], columns[use], inverse[0][use], inverse[1][use])
    p_value = float(stats.gamma.sf(statistic, mean**2 / variance, scale=variance / mean))
    return PooledTest(statistic, mean, int(use.sum()), p_value)


def _moments(n: FloatArray, r: IntArray, c: IntArray, row: FloatArray, column: FloatArray) -> tuple[float, float]:
    """Mean and variance of the summed statistic given all margins."""
    mean = n * (r - 1) * (c - 1) / (n - 1)
    v, w = (r - 1) * (n - r) / (n - 1), (n * row - r**2) / (n - 2)
    v2, w2 = (c - 1) * (n - c) / (n - 1), (n * column - c**2) / (n - 2)
    variance = 2 * n / (n - 3) * (v - w) * (v2 - w2) + n**2 / (n - 1) * w * w2
    return float(mean.sum()), max(float(variance.sum()), 1e-12)


def _number(values: AnyArray) -> tuple[IntArray, IntArray]:
    """(n,) values as 0, 1, …, and how often each comes; without a sort where they are small already."""
    low, high = int(values.min()), int(values.max())
    if high - low > 8 * len(values):
        _, number, count = np.unique(values, return_inverse=True, return_counts=True)
        return number, count
    count = np.bincount(values - low)
    met = count > 0
    return (np.cumsum(met) - 1)[values - low], count[met]


def _levels(stratum: IntArray, value: AnyArray) -> tuple[IntArray, IntArray, IntArray]:
    """(n,) level of each row, counted through all strata; and each level's stratum and size. Rare ones are merged."""
    plain, _ = _number(value)
    width = int(plain.max()) + 2
    key, size = _number(stratum * width + plain + 1)
    merged = np.where(size[key] < RARE, 0, plain + 1)
    level, size = _number(stratum * width + merged)
    owner = np.empty(len(size), dtype=np.int64)
    owner[level] = stratum
    return level, owner, size


def binned(stratum: IntArray, values: FloatArray) -> IntArray:
    """(n,) a response with many values, in thirds of its stratum; one with few values as it is. Ties stay together.

    >>> binned(np.zeros(9, dtype=int), np.arange(9.0) ** 2)
    array([0, 0, 0, 1, 1, 1, 2, 2, 2])
    """
    distinct = np.unique(values)
    if len(distinct) <= RARE:
        return np.searchsorted(distinct, values)
    order = np.lexsort((values, stratum))
    s, v = stratum[order], values[order]
    index = np.arange(len(order))
    opens = np.append(True, s[1:] != s[:-1])
    begin = np.maximum.accumulate(np.where(opens, index, 0))
    first = np.maximum.accumulate(np.where(opens | np.append(True, v[1:] != v[:-1]), index, 0))
    size = np.diff(np.append(np.flatnonzero(opens), len(order)))[np.cumsum(opens) - 1]
    bins = np.empty(len(order), dtype=np.int64)
    bins[order] = BINS * (first - begin) // size
    return bins
