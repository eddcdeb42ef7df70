r"""From two ends and their standard errors to an interval.

What the log cannot know puts a value between two ends. An interval that covers the value, wherever it lies between
them, needs less than the two-sided quantile once the ends lie apart (Imbens and Manski 2004): z solves

.. math:: \Phi\!\left(z + \frac{u - l}{\sigma}\right) - \Phi(-z) = 1 - \alpha .

Student quantiles replace normal ones, and values with a declared range move on the arcsine scale of their place p in
it, :math:`\theta = \arcsin \sqrt p`, on which a share is spread alike wherever it lies.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

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
    arcsine: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Bounds (q,) around two ends; within `limits`, on their arcsine scale if told so."""
    z = critical_value(high - low, np.maximum(*deviations), alpha)
    z = np.asarray(stats.t.ppf(stats.norm.cdf(z), np.maximum(freedom, LEAST_FREEDOM)))
    down, up = -z * deviations[0], z * deviations[1]
    if limits is None:
        return low + down, high + up
    if arcsine:
        return _on_arcsine(low, down, limits), _on_arcsine(high, up, limits)
    return np.clip(low + down, *limits), np.clip(high + up, *limits)


def _on_arcsine(value: FloatArray, step: FloatArray, limits: tuple[float, float]) -> FloatArray:
    """Move values by steps on the arcsine scale of their place between the limits.

    A step d away from a limit starts at least d / 2 from it. Below that the scale is so fine that a value nearer to
    the limit would be moved further from it: the bound falls until 4p(1 - p) = 2d(1 - 2p), which lies below p = d / 2,
    and rises with the value from there on.
    """
    span = limits[1] - limits[0]
    away = np.clip(np.abs(step) / (2 * span), 1e-9, 0.5)
    place = np.clip((value - limits[0]) / span, np.where(step > 0, away, 1e-9), np.where(step < 0, 1 - away, 1 - 1e-9))
    moved = np.arcsin(np.sqrt(place)) + step / (2 * span * np.sqrt(place * (1 - place)))
    bound = limits[0] + span * np.sin(np.clip(moved, 0.0, np.pi / 2)) ** 2
    return np.where(step == 0.0, np.clip(value, *limits), bound)
