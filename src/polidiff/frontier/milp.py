r"""The mixed-integer program of Dolgov and Durfee over visits, with a bound on visits per state.

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

from polidiff.frontier.completion import keeps_guards
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.visits import fundamental, max_visits, points_of
from polidiff.optimize import Limits, Program, Solution, solve
from polidiff.records.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Rounded:
    """The policy that a solution rounds to, evaluated."""

    choice: IntArray | None  # (S,) None if the solver has none, or rounding broke a limit
    changes: float
    returns: float
    bound: float  # no policy within the limits returns more, if the solver is to be believed
    status: str
    nodes: int


def mixed_program(
    problem: FrontierProblem, most_visits: FloatArray, *, budget: float, max_states: int | None = None
) -> Program:
    """The program; variables are the visits of all pairs, then their indicators. A pair of no visits is not offered."""
    count, states = problem.n_pairs, problem.n_states
    pick = sparse.csr_array((np.ones(count), (problem.state, np.arange(count))), shape=(states, count))
    large, open_ = np.maximum(most_visits, 1e-9), (most_visits > 0).astype(np.float64)
    changed = (np.arange(count) != problem.base[problem.state]).astype(np.float64)
    blank = sparse.csr_array((1, count))
    rows = sparse.vstack(
        [
            sparse.hstack([problem.flow, sparse.csr_array((states, count))]),
            sparse.hstack([sparse.csr_array((states, count)), pick]),
            sparse.hstack([sparse.diags_array(1.0 / large), -sparse.eye_array(count)]),
            sparse.hstack([sparse.csr_array(problem.cost[None]), blank]),
            sparse.hstack([blank, sparse.csr_array(changed[None])]),
            sparse.hstack([sparse.csr_array(problem.guards), sparse.csr_array(problem.guards.shape)]),
        ]
    )
    free = np.full(count + 2 + len(problem.limits), -np.inf)
    states_limit = np.inf if max_states is None else float(max_states)
    return Program.of(
        np.concatenate([problem.reward, np.zeros(count)]),
        rows,
        row_low=np.concatenate([problem.initial, np.ones(states), free]),
        row_high=np.concatenate(
            [problem.initial, np.ones(states), np.zeros(count), [budget, states_limit], problem.limits]
        ),
        high=np.concatenate([np.where(open_ > 0, np.inf, 0.0), open_]),
        integer=np.concatenate([np.zeros(count), np.ones(count)]).astype(bool),
        maximise=True,
    )


def best_by_program(
    problem: FrontierProblem,
    *,
    budget: float = np.inf,
    max_states: int | None = None,
    most: FloatArray | None = None,
    start: IntArray | None = None,
    limits: Limits | None = None,
) -> Rounded:
    """The best policy within the limits by the mixed-integer program, from `start` if one is known.

    `most` (pairs,) bounds visits; by default the most that any policy makes, which must then end whatever it does.
    """
    visits = 1.001 * max_visits(problem)[problem.state] if most is None else most
    program = mixed_program(problem, visits, budget=budget, max_states=max_states)
    answer = solve(program, start=None if start is None else warm_start(problem, start), limits=limits)
    return rounded(problem, answer, budget, max_states)


def warm_start(problem: FrontierProblem, choice: IntArray) -> FloatArray:
    """Visits and indicators of a policy."""
    visits = problem.initial @ fundamental(problem, choice[None])[0]
    chosen = (choice[problem.state] == np.arange(problem.n_pairs)).astype(np.float64)
    return np.concatenate([chosen * visits[problem.state], chosen])


def rounded(problem: FrontierProblem, answer: Solution, budget: float, max_states: int | None) -> Rounded:
    """The policy of the indicators, evaluated; refused if it breaks a limit that the solver let pass."""
    bound = np.inf if answer.bound is None else answer.bound
    none = Rounded(None, np.nan, np.nan, bound, answer.status, answer.nodes)
    if answer.values is None:
        return none
    visits, picked = np.split(answer.values, 2)
    visited = np.add.reduceat(visits, problem.first[:-1]) > 1e-9
    best = np.array([first + int(picked[first:end].argmax()) for first, end in _ranges(problem)])
    choice = np.where(visited, best, problem.ending_choice(problem.base))
    if not problem.ends(choice):
        return none
    point = points_of(problem, choice[None])
    guarded = np.array([(problem.initial @ fundamental(problem, choice[None])[0]) @ g[choice] for g in problem.guards])
    changed = int(((choice != problem.base) & visited).sum())
    too_many = max_states is not None and changed > max_states
    if point.changes[0] > budget + 1e-7 * (1 + budget) or too_many or not keeps_guards(problem, guarded):
        return none
    return Rounded(choice, float(point.changes[0]), float(point.returns[0]), bound, answer.status, answer.nodes)


def _ranges(problem: FrontierProblem) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in zip(problem.first[:-1], problem.first[1:], strict=True)]
