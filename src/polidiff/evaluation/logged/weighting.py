r"""Estimates that reweight logged episodes, beside the model: no model of the world, or one only to calm the variance.

With :math:`w_t = \prod_{u \le t} \pi(a_u \mid s_u) / \pi_b(a_u \mid s_u)` and n episodes,

.. math::
    \text{IS} &= \tfrac1n \sum_i w_T \sum_t \gamma^t g_t, \qquad
    \text{PDIS} = \tfrac1n \sum_i \sum_t \gamma^t w_t g_t, \qquad
    \text{WIS} = \frac{\sum_i w_T \sum_t \gamma^t g_t}{\sum_i w_T}, \\
    \text{DR} &= \tfrac1n \sum_i \Bigl[V(s_0)
        + \sum_t \gamma^t w_t \bigl(g_t + \gamma V(s_{t+1}) - Q(s_t, a_t)\bigr)\Bigr],

and WDR is DR with :math:`w_t` divided by its sum over episodes at each t, where an episode that has ended keeps its
last weight (Thomas and Brunskill 2016).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.log_rows import LoggedRows


@dataclass(frozen=True, eq=False)
class Weighted:
    """Estimates and standard errors per outcome, and how many episodes they are worth."""

    estimates: Mapping[str, FloatArray]  # name -> (M,)
    errors: Mapping[str, FloatArray]  # name -> (M,)
    weights: FloatArray  # (episodes,) of whole episodes
    effective: float  # effective sample size of the weights


def weighted_estimates(
    rows: LoggedRows, ratio: FloatArray, q: FloatArray, v: FloatArray, *, discount: float = 1.0
) -> Weighted:
    """All five estimates.

    Parameters
    ----------
    rows : whole episodes only
    ratio : array (n,)
        Probability of the logged action under the target over that under the logging policy.
    q, v : arrays (n, M)
        Model values of each row's action and state; zeros turn DR into PDIS.
    """
    step = _steps(rows)
    weight = _running_products(ratio, step)
    pay = discount**step
    gains = pay[:, None] * rows.gains
    last = np.flatnonzero(np.append(np.diff(rows.episode) > 0, True))
    whole = weight[last]
    total, per_decision = _by_episode(rows, gains), _by_episode(rows, weight[:, None] * gains)
    after = np.where((rows.follow >= 0)[:, None], np.vstack([v, np.zeros((1, v.shape[1]))])[rows.follow], 0.0)
    surprise = pay[:, None] * (rows.gains + discount * after - q)
    robust = v[rows.first] + _by_episode(rows, weight[:, None] * surprise)
    estimates, errors = {}, {}
    for name, parts in (("IS", whole[:, None] * total), ("PDIS", per_decision), ("DR", robust)):
        estimates[name], errors[name] = _mean(parts)
    estimates["WIS"], errors["WIS"] = _ratio_mean(whole, total)
    estimates["WDR"], errors["WDR"] = _weighted_robust(rows, step, weight, surprise, v[rows.first])
    effective = float(whole.sum() ** 2 / max((whole**2).sum(), 1e-300))
    return Weighted(estimates, errors, whole, effective)


def _steps(rows: LoggedRows) -> IntArray:
    """(n,) how many decisions of its episode came before each row."""
    begin = np.flatnonzero(rows.first)
    return np.arange(len(rows.episode)) - begin[rows.episode]


def _running_products(ratio: FloatArray, step: IntArray) -> FloatArray:
    """(n,) product of the ratios from the start of the episode to each row."""
    weight = np.array(ratio, dtype=np.float64)
    for rows in _by_step(step)[1:]:
        weight[rows] *= weight[rows - 1]
    return weight


def _by_step(step: IntArray) -> list[IntArray]:
    order = np.argsort(step, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(step[order])) + 1)


def _by_episode(rows: LoggedRows, values: FloatArray) -> FloatArray:
    return np.column_stack([np.bincount(rows.episode, column, rows.n_episodes) for column in values.T])


def _mean(parts: FloatArray) -> tuple[FloatArray, FloatArray]:
    n = len(parts)
    deviation = parts.std(axis=0, ddof=1) if n > 1 else np.full(parts.shape[1], np.inf)
    return np.asarray(parts.mean(axis=0)), np.asarray(deviation / np.sqrt(n))


def _ratio_mean(weight: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    mass = max(float(weight.sum()), 1e-300)
    estimate = weight @ total / mass
    return estimate, np.sqrt(((weight[:, None] * (total - estimate)) ** 2).sum(axis=0)) / mass


def _weighted_robust(
    rows: LoggedRows, step: IntArray, weight: FloatArray, surprise: FloatArray, first: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """WDR and its linearised standard error; an ended episode stays in the normaliser with surprise 0."""
    n = rows.n_episodes
    last = np.append(np.diff(rows.episode) > 0, True)
    influence = (first - first.mean(axis=0)) / n
    estimate, ended, settled = first.mean(axis=0), 0.0, np.zeros(first.shape[1])
    closing = np.zeros_like(influence)
    for at in _by_step(step):
        mass = max(float(weight[at].sum()) + ended, 1e-300)
        mean = weight[at] @ surprise[at] / mass
        estimate = estimate + mean
        influence[rows.episode[at]] += weight[at, None] * (surprise[at] - mean) / mass
        settled = settled + mean / mass
        over = at[last[at]]
        ended += float(weight[over].sum())
        closing[rows.episode[over]] = settled
    whole = weight[last]
    influence -= whole[:, None] * (settled - closing)
    return np.asarray(estimate), np.sqrt((influence**2).sum(axis=0))
