r"""The decision process whose actions are choices: keep, or an action that some move puts there.

States in which nothing can be chosen are eliminated exactly. With free states F and the others E,

.. math:: T' = T_F + \gamma\, T_E (I - \gamma P_E)^{-1} P_{EF}, \qquad
          R' = R + \gamma\, T_E (I - \gamma P_E)^{-1} r_E,

so that every plan has the same return in the smaller process. A plan is a choice per free state.

*Values* of plans: exact ones, linearisations, neighbours, and the best plan of a set of choices.

With visits :math:`d` and values :math:`V` of a plan, another plan z that differs in the states B returns

.. math:: J_z = J + \sum_{s \in B} d_z(s)\, A(s, z(s)), \qquad
          d_z|_B = (I - G_{BB}^\top)^{-1} d|_B, \qquad G = (T - P)(I - P)^{-1},

so that one inverse serves all neighbours of a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg as sparse_linalg

from polidiff.errors import UnboundedReturnError
from polidiff.evaluation.exact import Solve, solver
from polidiff.frontier.rule_plans.moves import MoveSet
from polidiff.frontier.visits import policy_visits, switched_visits
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.worlds.checks import (
    LEAK,
    Moves,
    all_end,
    ending_choice,
    ending_rows,
    leaking,
    reachable_from,
    reached_over,
    surely_ending,
)
from polidiff.worlds.tabular import TabularMDP

SMALL = 80  # up to so many states neighbours are solved in full, in one batch
STRICT = 1e-10
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
    weights: FloatArray  # (m, rows) what a row adds to the return, to the changes, and to each guarded outcome
    initial: FloatArray  # (n,)
    constant: FloatArray  # (m,) what is collected before the first free state
    loops: bool  # whether some plan never ends

    @property
    def rewards(self) -> FloatArray:
        """(rows,)"""
        return np.asarray(self.weights[0])

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

    def ends(self, rows: IntArray) -> bool:
        """Whether the plan surely ends from every start."""
        if not self.loops:
            return True
        moves = self.transitions[rows]
        return bool(surely_ending(moves, leaking(moves))[self.initial > 0].all())

    @cached_property
    def unit(self) -> float:
        """The most by which a choice pays at once more or less than "keep": what differences are measured against."""
        most = float(np.abs(self.rewards - self.rewards[self.keep][self.state_of]).max(initial=0.0))
        return most or float(np.abs(self.rewards).max(initial=0.0)) or 1.0

    @cached_property
    def leaks(self) -> BoolArray:
        """(rows,) which rows may end the episode."""
        return leaking(self.transitions)


def choice_model(world: TabularMDP, moves: MoveSet, guarded: Sequence[FloatArray] = ()) -> ChoiceModel:
    """The smaller process for a set of moves, telling also what plans bring of guarded outcomes (S, A)."""
    can = _choices(world, moves)
    transitions = _stacked(world, moves.current)
    now = np.where(world.allowed, moves.current, 0.0)
    gains = [np.column_stack([g, (now * g).sum(axis=1)]) for g in (world.rewards, *guarded)]
    weights = np.stack([gains[0], moves.changed, *gains[1:]]).reshape(len(gains) + 1, -1)
    n_choices = world.n_actions + 1
    reached = reached_over(transitions, np.repeat(np.arange(world.n_states), n_choices), can.ravel(), world.initial > 0)
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
    table, weights, initial, constant = _eliminate(world, transitions, weights, pairs, kept, others, n_choices)
    loops = world.discount == 1 and not all_end(table > LEAK, state_of, leaking(table), len(kept))
    return ChoiceModel(kept, n_choices, state_of, choice_of, row_of, table, weights, initial, constant, loops)


def _choices(world: TabularMDP, moves: MoveSet) -> BoolArray:
    can = np.zeros((world.n_states, world.n_actions + 1), dtype=np.bool_)
    can[:, -1] = True
    for row in moves.choice:
        at = np.flatnonzero(row >= 0)
        can[at, row[at]] = True
    can[world.absorbing] = False
    return can


def _stacked(world: TabularMDP, current: FloatArray) -> sparse.csr_array:
    """Discounted rows s·(A+1) + choice, the last of each state under the current policy."""
    n_states, n_actions = world.n_states, world.n_actions
    own = world.policy_moves(current)
    order = np.arange(n_states * (n_actions + 1)).reshape(n_states, n_actions + 1)
    source = np.empty_like(order)
    source[:, :-1] = np.arange(n_states * n_actions).reshape(n_states, n_actions)
    source[:, -1] = n_states * n_actions + np.arange(n_states)
    both = sparse.csr_array(sparse.vstack([world.transitions, own]))
    return sparse.csr_array(world.discount * both[source.ravel()])


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
    weights: FloatArray,
    pairs: IntArray,
    kept: IntArray,
    others: IntArray,
    n_choices: int,
) -> tuple[Moves, FloatArray, FloatArray, FloatArray]:
    """Moves (rows, n) and weights (m, rows) of pairs, starts and constants without the states `others`."""
    rows = sparse.csr_array(transitions[pairs])
    table, gains = sparse.csr_array(rows[:, kept]), weights[:, pairs]
    initial, constant = world.initial[kept].copy(), np.zeros(len(weights))
    if others.size:
        alone = others * n_choices + n_choices - 1
        own = sparse.csr_array(transitions[alone])
        solve = sparse_linalg.splu(sparse.csc_array(sparse.eye_array(len(others)) - own[:, others])).solve
        ahead, worth = solve(own[:, kept].toarray()), solve(weights[:, alone].T)
        through = sparse.csr_array(rows[:, others])
        table = sparse.csr_array(table + sparse.csr_array(through @ ahead))
        gains = gains + (through @ worth).T
        initial += world.initial[others] @ ahead
        constant = world.initial[others] @ worth
    return (table.toarray() if len(kept) <= DENSE_UP_TO else table), gains, initial, constant


@dataclass(frozen=True, eq=False)
class Point:
    """A plan with all that is needed to linearise at it and to value its neighbours."""

    model: ChoiceModel
    rows: IntArray  # (n,)
    damping: float
    solve: Solve  # (right-hand side, transposed) -> solution
    values: FloatArray  # (n,)
    visits: FloatArray  # (n,)
    ahead: FloatArray  # (rows of the model,) one-step look-ahead Q

    @property
    def expected_return(self) -> float:
        """Damped where the model has loops."""
        return float(self.model.constant[0] + self.model.initial @ self.values)

    @cached_property
    def inverse(self) -> FloatArray:
        """(I − P)⁻¹, (n, n); dense models only."""
        return np.asarray(self.solve(np.eye(self.model.size), False))

    def shift(self, rows: IntArray) -> FloatArray:
        """T − P for other rows, one each of some states, (m, n); dense models only."""
        moves = self.model.transitions
        return np.asarray((1 - self.damping) * (moves[rows] - moves[self.rows[self.model.state_of[rows]]]))


def value_of(model: ChoiceModel, rows: IntArray) -> FloatArray:
    """(m,) exact return, expected changes and guarded outcomes of a plan; −∞ and ∞ if it may never end."""
    if not model.ends(rows):
        return np.array([-np.inf, *[np.inf] * (len(model.weights) - 1)])
    moves, at = model.transitions[rows], np.arange(model.size)
    if model.loops:  # what it does not reach may never end
        at = np.flatnonzero(reachable_from(moves, model.initial > 0))
    visits = solver(_among(moves, at), 1.0)(model.initial[at], True)
    return np.asarray(model.constant + model.weights[:, rows[at]] @ visits)


def _among(moves: Moves, at: IntArray) -> Moves:
    """The moves of a plan between some of its states."""
    return moves if len(at) == moves.shape[0] else moves[at][:, at]


def point_at(model: ChoiceModel, rows: IntArray, helper: IntArray | None = None) -> Point:
    """The plan, ready to linearise; with a `helper`, another plan, one that takes each half of the decisions."""
    damping = DAMPING if model.loops else 0.0
    moves, gains = model.transitions[rows], model.rewards[rows]
    if helper is not None:
        moves, gains = (moves + model.transitions[helper]) / 2, (gains + model.rewards[helper]) / 2
    solve = solver(moves, 1 - damping)
    values, visits = solve(gains, False), solve(model.initial, True)
    ahead = model.rewards + (1 - damping) * (model.transitions @ values)
    return Point(model, rows, damping, solve, values, np.maximum(visits, 0.0), ahead)


def screen(model: ChoiceModel, point: Point, plans: IntArray, *, exact: int = 12) -> FloatArray:
    """(C, m) what plans (C, n) near a point bring.

    All returns are estimated, the `exact` best plans worked out by the formula above (damped); what else a plan brings
    is NaN where it is only estimated.
    """
    if model.size <= SMALL:
        return exact_values(model, plans)
    moved = plans != point.rows
    gain = np.where(moved, point.ahead[plans] - point.values, 0.0)
    visits = np.broadcast_to(point.visits, plans.shape)
    for _ in range(2):
        visits = point.visits + _carried(model, point, plans, np.where(moved, visits, 0.0))
    estimate = point.expected_return + (visits * gain).sum(axis=1)
    crude = point.expected_return + gain @ point.visits
    estimate = np.where(np.isfinite(estimate), np.minimum(estimate, crude + np.abs(crude)), crude)
    sums = np.full((len(plans), len(model.weights)), np.nan)
    sums[:, 0] = -np.inf if model.dense else estimate
    for c in np.argsort(-estimate, kind="stable")[: exact if model.dense else 0]:
        sums[c] = _neighbour(point, plans[c], np.flatnonzero(moved[c]))
    return sums


def best_choices(
    model: ChoiceModel, allowed: BoolArray, start: IntArray | None = None
) -> tuple[float, IntArray] | None:
    """Best return over plans that take an allowed row (rows,) in every state; None if no such plan ends.

    Policy iteration from a plan that ends. A state whose every allowed row leads where nothing ends is left out.
    """
    usable, alive = allowed, np.ones(model.size, dtype=np.bool_)
    if model.loops:
        usable = ending_rows(model.transitions, model.state_of, model.leaks, allowed, model.size)
        alive = np.isin(np.arange(model.size), model.state_of[usable])
    if not alive[model.initial > 0].all():
        return None
    rows = _ending(model, usable, alive, start)
    for _ in range(1000):
        values = _alive_values(model, rows, alive)
        if values is None and start is not None:  # the given start stays for ever somewhere
            start, rows = None, _ending(model, usable, alive, None)
            values = _alive_values(model, rows, alive)
        if values is None:
            raise UnboundedReturnError(
                "the return is unbounded: with these moves a loop pays for ever. Hint: give a discount below 1, forbid "
                "the loop with allowed=, or offer fewer moves"
            )
        start = None
        ahead = np.where(usable, model.rewards + model.transitions @ values, -np.inf)
        best = np.full(model.size, -np.inf)
        np.maximum.at(best, model.state_of, ahead)
        better = alive & (best > values + STRICT * (model.unit + np.abs(values)))
        if not better.any():
            return float(model.constant[0] + model.initial @ values), rows
        pick = np.flatnonzero(ahead == best[model.state_of])[::-1]
        top = np.array(rows)
        top[model.state_of[pick]] = pick
        rows = np.where(better, top, rows)
    raise RuntimeError("policy iteration did not settle in 1,000 rounds")


def exact_values(model: ChoiceModel, plans: IntArray) -> FloatArray:
    """(C, m) what plans (C, n) of a small model bring, solved in full (damped where it has loops)."""
    damping = DAMPING if model.loops else 0.0
    visits = policy_visits((1 - damping) * model.transitions[plans], model.initial)
    return np.asarray(model.constant + np.stack([(visits * w[plans]).sum(axis=1) for w in model.weights], axis=1))


def _carried(model: ChoiceModel, point: Point, plans: IntArray, visits: FloatArray) -> FloatArray:
    """What visits to the moved states add to the visits of all states, first order."""
    index, at = np.nonzero(visits)
    weight = sparse.csr_array((visits[index, at], (index, plans[index, at])), shape=(len(plans), len(model.state_of)))
    back = sparse.csr_array((visits[index, at], (index, point.rows[at])), shape=weight.shape)
    pushed = (1 - point.damping) * ((weight - back) @ model.transitions)
    if model.dense:
        return np.asarray(pushed @ point.inverse)
    return np.asarray(point.solve(np.ascontiguousarray(pushed.toarray().T), True).T)


def _neighbour(point: Point, rows: IntArray, moved: IntArray) -> FloatArray:
    """(m,) what a plan that differs in the states `moved` brings; −∞ and NaN if that cannot be told."""
    model = point.model
    unknown = np.array([-np.inf, *[np.nan] * (len(model.weights) - 1)])
    try:
        there, everywhere = switched_visits(point.inverse, point.visits, moved, point.shift(rows[moved]))
    except np.linalg.LinAlgError:
        return unknown
    total = point.expected_return + float(there @ (point.ahead[rows[moved]] - point.values[moved]))
    sums = np.array([total, *(model.constant[1:] + model.weights[1:, rows] @ everywhere)])
    return sums if np.isfinite(total) else unknown


def _alive_values(model: ChoiceModel, rows: IntArray, alive: BoolArray) -> FloatArray | None:
    """Values of a plan over the states that can end, 0 elsewhere; None if it stays for ever in some of them."""
    moves = model.transitions[rows]
    if model.loops and not surely_ending(moves, leaking(moves))[alive].all():
        return None
    at, values = np.flatnonzero(alive), np.zeros(model.size)
    values[at] = solver(_among(moves, at), 1.0)(model.rewards[rows[at]], False)
    return values


def _ending(model: ChoiceModel, usable: BoolArray, alive: BoolArray, start: IntArray | None) -> IntArray:
    """A plan of usable rows that ends: `start` where it is usable (if that ends), else each step nearer to an end."""
    if start is None and model.loops:
        none = np.full(model.size, -1)
        rows = ending_choice(model.transitions, model.state_of, model.leaks, none, usable)
        return np.where(rows < 0, model.keep, rows)
    start = model.keep if start is None else start
    first, at = np.full(model.size, -1), np.flatnonzero(usable)[::-1]
    first[model.state_of[at]] = at
    return np.where(usable[start] | ~alive | (first < 0), start, first)
