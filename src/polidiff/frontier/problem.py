r"""The sparse-change problem on a table, in the form that every algorithm of this folder works on.

.. math:: \max_\pi \; p_0^\top V^\pi_R \quad \text{subject to} \quad p_0^\top V^\pi_C \le \kappa

over deterministic policies that end for sure. A decision is a *pair* (state, action). Only pairs that may be used are
kept, states in order, so that a ragged set of actions costs nothing; a policy is a `choice`: one pair per state.
Discounting is a leak: :math:`\gamma P` with probability :math:`1-\gamma` of ending at every step.

Where some policies never end, a problem is widened by one more pair per state, *exit*, that ends the episode at a loss.
Every set of fixed decisions then has a completion that ends, found on the graph. A bound that uses an exit is still a
bound, because exits only add policies, and a completion that uses one is no plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from polidiff.records.arrays import BoolArray, FloatArray, IntArray, read_only
from polidiff.worlds.checks import all_end, ending_choice, ending_rows, reachable_from, reached_over

if TYPE_CHECKING:
    from polidiff.frontier.hull import Hull

MOST_NUMBERS = 20_000_000  # held at once while states without a choice are left out
WORTH_IT = 150  # states from which leaving some out saves time
GUARD_TOLERANCE = 1e-9  # by which a guarded outcome may pass its limit, relative
MASS = 1e-15  # probability below which a transition or a start is taken as absent
EXIT = -1  # action number of an exit pair
EXITS = 1e-10  # probability of leaving through an exit above which a policy is no plan


@dataclass(frozen=True, eq=False)
class FrontierProblem:
    """Pairs (state, action) of the states that a start can reach and that can still end, and what they bring."""

    transitions: sparse.csr_matrix  #  (pairs, states), discounted; what a row lacks to 1 ends the episode
    reward: FloatArray  # (pairs,)
    cost: FloatArray  # (pairs,) >= 0, 0 for the current action
    state: IntArray  # (pairs,) non-decreasing
    action: IntArray  # (pairs,)
    leaks: BoolArray  # (pairs,) whether the episode may end there
    initial: FloatArray  # (states,) sums to 1, less what starts in absorbing states
    base: IntArray  # (states,) the pair of the current action; -1 where it cannot be used (it never ends)
    names: IntArray  # (states,) the number of each state in the world
    guards: FloatArray  # (guards, pairs) what each pair adds to a guarded outcome
    limits: FloatArray  # (guards,) the most that each guarded outcome may come to

    @property
    def n_states(self) -> int:
        """How many states take decisions."""
        return len(self.initial)

    @property
    def n_pairs(self) -> int:
        """How many (state, action) pairs may be used."""
        return len(self.state)

    @cached_property
    def first(self) -> IntArray:
        """(states + 1,) where the pairs of each state begin."""
        return np.searchsorted(self.state, np.arange(self.n_states + 1)).astype(np.int64)

    @cached_property
    def dense(self) -> FloatArray:
        """(pairs, states) the transitions as an array."""
        return np.asarray(self.transitions.toarray(), dtype=np.float64)

    @cached_property
    def flow(self) -> sparse.csr_array:
        """(states, pairs) visits that leave each state less those that arrive."""
        count = self.n_pairs
        leave = sparse.csr_array((np.ones(count), (self.state, np.arange(count))), shape=(self.n_states, count))
        return sparse.csr_array(leave - self.transitions.T)

    @cached_property
    def always_ends(self) -> bool:
        """Whether every policy ends for sure."""
        return all_end(self.links, self.state, self.leaks, self.n_states)

    @cached_property
    def start(self) -> IntArray:
        """(S,) the current policy, made to end from every state."""
        return self.ending_choice(self.base)

    @cached_property
    def from_start(self) -> FloatArray:
        r"""(S, S) expected visits :math:`(I - P)^{-1}` between states under it; nobody may write there."""
        return read_only(np.linalg.inv(np.eye(self.n_states) - self.dense[self.start]))

    def weighing(self, reward: FloatArray, guards: FloatArray, limits: FloatArray) -> FrontierProblem:
        """The same moves with other weights: what was worked out of the moves stays known."""
        other = replace(self, reward=reward, guards=guards, limits=limits)
        vars(other).update({**vars(self), **vars(other)})
        return other

    def ends(self, choice: IntArray) -> bool:
        """Whether a policy ends for sure from every state."""
        return bool(self.ending(choice[None]).all())

    def ending(self, choices: IntArray) -> BoolArray:
        """(b, S) the states from which each of some policies can end: all of them side by side are one graph."""
        links, count = self.links[choices.ravel()], choices.size
        aside = np.repeat(np.arange(count) // self.n_states * self.n_states, np.diff(links.indptr))
        graph = sparse.csr_array((links.data, links.indices + aside, links.indptr), shape=(count, count))
        return reachable_from(sparse.csr_array(graph.T), self.leaks[choices.ravel()]).reshape(choices.shape)

    def ending_choice(self, wished: IntArray, active: BoolArray | None = None) -> IntArray:
        """A policy that ends from every state and keeps to `wished` (−1: no wish) in the states where that ends.

        Over the active pairs it ends wherever one can.
        """
        return ending_choice(self.links, self.state, self.leaks, wished, active)

    def keeps_guards(self, guarded: FloatArray) -> BoolArray:
        """Whether outcomes (guards, …) are within their limits."""
        limits = self.limits + GUARD_TOLERANCE * (1.0 + np.abs(self.limits))
        return np.asarray((guarded <= limits.reshape(-1, *(1,) * (guarded.ndim - 1))).all(axis=0))

    @cached_property
    def links(self) -> sparse.csr_matrix:
        """csr (pairs, states) of booleans: where a pair may lead."""
        return self.transitions.astype(bool)


def build_problem(
    transitions: sparse.csr_array | sparse.csr_matrix,
    rewards: FloatArray,
    cost: FloatArray,
    initial: FloatArray,
    allowed: BoolArray,
    base: IntArray,
    *,
    leaks: BoolArray | None = None,
    names: IntArray | None = None,
    guards: FloatArray | None = None,
    limits: FloatArray | None = None,
) -> FrontierProblem:
    """The problem from arrays over transient states.

    Parameters
    ----------
    transitions : sparse (S·A, S)
        Row ``s·A + a``; what a row lacks to 1 ends the episode. Already discounted.
    rewards, cost : ndarray (S, A)
        What a decision brings, and what it costs as a change (at least 0).
    initial : ndarray (S,)
    allowed : bool ndarray (S, A)
    base : int ndarray (S,)
        The current action of each state; always allowed, and from every start it ends.
    leaks : bool ndarray (S, A), optional
        Where the episode may end; by default where a row sums to less than 1 - 1e-12.
    names : int ndarray (S,), optional
        The number of each state in the world.
    guards, limits : ndarrays (m, S, A) and (m,), optional
        Outcomes that a plan must keep at or below a limit.

    States that no start can reach are left out, and so is every pair that could lead to a state from which no policy
    ends: a policy that uses one never ends with some probability.
    """
    n_states, n_actions = rewards.shape
    table = sparse.csr_matrix(transitions)
    if leaks is None:
        leaks = np.asarray(table.sum(axis=1)).ravel().reshape(n_states, n_actions) < 1.0 - 1e-12
    rows = np.flatnonzero(allowed.ravel())
    state, action = rows // n_actions, rows % n_actions
    names = np.arange(n_states) if names is None else names
    links, ends = (table[rows] > MASS).tocsr(), leaks.ravel()[rows]
    usable = ending_rows(links, state, ends, np.ones(len(state), dtype=np.bool_), n_states)
    reached = reached_over(links, state, usable, initial > MASS)
    keep = usable & reached[state]
    number = np.cumsum(reached) - 1
    pair_of = np.full((n_states, n_actions), -1, dtype=np.int64)
    pair_of[state[keep], action[keep]] = np.arange(keep.sum())
    kept = np.flatnonzero(reached)
    return FrontierProblem(
        transitions=table[rows[keep]][:, kept].tocsr(),
        reward=rewards.ravel()[rows[keep]].astype(np.float64),
        cost=cost.ravel()[rows[keep]].astype(np.float64),
        state=number[state[keep]].astype(np.int64),
        action=action[keep].astype(np.int64),
        leaks=ends[keep],
        initial=initial[kept].astype(np.float64),
        base=pair_of[kept, base[kept]],
        names=names[kept].astype(np.int64),
        guards=np.zeros((0, keep.sum())) if guards is None else guards.reshape(len(guards), -1)[:, rows[keep]],
        limits=np.zeros(0) if limits is None else limits,
    )


@dataclass(frozen=True, eq=False)
class Contracted:
    """A problem without the states that have no choice, and the way back."""

    problem: FrontierProblem
    fixed: IntArray  # (S,) of the given problem: the pair of a state without a choice, any other elsewhere
    states: IntArray  # (s,) numbers of the states that are left
    pairs: IntArray  # (p,) numbers of their pairs

    def back(self, choices: IntArray) -> IntArray:
        """Policies (b, S) over the given problem."""
        whole = np.repeat(self.fixed[None], len(choices), axis=0)
        whole[:, self.states] = self.pairs[choices]
        return whole


def contracted(problem: FrontierProblem) -> Contracted | None:
    r"""The problem over states with a choice and starts only; None if few others could be left out.

    With E the states left out, :math:`(I - P_{EE})^{-1}` says where an episode that enters them comes out and what it
    brings on the way. From every state of a problem some policy ends, so that none stays in E for ever.
    """
    single = (np.diff(problem.first) == 1) & (problem.initial <= 0)
    gone, states = np.flatnonzero(single), np.flatnonzero(~single)
    few = problem.n_states < WORTH_IT or len(gone) < problem.n_states // 4
    if few or len(gone) * len(states) > MOST_NUMBERS:
        return None
    through, pairs = problem.first[gone], np.flatnonzero(~single[problem.state])
    weights = np.concatenate([problem.reward[None], problem.cost[None], problem.guards, problem.leaks[None]])
    rows = problem.transitions.tocsr()
    inner = sparse.csc_array(sparse.eye_array(len(gone)) - rows[through][:, gone])
    sides = np.column_stack([rows[through][:, states].toarray(), weights[:, through].T])
    after = np.asarray(splu(inner).solve(sides))
    enter = rows[pairs][:, gone]
    moves = rows[pairs][:, states].toarray() + enter @ after[:, : len(states)]
    moves[moves <= MASS] = 0.0
    reward, cost, *guards, leaks = (weights[:, pairs] + (enter @ after[:, len(states) :]).T).astype(np.float64)
    number = np.full(problem.n_pairs, -1, dtype=np.int64)
    number[pairs] = np.arange(len(pairs))
    base = problem.base[states]
    own = FrontierProblem(
        transitions=sparse.csr_matrix(moves),
        reward=reward,
        cost=np.maximum(cost, 0.0),
        state=np.searchsorted(states, problem.state[pairs]).astype(np.int64),
        action=problem.action[pairs],
        leaks=leaks > MASS,
        initial=problem.initial[states],
        base=np.where(base >= 0, number[np.maximum(base, 0)], -1),
        names=problem.names[states],
        guards=np.array(guards).reshape(len(problem.limits), len(pairs)),
        limits=problem.limits,
    )
    return Contracted(own, problem.first[:-1].copy(), states, pairs)


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
    """The problem with one more pair per state, the last one, if some policy never ends; else as it is."""
    count = problem.n_states
    if problem.always_ends:
        return Widened(problem, problem, np.arange(problem.n_pairs))
    penalty = 10.0 * (1.0 + float(np.abs(hull.returns).max()) + float(np.abs(problem.reward).max()) * count)
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
    return Widened(wider, problem, number)


def made_to_end(problem: FrontierProblem, choice: IntArray, fixed: BoolArray) -> IntArray | None:
    """A policy made to end by exits in states that would stay for ever; None where fixed decisions alone do."""
    ends = problem.ending(choice[None])[0]
    if ends.all():
        return choice
    choice = np.where(ends | fixed, choice, problem.first[1:] - 1)
    return choice if problem.ends(choice) else None
