"""Best completions of nodes: policy iteration over what is not fixed, many nodes at once.

Where some policies never end, every state gets one more pair, *exit*, that ends the episode at a loss. Every set of
fixed decisions then has a completion that ends, found on the graph; a bound that uses an exit is still a bound, because
exits only add policies, and a completion that uses one is no plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from polidiff.frontier.problem import FrontierProblem, ending_states
from polidiff.frontier.values import ends_everywhere, fundamental, greedy_switches, pair_values, switched_values
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

EXIT = -1  # action number of an exit pair
GUARD_TOLERANCE = 1e-9  # by which a guarded outcome may pass its limit, relative
EXITS = 1e-10  # probability of leaving through an exit above which a policy is no plan


@dataclass(frozen=True, eq=False)
class Family:
    """Completions whose expected visits are at hand, so that switches from them are cheap."""

    choice: IntArray  # (b, S)
    price: FloatArray  # (b,)
    tilt: FloatArray  # (b, guards)
    inverse: FloatArray  # (b, S, S)
    values: FloatArray  # (b, S) of the priced return
    measures: FloatArray  # (m, b, S) what completions are measured in, from each state on
    losses: FloatArray  # (b, pairs) what taking a pair once loses, at least 0

    def at(self, rows: IntArray, price: FloatArray, tilt: FloatArray) -> FloatArray:
        """Values of some of the completions at other prices, which are linear in them."""
        values = self.values[rows] + (self.price[rows] - price)[:, None] * self.measures[0][rows]
        if tilt.shape[1]:
            values += np.einsum("bm,mbs->bs", self.tilt[rows] - tilt, self.measures[3:][:, rows])
        return np.asarray(values)


@dataclass(frozen=True, eq=False)
class Completions:
    """Best completions of nodes."""

    choice: IntArray  # (b, S)
    total: FloatArray  # (b,)
    changes: FloatArray  # (b,)
    returns: FloatArray  # (b,)
    guarded: FloatArray  # (b, guards)
    real: BoolArray  # (b,) it is a plan: it leaves through no exit and keeps every guard
    feasible: BoolArray  # (b,) some policy of the node ends
    origin: IntArray  # (b,) row in the call that made it

    def take(self, index: BoolArray | IntArray) -> Completions:
        """Some of them."""
        return Completions(*(getattr(self, name)[index] for name in self.__dataclass_fields__))


def priced(problem: FrontierProblem, price: FloatArray, tilt: FloatArray) -> FloatArray:
    """(b, pairs) what a pair brings less its price: reward − price · cost − tilt · guards."""
    weights = problem.reward - price[:, None] * problem.cost
    return np.asarray(weights - tilt @ problem.guards if len(problem.limits) else weights)


def measured(problem: FrontierProblem) -> FloatArray:
    """(2 + m, pairs) what completions are measured in: changes, exits taken, return (with guards) and each guard."""
    exits = (problem.action == EXIT).astype(np.float64)
    if not len(problem.limits):
        return np.stack([problem.cost, exits]) if has_exits(problem) else problem.cost[None]
    return np.concatenate([np.stack([problem.cost, exits, problem.reward]), problem.guards])


def keeps_guards(problem: FrontierProblem, guarded: FloatArray) -> BoolArray:
    """Whether outcomes (m, …) are within their limits."""
    limits = problem.limits + GUARD_TOLERANCE * (1.0 + np.abs(problem.limits))
    return np.asarray((guarded <= limits.reshape(-1, *(1,) * (guarded.ndim - 1))).all(axis=0))


def family_of(problem: FrontierProblem, choice: IntArray, price: FloatArray, tilt: FloatArray) -> Family:
    """Values and losses of some completions at their prices."""
    inverse = fundamental(problem, choice)
    weights = priced(problem, price, tilt)
    values = np.einsum("bst,bt->bs", inverse, np.take_along_axis(weights, choice, axis=1))
    measures = np.array([np.einsum("bst,bt->bs", inverse, weight[choice]) for weight in measured(problem)])
    losses = np.maximum(values[:, problem.state] - pair_values(problem, weights, values), 0.0)
    return Family(choice, price, tilt, inverse, values, measures, losses)


def complete(
    problem: FrontierProblem,
    family: Family,
    parent: IntArray,
    choice: IntArray,
    price: FloatArray,
    tilt: FloatArray,
    fixed: BoolArray,
    active: BoolArray,
) -> Completions:
    """Policy iteration from `choice`, over active pairs of states not fixed; `parent` are rows of the family."""
    choice, feasible = made_to_end(problem, choice, fixed)
    weights = priced(problem, price, tilt)
    before, start = family.choice[parent], family.at(parent, price, tilt)
    values = np.zeros_like(start)
    endless = np.zeros(len(choice), dtype=np.bool_)
    going = np.flatnonzero(feasible)
    while going.size:
        values[going] = switched_values(
            problem, family.inverse, parent[going], start[going], before[going], choice[going], weights[going]
        )
        quality = pair_values(problem, weights[going], values[going])
        best, better = greedy_switches(problem, quality, values[going], choice[going], active[going])
        better &= ~fixed[going]
        choice[going] = np.where(better, best, choice[going])
        going = going[better.any(axis=1)]
        endless[going] = _pays_for_ever(problem, choice[going])
        going = going[~endless[going]]
    total = values @ problem.initial + tilt @ problem.limits
    total[endless] = np.inf
    return _measure(problem, family, parent, choice, total, price, feasible & ~endless, feasible)


def _pays_for_ever(problem: FrontierProblem, choice: IntArray) -> BoolArray:
    """(b,) where a guard's price makes a loop pay, so that this price gives no bound."""
    if not len(problem.limits) or not has_exits(problem):
        return np.zeros(len(choice), dtype=np.bool_)
    return np.array([not ends_everywhere(problem, row) for row in choice], dtype=np.bool_)


