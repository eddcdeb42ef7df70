r"""A policy to be judged, split into what the log shows directly and what needs pairs of its own.

.. math:: \pi(a \mid s) = \rho(s)\, \pi_b(a \mid s) + r(a \mid s), \qquad
          \rho(s) = \min\Bigl(1, \min_{a : \pi_b(a|s) > 0} \frac{\pi(a \mid s)}{\pi_b(a \mid s)}\Bigr)

The share :math:`\rho` of the policy that wrote the log (:math:`\pi_b`) is read off the state's logged average and needs
no pair; only the rest can be without support. Where :math:`\pi_b` is not known, :math:`\rho = 0`, except in states
where the policy is by definition the one that wrote the log.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polidiff.records.arrays import BoolArray, FloatArray

EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class Target:
    """A policy over the states of a log."""

    table: FloatArray  # (S, A)
    rho: FloatArray  # (S,) share read off the logged average
    rest: FloatArray  # (S, A) what needs pairs; rows sum to 1 - rho


def split_target(table: FloatArray, logging: FloatArray | None, same: BoolArray | None = None) -> Target:
    """The split against a known logging policy (S, A); without one, `same` (S,) marks the states left to the log.

    >>> split_target(np.array([[0.2, 0.8]]), np.array([[0.5, 0.5]])).rho
    array([0.4])
    """
    if logging is None:
        rho = np.zeros(len(table)) if same is None else same.astype(np.float64)
        return Target(table, rho, np.where(rho[:, None] > 0, 0.0, table))
    ratio = np.divide(table, logging, out=np.full(table.shape, np.inf), where=logging > 0).min(axis=1)
    rho = np.where(ratio > 1 - EQUAL, 1.0, ratio)
    rest = np.maximum(table - rho[:, None] * logging, 0.0)
    return Target(table, rho, np.where(rho[:, None] == 1.0, 0.0, rest))


def same_rows(one: FloatArray, other: FloatArray) -> BoolArray:
    """(S,) whether two policies act alike in a state."""
    return np.asarray((np.abs(one - other) <= EQUAL).all(axis=1))
