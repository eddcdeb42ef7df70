r"""Exact values of a policy in a known table, by one linear solve.

.. math:: V_\pi = (I - \gamma P_\pi)^{-1} g_\pi, \qquad x_\pi = (I - \gamma P_\pi^\top)^{-1} p_0

Only states that surely end under the policy have a finite undiscounted sum. They are found on the graph before
anything is inverted; the others have value NaN, and an error names the first start among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from polidiff.errors import ImproperPolicyError, InvalidPolicyError
from polidiff.evaluation.linear import Solve, solver
from polidiff.policies import as_policy
from polidiff.policies.protocol import PolicyLike
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.worlds.checks import closed_loop, surely_ending
from polidiff.worlds.tabular import TabularMDP


@dataclass(frozen=True, eq=False)
class ExactEvaluator:
    """A policy in a table, factorised once and asked many things."""

    world: TabularMDP
    table: FloatArray  # (S, A) probabilities, only over allowed actions

    @cached_property
    def moves(self) -> sparse.csr_array:
        """Next-state probabilities (S, S) under the policy; rows of absorbing states are empty."""
        return self.world.policy_moves(self.table)

    @cached_property
    def ends(self) -> BoolArray:
        """(S,) states from which the sum is finite: the episode surely ends, or sums are discounted."""
        if self.world.discount < 1:
            return np.ones(self.world.n_states, dtype=np.bool_)
        return surely_ending(self.moves, self.world.absorbing)

    @cached_property
    def _inside(self) -> IntArray:
        return np.flatnonzero(self.ends & ~self.world.absorbing)

    @cached_property
    def _solve(self) -> Solve:
        return solver(sparse.csr_array(self.moves[self._inside][:, self._inside]), self.world.discount)

    def values(self, gains: FloatArray) -> FloatArray:
        """Expected sums (S, …) of per-decision gains (S, A, …) from every state on; NaN where they never end."""
        per_state = np.einsum("sa,sa...->s...", self.table, gains)
        values = np.full(per_state.shape, np.nan)
        values[self.world.absorbing] = 0.0
        if self._inside.size:
            values[self._inside] = self._solve(per_state[self._inside], False)
        return values

    def visits(self, start: FloatArray | None = None) -> FloatArray:
        """Expected (discounted) departures from each state (S,), from the world's starts or another distribution."""
        initial = self.world.initial if start is None else start
        self.check_ends(initial)
        visits = np.zeros(self.world.n_states)
        if self._inside.size:
            visits[self._inside] = self._solve(initial[self._inside], True)
        return np.maximum(visits, 0.0)

    def occupancy(self) -> FloatArray:
        """Expected times each action is taken in each state, (S, A)."""
        return self.visits()[:, None] * self.table

    def check_ends(self, initial: FloatArray) -> None:
        """An error that names the first start from which the policy never ends."""
        stuck = np.flatnonzero((initial > 0) & ~self.ends)
        if not stuck.size:
            return
        names = self.world.states
        loop = closed_loop(self.moves, ~surely_ending(self.moves, self.world.absorbing) & ~self.world.absorbing)
        shown = ", ".join(names[s] for s in loop[:5]) + (", …" if len(loop) > 5 else "")
        raise ImproperPolicyError(
            f"the policy must end from every start; from {names[stuck[0]]!r} it may stay for ever in {{{shown}}} "
            f"({stuck.size} of {int((initial > 0).sum())} starts). Hint: give a discount below 1, a horizon, or "
            "another policy"
        )


def exact_evaluator(world: TabularMDP, policy: PolicyLike) -> ExactEvaluator:
    """An evaluator for a policy, checked against the actions that the table allows."""
    table = policy_table(world, policy)
    return ExactEvaluator(world, table)


def policy_table(world: TabularMDP, policy: PolicyLike) -> FloatArray:
    """Probabilities (S, A) of a policy; an error names the first state where it takes an action not allowed."""
    chosen = as_policy(policy, actions=world.actions, n_states=world.n_states)
    table = np.array(chosen.probabilities(np.arange(world.n_states)))
    if table.shape != (world.n_states, world.n_actions):
        raise InvalidPolicyError(
            f"a policy for this table must give shape {(world.n_states, world.n_actions)}; it gave {table.shape}"
        )
    off = np.argwhere((table > 1e-9) & ~world.allowed & ~world.absorbing[:, None])
    if off.size:
        state, action = off[0]
        raise InvalidPolicyError(
            f"a policy may take allowed actions only; in {world.states[state]!r} it takes "
            f"{world.actions[action].name!r} ({len(off)} such pairs)"
        )
    return table


def outcome_tensor(world: TabularMDP) -> FloatArray:
    """What each decision adds to every outcome of the world, (S, A, M)."""
    return np.stack([world.outcome_table(outcome) for outcome in world.outcomes], axis=2)


def finite_horizon_values(evaluator: ExactEvaluator, gains: FloatArray, horizon: int) -> FloatArray:
    """Expected sums (S, …) over the first `horizon` decisions."""
    per_state = np.einsum("sa,sa...->s...", evaluator.table, gains)
    values = np.zeros_like(per_state)
    for _ in range(horizon):
        values = per_state + evaluator.world.discount * (evaluator.moves @ values)
    return values
