"""Best completions of nodes: policy iteration over what is not fixed, many nodes at once.

Where some policies never end, every state gets one more pair, *exit*, that ends the episode at a loss. Every set of
fixed decisions then has a completion that ends, found on the graph; a bound that uses an exit is still a bound, because
exits only add policies, and a completion that uses one is no plan. Open nodes of the branch and bound are one per row
of some arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from polidiff.frontier.hull import Hull
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.visits import (
    MOST_ROUNDS,
    Inverses,
    References,
    greedy_switches,
    pair_values,
    switched_measures,
)
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

EXIT = -1  # action number of an exit pair
GUARD_TOLERANCE = 1e-9  # by which a guarded outcome may pass its limit, relative
EXITS = 1e-10  # probability of leaving through an exit above which a policy is no plan


@dataclass(frozen=True, eq=False)
class Family:
    """Completions, and references near them whose expected visits are at hand, so that switches are cheap."""

    near: References
    measures: FloatArray  # (r, m, S) what completions are measured in, from each state on, of the references
    values: FloatArray  # (b, S) of the priced return
    losses: FloatArray  # (b, pairs) what taking a pair once loses, at least 0


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


def measured(problem: FrontierProblem) -> FloatArray:
    """(m, pairs) what completions are measured in: return, changes, exits taken (if there can be any), each guard."""
    if not len(problem.limits) and not has_exits(problem):
        return np.stack([problem.reward, problem.cost])
    exits = (problem.action == EXIT).astype(np.float64)
    return np.concatenate([np.stack([problem.reward, problem.cost, exits]), problem.guards])


def mixture(problem: FrontierProblem, price: FloatArray, tilt: FloatArray, size: int) -> FloatArray:
    """(b, m) how the measures add up to the priced return: return − price · changes − tilt · guards."""
    shares = np.zeros((len(price), size))
    shares[:, 0], shares[:, 1] = 1.0, -price
    if len(problem.limits):
        shares[:, 3:] = -tilt
    return shares


def keeps_guards(problem: FrontierProblem, guarded: FloatArray) -> BoolArray:
    """Whether outcomes (m, …) are within their limits."""
    limits = problem.limits + GUARD_TOLERANCE * (1.0 + np.abs(problem.limits))
    return np.asarray((guarded <= limits.reshape(-1, *(1,) * (guarded.ndim - 1))).all(axis=0))


def family_of(
    problem: FrontierProblem, choice: IntArray, price: FloatArray, tilt: FloatArray, inverses: Inverses | None = None
) -> Family:
    """Values and losses of some completions at their prices; `inverses` knows the visits of others near them."""
    near, weights = (inverses or Inverses(problem)).near(choice), measured(problem)
    kept = np.unique(near.row)
    known = np.zeros((len(near.choice), len(weights), problem.n_states))
    known[kept] = (near.inverse[kept] @ weights[:, near.choice[kept]].transpose(1, 2, 0)).transpose(0, 2, 1)
    measures = switched_measures(
        problem, near.inverse, near.row, known[near.row], near.choice[near.row], choice, weights
    )
    shares = mixture(problem, price, tilt, len(weights))
    values = (shares[:, None, :] @ measures)[:, 0]
    losses = np.maximum(values[:, problem.state] - pair_values(problem, shares @ weights, values), 0.0)
    return Family(near, known, values, losses)


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
    weights = measured(problem)
    shares = mixture(problem, price, tilt, len(weights))
    priced, near = shares @ weights, family.near.row[parent]
    before, start = family.near.choice[near], family.measures[near]
    measures = np.zeros_like(start)
    endless = np.zeros(len(choice), dtype=np.bool_)
    going, rounds = np.flatnonzero(feasible), 0
    while going.size:
        rounds += 1
        now = switched_measures(
            problem, family.near.inverse, near[going], start[going], before[going], choice[going], weights
        )
        measures[going] = now
        values = (shares[going, None, :] @ now)[:, 0]
        quality = pair_values(problem, priced[going], values)
        size = (np.abs(shares[going, None, :]) @ np.abs(now))[:, 0]
        best, better = greedy_switches(problem, quality, values, choice[going], active[going], size)
        better &= ~fixed[going]
        choice[going] = np.where(better, best, choice[going])
        going = going[better.any(axis=1)]
        endless[going] = _pays_for_ever(problem, choice[going]) | (rounds >= MOST_ROUNDS)
        going = going[~endless[going]]
    sums = measures @ problem.initial
    total = (shares * sums).sum(axis=1) + tilt @ problem.limits
    total[endless] = np.inf
    real = feasible & ~endless & keeps_guards(problem, sums[:, 3:].T)
    real &= sums[:, 2] < EXITS if len(weights) > 2 else True
    return Completions(choice, total, sums[:, 1], sums[:, 0], sums[:, 3:], real, feasible, np.arange(len(choice)))


def _pays_for_ever(problem: FrontierProblem, choice: IntArray) -> BoolArray:
    """(b,) where a guard's price makes a loop pay, so that this price gives no bound."""
    if not len(problem.limits) or not has_exits(problem):
        return np.zeros(len(choice), dtype=np.bool_)
    return np.asarray(~problem.ending(choice).all(axis=1))


