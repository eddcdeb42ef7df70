r"""Do rare levels of a text, people who come back, or times stand behind decisions and what comes of them?

Cases that differ in a level only count as alike. They are not if what differs between levels moves both who gets an
action and what comes of it. With :math:`r_i = 1\{A_i = a\} - e_a(x_i)` and :math:`u_i` what a row
brings beyond what was expected, two rows of one level l have no covariance if the chances hold for every level:

.. math:: C_a = \sum_l \sum_{i \ne j \in l} r_i u_j, \qquad
          \operatorname{var} C_a = \sum_l \sum_{i \ne j \in l} (r_i^2 u_j^2 + r_i u_i r_j u_j).

For people and for stretches of the log, the rows are sums over episodes, less what an episode's own actions bring it.
An action may be drawn once for a person, so people count as one draw each: the variance is at least
:math:`\sum_l C_{a,l}^2`.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from polidiff.evaluation.assumptions.history import REJECTED
from polidiff.evaluation.assumptions.log_checks import stretches
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.log_rows import EpisodeRows

SHORT = 5  # episodes that stand together


def moved_together(rows: EpisodeRows, people: IntArray | None, taken: FloatArray, brought: FloatArray) -> str | None:
    """Why people (episodes,) who come back, or else time, stand behind decisions and what comes of them, if so.

    Parameters
    ----------
    taken : array (n, A)
        Actions beyond what was expected of them.
    brought : array (episodes, M)
        Outcomes beyond what was expected of them.
    """
    own = np.add.reduceat(taken, np.flatnonzero(rows.first))
    brought = brought - own @ np.linalg.lstsq(own, brought, rcond=None)[0]
    levels = [people] if people is not None else [stretches(rows)[rows.first], short_stretches(rows)[rows.first]]
    rejected, once = REJECTED / len(levels), people is not None
    if not any(levels_move_both(level, own, brought, rejected, once=once) for level in levels):
        return None
    whom = "when in the log that was" if people is None else "who it was"
    return f"what was decided and what came of it both depend on {whom}, beyond what the state records"


def short_stretches(rows: EpisodeRows) -> IntArray:
    """(n,) number of the short stretch that a row's episode lies in, where what changes quickly is seen."""
    return np.asarray(rows.episode // SHORT)


def levels_move_both(
    level: IntArray, taken: FloatArray, brought: FloatArray, rejected: float = REJECTED, *, once: bool = False
) -> bool:
    """Whether levels (n,) move actions (n, A) and outcomes (n, M), less what was expected of them, together.

    `once`: whether actions may have been drawn once for a whole level.
    """
    p_values = [2 * float(special.ndtr(-abs(_covariance(level, r, u, once)))) for r in taken.T for u in brought.T]
    return min(p_values, default=1.0) * len(p_values) < rejected


def _covariance(level: IntArray, r: FloatArray, u: FloatArray, once: bool) -> float:
    """The covariance of rows of one level, in standard errors.

    Where rare actions and rare outcomes did not happen to meet, the pairs at hand scatter less than all pairs would.
    """

    def over_pairs(one: FloatArray, other: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(level, one) * np.bincount(level, other) - np.bincount(level, one * other), float)

    squares, everyone, each = (r**2, u**2), np.ones(len(level)), over_pairs(r, u)
    usual = over_pairs(everyone, everyone).sum() * squares[0].mean() * squares[1].mean()
    spread = max(over_pairs(*squares).sum(), usual) + over_pairs(r * u, r * u).sum()
    spread = max(spread, float(each @ each)) if once else spread
    return float(each.sum() / np.sqrt(spread)) if spread > 0 else 0.0
