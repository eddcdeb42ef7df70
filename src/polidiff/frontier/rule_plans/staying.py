"""Which plans end, and from where: questions about the graph of a small process, on plain arrays.

A row whose probabilities sum to less than 1 may end the episode at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from polidiff.records.arrays import BoolArray
from polidiff.worlds.graph import reachable_from, surely_ending

LEAK = 1e-9


def leaking(rows: Any) -> BoolArray:
    """Which rows of probabilities may end the episode."""
    return np.asarray(np.asarray(rows.sum(axis=1)).ravel() < 1 - LEAK)


def reached(moves: Any, sources: BoolArray) -> BoolArray:
    """States that can be reached along moves (n, n), dense or sparse."""
    if isinstance(moves, np.ndarray):
        return _closure(moves.T > 0, sources)
    return reachable_from(sparse.csr_array(moves), sources)


def ending(moves: Any) -> BoolArray:
    """States from which the episode surely ends, for the moves (n, n) of one plan."""
    leak = leaking(moves)
    if isinstance(moves, np.ndarray):
        return ~_closure(moves > 0, ~_closure(moves > 0, leak))
    return surely_ending(sparse.csr_array(moves), leak)


def _closure(towards: BoolArray, seeds: BoolArray) -> BoolArray:
    """The seeds, and every i with towards[i, j] for some j already in."""
    inside = np.array(seeds, dtype=np.bool_)
    fresh = inside
    while fresh.any():
        joined = towards[:, fresh].any(axis=1) & ~inside
        inside |= joined
        fresh = joined
    return inside
