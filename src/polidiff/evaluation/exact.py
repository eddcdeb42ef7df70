r"""Exact values of a policy in a known table, by one linear solve.

.. math:: V_\pi = (I - \gamma P_\pi)^{-1} g_\pi, \qquad x_\pi = (I - \gamma P_\pi^\top)^{-1} p_0

Only states that surely end under the policy have a finite undiscounted sum. They are found on the graph before
anything is inverted; the others have value NaN, and an error names the first start among them.

The best policy of a table without any budget, undiscounted or not, by policy iteration.

The search starts from a policy that surely ends and switches an action only where that strictly gains. A switch that
makes the policy stay for ever then proves a loop with positive gain,

.. math:: \sum_{s \in \text{loop}} \mu(s)\,[\,r(s) + (P V)(s) - V(s)\,] > 0,

because every term is at least 0 and a changed one is positive: the return is unbounded, and the loop is named.

Systems :math:`(I - \gamma P)\, V = g` and their transposes are solved dense or sparse, to a checked residual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import linalg as sparse_linalg

from polidiff.errors import ImproperPolicyError, InvalidPolicyError, UnboundedReturnError
from polidiff.policies import as_policy, one_hot
from polidiff.policies.models import reads_features
from polidiff.policies.protocol import PolicyLike
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.worlds.checks import closed_loop, ending_choice, ending_rows, leads_to, surely_ending
from polidiff.worlds.tabular import TabularMDP

STRICT = 1e-10
DENSE_UP_TO = 1500
RESIDUAL = 1e-12
NARROW = 64  # places from the diagonal within which a factorisation stays small, whatever the size
FLAT = 2.0  # times the root of the number of states: how far entries lie in a grid of two dimensions, once reordered
FIRST, MORE = 20, 400  # steps of an iteration before a reordering is tried, and before fill-in is let in
SOON = 5  # times the first steps, within which an iteration must be likely to end, or a reordering is tried

Solve = Callable[[FloatArray, bool], FloatArray]


@dataclass(frozen=True, eq=False)
class ExactEvaluator:
    """A policy in a table, factorised once and asked many things."""

    world: TabularMDP
    table: FloatArray  # (S, A) probabilities, only over allowed actions

    @cached_property
    def moves(self) -> sparse.csr_array:
        """Next-state probabilities (S, S) under the policy; rows of absorbing states are empty."""
        return self.world.policy_moves(self.table)

    @cached_property
    def ends(self) -> BoolArray:
        """(S,) states from which the sum is finite: the episode surely ends, or sums are discounted."""
        if self.world.discount < 1:
            return np.ones(self.world.n_states, dtype=np.bool_)
        return surely_ending(self.moves, self.world.absorbing)

    @cached_property
    def _inside(self) -> IntArray:
        return np.flatnonzero(self.ends & ~self.world.absorbing)

    @cached_property
    def _solve(self) -> Solve:
        return solver(sparse.csr_array(self.moves[self._inside][:, self._inside]), self.world.discount)

    def values(self, gains: FloatArray) -> FloatArray:
        """Expected sums (S, …) of per-decision gains (S, A, …) from every state on; NaN where they never end."""
        per_state = np.einsum("sa,sa...->s...", self.table, gains)
        values = np.full(per_state.shape, np.nan)
        values[self.world.absorbing] = 0.0
        if self._inside.size:
            values[self._inside] = self._solve(per_state[self._inside], False)
        return values

    def visits(self) -> FloatArray:
        """Expected (discounted) departures from each state (S,), from the world's starts."""
        self.check_ends()
        visits = np.zeros(self.world.n_states)
        if self._inside.size:
            visits[self._inside] = self._solve(self.world.initial[self._inside], True)
        return np.maximum(visits, 0.0)

    def totals(self, gains: FloatArray) -> FloatArray:
        r"""Sums (…) of gains (S, A, …) from the starts, :math:`\sum_{s,a} x_\pi(s)\, \pi(a \mid s)\, g(s, a)`."""
        return np.asarray(self.visits() @ np.einsum("sa,sa...->s...", self.table, gains))

    def check_ends(self) -> None:
        """An error that names the first start from which the policy never ends."""
        stuck = np.flatnonzero((self.world.initial > 0) & ~self.ends)
        if not stuck.size:
            return
        names = self.world.states
        loop = closed_loop(self.moves, ~surely_ending(self.moves, self.world.absorbing) & ~self.world.absorbing)
        shown = ", ".join(names[s] for s in loop[:5]) + (", …" if len(loop) > 5 else "")
        raise ImproperPolicyError(
            f"the policy must end from every start; from {names[stuck[0]]!r} it may stay for ever in {{{shown}}} "
            f"({stuck.size} of {len(self.world.starts)} starts). Hint: give a discount below 1, a horizon, or "
            "another policy"
        )


