r"""Unrecorded reasons where every episode is one decision with measured features: sharp bounds from all rows.

For the lower bound of action a with propensity e, :math:`\tau = 1/(1+\Gamma)` and a conditional quantile q of Y,

.. math:: R = \frac{Y}{\Gamma} + \Bigl(1 - \frac1\Gamma\Bigr)\Bigl(q + \frac{\min(Y - q, 0)}{\tau}\Bigr), \qquad
          \phi = 1_{A=a} Y + 1_{A \ne a}\, \rho + 1_{A=a} \frac{1-e}{e} (R - \rho), \qquad \rho = E[R \mid x, a],

has the bound as its mean (Dorn, Guo and Kallus 2024): right if e or :math:`\rho` is, and only too wide if q is wrong.
Quantiles are those of residuals among rows of the action with alike predictions.

A scale beside it: how far would a recorded measurement, left out, have moved the odds of the decision?

.. math:: \Gamma_j = \exp\, Q_{0.9} \bigl| \operatorname{logit} \hat e(a_i \mid x_i)
          - \operatorname{logit} \hat e(a_i \mid x_{i, -j}) \bigr|

for the logged actions of rows that the fit has not seen. Leaving out what says nothing moves odds too, by noise: a
measurement is named only if it moves them clearly further than a made-up one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from polidiff.evaluation.assumptions.confounding import meets_zero
from polidiff.evaluation.scores.propensity import logit_weights
from polidiff.records.arrays import AnyArray, FloatArray, IntArray

ALIKE = 5  # groups of alike predictions per action
FEW = 30  # rows; a smaller group takes its quantiles from all rows of the action
LEAST = 0.02  # propensity
MOST_ROWS = 4000
FEWEST_ROWS = 200
MOST_FEATURES = 8  # that are left out in turn; those that differ most between actions
MOST_LEVELS = 12  # of a text
SHARE = 0.9  # of the rows, within the strength that is told
CLEARLY = 1.2  # times what noise does
PENALTY = 1.0  # of the logit without a feature
ROUGHLY = 0.1  # how far it is fitted: a scale needs no last digit


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

    return meets_zero(moments, edge, quantile)


def largest_scale(states: AnyArray, actions: IntArray, names: Sequence[str]) -> tuple[str, float] | None:
    """The feature of states (n, d) that matters most for the actions, and Γ if it were hidden; None if none does."""
    if len(actions) < FEWEST_ROWS or states.shape[1] < 2 or len(np.unique(actions)) < 2:
        return None
    use = np.arange(0, len(actions), int(np.ceil(len(actions) / MOST_ROWS)))
    taken, rng = np.unique(actions[use], return_inverse=True)[1], np.random.default_rng(0)
    columns = [_columns(states[use, j]) for j in range(states.shape[1])]
    telling = sorted(range(len(columns)), key=lambda j: -_apart(columns[j], taken))[:MOST_FEATURES]
    half = rng.permutation(len(use)) % 2
    whole = _log_odds(columns, taken, half)
    moved = {j: _moved(whole, _log_odds(columns[:j] + columns[j + 1 :], taken, half)) for j in telling}
    made_up = [rng.permutation(columns[j]) for j in telling[:2]]
    noise = max(_moved(whole, _log_odds([*columns, extra], taken, half)) for extra in made_up)
    most = max(moved, key=lambda j: moved[j])
    return (names[most], moved[most]) if moved[most] > CLEARLY * noise else None


def _columns(feature: AnyArray) -> FloatArray:
    """(n, k) a feature as numbers: scaled with its square, or one column per level of a text; gaps are a level."""
    try:
        numbers = feature.astype(np.float64)
    except (TypeError, ValueError):
        text = np.array([str(value) for value in feature])
        levels, count = np.unique(text, return_counts=True)
        often = levels[np.argsort(-count, kind="stable")][:MOST_LEVELS]
        return np.asarray(text[:, None] == often, dtype=np.float64)
    gap = ~np.isfinite(numbers)
    filled = np.where(gap, numbers[~gap].mean() if (~gap).any() else 0.0, numbers)
    z = np.clip((filled - filled.mean()) / max(float(filled.std()), 1e-9), -4.0, 4.0)
    return np.column_stack([z, z**2, gap])


def _apart(columns: FloatArray, taken: IntArray) -> float:
    """How far the means of a feature lie apart between actions."""
    size = np.bincount(taken)
    means = np.column_stack([np.bincount(taken, column) for column in columns.T]) / size[:, None]
    return float((size[:, None] * (means - columns.mean(axis=0)) ** 2).sum() / len(taken))


def _log_odds(columns: list[FloatArray], taken: IntArray, half: IntArray) -> FloatArray:
    """(n,) of the action that was taken, from the half of the rows that a row is not in."""
    x, chance, count = np.hstack([np.ones((len(taken), 1)), *columns]), np.empty(len(taken)), int(taken.max()) + 1
    for held in (half == 0, half == 1):
        fitted = x[held] @ logit_weights(x[~held], taken[~held], count, PENALTY, tolerance=ROUGHLY)
        chance[held] = special.softmax(fitted, axis=1)[np.arange(int(held.sum())), taken[held]]
    return np.asarray(special.logit(np.clip(chance, 0.01, 0.99)))


def _moved(whole: FloatArray, other: FloatArray) -> float:
    return float(np.exp(np.quantile(np.abs(whole - other), SHARE)))
