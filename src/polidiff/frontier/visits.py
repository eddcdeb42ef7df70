r"""Policies of one problem: visits, values, and what switching decisions does to them without a new factorisation.

.. math:: N = (I - P_\pi)^{-1}, \qquad x = p_0^\top N, \qquad V = N\, w_\pi

*A few switches at once* cost a small system (Sherman, Morrison and Woodbury). With :math:`K` the switched states and
:math:`D` the change of their rows of :math:`P`,

.. math:: x'_K = (I - D N_{\cdot K})^{-\top} x_K, \qquad x' = x + x'_K D N

*Every single switch*, of state s to action a, changes all that is summed up in closed form:

.. math:: J' = J + \frac{x(s)\, A(s,a)}{1 - d^\top N_{\cdot s}}, \qquad d = P_{s,a} - P_{s,\pi(s)}

*One switch after the other* (`PolicyWalk`) keeps the expected visits up to date. A switch that gains strictly can make
a policy stay for ever only in a loop of positive gain, so that is what the error names.

.. math:: N' = N + \frac{N_{\cdot s}\,(d^\top N)}{1 - d^\top N_{\cdot s}}
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from polidiff.errors import UnboundedReturnError
from polidiff.frontier.problem import EXIT, EXITS, FrontierProblem
from polidiff.progress import Clock
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.worlds.checks import closed_loop

MOST_ROUNDS = 2_000  # of policy iteration, which takes a few dozen where numbers are sound
STRICT = 1e-10  # advantage, relative to the values, above which a switch counts as a gain


def fundamental(problem: FrontierProblem, choices: IntArray) -> FloatArray:
    r"""Expected visits :math:`N = (I - P_\pi)^{-1}` between states, (b, S, S), of policies that all end.

    Those of the current policy are kept, for walks, baselines and shares begin there.
    """
    if len(choices) == 1 and np.array_equal(choices[0], problem.start):
        return problem.from_start[None]
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


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Some plans, and all plans one decision away from them."""

    own_changes: FloatArray  # (b,)
    own_returns: FloatArray  # (b,)
    own_valid: BoolArray  # (b,) the plan itself keeps the guards and leaves through no exit
    changes: FloatArray  # (b, pairs)
    returns: FloatArray  # (b, pairs)
    valid: BoolArray  # (b, pairs) the decision differs, is reached, the plan still ends and keeps the guards


def neighbours(problem: FrontierProblem, choices: IntArray, inverse: FloatArray | None = None) -> Neighbours:
    """Changes and return of policies (b, S) and of every one-decision neighbour; `inverse` (b, S, S) if at hand."""
    inverse = fundamental(problem, choices) if inverse is None else inverse
    visits = problem.initial @ inverse
    exits = (problem.action == EXIT).astype(np.float64)
    weights = np.concatenate([np.stack([problem.cost, problem.reward, exits]), problem.guards])
    values = (inverse @ weights[:, choices].transpose(1, 2, 0)).transpose(2, 0, 1)
    ahead = (problem.transitions @ values.reshape(-1, problem.n_states).T).T.reshape(len(weights), len(choices), -1)
    advantage = weights[:, None, :] + ahead - values[:, :, problem.state]
    left = 1.0 - returns_to_self(problem, inverse)
    left += np.take_along_axis(1.0 - left, choices, axis=1)[:, problem.state]
    reached = visits[:, problem.state]
    valid = (left > 1e-9) & (reached > 1e-12) & (choices[:, problem.state] != np.arange(problem.n_pairs))
    valid &= problem.action != EXIT
    factor = np.where(valid, reached / np.where(valid, left, 1.0), 0.0)
    own = np.einsum("kbs,s->kb", values, problem.initial)
    points = own[:, :, None] + factor * advantage
    kept = problem.keeps_guards(points[3:]) & (points[2] < EXITS)
    own_valid = problem.keeps_guards(own[3:]) & (own[2] < EXITS)
    return Neighbours(own[0], own[1], own_valid, points[0], points[1], valid & kept)


def returns_to_self(problem: FrontierProblem, inverse: FloatArray) -> FloatArray:
    """(b, pairs) expected later visits of the state that a pair leaves, :math:`P_{s,a} N_{·s}`."""
    moves = problem.transitions
    starts = np.repeat(problem.state, np.diff(moves.indptr))
    terms = inverse[:, moves.indices, starts] * moves.data
    total = np.zeros((len(inverse), problem.n_pairs))
    filled = np.flatnonzero(np.diff(moves.indptr))
    if filled.size:
        total[:, filled] = np.add.reduceat(terms, moves.indptr[filled], axis=1)
    return total


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


