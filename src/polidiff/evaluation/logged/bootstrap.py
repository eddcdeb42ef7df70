"""The model-based bootstrap: the same model, solved on many reweighted logs (Hanna, Stone and Niekum 2017).

Blocks of episodes get exponential weights with mean 1 (the Bayesian bootstrap), so that no pair that was seen vanishes
from a resample and no loop appears that the log does not have. A resample costs two sparse products with the counts and
one solve for all states and outcomes; the log itself is not touched again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from polidiff.errors import InvalidLogError
from polidiff.evaluation.linear import solver
from polidiff.evaluation.logged.counts import Counts
from polidiff.evaluation.logged.model import LoggedModel, SplitPolicy, Starts, build_model
from polidiff.parallel import run_tasks
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.shards.transition_counts import free_memory

RESAMPLES = 1000
BATCH = 25  # resamples in memory at a time
TOGETHER = 2  # batches in a task: the model is sent with each


@dataclass(frozen=True, eq=False)
class ResampledModel:
    """The estimated model of a policy as a function of the weights of the blocks."""

    model: LoggedModel
    rest: FloatArray  # (R,) of each pair
    numbers: sparse.csr_array  # (edges, blocks) counts
    sums: tuple[sparse.csr_array, ...]  # per outcome, (edges, blocks)
    inside: IntArray  # edges that are used and do not end the episode
    join: sparse.csr_array  # (links, inside) sums edges between the same two states
    source: IntArray  # (links,)
    goal: IntArray  # (links,)

    def values(self, weights: FloatArray, ends: FloatArray) -> FloatArray:
        """(b, S, K) values under block weights (blocks, b), what is unknown being worth `ends` (K,)."""
        edges, model = self.model.edges, self.model
        drawn = np.asarray(self.numbers @ weights)
        per_pair = np.asarray(_sum_matrix(edges.row, len(edges.pair_state)) @ drawn)
        per_state = np.asarray(_sum_matrix(edges.pair_state, edges.n_states) @ per_pair)
        known = edges.state_visits / np.maximum(edges.state_visits + edges.dropped, 1)
        share = (model.rho * known)[edges.pair_state, None] / np.maximum(per_state[edges.pair_state], 1e-300)
        share += self.rest[:, None] / np.maximum(per_pair, 1e-300)
        share[model.loops[edges.pair_state]] = 0.0
        on_edge = share[edges.row]
        to_state = _sum_matrix(edges.state, edges.n_states)
        gains = np.stack([to_state @ (on_edge * (part @ weights)) for part in self.sums], axis=2)
        gains += model.unknown[:, None, None] * ends
        flow = np.asarray(self.join @ (on_edge * drawn)[self.inside])
        shape = (edges.n_states, edges.n_states)
        values = np.empty((weights.shape[1], edges.n_states, len(ends)))
        for b in range(len(values)):
            moves = sparse.csr_array((flow[:, b], (self.source, self.goal)), shape=shape)
            values[b] = solver(moves, model.discount)(np.ascontiguousarray(gains[:, b]), False)
        return values


def resampled_model(counts: Counts, target: SplitPolicy, *, discount: float = 1.0) -> ResampledModel:
    """What the resamples of one policy share."""
    edges = counts.edges
    model = build_model(edges, target, discount=discount)
    shape = (len(edges.state), counts.n_blocks)
    where = (edges.entry, counts.block[edges.used])
    inside = np.flatnonzero((model.weight[edges.row] > 0) & ~edges.ends)
    links, link = np.unique(edges.state[inside] * edges.n_states + edges.to[inside], return_inverse=True)
    return ResampledModel(
        model,
        target.rest[edges.pair_state, edges.pair_action],
        sparse.csr_array((edges.scale * counts.count[edges.used], where), shape=shape),
        tuple(
            sparse.csr_array((edges.scale * counts.sums[edges.used, k], where), shape=shape)
            for k in range(counts.n_outcomes)
        ),
        inside,
        _sum_matrix(link, len(links)),
        links // edges.n_states,
        links % edges.n_states,
    )


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
    check_room_for_resampling(len(counts.edges.state), counts.n_outcomes, free_memory())
    model = resampled_model(counts, target, discount=discount)
    sizes = [min(BATCH, resamples - begin) for begin in range(0, resamples, BATCH)]
    batches = list(zip(sizes, np.random.SeedSequence(seed).spawn(len(sizes)), strict=True))
    parts = [batches[begin : begin + TOGETHER] for begin in range(0, len(batches), TOGETHER)]
    tasks = [(model, starts.weights, ends, counts.n_blocks, part) for part in parts]
    return np.concatenate(run_tasks(_resampled, tasks, what="resampling the log"))


def check_room_for_resampling(edges: int, outcomes: int, free: float | None) -> None:
    """An error, told before resampling begins, if a batch of resamples of so many transitions would not fit."""
    need = 8.0 * BATCH * edges * (4 + outcomes)
    if free is not None and need > free:
        raise InvalidLogError(
            f"{BATCH} resamples of {edges} distinct transitions need about {need / 1e9:.3g} GB; {free / 1e9:.3g} GB "
            "are free. Hint: evaluate_log(..., checks=False) leaves the bootstrap out; coarser states make fewer"
        )


def _resampled(
    model: ResampledModel,
    starts: FloatArray,
    ends: FloatArray,
    blocks: int,
    batches: list[tuple[int, np.random.SeedSequence]],
) -> FloatArray:
    drawn = (np.random.default_rng(seed).exponential(size=(blocks, size)) for size, seed in batches)
    return np.concatenate(
        [np.einsum("qs,bsk->bqk", starts, model.values(weights, ends), optimize=True) for weights in drawn]
    )


def _sum_matrix(index: IntArray, size: int) -> sparse.csr_array:
    """(size, n) matrix that sums entries with the same index."""
    return sparse.csr_array((np.ones(len(index)), (index, np.arange(len(index)))), shape=(size, len(index)))
