r"""The world as a log shows it under one policy, with what it cannot know kept apart.

The policy is split into what the log shows directly and what needs pairs of its own,

.. math:: \pi(a \mid s) = \rho(s)\, \pi_b(a \mid s) + r(a \mid s), \qquad
          \rho(s) = \min\Bigl(1, \min_{a : \pi_b(a|s) > 0} \frac{\pi(a \mid s)}{\pi_b(a \mid s)}\Bigr)

The share :math:`\rho` of the policy that wrote the log (:math:`\pi_b`) is read off the state's logged average and needs
no pair; only the rest can be without support. Where :math:`\pi_b` is not known, :math:`\rho = 0`, except in states
where the policy is by definition the one that wrote the log. A logged draw of the pair
(s, a) stands in its state's value with weight

.. math:: k(s, a) = \frac{\rho(s)}{n(s)} + \frac{r(a \mid s)}{n(s, a)},

and the *unknown* share of a state is what falls on pairs never seen; 1 where the state was never left in the
log, or where its estimated moves form a loop without exit. Such loops are found on the graph: they are no evidence that
the world never ends, and inverting them would be noise. What is unknown is worth whatever a rule says it is worth.

The model-based bootstrap: the same model, solved on many reweighted logs (Hanna, Stone and Niekum 2017).

Blocks of episodes get exponential weights with mean 1 (the Bayesian bootstrap), so that no pair that was seen vanishes
from a resample and no loop appears that the log does not have. A resample costs a few sums over the counts and one
solve for all states and outcomes; the log itself is not touched again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from polidiff.errors import InvalidOptionError
from polidiff.evaluation.exact import Solve, solver
from polidiff.evaluation.logged.counts import Counts, Edges
from polidiff.parallel import run_tasks
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.worlds.checks import reachable_from
from polidiff.worlds.shards.transition_counts import check_fits, free_memory

EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class SplitPolicy:
    """A policy over the states of a log: the share that the log shows directly, and the rest."""

    table: FloatArray  # (S, A)
    rho: FloatArray  # (S,) share read off the logged average
    rest: FloatArray  # (S, A) what needs pairs; rows sum to 1 - rho


def split_policy(table: FloatArray, logging: FloatArray | None, same: BoolArray | None = None) -> SplitPolicy:
    """The split against a known logging policy (S, A); without one, `same` (S,) marks the states left to the log.

    >>> split_policy(np.array([[0.2, 0.8]]), np.array([[0.5, 0.5]])).rho
    array([0.4])
    """
    if logging is None:
        rho = np.zeros(len(table)) if same is None else same.astype(np.float64)
        return SplitPolicy(table, rho, np.where(rho[:, None] > 0, 0.0, table))
    ratio = np.divide(table, logging, out=np.full(table.shape, np.inf), where=logging > 0).min(axis=1)
    rho = np.where(ratio > 1 - EQUAL, 1.0, ratio)
    rest = np.maximum(table - rho[:, None] * logging, 0.0)
    return SplitPolicy(table, rho, np.where(rho[:, None] == 1.0, 0.0, rest))


def same_rows(one: FloatArray, other: FloatArray) -> BoolArray:
    """(S,) whether two policies act alike in a state."""
    return np.asarray((np.abs(one - other) <= EQUAL).all(axis=1))


@dataclass(frozen=True, eq=False)
class LoggedModel:
    """Estimated moves under a policy, solved for any outcome, start and value of the unknown."""

    edges: Edges
    discount: float
    moves: sparse.csr_array  # (S, S) estimated, without the unknown and the end
    weight: FloatArray  # (R,) k of each pair
    rho: FloatArray  # (S,)
    unknown: FloatArray  # (S,)
    loops: BoolArray  # (S,) states that cannot leave an estimated loop

    @property
    def complete(self) -> bool:
        """Whether nothing is unknown, in any state."""
        return not self.unknown.any()

    @cached_property
    def solve(self) -> Solve:
        """(right-hand side, transposed) → solution of the model's linear system."""
        return solver(self.moves, self.discount)

    def values(self, outcome: int, end: float) -> FloatArray:
        """Expected sums (S,) of an outcome when what is unknown is worth `end`."""
        edges = self.edges
        gains = np.bincount(edges.state, self.weight[edges.row] * edges.sums[:, outcome], edges.n_states)
        return self.solve(gains + self.unknown * end, False)

    def visits(self, starts: FloatArray) -> FloatArray:
        """Expected (discounted) visits (q, S) from each row of `starts` (q, S)."""
        return np.ascontiguousarray(self.solve(np.ascontiguousarray(starts.T), True).T)


