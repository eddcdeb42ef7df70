r"""Many policies of one problem at once: visits, values, and what switching a few decisions does to them.

.. math:: N = (I - P_\pi)^{-1}, \qquad x = p_0^\top N, \qquad V = N\, w_\pi

With :math:`K` the switched states, :math:`D` the change of their rows of :math:`P` and :math:`\delta` their advantage,

.. math:: V' = V + N_{\cdot K}\,(I - D N_{\cdot K})^{-1} \delta

so that a few switches cost a small system, not a new factorisation (Sherman, Morrison and Woodbury).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from polidiff.errors import UnboundedReturnError
from polidiff.frontier.problem import FrontierProblem
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.worlds.checks import closed_loop

UPDATES_FROM = 150  # states from which expected visits are updated rather than factorised
REFERENCES = 16  # factorisations kept at once; at least as many as policies are asked for at once
MOST_NUMBERS = 8_000_000  # numbers held at once when decisions are switched
REFRESH = 100  # single switches between two fresh factorisations
MOST_ROUNDS = 2_000  # of policy iteration, which takes a few dozen where numbers are sound
STRICT = 1e-10  # advantage, relative to the values, above which a switch counts as a gain


def fundamental(problem: FrontierProblem, choices: IntArray) -> FloatArray:
    r"""Expected visits :math:`N = (I - P_\pi)^{-1}` between states, (b, S, S), of policies that all end."""
    return inverse_of(problem.dense[choices])


def inverse_of(moves: FloatArray) -> FloatArray:
    r"""Expected visits :math:`(I - P)^{-1}` between states, (b, n, n), of moves (b, n, n) that all end."""
    return np.asarray(np.linalg.inv(np.eye(moves.shape[-1]) - moves), dtype=np.float64)


def policy_visits(moves: FloatArray, initial: FloatArray) -> FloatArray:
    r"""Expected visits :math:`p_0^\top (I - P)^{-1}`, (b, n), of policies with moves (b, n, n) that all end."""
    system = (np.eye(len(initial)) - moves).transpose(0, 2, 1)
    return np.asarray(np.linalg.solve(system, np.broadcast_to(initial[:, None], (*moves.shape[:2], 1)))[:, :, 0])


def switched_inverse(inverse: FloatArray, where: IntArray, step: FloatArray) -> FloatArray:
    r"""Expected visits after the rows `where` of P changed by `step`.

    .. math:: N' = N + N_{\cdot K}(I - D N_{\cdot K})^{-1} D N
    """
    columns = inverse[:, where]
    amount = np.linalg.solve(np.eye(len(where)) - step @ columns, step @ inverse)
    return np.asarray(inverse + columns @ amount)


def switched_visits(
    inverse: FloatArray, visits: FloatArray, where: IntArray, step: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Visits (k,) of the switched states themselves and (n,) of all states, as in `switched_inverse`."""
    there = np.asarray(np.linalg.solve(np.eye(len(where)) - (step @ inverse[:, where]).T, visits[where]), np.float64)
    return there, visits + (there @ step) @ inverse


@dataclass(frozen=True, eq=False)
class References:
    """Policies whose expected visits are at hand, and the one that each of some policies starts from."""

    choice: IntArray  # (r, S)
    inverse: FloatArray  # (r, S, S)
    row: IntArray  # (b,)


