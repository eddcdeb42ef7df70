r"""Values of plans: exact ones, linearisations, neighbours, and the best plan of a set of choices.

With visits :math:`d` and values :math:`V` of a plan, another plan z that differs in the states B returns

.. math:: J_z = J + \sum_{s \in B} d_z(s)\, A(s, z(s)), \qquad
          d_z|_B = (I - G_{BB}^\top)^{-1} d|_B, \qquad G = (T - P)(I - P)^{-1},

so that one inverse serves all neighbours of a plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import linalg as sparse_linalg

from polidiff.errors import UnboundedReturnError
from polidiff.frontier.absorption import Moves, ending_choice, ending_rows, reached_states, surely_ends
from polidiff.frontier.rule_plans.model import DAMPING, ChoiceModel
from polidiff.frontier.visits import policy_visits, switched_visits
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

SMALL = 80  # up to so many states neighbours are solved in full, in one batch
STRICT = 1e-10

Solver: TypeAlias = Callable[[FloatArray, bool], FloatArray]


@dataclass(frozen=True, eq=False)
class Point:
    """A plan with all that is needed to linearise at it and to value its neighbours."""

    model: ChoiceModel
    rows: IntArray  # (n,)
    damping: float
    solve: Solver  # (right-hand side, transposed) -> solution
    values: FloatArray  # (n,)
    visits: FloatArray  # (n,)
    ahead: FloatArray  # (rows of the model,) one-step look-ahead Q

    @property
    def expected_return(self) -> float:
        """Damped where the model has loops."""
        return self.model.constant + float(self.model.initial @ self.values)

    @cached_property
    def inverse(self) -> FloatArray:
        """(I − P)⁻¹, (n, n); dense models only."""
        return np.asarray(self.solve(np.eye(self.model.size), False))

    def shift(self, rows: IntArray) -> FloatArray:
        """T − P for other rows, one each of some states, (m, n); dense models only."""
        moves = self.model.transitions
        return np.asarray((1 - self.damping) * (moves[rows] - moves[self.rows[self.model.state_of[rows]]]))


def value_of(model: ChoiceModel, rows: IntArray) -> tuple[float, float]:
    """Exact return and expected changes of a plan; (-inf, inf) if it may never end."""
    if not model.ends(rows):
        return -np.inf, np.inf
    if model.loops:
        visits = _visits_of_reached(model, rows)
    else:
        visits = _factorised(model, rows)(model.initial, True)
    total = model.constant + float(visits @ model.rewards[rows])
    return total, float(visits @ model.changed[rows])


def point_at(model: ChoiceModel, rows: IntArray, helper: IntArray | None = None) -> Point:
    """The plan, ready to linearise; with a `helper`, another plan, one that takes each half of the decisions."""
    damping = DAMPING if model.loops else 0.0
    solve, gains = _factorised(model, rows, damping, helper), model.rewards[rows]
    gains = gains if helper is None else (gains + model.rewards[helper]) / 2
    values, visits = solve(gains, False), solve(model.initial, True)
    ahead = model.rewards + (1 - damping) * (model.transitions @ values)
    return Point(model, rows, damping, solve, values, np.maximum(visits, 0.0), ahead)


def screen(model: ChoiceModel, point: Point, plans: IntArray, *, exact: int = 12) -> tuple[FloatArray, FloatArray]:
    """Returns of plans (C, n) near a point, and their changes.

    All are estimated, the `exact` best worked out by the formula above (damped); changes are NaN where only estimated.
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
    changes = np.full(len(plans), np.nan)
    if not model.dense:
        return np.asarray(estimate), changes
    result = np.full(len(plans), -np.inf)
    for c in np.argsort(-estimate, kind="stable")[:exact]:
        result[c], changes[c] = _neighbour(point, plans[c], np.flatnonzero(moved[c]))
    return result, changes


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
            return model.constant + float(model.initial @ values), rows
        pick = np.flatnonzero(ahead == best[model.state_of])[::-1]
        top = np.array(rows)
        top[model.state_of[pick]] = pick
        rows = np.where(better, top, rows)
    raise RuntimeError("policy iteration did not settle in 1,000 rounds")


def relaxed_optimum(
    model: ChoiceModel, allowed: BoolArray, start: IntArray
) -> tuple[float, IntArray, FloatArray] | None:
    """Best return over allowed rows (every state with one at least), the plan and its visits; None if none ends."""
    rows = _ending(model, allowed, np.ones(model.size, dtype=np.bool_), start)
    found = best_choices(model, allowed, rows)
    if found is None:
        return None
    total, best = found
    return total, best, point_at(model, best).visits


