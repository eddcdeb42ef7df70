"""Policies made from others: the most probable action, the level nearest to a real number, two of them side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polidiff.errors import InvalidPolicyError
from polidiff.policies.model_io import observed, rows_of
from polidiff.policies.protocol import ForeignModel, Policy, one_hot, top_actions
from polidiff.policies.torch_modules import called, in_batches
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class GreedyPolicy:
    """The most probable action, ties to the lowest index."""

    base: Policy

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return self.base.n_actions

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Probability 1 for the most probable action."""
        return one_hot(top_actions(self.base.probabilities(states)), self.n_actions)


@dataclass(frozen=True, eq=False)
class MixedPolicy:
    """One policy inside some states, another elsewhere; each is asked only where it acts."""

    inside: Policy
    outside: Policy
    covers: Callable[[AnyArray], BoolArray]  # states (n, …) -> whether they are inside

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return self.outside.n_actions

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Probabilities of the policy that acts in each state."""
        batch = np.asarray(states)
        within = self.covers(batch)
        if within.all() or not within.any():
            return (self.inside if within.any() else self.outside).probabilities(batch)
        table = np.empty((len(batch), self.n_actions))
        for policy, rows in ((self.inside, within), (self.outside, ~within)):
            table[rows] = policy.probabilities(batch[rows])
        return table


class Discretised:
    r"""The level nearest to what a continuous policy would do.

    .. math:: a(s) = \arg\min_a \sum_j \left( \frac{b_{aj} - u_j(s)}{w_j} \right)^2

    Parameters
    ----------
    policy : model or function
        Gives the action :math:`u(s)`, real numbers (n, d); of a model that draws its actions, the mean.
    bins : array (A, d), array (A,) or int
        The levels :math:`b_a`; a number makes that many per dimension, evenly spread over the policy's action space.
        Distances are measured in spans :math:`w_j` of the levels.

    Examples
    --------
    >>> policy = Discretised(lambda states: states * 0.5, bins=[-1.0, 0.0, 1.0])
    >>> policy.probabilities(np.array([[0.2], [1.6]]))
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """

    def __init__(self, policy: ForeignModel, bins: npt.ArrayLike) -> None:
        self.policy = policy
        self.bins = _levels(policy, bins)
        span = np.ptp(self.bins, axis=0)
        self._span = np.where(span > 0, span, 1.0)

    @property
    def n_actions(self) -> int:
        """How many levels there are."""
        return len(self.bins)

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Probability 1 for the nearest level."""
        batch = np.asarray(states)
        if not len(batch):
            return np.zeros((0, self.n_actions))
        chosen = real_actions(self.policy, batch).astype(np.float64)
        width = self.bins.shape[1]
        if chosen.size != len(batch) * width:
            raise InvalidPolicyError(
                f"the levels have {width} numbers each; the policy answered {len(batch)} states with shape "
                f"{chosen.shape}"
            )
        gap = (chosen.reshape(len(batch), 1, width) - self.bins[None]) / self._span
        return one_hot((gap**2).sum(axis=2).argmin(axis=1), self.n_actions)


def _levels(policy: ForeignModel, bins: npt.ArrayLike) -> FloatArray:
    if isinstance(bins, (int, np.integer)) and not isinstance(bins, bool):
        space = getattr(policy, "action_space", None)
        if space is None or not np.isfinite([space.low, space.high]).all():
            raise InvalidPolicyError(
                "a number of bins needs a policy with a bounded action_space. Hint: give the levels"
            )
        axes = [
            np.linspace(low, high, int(bins)) for low, high in zip(space.low.ravel(), space.high.ravel(), strict=True)
        ]
        return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1).astype(np.float64)
    table = np.asarray(bins, dtype=np.float64)
    if table.ndim not in (1, 2) or len(table) < 2 or not np.isfinite(table).all():
        raise InvalidPolicyError(
            f"bins must be at least two levels, (A,) or (A, d) finite numbers; got shape {table.shape}"
        )
    return table.reshape(len(table), -1)


def real_actions(policy: ForeignModel, batch: AnyArray) -> AnyArray:
    """What a model or function does, in real numbers; of one that draws its actions, the mean."""
    if callable(getattr(policy, "predict", None)):
        space = getattr(policy, "observation_space", None)
        if space is None:
            return np.asarray(policy.predict(rows_of(batch).astype(np.float32)))
        return np.asarray(policy.predict(observed(space, batch, type(policy).__name__), deterministic=True)[0])
    if callable(getattr(policy, "parameters", None)) and callable(getattr(policy, "forward", None)):
        return in_batches(lambda part: called(policy, policy, part), rows_of(batch))
    if not callable(policy):
        raise InvalidPolicyError(f"expected a model or a function that gives real numbers; got {type(policy).__name__}")
    return _called(policy, batch)


def _called(policy: ForeignModel, batch: AnyArray) -> AnyArray:
    """A function of a batch or of one state; the last state asked alone tells which."""
    try:
        together = np.asarray(policy(batch))
    except Exception:
        together = np.zeros(0)
    if together.shape[:1] == (len(batch),):
        try:
            alone = np.asarray(policy(batch[-1])).ravel()
        except Exception:
            return together
        if alone.shape != together[-1].ravel().shape or np.allclose(alone, together[-1].ravel()):
            return together
    return np.asarray([policy(state) for state in batch])
