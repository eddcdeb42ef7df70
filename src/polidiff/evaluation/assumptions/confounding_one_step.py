r"""Unrecorded reasons where every episode is one decision with measured features: sharp bounds from all rows.

For the lower bound of action a with propensity e, :math:`\tau = 1/(1+\Gamma)` and a conditional quantile q of Y,

.. math:: R = \frac{Y}{\Gamma} + \Bigl(1 - \frac1\Gamma\Bigr)\Bigl(q + \frac{\min(Y - q, 0)}{\tau}\Bigr), \qquad
          \phi = 1_{A=a} Y + 1_{A \ne a}\, \rho + 1_{A=a} \frac{1-e}{e} (R - \rho), \qquad \rho = E[R \mid x, a],

has the bound as its mean (Dorn, Guo and Kallus 2024): right if e or :math:`\rho` is, and only too wide if q is wrong.
Quantiles are those of residuals among rows of the action with alike predictions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polidiff.evaluation.assumptions.confounding import crossing
from polidiff.records.arrays import FloatArray, IntArray

ALIKE = 5  # groups of alike predictions per action
FEW = 30  # rows; a smaller group takes its quantiles from all rows of the action
LEAST = 0.02  # propensity


@dataclass(frozen=True, eq=False)
class OneDecision:
    """Rows of one decision each, with cross-fitted predictions."""

    outcome: FloatArray  # (n,)
    action: IntArray  # (n,)
    expected: FloatArray  # (n, A) outcome of each action
    propensity: FloatArray  # (n, A)
    new: FloatArray  # (n, A) chances of the proposed policy
    old: FloatArray | None  # (n, A) of the current one; None: whoever wrote the log

    def negated(self) -> OneDecision:
        """With the outcome turned round."""
        return replace(self, outcome=-self.outcome, expected=-self.expected)


def lower_scores(rows: OneDecision, gamma: float) -> FloatArray:
    """(n,) scores whose mean is the least difference proposed − current at strength Γ."""
    total = np.zeros(len(rows.outcome))
    flipped = rows.negated()
    for action in range(rows.expected.shape[1]):
        weight = rows.new[:, action] - (0.0 if rows.old is None else rows.old[:, action])
        for part, sign in ((rows, 1.0), (flipped, -1.0)):
            use = sign * weight > 0
            if use.any():
                total[use] += (np.abs(weight) * _scores(part, action, gamma))[use]
    return total - rows.outcome if rows.old is None else total


def _scores(rows: OneDecision, action: int, gamma: float) -> FloatArray:
    """(n,) scores of the lower bound of one action's expected outcome."""
    on = rows.action == action
    guess, chance = rows.expected[:, action], np.maximum(rows.propensity[:, action], LEAST)
    quantile, typical = _residual_terms(rows, action, gamma)
    q, rho = guess + quantile, guess + typical
    reached = _tail(rows.outcome, q, gamma)
    return np.where(on, rows.outcome + (1 - chance) / chance * (reached - rho), rho)


def _tail(y: FloatArray, q: FloatArray, gamma: float) -> FloatArray:
    return np.asarray(y / gamma + (1 - 1 / gamma) * (q + np.minimum(y - q, 0.0) * (1 + gamma)))


def _residual_terms(rows: OneDecision, action: int, gamma: float) -> tuple[FloatArray, FloatArray]:
    """(n,) the residuals' quantile and mean of R, among rows of the action whose predictions are alike."""
    on = rows.action == action
    guess = rows.expected[:, action]
    quantile, typical = np.zeros(len(guess)), np.zeros(len(guess))
    if not on.any():
        return quantile, typical
    cuts = np.quantile(guess[on], np.linspace(0, 1, ALIKE + 1)[1:-1])
    group, everyone = np.searchsorted(cuts, guess), rows.outcome[on] - guess[on]
    for number in range(ALIKE):
        here, own = group == number, on & (group == number)
        left = rows.outcome[own] - guess[own] if own.sum() >= FEW else everyone
        z = float(np.quantile(left, 1 / (1 + gamma)))
        quantile[here], typical[here] = z, float(_tail(left, np.full(len(left), z), gamma).mean())
    return quantile, typical


def one_step_holds_up_to(rows: OneDecision, groups: FloatArray, edge: FloatArray, quantile: float) -> FloatArray:
    """(q,) the strength Γ at which intervals of groups (q, n) with lower ends `edge` (q,) meet 0."""

    def moments(gamma: float) -> tuple[FloatArray, FloatArray]:
        scores = lower_scores(rows, gamma)
        weight = groups / groups.sum(axis=1, keepdims=True)
        mean = weight @ scores
        return mean, np.sqrt((weight**2 * (scores[None, :] - mean[:, None]) ** 2).sum(axis=1))

    base, error = moments(1.0)

    def distance(gamma: float) -> FloatArray:
        bound, off = moments(gamma)
        return np.asarray(edge + (bound - base) - quantile * np.maximum(off - error, 0.0))

    return crossing(distance, edge)
