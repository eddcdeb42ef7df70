r"""From scores to intervals that hold together.

Every quantity is a ratio of sums over units u (a segment's mean is the sum of its scores over its size),

.. math:: \hat\theta_k = \frac{\sum_u n_{uk}}{\sum_u d_{uk}}, \qquad
          x_{uk} = \frac{n_{uk} - \hat\theta_k d_{uk}}{\sum_u d_{uk}}, \qquad
          \mathrm{se}_k^2 = \tfrac{m}{m-1} \sum_u x_{uk}^2 .

Together: the critical value is that of the largest :math:`|t|` of normal variables with the correlations of the
:math:`x_{uk}`. Few or heavy units: Student's t with :math:`2 m_k / (\kappa_k - 1)` degrees of freedom, those of a
variance from :math:`m_k` units with kurtosis :math:`\kappa_k` (Satterthwaite), at most :math:`m_k - 1`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from polidiff.records.arrays import FloatArray
from polidiff.records.outcome import Interval

DRAWS = 20_000


@dataclass(frozen=True, eq=False)
class ScoreIntervals:
    """Estimates of K quantities with standard errors, each alone and all together."""

    estimate: FloatArray  # (K,)
    error: FloatArray  # (K,) standard errors
    half: FloatArray  # (K,) half width of the intervals that hold together
    half_alone: FloatArray  # (K,)
    largest_share: FloatArray  # (K,) of the variance that one unit has
    units: FloatArray  # (K,) that take part
    level: float

    def joint(self, k: int) -> Interval:
        """The interval of one quantity; all of them hold together."""
        return self._interval(k, float(self.half[k]))

    def alone(self, k: int) -> Interval:
        """The interval of one quantity on its own."""
        return self._interval(k, float(self.half_alone[k]))

    def _interval(self, k: int, half: float) -> Interval:
        centre = float(self.estimate[k])
        return Interval(centre, centre - half, centre + half, self.level)


def score_intervals(
    sums: FloatArray, sizes: FloatArray | None = None, *, level: float = 0.95, inflation: float | FloatArray = 1.0
) -> ScoreIntervals:
    """Intervals of the K ratios of sums (units, K) and sizes (units, K); without sizes of means over units.

    >>> found = score_intervals(np.array([[1.0], [2.0], [3.0], [2.0]]))
    >>> found.estimate, found.error
    (array([2.]), array([0.40824829]))
    """
    sizes = np.ones_like(sums) if sizes is None else sizes
    total = sizes.sum(axis=0)
    estimate = np.divide(sums.sum(axis=0), total, out=np.zeros(len(total)), where=total > 0)
    parts = np.divide(sums - estimate * sizes, total, out=np.zeros_like(sums), where=total > 0)
    part_in = (sizes != 0) | (sums != 0)
    units = part_in.sum(axis=0).astype(np.float64)
    square, fourth = (parts**2).sum(axis=0), (parts**4).sum(axis=0)
    error = np.sqrt(square * units / np.maximum(units - 1, 1))
    kurtosis = np.divide(units * fourth, square**2, out=np.ones_like(square), where=square > 0)
    freedom = np.clip(2 * units / np.maximum(kurtosis - 1, 1e-9), 2.0, np.maximum(units - 1, 2.0))
    alpha = joint_alpha(parts, level)
    together, alone = (
        np.where(units < 2, np.inf, stats.t.ppf(1 - a / 2, freedom) * error * inflation) for a in (alpha, 1 - level)
    )
    share = np.divide((parts**2).max(axis=0), square, out=np.zeros_like(square), where=square > 0)
    return ScoreIntervals(estimate, error, together, alone, share, units, level)


def joint_alpha(parts: FloatArray, level: float) -> float:
    """The chance of error that each of K normal quantities is given so that all hold together at the level."""
    spread = np.sqrt((parts**2).sum(axis=0))
    some = parts[:, spread > 0] / spread[spread > 0]
    if some.shape[1] < 2:
        return 1 - level
    correlation = some.T @ some
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = np.random.default_rng(97).standard_normal((DRAWS, len(values)))
    critical = float(np.quantile(np.abs(normal @ root.T).max(axis=1), level))
    return min(1 - level, 2 * float(stats.norm.sf(critical)))
