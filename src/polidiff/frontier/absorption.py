"""Which policies end for sure, and from where: questions about the graph of moves alone.

A row per decision says where it may lead (`moves`, dense or sparse, all entries at least 0), `state` where it is taken,
`leaks` whether the episode may end there. A policy takes one row per state.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from scipy import sparse

from polidiff.records.arrays import AnyArray, BoolArray, IntArray
from polidiff.worlds.checks import reachable_from, surely_ending

Moves: TypeAlias = AnyArray | sparse.csr_array | sparse.csr_matrix
LEAK = 1e-9  # what a row of probabilities lacks to 1 above which the episode may end there


def leaking(rows: Moves) -> BoolArray:
    """Which rows of probabilities may end the episode."""
    return np.asarray(np.asarray(rows.sum(axis=1)).ravel() < 1 - LEAK)


def leads_to(moves: Moves, states: BoolArray) -> BoolArray:
    """Which rows may lead to one of the states."""
    return np.asarray(moves @ states.astype(np.float64) > 0)


def ending_states(moves: Moves, leaks: BoolArray) -> BoolArray:
    """Which states of a policy can end; one row per state."""
    ends = leaks.copy()
    while not ends.all():
        more = ends | leads_to(moves, ends)
        if (more == ends).all():
            break
        ends = more
    return np.asarray(ends, dtype=np.bool_)


def ending_rows(moves: Moves, state: IntArray, leaks: BoolArray, usable: BoolArray, n_states: int) -> BoolArray:
    """Rows that a policy which ends for sure from everywhere may use.

    The largest set of usable rows that never lead out of the states that can reach an end through the set.
    """
    while True:
        ends = np.zeros(n_states, dtype=np.bool_)
        while True:
            more = ends.copy()
            more[state[usable & (leaks | leads_to(moves, ends))]] = True
            if (more == ends).all():
                break
            ends = more
        safe = usable & ends[state] & ~leads_to(moves, ~ends)
        if (safe == usable).all():
            return usable
        usable = safe


def ending_choice(
    moves: Moves, state: IntArray, leaks: BoolArray, wished: IntArray, usable: BoolArray | None = None
) -> IntArray:
    """Rows of a policy that ends wherever one can, and keeps to `wished` (−1: no wish) in the states where that ends.

    Elsewhere a state takes its first usable row that leads nearer to an end; −1 stays where none does.
    """
    choice, ends = wished.copy(), np.zeros(len(wished), dtype=np.bool_)
    while not ends.all():
        mine = np.flatnonzero(choice >= 0)
        grown = ends.copy()
        grown[mine[leaks[choice[mine]] | leads_to(moves[choice[mine]], ends)]] = True
        if (grown == ends).all():
            towards = ~ends[state] & (leaks | leads_to(moves, ends))
            rows = np.flatnonzero(towards if usable is None else towards & usable)
            states, first = np.unique(state[rows], return_index=True)
            if not len(states):
                break
            choice[states] = rows[first]
            grown[states] = True
        ends = grown
    return choice


def all_end(moves: Moves, state: IntArray, leaks: BoolArray, n_states: int) -> bool:
    """Whether every policy ends for sure: no set of states can be kept inside."""
    if leaks.all():
        return True
    inside = np.ones(n_states, dtype=np.bool_)
    while True:
        stays = ~leaks & ~leads_to(moves, ~inside) & inside[state]
        kept = np.zeros(n_states, dtype=np.bool_)
        kept[state[stays]] = True
        if (kept == inside).all():
            return not inside.any()
        inside = kept


def reached_states(moves: Moves, sources: BoolArray) -> BoolArray:
    """States that can be reached along the moves (n, n) of one policy."""
    if isinstance(moves, np.ndarray):
        return _closure(moves.T > 0, sources)
    return reachable_from(sparse.csr_array(moves), sources)


def surely_ends(moves: Moves) -> BoolArray:
    """States from which the episode surely ends, for the moves (n, n) of one policy."""
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