def exact_evaluator(world: TabularMDP, policy: PolicyLike) -> ExactEvaluator:
    """An evaluator for a policy, checked against the actions that the table allows."""
    return ExactEvaluator(world, policy_table(world, policy))


def policy_table(world: TabularMDP, policy: PolicyLike) -> FloatArray:
    """Probabilities (S, A) of a policy; an error names the first state where it takes an action not allowed."""
    chosen = as_policy(policy, actions=world.actions, features=world.feature_names, n_states=world.n_states)
    numbers = np.arange(world.n_states)
    table = np.array(chosen.probabilities(world.features_of(numbers) if reads_features(chosen) else numbers))
    if table.shape != (world.n_states, world.n_actions):
        raise InvalidPolicyError(
            f"a policy for this table must give shape {(world.n_states, world.n_actions)}; it gave {table.shape}"
        )
    off = np.argwhere((table > 1e-9) & ~world.allowed & ~world.absorbing[:, None])
    if off.size:
        state, action = off[0]
        raise InvalidPolicyError(
            f"a policy may take allowed actions only; in {world.states[state]!r} it takes "
            f"{world.actions[action].name!r} ({len(off)} such pairs)"
        )
    return table


def outcome_tensor(world: TabularMDP) -> FloatArray:
    """What each decision adds to every outcome of the world, (S, A, M)."""
    return np.stack([world.outcome_table(outcome) for outcome in world.outcomes], axis=2)


def finite_horizon_values(evaluator: ExactEvaluator, gains: FloatArray, horizon: int) -> FloatArray:
    """Expected sums (S, …) over the first `horizon` decisions."""
    per_state = np.einsum("sa,sa...->s...", evaluator.table, gains)
    values = np.zeros_like(per_state)
    for _ in range(horizon):
        values = per_state + evaluator.world.discount * (evaluator.moves @ values)
    return values


@dataclass(frozen=True, eq=False)
class Optimum:
    """A policy that no other beats, and its value."""

    actions: IntArray  # (S,) 0 at absorbing states and where no policy can end
    values: FloatArray  # (S,) NaN where no policy can end
    expected_return: float


def best_policy(world: TabularMDP, gains: FloatArray | None = None, start: IntArray | None = None) -> Optimum:
    """Maximise the expected sum of `gains` (S, A), by default the rewards.

    Ties keep the action of `start`, a policy that ends; without one, a shortest way to an end.
    """
    rewards = world.rewards if gains is None else gains
    usable, can_end, actions = ending_actions(world)
    check_starts_can_end(world, can_end)
    actions = actions if start is None else np.array(start)
    unit = float(np.abs(rewards).max(initial=0.0)) or 1.0
    for _ in range(10_000):
        values = ExactEvaluator(world, one_hot(actions, world.n_actions)).values(rewards)
        advantage = action_values(world, rewards, values, usable) - np.where(can_end, values, 0.0)[:, None]
        best = advantage.argmax(axis=1)
        better = can_end & ~world.absorbing & (advantage.max(axis=1) > STRICT * (unit + np.abs(np.nan_to_num(values))))
        if not better.any():
            total = float(world.initial @ np.where(world.initial > 0, values, 0.0))
            return Optimum(actions, values, total)
        actions = np.where(better, best, actions)
        check_bounded(world, actions, can_end)
    raise RuntimeError("policy iteration did not settle in 10,000 rounds")