class Inverses:
    """Expected visits of policies that lie close together: a few factorisations, then updates of low rank.

    Updates always start from a factorisation, so errors do not add up.
    """

    def __init__(self, problem: FrontierProblem) -> None:
        self.problem = problem
        self.choice = np.zeros((0, problem.n_states), dtype=np.int64)
        self.inverse = np.zeros((0, problem.n_states, problem.n_states))
        self.next = -1

    def near(self, choices: IntArray) -> References:
        """For each policy a reference few decisions away; on small tables every policy is its own."""
        if self.problem.n_states < UPDATES_FROM:
            return References(choices, fundamental(self.problem, choices), np.arange(len(choices)))
        row = np.zeros(len(choices), dtype=np.int64)
        for i, choice in enumerate(choices):
            away = (self.choice != choice).sum(axis=1)
            row[i] = int(away.argmin()) if len(away) else 0
            if not len(away) or away[row[i]] > max(8, self.problem.n_states // 60):
                row[i] = self._add(choice, row[:i])
        return References(self.choice, self.inverse, row)

    def _add(self, choice: IntArray, used: IntArray) -> int:
        """A new reference, in place of one that this call does not use once there are many."""
        if not len(self.choice):
            self.choice = np.full((REFERENCES, self.problem.n_states), -1, dtype=np.int64)
            self.inverse = np.zeros((REFERENCES, *(self.problem.n_states,) * 2))
        self.next = (self.next + 1) % REFERENCES
        while self.next in used:
            self.next = (self.next + 1) % REFERENCES
        self.choice[self.next], self.inverse[self.next] = choice, fundamental(self.problem, choice[None])[0]
        return self.next

    def of(self, choices: IntArray) -> FloatArray:
        r"""(b, S, S) expected visits :math:`(I - P_\pi)^{-1}` of policies that all end."""
        if self.problem.n_states < UPDATES_FROM:
            return fundamental(self.problem, choices)
        return np.array([self._one(choice) for choice in choices]).reshape(len(choices), *(self.problem.n_states,) * 2)

    def _one(self, choice: IntArray) -> FloatArray:
        near = self.near(choice[None])
        before, inverse = near.choice[near.row[0]], near.inverse[near.row[0]]
        where = np.flatnonzero(choice != before)
        step = self.problem.dense[choice[where]] - self.problem.dense[before[where]]
        return switched_inverse(inverse, where, step)


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
    size: FloatArray | None = None,
) -> tuple[IntArray, BoolArray]:
    """The best pair of every state (b, S), and where it strictly beats the chosen one.

    `size` (b, S) is what the values are a sum of: where large parts cancel, so does what is strict of a gain.
    """
    masked = quality if active is None else np.where(active, quality, -np.inf)
    if problem.padded.size > 2 * problem.n_pairs:  # few states have many pairs
        top = np.maximum.reduceat(masked, problem.first[:-1], axis=1)
        number = np.where(masked == top[:, problem.state], np.arange(problem.n_pairs), problem.n_pairs)
        best = np.minimum.reduceat(number, problem.first[:-1], axis=1)
    else:
        table = masked[:, problem.padded]
        rank = table.argmax(axis=2)
        best = problem.padded[np.arange(problem.n_states), rank]
        top = np.take_along_axis(table, rank[:, :, None], axis=2)[:, :, 0]
    better = (best != choices) & (top > values + STRICT * (1.0 + (np.abs(values) if size is None else size)))
    return best, better


