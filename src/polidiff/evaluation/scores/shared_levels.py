r"""Levels of a text column that are too rare to be told apart: what is lost, and whether verdicts can do without it.

Rows of such levels count as alike. They are not if what differs between levels moves both who gets an action and what
comes of it. With :math:`r_i = 1\{A_i = a\} - e_a(x_i)` and :math:`u_i` what a row brings beyond what was expected, two
rows of one level l have no covariance if the chances hold for every level:

.. math:: C_a = \sum_l \sum_{i \ne j \in l} r_i u_j, \qquad
          \operatorname{var} C_a = \sum_l \sum_{i \ne j \in l} (r_i^2 u_j^2 + r_i u_i r_j u_j).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from polidiff.evaluation.scores.decisions import Encoder
from polidiff.records.arrays import AnyArray, FloatArray, IntArray

REJECTED = 1e-3
TOLD = 0.01  # share of the rows from which on it is said that they share a level


@dataclass(frozen=True, eq=False)
class SharedLevels:
    """A text column of which some levels count as one."""

    name: str
    levels: int
    apart: int  # levels that are told apart
    rows: IntArray  # (m,) rows with other levels
    level: IntArray  # (m,) their levels, from 0

    def note(self, n: int) -> str:
        """What is lost, of n rows."""
        return (
            f"Comparisons tell the {self.apart} commonest of {self.levels} levels of {self.name!r} apart, in "
            f"{1 - len(self.rows) / n:.0%} of the rows. The others count as one; what differs between them is lost."
        )

    def moves_both(self, taken: FloatArray, brought: FloatArray) -> bool:
        """Whether levels move actions and outcomes together; (n, A) and (n, M) what was not expected of them."""
        pairs = [(r[self.rows], u[self.rows]) for r in taken.T for u in brought.T]
        p_values = [2 * float(stats.norm.sf(abs(self._covariance(r, u)))) for r, u in pairs]
        return min(p_values, default=1.0) * len(p_values) < REJECTED

    def _covariance(self, r: FloatArray, u: FloatArray) -> float:
        """The covariance of rows of one level, in standard errors."""

        def over_pairs(one: FloatArray, other: FloatArray) -> float:
            sums = np.bincount(self.level, one) * np.bincount(self.level, other)
            return float(sums.sum() - (one * other).sum())

        spread = over_pairs(r**2, u**2) + over_pairs(r * u, r * u)
        return over_pairs(r, u) / np.sqrt(spread) if spread > 0 else 0.0


def shared_levels(states: AnyArray, names: tuple[str, ...], encoder: Encoder) -> list[SharedLevels]:
    """The text columns of feature rows (n, d) of which more than a few rows share a level."""
    found = []
    for j, known in enumerate(encoder.columns):
        if isinstance(known, tuple):
            levels, code = np.unique([value if isinstance(value, str) else "" for value in states[:, j]],
                                     return_inverse=True)  # fmt: skip
            rows = np.flatnonzero(~np.isin(levels, known)[code])
            if len(levels) > len(known) + 1 and len(rows) > TOLD * len(states):
                level = np.unique(code[rows], return_inverse=True)[1]
                found.append(SharedLevels(names[j], len(levels), len(known), rows, level))
    return found
