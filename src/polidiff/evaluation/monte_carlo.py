r"""Expected outcomes from played episodes, alone or paired.

The interval of a mean is Student's, :math:`\bar g \pm t_{n-1}\, s / \sqrt n`. Where the sample is skewed it also spans
that of Hall's transformation (On the removal of skewness by transformation, 1992), which reaches further towards the
long tail. Two policies are compared on common random numbers: episode i has the same start and the same luck under
both, and the interval is that of the mean of the differences.
"""

from __future__ import annotations

import math

from polidiff.records.arrays import FloatArray
from polidiff.records.outcome import Interval

SKEWED = 1.0  # skewness of a sample from which its interval reaches further on one side
EXACT_FROM = 1000  # that many equal values, and none other, count as certain


def mean_interval(values: FloatArray, level: float) -> Interval:
    """Mean of a sample with its interval; unbounded from fewer than two values.

    Width 0 is claimed only when at least 1,000 values are all equal.

    >>> mean_interval(np.array([1.0, 2.0, 3.0]), 0.95).estimate
    2.0
    """
    count = len(values)
    if count == 0:
        return Interval(math.nan, -math.inf, math.inf, level)
    estimate = float(values.mean())
    if count < 2:
        return Interval(estimate, -math.inf, math.inf, level)
    spread = float(values.std(ddof=1))
    if spread <= 1e-12 * (1 + abs(estimate)):
        if count >= EXACT_FROM:
            return Interval(estimate, estimate, estimate, level)
        spread = _spread_that_could_hide(values, estimate, level)
    quantile, error = student_quantile(level, count - 1), spread / math.sqrt(count)
    low, high = estimate - quantile * error, estimate + quantile * error
    skew = skewness(values)
    if abs(skew) > SKEWED:
        low = min(low, estimate - error * _untransformed(quantile, skew / math.sqrt(count)))
        high = max(high, estimate - error * _untransformed(-quantile, skew / math.sqrt(count)))
    return Interval(estimate, low, high, level)


def skewness(values: FloatArray) -> float:
    """Third moment over the cube of the spread; 0 for fewer than three values or equal ones."""
    spread = float(values.std(ddof=1)) if len(values) > 2 else 0.0
    return float(((values - values.mean()) ** 3).mean() / spread**3) if spread > 0 else 0.0


def _untransformed(quantile: float, skew: float) -> float:
    """Where Hall's cubic of a studentised mean is the quantile; `skew` is the sample's over the root of its size.

    >>> round(_untransformed(2.0, 1e-6), 3)
    2.0
    """
    return 3 / skew * (math.copysign(abs(inner := 1 + skew * (quantile - skew / 6)) ** (1 / 3), inner) - 1)


def student_quantile(level: float, freedom: float) -> float:
    """Student's quantile for a two-sided interval, given degrees of freedom."""
    from scipy import stats

    return float(stats.t.ppf(0.5 + level / 2, freedom))


def _spread_that_could_hide(values: FloatArray, estimate: float, level: float) -> float:
    """A few equal values do not prove that all are: another may hide in a share 1 − (1 − level)^(1/n)."""
    hidden = 1 - (1 - level) ** (1 / len(values))
    return float(math.sqrt(hidden) * max(abs(estimate), 1.0))
