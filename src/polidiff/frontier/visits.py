r"""Many policies of one problem at once: visits, values, and what switching a few decisions does to them.

.. math:: N = (I - P_\pi)^{-1}, \qquad x = p_0^\top N, \qquad V = N\, w_\pi

With :math:`K` the switched states and :math:`D` the change of their rows of :math:`P`,

.. math:: x'_K = (I - D N_{\cdot K})^{-\top} x_K, \qquad x' = x + x'_K D N

so that a few switches cost a small system, not a new factorisation (Sherman, Morrison and Woodbury).
"""

from __future__ import annotations

import numpy as np

from polidiff.frontier.problem import FrontierProblem
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

MOST_ROUNDS = 2_000  # of policy iteration, which takes a few dozen where numbers are sound
STRICT = 1e-10  # advantage, relative to the values, above which a switch counts as a gain


def fundamental(problem: FrontierProblem, choices: IntArray) -> FloatArray:
    r"""Expected visits :math:`N = (I - P_\pi)^{-1}` between states, (b, S, S), of policies that all end."""
    return np.asarray(np.linalg.inv(np.eye(problem.n_states) - problem.dense[choices]), dtype=np.float64)


def policy_visits(moves: FloatArray, initial: FloatArray) -> FloatArray:
    r"""Expected visits :math:`p_0^\top (I - P)^{-1}`, (b, n), of policies with moves (b, n, n) that all end."""
    system = (np.eye(len(initial)) - moves).transpose(0, 2, 1)
    return np.asarray(np.linalg.solve(system, np.broadcast_to(initial[:, None], (*moves.shape[:2], 1)))[:, :, 0])


def switched_visits(
    inverse: FloatArray, visits: FloatArray, where: IntArray, step: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Visits (k,) of the states whose rows of P changed by `step` (k, n), and (n,) of all states."""
    there = np.asarray(np.linalg.solve(np.eye(len(where)) - (step @ inverse[:, where]).T, visits[where]), np.float64)
    return there, visits + (there @ step) @ inverse


def points_of(problem: FrontierProblem, choices: IntArray) -> FloatArray:
    """(2 + guards, b) changes, return and guarded outcomes of policies (b, S) that all end from everywhere."""
    visits = policy_visits(problem.dense[choices], problem.initial)
    return np.stack([(visits * w[choices]).sum(axis=1) for w in (problem.cost, problem.reward, *problem.guards)])


def pair_values(problem: FrontierProblem, weights: FloatArray, values: FloatArray) -> FloatArray:
    r"""One-step look-ahead :math:`w(s,a) + \sum_{s'} P(s' \mid s,a) V(s')`, (b, pairs)."""
    if problem.n_states * problem.n_pairs > 400_000:
        return np.asarray(weights + (problem.transitions @ values.T).T)
    return np.asarray(weights + values @ problem.dense.T)


def greedy_switches(
    problem: FrontierProblem,
    quality: FloatArray,
    values: FloatArray,
    choices: IntArray,
    active: BoolArray | None,
) -> tuple[IntArray, BoolArray]:
    """The best pair of every state (b, S), and where it strictly beats the chosen one."""
    masked = quality if active is None else np.where(active, quality, -np.inf)
    top = np.maximum.reduceat(masked, problem.first[:-1], axis=1)
    number = np.where(masked == top[:, problem.state], np.arange(problem.n_pairs), problem.n_pairs)
    best = np.minimum.reduceat(number, problem.first[:-1], axis=1)
    better = (best != choices) & (top > values + STRICT * (1.0 + np.abs(values)))
    return best, better


def solved_values(problem: FrontierProblem, choices: IntArray, weights: FloatArray) -> FloatArray:
    """Values (b, S) of policies by a full solve; `weights` (b, pairs)."""
    system = np.eye(problem.n_states) - problem.dense[choices]
    chosen = np.take_along_axis(weights, choices, axis=1)
    return np.asarray(np.linalg.solve(system, chosen[:, :, None])[:, :, 0])


def check_settled(settled: bool) -> None:
    """An error where policy iteration goes round in circles on rounding."""
    if not settled:
        raise RuntimeError(
            "policy iteration does not settle: the table is too badly conditioned for floating-point proofs. "
            "Hint: a discount below 1, or episodes that end sooner"
        )


def optimal_values(
    problem: FrontierProblem,
    weights: FloatArray,
    choices: IntArray,
    active: BoolArray | None = None,
    free: BoolArray | None = None,
) -> FloatArray:
    """The largest values (b, S) of weights (b, pairs), by policy iteration from policies (b, S) that end.

    Only active pairs (b, pairs) of free states (b, S) are switched to. No loop may pay for ever.
    """
    choices, values = choices.copy(), np.zeros(choices.shape)
    going = np.arange(len(choices))
    for _ in range(MOST_ROUNDS):
        if not going.size:
            break
        values[going] = solved_values(problem, choices[going], weights[going])
        quality = pair_values(problem, weights[going], values[going])
        usable = None if active is None else active[going]
        best, better = greedy_switches(problem, quality, values[going], choices[going], usable)
        better &= True if free is None else free[going]
        choices[going] = np.where(better, best, choices[going])
        going = going[better.any(axis=1)]
    check_settled(not going.size)
    return values


def max_visits(problem: FrontierProblem) -> FloatArray:
    """(S,) the most expected visits of each state under any policy, where every policy ends: one optimum per state."""
    most, size = np.zeros(problem.n_states), max(1, 4_000_000 // problem.n_states**2)
    for targets in np.split(np.arange(problem.n_states), range(size, problem.n_states, size)):
        visited = (problem.state[None, :] == targets[:, None]).astype(np.float64)
        start = np.repeat(problem.first[:-1][None], len(targets), axis=0)
        most[targets] = optimal_values(problem, visited, start) @ problem.initial
    return most