def max_visits(problem: FrontierProblem, clock: Clock | None = None) -> FloatArray:
    """(S,) the most expected visits of each state under any policy, where every policy ends: one optimum per state.

    Infinite where time is up.
    """
    most, size = np.zeros(problem.n_states), max(1, 4_000_000 // problem.n_states**2)
    for targets in np.split(np.arange(problem.n_states), range(size, problem.n_states, size)):
        if clock is not None and clock.over():
            most[targets[0] :] = np.inf
            break
        visited = (problem.state[None, :] == targets[:, None]).astype(np.float64)
        start = np.repeat(problem.first[:-1][None], len(targets), axis=0)
        most[targets] = optimal_values(problem, visited, start) @ problem.initial
    return most


REFRESH = 300  # switches between two fresh factorisations
FAR = 0.4  # share of the states from which a policy is factorised rather than walked to


@dataclass(frozen=True, eq=False, slots=True)
class Vertex:
    """A policy that a walk has met."""

    changes: float
    returns: float
    choice: IntArray  # (S,)


class PolicyWalk:
    """A policy that ends from every state, its expected visits, and its changes and return from each state on."""

    def __init__(self, problem: FrontierProblem, choice: IntArray) -> None:
        moves = problem.transitions.tocsr()
        self.rows = (moves.indptr.astype(np.int64), moves.indices.astype(np.int64), moves.data.astype(np.float64))
        self.weights = np.ascontiguousarray(np.stack([problem.cost, problem.reward], axis=1))
        self.problem, self.choice, self.switches = problem, choice.astype(np.int64), 0
        self.refresh()

    def refresh(self) -> None:
        """Factorise afresh."""
        self.inverse = np.array(fundamental(self.problem, self.choice[None])[0], order="C")
        self.values = np.ascontiguousarray(self.inverse @ self.weights[self.choice])
        self.arrays = (self.inverse, self.values, self.weights)
        self.stale = 0

    def point(self) -> FloatArray:
        """Expected changes and return, (2,)."""
        return np.asarray(self.problem.initial @ self.values)

    def vertex(self) -> Vertex:
        """Where the walk is."""
        changes, returns = self.point()
        return Vertex(float(changes), float(returns), self.choice.copy())

    def advantages(self) -> FloatArray:
        """(pairs, 2) advantage in changes and in return of every pair."""
        ahead = self.problem.transitions @ self.values
        return np.asarray(self.weights + ahead - self.values[self.problem.state])

    def switch(self, pair: int) -> None:
        """Take a pair from now on; an error names the loop if the policy would then never end."""
        choice = self.choice.copy()
        choice[self.problem.state[pair]] = pair
        if not self.goto(choice):
            raise UnboundedReturnError(unbounded_message(self.problem, choice))

    def goto(self, choice: IntArray) -> bool:
        """Take all decisions of a policy; False, with the walk anywhere, if it never ends."""
        from polidiff.frontier.walk_kernels import follow

        most = max(1, min(int(FAR * len(choice)), REFRESH - self.stale))
        made = follow(self.arrays, self.rows, self.choice, choice, most)
        self._count(max(made, 0))
        if made < 0:
            ends = self.problem.ends(choice)
            self.choice = choice.copy() if ends else self.choice
            self.refresh()
            return ends
        return True

    def step(self, active: BoolArray, side: int, *, price: float = 0.0, most: int = 1) -> bool:
        """On to the next vertex with more changes (side 1) or fewer (−1), or nearer to the best at a price (0).

        False where there is none. A switch that gains and never ends is part of a loop that pays for ever.
        """
        from polidiff.frontier.walk_kernels import advance

        state = self.problem.state
        made, blocked = advance(self.arrays, self.rows, state, self.choice, active, side, price, most)
        self._count(made)
        if blocked >= 0:
            self.choice[state[blocked]] = blocked
            if not self.problem.ends(self.choice):
                raise UnboundedReturnError(unbounded_message(self.problem, self.choice))
        if blocked >= 0 or self.stale >= REFRESH:
            self.refresh()
        return bool(made or blocked >= 0)

    def _count(self, switches: int) -> None:
        self.stale += switches
        self.switches += switches

    def optimise(self, active: BoolArray, price: float) -> None:
        """The best policy over the active pairs at a price."""
        while self.step(active, 0, price=price, most=REFRESH):
            pass


def unbounded_message(problem: FrontierProblem, choice: IntArray) -> str:
    """Names the loop that a policy never leaves."""
    loop = closed_loop(sparse.csr_array(problem.links[choice]), ~problem.leaks[choice])
    shown = ", ".join(f"state {problem.names[s]} (action {problem.action[choice[s]]})" for s in loop[:5])
    return (
        f"the return is unbounded: the loop {shown}{', …' if len(loop) > 5 else ''} pays for ever. Hint: give a "
        "discount below 1 or a horizon, or forbid the loop with allowed= or candidates="
    )
