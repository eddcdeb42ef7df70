r"""How true rules are: precision, recall and :math:`F_1` by visits, with intervals that count episodes.

Visits of one episode are alike, so a thousand of them may stand for a dozen. Each measure is a ratio of sums over
episodes, :math:`p = \sum_e k_e / \sum_e n_e`, and its spread is that of the episodes (Cochran, *Sampling Techniques*,
3rd ed., 1977, section 6.3). Where nothing wrong was seen that spread is 0, which is no evidence. So each bound is taken
with one episode more, of the size of the others, that speaks for it: all wrong for the lower, all right for the upper.
With :math:`m` episodes of one size and nothing wrong, the lower bound is near :math:`1 - 3/m`, the rule of three.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.outcome import Interval


@dataclass(frozen=True)
class Fidelity:
    r"""Precision, recall and their harmonic mean, by visits; 1 where there is nothing to tell and nothing is told.

    .. math:: P = \frac{w(\text{told rightly})}{w(\text{covered})}, \qquad
              R = \frac{w(\text{told rightly})}{w(\text{diverging})}, \qquad F_1 = \frac{2PR}{P + R}
    """

    precision: float
    recall: float
    f1: float


def fidelity(told: IntArray, truth: IntArray, weight: FloatArray) -> Fidelity:
    """Compare told labels with true ones, 0 meaning no difference.

    >>> fidelity(np.array([1, 1, 0]), np.array([1, 0, 0]), np.ones(3)).precision
    0.5
    """
    right = float(weight[(told == truth) & (truth > 0)].sum())
    covered = float(weight[told > 0].sum())
    diverging = float(weight[truth > 0].sum())
    precision = right / covered if covered > 0 else 1.0
    recall = right / diverging if diverging > 0 else 1.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
    return Fidelity(precision, recall, f1)


def fidelity_intervals(
    told: BoolArray, truth: BoolArray, right: BoolArray, weight: FloatArray, episode: IntArray, level: float
) -> dict[str, Interval]:
    """Intervals of precision, recall and F1 where rules are `told`, hold in `truth`, and tell it `right`."""
    _, unit = np.unique(episode, return_inverse=True)
    covered, changed, correct = (
        np.bincount(unit, weights=weight * part).astype(np.float64) for part in (told, truth, right)
    )
    return {
        "precision": ratio_interval(correct, covered, level),
        "recall": ratio_interval(correct, changed, level),
        "f1": ratio_interval(2 * correct, covered + changed, level),
    }


def ratio_interval(part: FloatArray, whole: FloatArray, level: float) -> Interval:
    r"""Interval of :math:`\sum_e k_e / \sum_e n_e` over episodes, each with its part of its whole.

    >>> ratio_interval(np.ones(13), np.ones(13), 0.95).low > 0.75
    True
    >>> ratio_interval(np.ones(1), np.ones(1), 0.95), ratio_interval(np.zeros(0), np.zeros(0), 0.95)
    (Interval(estimate=1.0, low=0.0, high=1.0, level=0.95), Interval(estimate=1.0, low=0.0, high=1.0, level=0.95))
    """
    part, whole = part[whole > 0], whole[whole > 0]
    if not len(whole):
        return Interval(1.0, 0.0, 1.0, level)
    size = float((whole**2).sum() / whole.sum())  # of an episode, as a visit meets it
    count = float(whole.sum()) / size  # episodes, counted as if all were of this size
    reach = float(stats.t.ppf((1 + level) / 2, count))
    bounds = []
    for sign, more in ((-1.0, 0.0), (1.0, size)):
        of, k = np.append(whole, size), np.append(part, more)
        middle = k.sum() / of.sum()
        spread = math.sqrt((count + 1) / count * ((k - middle * of) ** 2).sum()) / of.sum()
        bounds.append(float(np.clip(middle + sign * reach * spread, 0.0, 1.0)))
    estimate = float(part.sum() / whole.sum())
    return Interval(estimate, min(bounds[0], estimate), max(bounds[1], estimate), level)