def action_values(world: TabularMDP, rewards: FloatArray, values: FloatArray, usable: BoolArray) -> FloatArray:
    r"""One-step look-ahead :math:`Q(s, a) = r(s, a) + \gamma \sum_{s'} T(s' \mid s, a) V(s')`, −∞ where not usable."""
    ahead = (world.transitions @ np.nan_to_num(values)).reshape(world.n_states, world.n_actions)
    return np.where(usable, rewards + world.discount * ahead, -np.inf)


def ending_actions(world: TabularMDP) -> tuple[BoolArray, BoolArray, IntArray]:
    """Actions (S, A) after which some policy still surely ends, states (S,) where one does, and a policy that does."""
    decides, shape = world.allowed & ~world.absorbing[:, None], (world.n_states, world.n_actions)
    if world.discount < 1:
        return decides, np.ones(world.n_states, dtype=np.bool_), decides.argmax(axis=1).astype(np.int64)
    state, ends = np.repeat(np.arange(world.n_states), world.n_actions), leads_to(world.transitions, world.absorbing)
    moves = sparse.csr_array(world.transitions @ sparse.diags_array((~world.absorbing).astype(np.float64)))
    usable = ending_rows(moves, state, ends, decides.ravel(), world.n_states)
    rows = ending_choice(moves, state, ends, np.full(world.n_states, -1), usable)
    return usable.reshape(shape), world.absorbing | (rows >= 0), np.where(rows < 0, 0, rows % world.n_actions)


def check_starts_can_end(world: TabularMDP, can_end: BoolArray) -> None:
    """An error that names the first start from which no policy ends."""
    stuck = np.flatnonzero((world.initial > 0) & ~can_end)
    if stuck.size:
        raise ImproperPolicyError(
            f"an absorbing state must be reachable from every start; from {world.states[stuck[0]]!r} no policy surely "
            f"ends ({stuck.size} of {len(world.starts)} starts). Hint: mark the states that end an episode with "
            "absorbing=, or give a discount below 1"
        )


def check_bounded(world: TabularMDP, actions: IntArray, can_end: BoolArray) -> None:
    """After strict improvements: an error that names the loop, if the policy now stays for ever."""
    if world.discount < 1:
        return
    moves = world.policy_moves(one_hot(actions, world.n_actions))
    stuck = ~surely_ending(moves, world.absorbing) & can_end & ~world.absorbing
    if not stuck.any():
        return
    loop = closed_loop(moves, stuck)
    shown = ", ".join(f"{world.states[s]} ({world.actions[actions[s]].name})" for s in loop[:5])
    raise UnboundedReturnError(
        f"the return is unbounded: the loop {shown}{', …' if len(loop) > 5 else ''} pays for ever. Hint: give a "
        "horizon or a discount below 1, or forbid the loop with allowed="
    )


def solver(moves: Any, discount: float) -> Solve:
    r"""A function (right-hand side, transposed) → solution of :math:`(I - \gamma P) V = g`, P an array or sparse.

    Small systems are factorised once by LAPACK, and so are sparse ones without much fill-in to fear: those whose
    entries lie near the diagonal, as they come or, after a few steps of iteration that did not suffice, reordered
    (Cuthill and McKee): lines, bands and plane grids, but neither cubes nor random tables. Those go through BiCGSTAB,
    column by column (a block of columns leaves the cache and takes twice as long); where that is slow with an
    incomplete factorisation of bounded fill-in before it, and where even that does not reach the residual the whole
    factorisation takes over.
    """
    size = moves.shape[0]
    if size <= DENSE_UP_TO:
        dense = -discount * (moves if isinstance(moves, np.ndarray) else moves.toarray())
        dense.flat[:: size + 1] += 1.0
        factors = linalg.lu_factor(dense, check_finite=False, overwrite_a=True)
        return lambda g, transposed: np.asarray(
            linalg.lu_solve(factors, g, trans=1 if transposed else 0, check_finite=False)
        )
    system = sparse.csr_array(sparse.eye_array(size, format="csr") - discount * moves)
    return _factorised(system) if _width(system) <= NARROW else _Iterated(system)


