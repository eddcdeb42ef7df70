r"""Doubly robust scores of every action, where each decision is an episode.

.. math:: s_{ia} = m_a(x_i) + \mathbb 1\{A_i = a\} \, \frac{Y_i - m_a(x_i)}{e_a(x_i)}

for every outcome Y at once, with :math:`m` and :math:`e` from folds that do not hold unit i. Each :math:`m_a` is then
shifted by the weighted mean of what it leaves, :math:`\sum_i w_i (Y_i - m_a) / \sum_i w_i` with
:math:`w_i = \mathbb 1\{A_i = a\}/e_a`: without covariates the mean score of an action is the mean of the rows that took
it, to the last digit. The difference of two policies is :math:`\sum_a (\pi_e - \pi_b)(a \mid x_i)\, s_{ia}`; where the
current policy is the one that wrote the log, :math:`Y_i` itself is its score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from polidiff.evaluation.scores.decisions import Decisions, held_rows
from polidiff.evaluation.scores.propensity import Propensity, logging_chances
from polidiff.evaluation.scores.regression import ActionRegression, Design, design_of
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

FOLDS = 5
FOR_REPEATS = 10_000  # rows that folds are drawn for, again and again where there are fewer
MOST_REPEATS = 5
CLIP = 0.01  # chances below it count as next to none, and as it: no row weighs more than a hundred


def row_weights(logged: FloatArray) -> FloatArray:
    r"""(n,) inverse chances of the logged actions, at most :math:`\sqrt n`; what is cut off fades before the noise.

    Ionides (2008), Truncated importance sampling.
    """
    return np.asarray(1.0 / np.maximum(logged, max(CLIP, len(logged) ** -0.5)))


@dataclass(frozen=True, eq=False)
class OneStepScores:
    """Scores of every action for every decision, in the order of `decisions`."""

    decisions: Decisions
    scores: FloatArray  # (n, A, M)
    fitted: FloatArray  # (n, A, M) outcome regressions
    propensity: Propensity
    fold: IntArray  # (n,)

    def difference(self, proposed: FloatArray, current: FloatArray | None) -> FloatArray:
        """(n, M) scores of proposed − current, policies as (n, A) chances; None: the policy that wrote the log."""
        if current is None:
            return np.asarray(np.einsum("na,nam->nm", proposed, self.scores) - self.decisions.gains)
        return np.asarray(np.einsum("na,nam->nm", proposed - current, self.scores))


def one_step_scores(decisions: Decisions, *, chances: Propensity | None = None, seed: int = 0) -> OneStepScores:
    """Cross-fitted scores; without covariates all rows are one fold, because nothing is chosen."""
    design = design_of(decisions.x, decisions.actions, decisions.n_actions)
    fold = decisions.folds(min(FOLDS, decisions.n_units), seed)
    if not len(design.bins):
        fold = np.zeros_like(fold)
    held = held_rows(decisions, seed)
    chances = logging_chances(decisions, seed=seed) if chances is None else chances
    weight = row_weights(chances.logged)
    columns = [_outcome_values(design, fold, held, column) for column in decisions.gains.T]
    pairs = zip(columns, decisions.gains.T, strict=True)
    fitted = np.stack([_centred(values, decisions, weight, outcome) for values, outcome in pairs], axis=2)
    return OneStepScores(decisions, aipw(fitted, decisions.actions, decisions.gains, weight), fitted, chances, fold)


def repeated_scores(
    decisions: Decisions, estimate: Callable[..., Propensity] = logging_chances, *, seed: int = 0
) -> OneStepScores:
    """Scores averaged over several draws of the folds where rows are few: which fold a row falls into is chance.

    `estimate` gives the chances of the decisions for a seed.
    """
    repeats = min(1 + FOR_REPEATS // max(len(decisions.actions), 1), MOST_REPEATS)
    seeds = range(seed, seed + repeats)
    parts = [one_step_scores(decisions, chances=estimate(decisions, seed=one), seed=one) for one in seeds]
    if len(parts) == 1:
        return parts[0]
    scores, fitted = (np.mean([getattr(part, name) for part in parts], axis=0) for name in ("scores", "fitted"))
    table, logged = (np.mean([getattr(part.propensity, n) for part in parts], axis=0) for n in ("table", "logged"))
    return replace(
        parts[0], scores=scores, fitted=fitted, propensity=replace(parts[0].propensity, table=table, logged=logged)
    )


def aipw(fitted: FloatArray, actions: IntArray, outcomes: FloatArray, weight: FloatArray) -> FloatArray:
    """(n, A, M) scores from outcome regressions (n, A, M), outcomes (n, M) and weights (n,) of the logged actions."""
    scores, index = fitted.copy(), np.arange(len(actions))
    scores[index, actions] += weight[:, None] * (outcomes - fitted[index, actions])
    return scores


def _outcome_values(design: Design, fold: IntArray, held: BoolArray, outcome: FloatArray) -> FloatArray:
    """(n, A) expected outcome of every action, from folds that did not see the row, within what was seen."""
    values = np.zeros((len(outcome), design.n_actions))
    low, high = float(outcome.min()), float(outcome.max())
    for number in np.unique(fold):
        own = fold == number
        rows = np.flatnonzero(~own) if not own.all() else np.arange(len(own))
        fitted = ActionRegression(design, rows, held, outcome)(outcome)
        values[own] = np.clip(fitted[own], low, high)
    return values


def _centred(values: FloatArray, decisions: Decisions, weight: FloatArray, outcome: FloatArray) -> FloatArray:
    """Values shifted so that each action's weighted residuals sum to 0."""
    left = weight * (outcome - values[np.arange(len(outcome)), decisions.actions])
    sums, mass = (np.bincount(decisions.actions, w, decisions.n_actions) for w in (left, weight))
    return np.asarray(values + np.divide(sums, mass, out=np.zeros_like(sums), where=mass > 0))