def switched_measures(
    problem: FrontierProblem,
    inverse: FloatArray,
    parent: IntArray,
    measures: FloatArray,
    before: IntArray,
    after: IntArray,
    weights: FloatArray,
) -> FloatArray:
    """Sums (b, m, S) of weights (m, pairs) under `after`, from those under `before` with visits `inverse[parent]`."""
    changed = before != after
    width = int(changed.sum(axis=1).max(initial=0))
    if width == 0:
        return measures
    most = max(1, MOST_NUMBERS // (width * problem.n_states))
    if len(before) > most:
        cuts = [slice(i, i + most) for i in range(0, len(before), most)]
        return np.concatenate(
            [switched_measures(problem, inverse, parent[c], measures[c], before[c], after[c], weights) for c in cuts]
        )
    if width > problem.n_states // 3 + 1:
        system = np.eye(problem.n_states) - problem.dense[after]
        return np.asarray(np.linalg.solve(system, weights[:, after].transpose(1, 2, 0)).transpose(0, 2, 1))
    rows = np.arange(len(before))[:, None]
    where = np.argsort(~changed, axis=1, kind="stable")[:, :width]
    live = changed[rows, where]
    old, new = before[rows, where], after[rows, where]
    step = (problem.dense[new] - problem.dense[old]) * live[:, :, None]
    gain = ((weights[:, new] - weights[:, old]) * live).transpose(1, 2, 0) + step @ measures.transpose(0, 2, 1)
    columns = inverse.transpose(0, 2, 1)[parent[:, None], where]
    amount = np.linalg.solve(np.eye(width) - step @ columns.transpose(0, 2, 1), gain)
    return np.asarray(measures + amount.transpose(0, 2, 1) @ columns)


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


def max_visits(problem: FrontierProblem) -> FloatArray:
    """(S,) the most expected visits of each state under any policy, where every policy ends: one optimum per state."""
    count = problem.n_states
    most = np.zeros(count)
    size = max(1, 4_000_000 // count**2)
    for start in range(0, count, size):
        targets = np.arange(start, min(start + size, count))
        weights = (problem.state[None, :] == targets[:, None]).astype(np.float64)
        choice = np.repeat(problem.first[:-1][None], len(targets), axis=0)
        going = np.arange(len(targets))
        values = np.zeros((len(targets), count))
        for _ in range(MOST_ROUNDS):
            if not going.size:
                break
            values[going] = solved_values(problem, choice[going], weights[going])
            quality = pair_values(problem, weights[going], values[going])
            best, better = greedy_switches(problem, quality, values[going], choice[going], None)
            choice[going] = np.where(better, best, choice[going])
            going = going[better.any(axis=1)]
        check_settled(not going.size)
        most[targets] = values @ problem.initial
    return most


class PolicyWalk:
    r"""A policy, its expected visits and both values, kept up to date under single switches.

    .. math:: N' = N + \frac{N_{\cdot s}\,(d^\top N)}{1 - d^\top N_{\cdot s}}, \qquad d = P_{s,a} - P_{s,\pi(s)}

    A switch that gains strictly can make a policy stay for ever only in a loop of positive gain, so that is what the
    error names.
    """

    def __init__(self, problem: FrontierProblem, choice: IntArray) -> None:
        self.problem, self.choice, self.switches = problem, choice.copy(), 0
        self.weights = np.stack([problem.cost, problem.reward], axis=1)
        self.tiny = 1e-12 * (1.0 + np.abs(self.weights).max(axis=0, initial=0.0))
        self.refresh()

    def refresh(self) -> None:
        """Factorise afresh."""
        self.inverse = fundamental(self.problem, self.choice[None])[0]
        self.values = self.inverse @ self.weights[self.choice]

    def advantages(self) -> FloatArray:
        """(pairs, 2) advantage in changes and in return of every pair."""
        ahead = self.problem.transitions @ self.values
        return np.asarray(self.weights + ahead - self.values[self.problem.state])

    def switch(self, pair: int) -> None:
        """Take a pair from now on; an error names the loop if the policy would then never end."""
        s = int(self.problem.state[pair])
        row = self.problem.dense[pair] - self.problem.dense[self.choice[s]]
        gain = self.weights[pair] - self.weights[self.choice[s]] + row @ self.values
        column = self.inverse[:, s].copy()
        left = 1.0 - row @ column
        self.choice[s] = pair
        self.switches += 1
        if left < 1e-7 and not self.problem.ends(self.choice):
            raise UnboundedReturnError(unbounded_message(self.problem, self.choice))
        if self.switches % REFRESH == 0 or left < 1e-7:
            self.refresh()
            return
        self.inverse += np.multiply.outer(column / left, row @ self.inverse)
        self.values += np.multiply.outer(column / left, gain)

    def point(self) -> FloatArray:
        """Expected changes and return, (2,)."""
        return np.asarray(self.problem.initial @ self.values)


def unbounded_message(problem: FrontierProblem, choice: IntArray) -> str:
    """Names the loop that a policy never leaves."""
    loop = closed_loop(sparse.csr_array(problem.links[choice]), ~problem.leaks[choice])
    shown = ", ".join(f"state {problem.names[s]} (action {problem.action[choice[s]]})" for s in loop[:5])
    return (
        f"the return is unbounded: the loop {shown}{', …' if len(loop) > 5 else ''} pays for ever. Hint: give a "
        "discount below 1 or a horizon, or forbid the loop with allowed= or candidates="
    )