def _width(system: sparse.csr_array, place: IntArray | None = None) -> int:
    """How far from the diagonal entries lie, at most, as they come or at other places (n,)."""
    at = np.arange(system.shape[0]) if place is None else place
    return int(np.abs(np.repeat(at, np.diff(system.indptr)) - at[system.indices]).max(initial=0))


def _factorised(system: sparse.csr_array) -> Solve:
    """No row has more beside the diagonal than on it, so that pivots on the diagonal are safe, which halves fill-in."""
    factors: Any = sparse_linalg.splu(
        sparse.csc_array(system), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    return lambda g, transposed: np.asarray(factors.solve(g, "T" if transposed else "N"))


class _Iterated:
    """Solves by iteration for as long as that pays, and remembers what took its place."""

    def __init__(self, system: sparse.csr_array) -> None:
        self.system = system
        self.direct: Solve | None = None

    def __call__(self, g: FloatArray, transposed: bool) -> FloatArray:
        matrix = sparse.csr_array(self.system.T) if transposed else self.system
        columns = np.atleast_2d(g.T)
        solutions = np.empty(columns.shape)
        for index, column in enumerate(columns):
            solution = None if self.direct is not None else self._column(matrix, column, transposed)
            if solution is None:
                self.direct = self.direct or _factorised(self.system)
                return self.direct(g, transposed)
            solutions[index] = solution
        return np.ascontiguousarray(solutions.T).reshape(g.shape)

    def _column(self, matrix: sparse.csr_array, g: FloatArray, transposed: bool) -> FloatArray | None:
        norm = float(np.linalg.norm(g))
        if norm == 0.0:
            return np.zeros_like(g)
        unit = g / norm  # the methods give up on small right-hand sides by absolute tests
        solution, rest = _steps(matrix, unit, None, FIRST)
        if rest**SOON > RESIDUAL and self.flat:
            return None
        if rest > RESIDUAL:
            solution, rest = _steps(matrix, unit, solution, MORE)
        if rest > 10 * RESIDUAL:
            solution, rest = _steps(matrix, unit, None, MORE, self.incomplete(transposed))
        return solution * norm if rest <= 10 * RESIDUAL else None

    @cached_property
    def flat(self) -> bool:
        """Whether a reordering brings all entries near the diagonal."""
        order = sparse.csgraph.reverse_cuthill_mckee(self.system)
        return _width(self.system, np.argsort(order)) <= max(2 * NARROW, FLAT * np.sqrt(len(order)))

    @cached_property
    def _factors(self) -> Any:  # whose stubs forget the second argument of `solve`
        return sparse_linalg.spilu(sparse.csc_array(self.system), drop_tol=1e-4, fill_factor=10)

    def incomplete(self, transposed: bool) -> sparse_linalg.LinearOperator:
        """About the inverse, from a factorisation of bounded fill-in."""
        kind = "T" if transposed else "N"
        return sparse_linalg.LinearOperator(self.system.shape, lambda g: self._factors.solve(g, kind))


def _steps(
    matrix: sparse.csr_array,
    g: FloatArray,
    begin: FloatArray | None,
    most: int,
    inverse: sparse_linalg.LinearOperator | None = None,
) -> tuple[FloatArray, float]:
    """At most so many steps of BiCGSTAB towards a right-hand side of length 1; where it got, and what is left."""
    solution, _ = sparse_linalg.bicgstab(matrix, g, begin, rtol=RESIDUAL, atol=0.0, maxiter=most, M=inverse)
    rest = float(np.linalg.norm(matrix @ solution - g)) if np.isfinite(solution).all() else np.inf
    return np.asarray(solution), rest
