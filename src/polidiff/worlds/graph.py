"""Which states are reached, which surely end, which cannot: questions about the graph of moves alone."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from polidiff.records.arrays import AnyArray, BoolArray, IntArray


def reachable_from(moves: sparse.csr_array, sources: BoolArray) -> BoolArray:
    """States that can be reached from `sources` (these included) along `moves` (S, S)."""
    reached = np.array(sources, dtype=np.bool_)
    frontier = np.flatnonzero(reached)
    indptr, indices = moves.indptr, moves.indices
    while frontier.size:
        successors = _rows(indptr, indices, frontier)
        fresh = np.unique(successors[~reached[successors]])
        reached[fresh] = True
        frontier = fresh
    return reached


def surely_ending(moves: sparse.csr_array, ends: BoolArray) -> BoolArray:
    """States from which the walk reaches `ends` with probability 1.

    A state fails when it can reach a state that cannot reach an end.
    """
    backwards = sparse.csr_array(moves.T)
    can_end = reachable_from(backwards, ends)
    return ~reachable_from(backwards, ~can_end)


def closed_loop(moves: sparse.csr_array, among: BoolArray) -> IntArray:
    """States of one closed class (a loop never left) within `among`, lowest state first; empty if there is none."""
    index = np.flatnonzero(among)
    inside = sparse.csr_array(moves[index][:, index])
    count, label = connected_components(inside, directed=True, connection="strong")
    leaves = np.zeros(count, dtype=np.bool_)
    full = sparse.coo_array(moves[index])
    position = np.full(moves.shape[0], -1)
    position[index] = label
    leaves[label[full.row[position[full.col] != label[full.row]]]] = True
    closed = np.flatnonzero(~leaves[label])
    if not closed.size:
        return np.zeros(0, dtype=np.int64)
    return np.asarray(index[label == label[closed[0]]], dtype=np.int64)


def _rows(indptr: AnyArray, indices: AnyArray, rows: IntArray) -> IntArray:
    counts = indptr[rows + 1] - indptr[rows]
    total = int(counts.sum())
    offsets = np.repeat(indptr[rows] - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
    return np.asarray(indices[offsets + np.arange(total)], dtype=np.int64)
