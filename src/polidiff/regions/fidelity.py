r"""How well rules tell a difference.

A visit is told rightly when a rule covers it and names its swap. With visit weights :math:`w`,

.. math:: P = \frac{w(\text{told rightly})}{w(\text{covered})}, \qquad
          R = \frac{w(\text{told rightly})}{w(\text{diverging})}, \qquad F_1 = \frac{2PR}{P + R}.
"""

from __future__ import annotations

from dataclasses import dataclass

from polidiff.records.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Fidelity:
    """Precision, recall and their harmonic mean, by visits; 1 where there is nothing to tell and nothing is told."""

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
