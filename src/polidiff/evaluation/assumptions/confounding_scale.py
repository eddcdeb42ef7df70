r"""A scale for unrecorded reasons: how far would a recorded measurement, left out, have moved the odds of the decision?

.. math:: \Gamma_j = \exp\, Q_{0.9} \bigl| \operatorname{logit} \hat e(a_i \mid x_i)
          - \operatorname{logit} \hat e(a_i \mid x_{i, -j}) \bigr|

for the logged actions of rows that the fit has not seen. Leaving out what says nothing moves odds too, by noise: a
measurement is named only if it moves them clearly further than a made-up one does.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from scipy import special

from polidiff.records.arrays import AnyArray, FloatArray, IntArray

MOST_ROWS = 4000
FEWEST_ROWS = 200
MOST_FEATURES = 8  # that are left out in turn; those that differ most between actions
MOST_LEVELS = 12  # of a text
SHARE = 0.9  # of the rows, within the strength that is told
CLEARLY = 1.2  # times what noise does


def largest_scale(
    states: AnyArray, actions: IntArray, names: Sequence[str], *, seed: int = 0
) -> tuple[str, float] | None:
    """The feature of states (n, d) that matters most for the actions, and Γ if it were hidden; None if none does."""
    if len(actions) < FEWEST_ROWS or states.shape[1] < 2 or len(np.unique(actions)) < 2:
        return None
    use = np.arange(0, len(actions), int(np.ceil(len(actions) / MOST_ROWS)))
    taken, rng = np.unique(actions[use], return_inverse=True)[1], np.random.default_rng(seed)
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
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    x, chance = np.hstack(columns), np.full(len(taken), 0.5)
    for number in (0, 1):
        held = half == number
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a scale needs no last digit
            fitted = LogisticRegression(max_iter=200, tol=1e-3).fit(x[~held], taken[~held])
        place = np.searchsorted(fitted.classes_, taken[held])
        known = fitted.classes_[np.minimum(place, len(fitted.classes_) - 1)] == taken[held]
        shares = fitted.predict_proba(x[held])[np.arange(int(held.sum())), np.minimum(place, len(fitted.classes_) - 1)]
        chance[held] = np.where(known, shares, 0.5)
    return np.asarray(special.logit(np.clip(chance, 0.01, 0.99)))


def _moved(whole: FloatArray, other: FloatArray) -> float:
    return float(np.exp(np.quantile(np.abs(whole - other), SHARE)))
