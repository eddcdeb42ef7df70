r"""From two ends and their standard errors to an interval.

What the log cannot know puts a value between two ends. An interval that covers the value, wherever it lies between
them, needs less than the two-sided quantile once the ends lie apart (Imbens and Manski 2004): z solves

.. math:: \Phi\!\left(z + \frac{u - l}{\sigma}\right) - \Phi(-z) = 1 - \alpha .

Student quantiles replace normal ones, and values with a declared range move on two scales of their place p
in it that bend at its ends, :math:`\arcsin \sqrt p` and :math:`\log p / (1 - p)`; the nearer bound counts.
"""

from __future__ import annotations

import numpy as np
from scipy import special, stats

from polidiff.records.arrays import FloatArray

NEWTON_STEPS = 30
LEAST_FREEDOM = 2.0


def critical_value(gap: FloatArray, deviation: FloatArray, alpha: float) -> FloatArray:
    """Two-sided where the ends meet, one-sided where they lie far apart.

    >>> critical_value(np.array([0.0, 100.0]), np.ones(2), 0.05).round(3)
    array([1.96 , 1.645])
    """
    least, most = stats.norm.ppf(1 - alpha), stats.norm.ppf(1 - alpha / 2)
    apart = np.maximum(gap, 0.0) / np.maximum(deviation, 1e-12)
    z = np.full(np.shape(gap), most)
    for _ in range(NEWTON_STEPS):
        excess = stats.norm.cdf(z + apart) - stats.norm.cdf(-z) - 1 + alpha
        z = z - excess / (stats.norm.pdf(z + apart) + stats.norm.pdf(z))
    return np.asarray(np.clip(z, least, most))


def interval_bounds(
    low: FloatArray,
    high: FloatArray,
    deviations: tuple[FloatArray, FloatArray],
    freedom: FloatArray,
    *,
    alpha: float,
    limits: tuple[float, float] | None,
    bent: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Bounds (q,) around two ends; within `limits`, on scales that bend at them if told so."""
    z = critical_value(high - low, np.maximum(*deviations), alpha)
    z = np.asarray(stats.t.ppf(stats.norm.cdf(z), np.maximum(freedom, LEAST_FREEDOM)))
    down, up = -z * deviations[0], z * deviations[1]
    if limits is None:
        return low + down, high + up
    if bent:
        return np.maximum(*_bent(low, down, limits)), np.minimum(*_bent(high, up, limits))
    return np.clip(low + down, *limits), np.clip(high + up, *limits)


def _bent(value: FloatArray, step: FloatArray, limits: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
    """Values moved by steps on the arcsine scale and on the log-odds of their place between the limits.

    Away from a limit log-odds reach too far, towards it the arcsine does. A step d away from a limit starts at least
    d / 2 from it on the one scale and d on the other: nearer to the limit the scales are so fine that a smaller value
    would be moved further. The bound falls until 4p(1 - p) = 2d(1 - 2p), or p(1 - p) = d(1 - 2p), and both lie below.
    """
    span, still = limits[1] - limits[0], step == 0.0
    place, size = np.clip((value - limits[0]) / span, 0.0, 1.0), step / span
    near, far = (_off_limits(place, size, share) for share in (0.5, 1.0))
    arcsine = np.arcsin(np.sqrt(near)) + size / (2 * np.sqrt(near * (1 - near)))
    odds = special.logit(far) + size / (far * (1 - far))
    moved = np.sin(np.clip(arcsine, 0.0, np.pi / 2)) ** 2, special.expit(odds)
    one, other = (limits[0] + span * np.where(still, place, bound) for bound in moved)
    return one, other


def _off_limits(place: FloatArray, size: FloatArray, share: float) -> FloatArray:
    """Places, at least a share of the step away from the limit that the step leaves."""
    away = np.clip(share * np.abs(size), 1e-9, 0.5)
    return np.asarray(np.clip(place, np.where(size > 0, away, 1e-9), np.where(size < 0, 1 - away, 1 - 1e-9)))