def build_model(edges: Edges, target: SplitPolicy, *, discount: float = 1.0, lend: bool = False) -> LoggedModel:
    """The estimated model under a policy; with `lend`, unseen pairs of a state that was met are lent."""
    met = edges.state_visits > 0
    unseen = (target.rest * (edges.visits == 0)).sum(axis=1)
    lent = np.where(met, unseen, 0.0) if lend else np.zeros(edges.n_states)
    rows = np.maximum(edges.state_visits + edges.dropped, 1)
    unknown = np.where(met, unseen - lent + target.rho * edges.dropped / rows, 1.0)
    averaged = target.rho / rows + lent / np.maximum(edges.state_visits, 1)
    weight = averaged[edges.pair_state] + target.rest[edges.pair_state, edges.pair_action] / edges.pair_visits
    moves = _moves(edges, weight)
    loops = np.zeros(edges.n_states, dtype=np.bool_)
    if discount == 1.0:
        loops = _without_exit(edges, weight, moves, unknown)
        if loops.any():
            weight = np.where(loops[edges.pair_state], 0.0, weight)
            moves = _moves(edges, weight)
    keep = ~loops
    return LoggedModel(edges, discount, moves, weight, target.rho * keep, np.where(loops, 1.0, unknown), loops)


def _moves(edges: Edges, weight: FloatArray) -> sparse.csr_array:
    inside = ~edges.ends
    mass = (weight[edges.row] * edges.count)[inside]
    moves = sparse.csr_array((mass, (edges.state[inside], edges.to[inside])), shape=(edges.n_states, edges.n_states))
    moves.eliminate_zeros()
    return moves


def _without_exit(edges: Edges, weight: FloatArray, moves: sparse.csr_array, unknown: FloatArray) -> BoolArray:
    """States from which neither an end nor something unknown can be reached."""
    exits = unknown > 0
    exits[edges.state[edges.ends & (weight[edges.row] > 0)]] = True
    return ~reachable_from(sparse.csr_array(moves.T), exits)


@dataclass(frozen=True, eq=False)
class Starts:
    """Distributions over the states in which episodes begin."""

    weights: FloatArray  # (q, S), rows sum to 1
    episodes: FloatArray  # (q,) logged episodes behind each row; inf where the distribution is known

    def variance(self, values: FloatArray) -> FloatArray:
        """(q,) what sampling the starts adds to the variance of an average of values (S,)."""
        mean = self.weights @ values
        scatter = (self.weights * (values[None, :] - mean[:, None]) ** 2).sum(axis=1)
        return np.asarray(scatter / np.maximum(self.episodes, 1.0))


