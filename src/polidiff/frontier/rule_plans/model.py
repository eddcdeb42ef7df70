r"""The decision process whose actions are choices: keep, or an action that some move puts there.

States in which nothing can be chosen are eliminated exactly. With free states F and the others E,

.. math:: T' = T_F + \gamma\, T_E (I - \gamma P_E)^{-1} P_{EF}, \qquad
          R' = R + \gamma\, T_E (I - \gamma P_E)^{-1} r_E,

so that every plan has the same return in the smaller process. A plan is a choice per free state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg as sparse_linalg

from polidiff.frontier.absorption import Moves, leaking, surely_ends
from polidiff.frontier.rule_plans.moves import MoveSet
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.worlds.checks import reachable_from
from polidiff.worlds.tabular import TabularMDP

DENSE_UP_TO = 1200
DAMPING = 1e-6  # where a plan could stay for ever, the search (never a reported figure) discounts by this


@dataclass(frozen=True, eq=False)
class ChoiceModel:
    """Rows 0 … n-1 keep; the others are one (free state, action) pair each."""

    states: IntArray  # (n,) free states of the world
    n_choices: int  # actions + 1; the last choice is "keep"
    state_of: IntArray  # (rows,) free state of each row
    choice_of: IntArray  # (rows,)
    row_of: IntArray  # (n, n_choices) row of a choice, -1 where it cannot be chosen
    transitions: Any  # (rows, n) dense or csr, discounted; missing mass ends the episode
    rewards: FloatArray  # (rows,)
    changed: FloatArray  # (rows,) probability that the decision differs from now
    initial: FloatArray  # (n,)
    constant: float  # return collected before the first free state
    discount: float
    loops: bool  # whether some plan never ends

    @property
    def size(self) -> int:
        """How many free states there are."""
        return len(self.states)

    @property
    def dense(self) -> bool:
        """Whether transitions are a plain array."""
        return isinstance(self.transitions, np.ndarray)

    @property
    def keep(self) -> IntArray:
        """The plan that changes nothing, as rows."""
        return np.arange(self.size)

    def rows(self, choices: IntArray) -> IntArray:
        """Rows of a plan given as choices of the free states."""
        return np.asarray(self.row_of[np.arange(self.size), choices], dtype=np.int64)

    def system(self, rows: IntArray, damping: float = 0.0) -> Any:
        r"""The matrix :math:`I - (1 - \delta) \gamma P` of a plan."""
        moves = self.transitions[rows]
        if self.dense:
            matrix = -(1 - damping) * moves
            matrix[np.arange(self.size), np.arange(self.size)] += 1
            return matrix
        return sparse.csc_array(sparse.eye_array(self.size, format="csr") - (1 - damping) * moves)

    def ends(self, rows: IntArray) -> bool:
        """Whether the plan surely ends from every start."""
        if not self.loops:
            return True
        return bool(surely_ends(self.transitions[rows])[self.initial > 0].all())

    @cached_property
    def unit(self) -> float:
        """The most by which a choice pays at once more or less than "keep": what differences are measured against."""
        most = float(np.abs(self.rewards - self.rewards[self.keep][self.state_of]).max(initial=0.0))
        return most or float(np.abs(self.rewards).max(initial=0.0)) or 1.0

    @cached_property
    def leaks(self) -> BoolArray:
        """(rows,) which rows may end the episode."""
        return leaking(self.transitions)


def choice_model(world: TabularMDP, moves: MoveSet) -> ChoiceModel:
    """The smaller process for a set of moves."""
    can = _choices(world, moves)
    transitions, rewards = _stacked(world, moves.current)
    n_choices = world.n_actions + 1
    reached = _reached(world, transitions, can)
    free = reached & can[:, :-1].any(axis=1)
    kept = np.flatnonzero(free | _never_leaving(world, transitions, free, reached))
    if not 0 < len(kept) <= DENSE_UP_TO:  # elimination would fill a sparse table
        kept = np.flatnonzero(reached & ~world.absorbing)
    others = np.flatnonzero(reached & ~world.absorbing & ~np.isin(np.arange(world.n_states), kept))
    local, action = np.nonzero(can[kept][:, :-1] & free[kept][:, None])
    state_of = np.concatenate([np.arange(len(kept)), local])
    choice_of = np.concatenate([np.full(len(kept), n_choices - 1), action])
    row_of = np.full((len(kept), n_choices), -1)
    row_of[state_of, choice_of] = np.arange(len(state_of))
    pairs = kept[state_of] * n_choices + choice_of
    reduced = _eliminate(world, transitions, rewards, pairs, kept, others, n_choices)
    table, gains, initial, constant = reduced
    return ChoiceModel(
        kept, n_choices, state_of, choice_of, row_of, table, gains,
        moves.changed[kept[state_of], choice_of], initial, constant, world.discount,
        world.discount == 1 and _may_stay(table, state_of, len(kept)),
    )  # fmt: skip


def _choices(world: TabularMDP, moves: MoveSet) -> BoolArray:
    can = np.zeros((world.n_states, world.n_actions + 1), dtype=np.bool_)
    can[:, -1] = True
    for row in moves.choice:
        at = np.flatnonzero(row >= 0)
        can[at, row[at]] = True
    can[world.absorbing] = False
    return can


def _stacked(world: TabularMDP, current: FloatArray) -> tuple[sparse.csr_array, FloatArray]:
    """Discounted rows s·(A+1) + choice, the last of each state under the current policy."""
    n_states, n_actions = world.n_states, world.n_actions
    own = world.policy_moves(current)
    order = np.arange(n_states * (n_actions + 1)).reshape(n_states, n_actions + 1)
    source = np.empty_like(order)
    source[:, :-1] = np.arange(n_states * n_actions).reshape(n_states, n_actions)
    source[:, -1] = n_states * n_actions + np.arange(n_states)
    both = sparse.csr_array(sparse.vstack([world.transitions, own]))
    rewards = np.hstack([world.rewards, (np.where(world.allowed, current, 0) * world.rewards).sum(axis=1)[:, None]])
    return sparse.csr_array(world.discount * both[source.ravel()]), rewards.ravel()


def _reached(world: TabularMDP, transitions: sparse.csr_array, can: BoolArray) -> BoolArray:
    rows, choices = np.nonzero(can)
    flat = rows * can.shape[1] + choices
    pick = sparse.csr_array((np.ones(len(flat)), (rows, flat)), shape=(world.n_states, can.size))
    return reachable_from(sparse.csr_array(pick @ transitions), world.initial > 0)


def _never_leaving(world: TabularMDP, transitions: sparse.csr_array, free: BoolArray, reached: BoolArray) -> BoolArray:
    """States without a choice that never end and never meet a free state: they cannot be eliminated."""
    if world.discount < 1:
        return np.zeros(world.n_states, dtype=np.bool_)
    own = sparse.csr_array(transitions[world.n_actions :: world.n_actions + 1])
    leaves = reachable_from(sparse.csr_array(own.T), free | world.absorbing)
    return reached & ~leaves


def _eliminate(
    world: TabularMDP,
    transitions: sparse.csr_array,
    rewards: FloatArray,
    pairs: IntArray,
    kept: IntArray,
    others: IntArray,
    n_choices: int,
) -> tuple[Moves, FloatArray, FloatArray, float]:
    rows = sparse.csr_array(transitions[pairs])
    table, gains = sparse.csr_array(rows[:, kept]), rewards[pairs].copy()
    initial, constant = world.initial[kept].copy(), 0.0
    if others.size:
        own = sparse.csr_array(transitions[others * n_choices + n_choices - 1])
        system = sparse.csc_array(sparse.eye_array(len(others)) - own[:, others])
        solve = sparse_linalg.splu(system).solve
        ahead = solve(own[:, kept].toarray())
        worth = solve(rewards[others * n_choices + n_choices - 1])
        through = sparse.csr_array(rows[:, others])
        table = sparse.csr_array(table + sparse.csr_array(through @ ahead))
        gains += through @ worth
        initial += world.initial[others] @ ahead
        constant = float(world.initial[others] @ worth)
    dense = len(kept) <= DENSE_UP_TO
    return (table.toarray() if dense else table), gains, initial, constant


def _may_stay(table: Moves, state_of: IntArray, size: int) -> bool:
    """Whether some states have choices that never leave them: the largest such set is found by removal."""
    inside = np.ones(size, dtype=np.bool_)
    while inside.any():
        staying = np.asarray(table @ inside.astype(np.float64)) >= 1 - 1e-9
        some = np.zeros(size, dtype=np.bool_)
        some[state_of[staying]] = True
        if (some & inside == inside).all():
            return True
        inside &= some
    return False
