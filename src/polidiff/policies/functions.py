"""Tables and functions as policies, and policies made from others: the most probable action, the nearest level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from polidiff.errors import InvalidPolicyError
from polidiff.policies.model_io import takes_batches
from polidiff.policies.models import real_actions
from polidiff.policies.protocol import (
    ALWAYS,
    ForeignModel,
    Policy,
    action_number,
    action_numbers,
    check_actions,
    check_probabilities,
    is_text,
    one_hot,
    told_count,
    top_actions,
)
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray, read_only
from polidiff.records.patch import Patch

MOST_ENTRIES = 2**27  # of a table; a gigabyte
MOST_ACTIONS = 2**16  # where only the largest index tells how many there are


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """Probabilities of actions for every state."""

    table: FloatArray  # (n_states, n_actions), rows sum to 1
    by_chance: FloatArray | float = 0.0  # (n_states,) how far apart counted shares may lie that are equal in truth
    patch: Patch | None = None  # that made it, if one did

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return int(self.table.shape[1])

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Rows of the table."""
        index = np.asarray(states)
        if index.ndim == 2 and index.shape[1] == 1:
            index = index[:, 0]
        if index.ndim != 1:
            raise InvalidPolicyError(
                f"a table policy answers numbers of states; it was asked about states of shape {index.shape[1:]}"
            )
        index = index.astype(np.int64)
        off = np.flatnonzero((index < 0) | (index >= len(self.table)))
        if off.size:
            raise InvalidPolicyError(
                f"a table policy of {len(self.table)} states was asked about state {int(index[off[0]])}"
            )
        return self.table[index]


def table_policy(array: AnyArray, n_actions: int | None = None, n_states: int | None = None) -> TablePolicy:
    """A policy from (S,) action indices or (S, A) probabilities."""
    if array.ndim == 1:
        table = one_hot(*_checked_actions(array, n_actions))
    elif array.ndim == 2:
        if n_actions is not None and array.shape[1] != n_actions:
            raise InvalidPolicyError(
                f"a policy table must have {n_actions} columns, one per action; got shape {array.shape}"
            )
        table = check_probabilities(array)
    else:
        raise InvalidPolicyError(
            f"a policy table must be (S,) action indices or (S, A) probabilities; got shape {array.shape}"
        )
    if n_states is not None and len(table) != n_states:
        raise InvalidPolicyError(f"a policy table must have {n_states} rows, one per state; got {len(table)}")
    return TablePolicy(read_only(table))


def _checked_actions(array: AnyArray, n_actions: int | None) -> tuple[IntArray, int]:
    off = np.flatnonzero(~((np.abs(array) < 2**53) & (np.floor(array) == array)))  # NaN is off too
    if off.size:
        raise InvalidPolicyError(
            f"a policy of shape (S,) must hold action indices; entry {off[0]} is {array[off[0]]} ({off.size} of "
            f"{len(array)} are off). Hint: pass probabilities as an (S, A) array"
        )
    actions = array.astype(np.int64)
    count = n_actions if n_actions is not None else int(actions.max(initial=0)) + 1
    if count * len(actions) > MOST_ENTRIES or (n_actions is None and count > MOST_ACTIONS):
        raise InvalidPolicyError(
            f"a table of {len(actions)} states and {count} actions is too large (at most {MOST_ENTRIES} entries, "
            f"{MOST_ACTIONS} actions). Hint: action indices count from 0 without gaps; a function is a policy too"
        )
    off = np.flatnonzero((actions < 0) | (actions >= count))
    if off.size:
        raise InvalidPolicyError(
            f"actions must be between 0 and {count - 1}; state {off[0]} has {actions[off[0]]} "
            f"({off.size} of {len(actions)} states are off)"
        )
    return actions, count


class CallablePolicy:
    """A function from states to actions (numbers or names) or probabilities.

    Whether the function takes a batch or one state is found out once, on the first call.
    """

    def __init__(
        self, function: Callable[..., object], n_actions: int | None = None, names: tuple[str, ...] | None = None
    ) -> None:
        self.function = function
        self.names = names
        self._n_actions = n_actions
        self._batched: bool | None = None

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return told_count(self._n_actions, "a function")

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Answers of the function, as probabilities."""
        answer = self.answers(states)
        return answer if answer.ndim == 2 else one_hot(answer, self.n_actions)

    def answers(self, states: AnyArray) -> AnyArray:
        """Actions (n,) if the function names actions, probabilities (n, A) if it gives those."""
        batch = np.asarray(states)
        if not len(batch):
            return np.zeros((0, self.n_actions))
        if self._batched is None:
            self._batched = takes_batches(self.function, batch)
        answer = np.asarray(self.function(batch) if self._batched else [self.function(state) for state in batch])
        if len(answer) != len(batch) or answer.ndim not in (1, 2):
            raise InvalidPolicyError(
                f"a policy must return one action or one row of probabilities per state; for {len(batch)} states it "
                f"returned shape {answer.shape}"
            )
        if answer.ndim == 2:
            if self._n_actions is not None and answer.shape[1] != self._n_actions:
                raise InvalidPolicyError(
                    f"a policy must return {self._n_actions} probabilities per state; got {answer.shape[1]}"
                )
            return check_probabilities(answer)
        if is_text(answer):
            return action_numbers(answer, self.names, "the policy")
        return check_actions(answer, self.n_actions, "a policy")


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
        chosen = real_actions(self.policy, batch, self.bins.shape[1], "the levels have {} numbers each")
        gap = (chosen[:, None] - self.bins[None]) / self._span
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
        return np.array(list(product(*axes)), dtype=np.float64)
    table = np.asarray(bins)
    numbers = table.dtype.kind in "iuf" and table.ndim in (1, 2)
    if not numbers or len(table) < 2 or not np.isfinite(table).all():
        raise InvalidPolicyError(
            f"bins must be at least two levels, (A,) or (A, d) finite numbers; got {table.dtype} of shape {table.shape}"
        )
    return table.reshape(len(table), -1).astype(np.float64)


@dataclass(frozen=True)
class ConstantPolicy:
    """The same action in every state."""

    action: int
    n_actions: int

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Probability 1 for the action."""
        return one_hot(np.full(len(np.asarray(states)), self.action), self.n_actions)


def always(text: str, names: Sequence[str] | None, n_actions: int | None) -> ConstantPolicy:
    """The policy that a text such as "always:placebo" stands for."""
    number = action_number(text.removeprefix(ALWAYS), names, f"the policy {text!r}")
    count = len(names) if names is not None else n_actions
    if count is None or number >= count:
        known = "it is not known how many actions there are" if count is None else f"there are {count} actions (from 0)"
        raise InvalidPolicyError(f"the policy {text!r} takes action {number}; {known}")
    return ConstantPolicy(number, count)
