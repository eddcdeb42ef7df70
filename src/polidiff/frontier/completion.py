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
from polidiff.frontier.values import fundamental, greedy_switches, pair_values, switched_values
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

EXIT = -1  # action number of an exit pair


@dataclass(frozen=True, eq=False)
class Family:
    """Completions whose expected visits are at hand, so that switches from them are cheap."""

    choice: IntArray  # (b, S)
    price: FloatArray  # (b,)
    inverse: FloatArray  # (b, S, S)
    values: FloatArray  # (b, S) of return less price times changes
    costs: FloatArray  # (b, S) changes from each state on
    losses: FloatArray  # (b, pairs) what taking a pair once loses, at least 0


@dataclass(frozen=True, eq=False)
class Completions:
    """Best completions of nodes."""

    choice: IntArray  # (b, S)
    total: FloatArray  # (b,)
    changes: FloatArray  # (b,)
    returns: FloatArray  # (b,)
    real: BoolArray  # (b,) it uses no exit
    feasible: BoolArray  # (b,) some policy of the node ends
    origin: IntArray  # (b,) row in the call that made it

    def take(self, index: BoolArray | IntArray) -> Completions:
        """Some of them."""
        return Completions(*(getattr(self, name)[index] for name in self.__dataclass_fields__))


def family_of(problem: FrontierProblem, choice: IntArray, price: FloatArray) -> Family:
    """Values and losses of some completions at their prices."""
    inverse = fundamental(problem, choice)
    weights = problem.reward - price[:, None] * problem.cost
    values = np.einsum("bst,bt->bs", inverse, np.take_along_axis(weights, choice, axis=1))
    costs = np.einsum("bst,bt->bs", inverse, problem.cost[choice])
    losses = np.maximum(values[:, problem.state] - pair_values(problem, weights, values), 0.0)
    return Family(choice, price, inverse, values, costs, losses)


def complete(
    problem: FrontierProblem,
    family: Family,
    parent: IntArray,
    choice: IntArray,
    price: FloatArray,
    fixed: BoolArray,
    active: BoolArray,
) -> Completions:
    """Policy iteration from `choice`, over active pairs of states not fixed; `parent` are rows of the family."""
    choice, feasible = _ending(problem, choice, fixed)
    weights = problem.reward - price[:, None] * problem.cost
    before, inverse = family.choice[parent], family.inverse[parent]
    same = family.price[parent] == price
    start = family.values[parent]
    if not same.all():
        chosen = np.take_along_axis(weights, before, axis=1)
        start = np.where(same[:, None], start, np.einsum("bst,bt->bs", inverse, chosen))
    values = np.zeros_like(start)
    going = np.flatnonzero(feasible)
    while going.size:
        values[going] = switched_values(
            problem, inverse[going], start[going], before[going], choice[going], weights[going]
        )
        quality = pair_values(problem, weights[going], values[going])
        best, better = greedy_switches(problem, quality, values[going], choice[going], active[going])
        better &= ~fixed[going]
        choice[going] = np.where(better, best, choice[going])
        going = going[better.any(axis=1)]
    cost_weights = np.broadcast_to(problem.cost, weights.shape)
    costs = np.zeros_like(values)
    keep = np.flatnonzero(feasible)
    if keep.size:
        costs[keep] = switched_values(
            problem, inverse[keep], family.costs[parent[keep]], before[keep], choice[keep], cost_weights[keep]
        )
    total, changes = values @ problem.initial, costs @ problem.initial
    real = feasible & ~uses_exit(problem, choice)
    return Completions(choice, total, changes, total + price * changes, real, feasible, np.arange(len(choice)))


def uses_exit(problem: FrontierProblem, choice: IntArray) -> BoolArray:
    """(b,) whether a policy uses an exit pair."""
    return np.asarray((problem.action[choice] == EXIT).any(axis=1))


def _ending(problem: FrontierProblem, choice: IntArray, fixed: BoolArray) -> tuple[IntArray, BoolArray]:
    """Policies made to end by exits in states that would stay for ever; False where fixed decisions alone do."""
    feasible = np.ones(len(choice), dtype=np.bool_)
    exits = problem.first[1:] - 1
    if not len(exits) or problem.action[exits[0]] != EXIT:
        return choice, feasible
    choice = choice.copy()
    for row in range(len(choice)):
        stuck = ~ending_states(problem.links[choice[row]], problem.leaks[choice[row]])
        if stuck.any():
            choice[row] = np.where(stuck & ~fixed[row], exits, choice[row])
            feasible[row] = bool(ending_states(problem.links[choice[row]], problem.leaks[choice[row]]).all())
    return choice, feasible


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
        base=np.where(problem.base >= 0, number[np.maximum(problem.base, 0)], -1),
    )
    return wider, number