def made_to_end(problem: FrontierProblem, choice: IntArray, fixed: BoolArray) -> tuple[IntArray, BoolArray]:
    """Policies made to end by exits in states that would stay for ever; False where fixed decisions alone do."""
    feasible = np.ones(len(choice), dtype=np.bool_)
    if not has_exits(problem):
        return choice, feasible
    exits, ends = problem.first[1:] - 1, problem.ending(choice)
    stuck = np.flatnonzero(~ends.all(axis=1))
    choice = np.where(ends | fixed, choice, exits)
    feasible[stuck] = problem.ending(choice[stuck]).all(axis=1)
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


@dataclass(frozen=True, eq=False)
class Nodes:
    """Open nodes, one per row."""

    choice: IntArray  # (b, S) best completion at `price`
    price: FloatArray  # (b,)
    tilt: FloatArray  # (b, guards) price of each guarded outcome
    total: FloatArray  # (b,) its return less price times changes, less what it takes from the guards' limits
    fixed: BoolArray  # (b, S)
    active: BoolArray  # (b, pairs)
    low: FloatArray  # (b,) the node may still beat steps between these numbers of changes
    high: FloatArray  # (b,)
    visits: FloatArray  # (b, S) at least so many visits are sure

    def __len__(self) -> int:
        return len(self.price)

    def take(self, index: IntArray | slice | BoolArray) -> Nodes:
        """Some of the nodes."""
        return Nodes(*(getattr(self, name)[index] for name in self.__dataclass_fields__))


def join(parts: list[Nodes]) -> Nodes:
    """All nodes of several groups."""
    return Nodes(*(np.concatenate([getattr(p, name) for p in parts]) for name in Nodes.__dataclass_fields__))


@dataclass(frozen=True, eq=False)
class Widened:
    """A problem with exits, and how its pairs are numbered."""

    problem: FrontierProblem
    narrower: FrontierProblem
    number: IntArray  # (pairs of the narrower problem,) their number in the wider one

    def narrow(self, choices: IntArray) -> IntArray:
        """Policies in the numbers of the narrower problem; where no plan goes, an exit becomes any pair."""
        back = self.narrower.first[self.problem.state]
        back[self.number] = np.arange(len(self.number))
        return np.asarray(back[choices])


def widen(problem: FrontierProblem, hull: Hull) -> Widened:
    """The problem with exits if some policy never ends, else as it is."""
    if problem.always_ends:
        return Widened(problem, problem, np.arange(problem.n_pairs))
    scale = float(np.abs(hull.returns).max()) + float(np.abs(problem.reward).max()) * problem.n_states
    wider, number = with_exits(problem, 10.0 * (1.0 + scale))
    return Widened(wider, problem, number)
