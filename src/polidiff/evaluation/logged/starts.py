"""Groups of starts over which values are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.records.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Starts:
    """Distributions over the states in which episodes begin."""

    weights: FloatArray  # (q, S), rows sum to 1
    episodes: FloatArray  # (q,) logged episodes behind each row; inf where the distribution is known

    def variance(self, values: FloatArray) -> FloatArray:
        """(q,) what sampling the starts adds to the variance of an average of values (S,)."""
        mean = self.weights @ values
        scatter = (self.weights * (values[None, :] - mean[:, None]) ** 2).sum(axis=1)
        return np.asarray(scatter / np.maximum(self.episodes, 1.0))


def each_state(n_states: int) -> Starts:
    """Every state as a start of its own."""
    return Starts(np.eye(n_states), np.full(n_states, np.inf))


def group_starts(groups: Sequence[Any] | None, state_of: IntArray, episodes: IntArray, n_states: int) -> Starts:
    """Groups as masks over the logged starts, or as weights over them; None is one group of all.

    Parameters
    ----------
    groups : sequence of arrays (n_starts,)
        True and false: the logged episodes of those starts, whose share is itself estimated. Numbers: a distribution
        that is taken as known.
    state_of, episodes : arrays (n_starts,)
        State of each logged start and the episodes that begin there.
    """
    chosen = [np.ones(len(state_of), dtype=np.bool_)] if groups is None else [np.asarray(group) for group in groups]
    weights, behind = np.zeros((len(chosen), n_states)), np.zeros(len(chosen))
    for number, group in enumerate(chosen):
        if group.shape != state_of.shape:
            raise InvalidOptionError(
                f"a group must have one entry per logged start, {len(state_of)}; group {number} has shape {group.shape}"
            )
        mass = np.where(group, episodes, 0).astype(float) if group.dtype == np.bool_ else group.astype(float)
        if not (mass.sum() > 0 and (mass >= 0).all()):
            raise InvalidOptionError(f"a group must hold at least one start; group {number} has none")
        weights[number] = np.bincount(state_of, mass / mass.sum(), n_states)
        behind[number] = mass.sum() if group.dtype == np.bool_ else np.inf
    return Starts(weights, behind)