def group_starts(groups: Sequence[AnyArray] | None, state_of: IntArray, episodes: IntArray, n_states: int) -> Starts:
    """Groups as masks over the logged starts, or as weights over them; None is one group of all.

    Parameters
    ----------
    groups : sequence of arrays (n_starts,)
        True and false: the logged episodes of those starts, whose share is itself estimated. Numbers: a distribution
        that is taken as known.
    state_of, episodes : arrays (n_starts,)
        State of each logged start and the episodes that begin there.
    """
    chosen = [np.ones(len(state_of), dtype=np.bool_)] if groups is None else [np.asarray(group) for group in groups]
    weights, behind = np.zeros((len(chosen), n_states)), np.zeros(len(chosen))
    for number, group in enumerate(chosen):
        if group.shape != state_of.shape:
            raise InvalidOptionError(
                f"a group must have one entry per logged start, {len(state_of)}; group {number} has shape {group.shape}"
            )
        mass = np.where(group, episodes, 0).astype(float) if group.dtype == np.bool_ else group.astype(float)
        if not (mass.sum() > 0 and (mass >= 0).all()):
            raise InvalidOptionError(f"a group must hold at least one start; group {number} has none")
        weights[number] = np.bincount(state_of, mass / mass.sum(), n_states)
        behind[number] = mass.sum() if group.dtype == np.bool_ else np.inf
    return Starts(weights, behind)


RESAMPLES = 1000
BATCH = 25  # resamples drawn at a time
TOGETHER = 2  # batches in a task: the counts are sent with each


def bootstrap_values(
    counts: Counts,
    target: SplitPolicy,
    starts: Starts,
    ends: FloatArray,
    *,
    discount: float = 1.0,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> FloatArray:
    """Outcomes (B, q, K) when what is unknown is worth `ends` (K,); two policies with one seed are paired."""
    hint = "without evaluation= nothing is resampled; coarser states make fewer"
    need = 16.0 * len(counts.count) * (1 + counts.n_outcomes)  # a number and its place
    check_fits(f"resampling {len(counts.count)} distinct transitions in blocks", need, free_memory(), hint)
    sizes = [min(BATCH, resamples - begin) for begin in range(0, resamples, BATCH)]
    batches = list(zip(sizes, np.random.SeedSequence(seed).spawn(len(sizes)), strict=True))
    model, rest = build_model(counts.edges, target, discount=discount), target.rest
    parts = [batches[begin : begin + TOGETHER] for begin in range(0, len(batches), TOGETHER)]
    tasks = [(counts, model, rest, starts.weights, ends, part) for part in parts]
    return np.concatenate(run_tasks(_resampled, tasks, what="resampling the log"))


def _resampled(
    counts: Counts,
    model: LoggedModel,
    rest: FloatArray,
    starts: FloatArray,
    ends: FloatArray,
    batches: list[tuple[int, np.random.SeedSequence]],
) -> FloatArray:
    edges = model.edges
    place, shape = (edges.entry, counts.block[edges.used]), (len(edges.state), counts.n_blocks)
    columns = (counts.count, *counts.sums.T)
    count, *sums = (sparse.csr_array((edges.scale * part[edges.used], place), shape=shape) for part in columns)
    drawn = (np.random.default_rng(seed).exponential(size=(counts.n_blocks, size)) for size, seed in batches)
    return np.array([
        starts @ _reweighted(model, rest, ends, count @ w, [one @ w for one in sums]) for part in drawn for w in part.T
    ])  # fmt: skip


def _reweighted(
    model: LoggedModel, rest: FloatArray, ends: FloatArray, count: FloatArray, sums: list[FloatArray]
) -> FloatArray:
    """(S, K) values of a model's policy, whose `rest` (S, A) needs pairs, for other counts (m,) and K sums (m,)."""
    edges, of_pair = model.edges, model.edges.pair_state
    per_pair = np.bincount(edges.row, count)
    per_state = np.bincount(of_pair, per_pair, edges.n_states)
    known = edges.state_visits / np.maximum(edges.state_visits + edges.dropped, 1)
    share = (model.rho * known / np.maximum(per_state, 1e-300))[of_pair] + rest[of_pair, edges.pair_action] / per_pair
    share[model.loops[of_pair]] = 0.0
    gains = [np.bincount(edges.state, share[edges.row] * column, edges.n_states) for column in sums]
    moves = _moves(replace(edges, count=count), share)
    return solver(moves, model.discount)(np.column_stack(gains) + model.unknown[:, None] * ends, False)
