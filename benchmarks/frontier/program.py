r"""A peer: the mixed-integer program of Dolgov and Durfee over visits, with a bound on visits per state.

.. math:: \max_{x, \Delta} \sum x R \quad \text{s.t.} \quad \sum_a x(s,a) - \sum_{s',a} x(s',a) P(s \mid s',a) = p_0(s),
          \; x(s,a) \le M_s \Delta(s,a), \; \sum_a \Delta(s,a) = 1, \; \sum x C \le \kappa

A solver accepts small mixtures of two actions within its tolerance, and undiscounted visits may circle where no start
leads. So :math:`M_s` is the most visits that any policy makes, the program is used only where every policy ends, and
what comes back is rounded to a policy and evaluated: a policy that breaks a limit is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.visits import fundamental, max_visits, points_of
from polidiff.optimize import Limits, Program, Solution, solve
from polidiff.records.arrays import FloatArray, IntArray

MIXED = 1e-9  # visits from which a solution takes a pair


@dataclass(frozen=True, eq=False)
class Rounded:
    """The policy that a solution rounds to, evaluated."""

    choice: IntArray | None  # (S,) None if the solver has none, or rounding broke a limit
    changes: float
    returns: float
    bound: float  # no policy within the limits returns more, if the solver is to be believed
    status: str
    nodes: int


def mixed_program(problem: FrontierProblem, most_visits: FloatArray, *, budget: float) -> Program:
    """The program; variables are the visits of all pairs, then their indicators."""
    count, states = problem.n_pairs, problem.n_states
    pick = sparse.csr_array((np.ones(count), (problem.state, np.arange(count))), shape=(states, count))
    limited = np.vstack([problem.cost, problem.guards])
    rows = sparse.vstack(
        [
            sparse.hstack([problem.flow, sparse.csr_array((states, count))]),
            sparse.hstack([sparse.csr_array((states, count)), pick]),
            sparse.hstack([sparse.diags_array(1.0 / np.maximum(most_visits, 1e-9)), -sparse.eye_array(count)]),
            sparse.hstack([sparse.csr_array(limited), sparse.csr_array(limited.shape)]),
        ]
    )
    free = np.full(count + len(limited), -np.inf)
    return Program.of(
        np.concatenate([problem.reward, np.zeros(count)]),
        rows,
        row_low=np.concatenate([problem.initial, np.ones(states), free]),
        row_high=np.concatenate([problem.initial, np.ones(states), np.zeros(count), [budget], problem.limits]),
        high=np.concatenate([np.full(count, np.inf), np.ones(count)]),
        integer=np.concatenate([np.zeros(count), np.ones(count)]).astype(bool),
        maximise=True,
    )


def best_by_program(
    problem: FrontierProblem,
    *,
    budget: float = np.inf,
    start: IntArray | None = None,
    limits: Limits | None = None,
) -> Rounded:
    """The best policy within the limits by the mixed-integer program, from `start` if one is known; all must end."""
    program = mixed_program(problem, 1.001 * max_visits(problem)[problem.state], budget=budget)
    answer = solve(program, start=None if start is None else warm_start(problem, start), limits=limits)
    return rounded(problem, answer, budget)


def warm_start(problem: FrontierProblem, choice: IntArray) -> FloatArray:
    """Visits and indicators of a policy."""
    visits = problem.initial @ fundamental(problem, choice[None])[0]
    chosen = (choice[problem.state] == np.arange(problem.n_pairs)).astype(np.float64)
    return np.concatenate([chosen * visits[problem.state], chosen])


def rounded(problem: FrontierProblem, answer: Solution, budget: float) -> Rounded:
    """The policy of the indicators, evaluated; refused if it breaks a limit that the solver let pass."""
    bound = np.inf if answer.bound is None else answer.bound
    none = Rounded(None, np.nan, np.nan, bound, answer.status, answer.nodes)
    if answer.values is None:
        return none
    visits, picked = np.split(answer.values, 2)
    choice = _most_taken(problem, visits, picked)
    if not problem.ends(choice):
        return none
    changes, returns, *guarded = (float(total) for total in points_of(problem, choice[None])[:, 0])
    if changes > budget + 1e-7 * (1 + budget) or not problem.keeps_guards(np.array(guarded)):
        return none
    return Rounded(choice, changes, returns, bound, answer.status, answer.nodes)


def _most_taken(problem: FrontierProblem, visits: FloatArray, picked: FloatArray) -> IntArray:
    """(S,) of every visited state the pair that is picked most, of the others one that ends."""
    visited = np.add.reduceat(visits, problem.first[:-1]) > MIXED
    best = problem.first[:-1] + [int(part.argmax()) for part in np.split(picked, problem.first[1:-1])]
    return np.where(visited, best, problem.ending_choice(problem.base))