def _measure(
    problem: FrontierProblem,
    family: Family,
    parent: IntArray,
    choice: IntArray,
    total: FloatArray,
    price: FloatArray,
    ends: BoolArray,
    feasible: BoolArray,
) -> Completions:
    rows = np.flatnonzero(ends)
    weights = measured(problem)
    sums = np.zeros((len(weights), len(choice)))
    if rows.size:
        before, own = family.choice[parent[rows]], parent[rows]
        for sum_, weight, measure in zip(sums, weights, family.measures, strict=True):
            spread = np.broadcast_to(weight, (len(rows), problem.n_pairs))
            values = switched_values(problem, family.inverse, own, measure[own], before, choice[rows], spread)
            sum_[rows] = values @ problem.initial
    returns = sums[2] if len(problem.limits) else total + price * sums[0]
    real = ends & keeps_guards(problem, sums[3:]) & (sums[1] < EXITS if len(weights) > 1 else True)
    return Completions(choice, total, sums[0], returns, sums[3:].T, real, feasible, np.arange(len(choice)))


def made_to_end(problem: FrontierProblem, choice: IntArray, fixed: BoolArray) -> tuple[IntArray, BoolArray]:
    """Policies made to end by exits in states that would stay for ever; False where fixed decisions alone do."""
    feasible = np.ones(len(choice), dtype=np.bool_)
    if not has_exits(problem):
        return choice, feasible
    exits = problem.first[1:] - 1
    choice = choice.copy()
    for row in range(len(choice)):
        stuck = ~ending_states(problem.links[choice[row]], problem.leaks[choice[row]])
        if stuck.any():
            choice[row] = np.where(stuck & ~fixed[row], exits, choice[row])
            feasible[row] = bool(ending_states(problem.links[choice[row]], problem.leaks[choice[row]]).all())
    return choice, feasible


def has_exits(problem: FrontierProblem) -> bool:
    """Whether every state has an exit as its last pair."""
    return bool(problem.n_pairs) and int(problem.action[problem.first[1] - 1]) == EXIT


def with_exits(problem: FrontierProblem, penalty: float) -> tuple[FrontierProblem, IntArray]:
    """The problem with one more pair per state, the last one, that ends the episode and loses `penalty`.

    Also gives the new number of every pair.
    """
    count = problem.n_states
    order = np.argsort(np.concatenate([problem.state, np.arange(count)]), kind="stable")
    number = np.argsort(order)[: problem.n_pairs]
    stacked = sparse.vstack([problem.transitions, sparse.csr_matrix((count, count))]).tocsr()
    wider = replace(
        problem,
        transitions=stacked[order],
        reward=np.append(problem.reward, np.full(count, -penalty))[order],
        cost=np.append(problem.cost, np.zeros(count))[order],
        state=np.append(problem.state, np.arange(count))[order],
        action=np.append(problem.action, np.full(count, EXIT))[order],
        leaks=np.append(problem.leaks, np.ones(count, dtype=np.bool_))[order],
        guards=np.concatenate([problem.guards, np.zeros((len(problem.guards), count))], axis=1)[:, order],
        base=np.where(problem.base >= 0, number[np.maximum(problem.base, 0)], -1),
    )
    return wider, number