def _factorised(model: ChoiceModel, rows: IntArray, damping: float = 0.0, helper: IntArray | None = None) -> Solver:
    """A function (right-hand side, transposed) → solution of the plan's system, or of the mean of two."""
    system = model.system(rows, damping)
    system = system if helper is None else (system + model.system(helper, damping)) / 2
    if model.dense:
        factors = linalg.lu_factor(system, check_finite=False, overwrite_a=True)
        return lambda g, transposed: np.asarray(
            linalg.lu_solve(factors, g, trans=1 if transposed else 0, check_finite=False)
        )
    splu: Any = sparse_linalg.splu(system)  # whose stubs forget the second argument
    return lambda g, transposed: np.asarray(splu.solve(g, "T" if transposed else "N"))


def _visits_of_reached(model: ChoiceModel, rows: IntArray) -> FloatArray:
    """Visits of a plan that ends from the starts, solved over the states that it reaches."""
    moves = model.transitions[rows]
    at = np.flatnonzero(reached_states(moves, model.initial > 0))
    visits = np.zeros(model.size)
    visits[at] = _inside(moves, at, model.initial[at], transposed=True)
    return visits


def _inside(moves: Moves, at: IntArray, g: FloatArray, *, transposed: bool) -> FloatArray:
    """Solution of the system of a plan over some of its states."""
    if isinstance(moves, np.ndarray):
        dense = np.eye(len(at)) - moves[np.ix_(at, at)]
        return np.asarray(np.linalg.solve(dense.T if transposed else dense, g))
    system = sparse.csc_array(sparse.eye_array(len(at)) - sparse.csr_array(moves)[at][:, at])
    return np.asarray(sparse_linalg.splu(sparse.csc_array(system.T) if transposed else system).solve(g))


def exact_values(model: ChoiceModel, plans: IntArray) -> tuple[FloatArray, FloatArray]:
    """Returns and changes of plans (C, n) of a small model, solved in full (damped where it has loops)."""
    damping = DAMPING if model.loops else 0.0
    visits = policy_visits((1 - damping) * model.transitions[plans], model.initial)
    returns = model.constant + (visits * model.rewards[plans]).sum(axis=1)
    return np.asarray(returns), np.asarray((visits * model.changed[plans]).sum(axis=1))


def _carried(model: ChoiceModel, point: Point, plans: IntArray, visits: FloatArray) -> FloatArray:
    """What visits to the moved states add to the visits of all states, first order."""
    index, at = np.nonzero(visits)
    weight = sparse.csr_array((visits[index, at], (index, plans[index, at])), shape=(len(plans), len(model.state_of)))
    back = sparse.csr_array((visits[index, at], (index, point.rows[at])), shape=weight.shape)
    pushed = (1 - point.damping) * ((weight - back) @ model.transitions)
    if model.dense:
        return np.asarray(pushed @ point.inverse)
    return np.asarray(point.solve(np.ascontiguousarray(pushed.toarray().T), True).T)


def _neighbour(point: Point, rows: IntArray, moved: IntArray) -> tuple[float, float]:
    """Return and changes of a plan that differs in the states `moved`; (-inf, NaN) if that cannot be told."""
    try:
        there, everywhere = switched_visits(point.inverse, point.visits, moved, point.shift(rows[moved]))
    except np.linalg.LinAlgError:
        return -np.inf, np.nan
    total = point.expected_return + float(there @ (point.ahead[rows[moved]] - point.values[moved]))
    return (total, float(everywhere @ point.model.changed[rows])) if np.isfinite(total) else (-np.inf, np.nan)


def _alive_values(model: ChoiceModel, rows: IntArray, alive: BoolArray) -> FloatArray | None:
    """Values of a plan over the states that can end, 0 elsewhere; None if it stays for ever in some of them."""
    if not model.loops:
        return _factorised(model, rows)(model.rewards[rows], False)
    moves = model.transitions[rows]
    if not surely_ends(moves)[alive].all():
        return None
    at = np.flatnonzero(alive)
    values = np.zeros(model.size)
    values[at] = _inside(moves, at, model.rewards[rows[at]], transposed=False)
    return values


def _ending(model: ChoiceModel, usable: BoolArray, alive: BoolArray, start: IntArray | None) -> IntArray:
    """A plan of usable rows that ends: `start` where it is usable (if that ends), else each step nearer to an end."""
    if start is not None:
        first = np.full(model.size, -1)
        at = np.flatnonzero(usable)[::-1]
        first[model.state_of[at]] = at
        return np.where(usable[start] | ~alive, start, np.where(first < 0, start, first))
    if model.loops:
        none = np.full(model.size, -1)
        rows = ending_choice(model.transitions, model.state_of, model.leaks, none, usable)
        return np.where(rows < 0, model.keep, rows)
    rows = np.array(model.keep)
    at = np.flatnonzero(usable)[::-1]
    rows[model.state_of[at]] = at
    return rows
