"""Checks of tables and of the graph of their moves, each with the first place where it went wrong.

Which policies end for sure, and from where: questions about the graph of moves alone.

A row per decision says where it may lead (`moves`, dense or sparse, all entries at least 0), `state` where it is taken,
`leaks` whether the episode may end there. A policy takes one row per state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from polidiff.errors import InvalidWorldError
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray, as_numbers

TOLERANCE = 1e-6

SparseMatrix: TypeAlias = Any  # any of SciPy's, which have no common type with a shape
Transitions: TypeAlias = npt.ArrayLike | Sequence[SparseMatrix]  # (S, A, S), or A times (S, S)
LARGEST = 1e100  # sums and squares of larger numbers are no numbers
FARTHEST = 1e30  # of a feature: trees read them in single precision
Moves: TypeAlias = AnyArray | sparse.csr_array | sparse.csr_matrix
LEAK = 1e-9  # what a row of probabilities lacks to 1 above which the episode may end there


def stacked_transitions(transitions: Transitions) -> tuple[sparse.csr_array, int, int]:
    """Rows s·A + a of next-state probabilities, from an (S, A, S) array or A sparse (S, S) matrices."""
    if isinstance(transitions, Sequence) and len(transitions) and sparse.issparse(transitions[0]):
        return _stack_sparse(transitions)
    array = _numbers("transitions", transitions)
    if array.ndim != 3 or array.shape[0] != array.shape[2]:
        raise InvalidWorldError(
            f"transitions must be an array (S, A, S) or one sparse (S, S) matrix per action; got shape {array.shape}"
        )
    n_states, n_actions, _ = array.shape
    return sparse.csr_array(array.reshape(n_states * n_actions, n_states)), n_states, n_actions


def _stack_sparse(matrices: Sequence[SparseMatrix]) -> tuple[sparse.csr_array, int, int]:
    n_states, n_actions = matrices[0].shape[0], len(matrices)
    for action, matrix in enumerate(matrices):
        if matrix.shape != (n_states, n_states):
            raise InvalidWorldError(
                f"each transition matrix must be ({n_states}, {n_states}); action {action} has {matrix.shape}"
            )
    by_action = sparse.csr_array(sparse.vstack(matrices, format="csr", dtype=np.float64))  # row a·S + s
    stacked = by_action[np.arange(n_states * n_actions).reshape(n_actions, n_states).T.ravel()]
    stacked.sum_duplicates()
    stacked.eliminate_zeros()  # a stored zero is no move, and must not count as one on the graph
    return stacked, n_states, n_actions


def check_transitions(stacked: sparse.csr_array, needed: BoolArray) -> None:
    """Finite, not negative, and rows that sum to 1 where `needed` (S, A)."""
    n_actions = needed.shape[1]

    def place(row: int) -> str:
        return f"state {row // n_actions}, action {row % n_actions}"

    row_of = np.repeat(np.arange(stacked.shape[0]), np.diff(stacked.indptr))
    bad = np.flatnonzero(~np.isfinite(stacked.data))
    if bad.size:
        raise InvalidWorldError(
            f"transition probabilities must be finite; {place(row_of[bad[0]])} has {stacked.data[bad[0]]}"
        )
    bad = np.flatnonzero(stacked.data < 0)
    if bad.size:
        raise InvalidWorldError(
            f"transition probabilities must be at least 0; {place(row_of[bad[0]])} has {stacked.data[bad[0]]:.4g} "
            f"({bad.size} entries are negative)"
        )
    sums = np.asarray(stacked.sum(axis=1)).ravel()
    bad = np.flatnonzero((np.abs(sums - 1) > TOLERANCE) & needed.ravel())
    if bad.size:
        raise InvalidWorldError(
            f"next-state probabilities must sum to 1; {place(int(bad[0]))} sums to {sums[bad[0]]:.4g} ({bad.size} of "
            f"{int(needed.sum())} rows are off). Hint: mark actions that do not exist with allowed=, and states that "
            "end the episode with absorbing="
        )


def check_initial(initial: npt.ArrayLike, n_states: int) -> FloatArray:
    """A distribution over states."""
    start = check_shape("initial", initial, (n_states,))
    if (start < 0).any() or abs(start.sum() - 1) > TOLERANCE:
        raise InvalidWorldError(
            f"initial must hold probabilities that sum to 1; got sum {start.sum():.4g}, smallest {start.min():.4g}"
        )
    return start / start.sum()


def check_absorbing(absorbing: npt.ArrayLike, n_states: int) -> BoolArray:
    """A flag per state, or the indices of the states that end an episode."""
    given = as_table("absorbing", absorbing)
    if given.shape == (0,):
        return np.zeros(n_states, dtype=np.bool_)
    if given.dtype == np.bool_ and given.shape == (n_states,):
        return given
    if given.ndim == 1 and np.issubdtype(given.dtype, np.integer) and given.dtype != np.bool_:
        off = given[(given < 0) | (given >= n_states)]
        if off.size:
            raise InvalidWorldError(f"absorbing must name states 0 to {n_states - 1}; it names {int(off[0])}")
        flags = np.zeros(n_states, dtype=np.bool_)
        flags[given] = True
        return flags
    raise InvalidWorldError(
        f"absorbing must be ({n_states},) true or false, or indices of states; got {given.dtype} {given.shape}"
    )


def check_allowed(allowed: npt.ArrayLike | None, absorbing: BoolArray, n_actions: int) -> BoolArray:
    """Which actions exist where, at least one in every state that does not end the episode."""
    shape = (len(absorbing), n_actions)
    if allowed is None:
        return np.ones(shape, dtype=np.bool_)
    flags = as_table("allowed", allowed)
    if flags.shape != shape:
        raise InvalidWorldError(f"allowed must have shape {shape}; got {flags.shape}")
    flags = flags.astype(np.bool_)
    none = np.flatnonzero(~flags.any(axis=1) & ~absorbing)
    if none.size:
        raise InvalidWorldError(f"every state needs an allowed action; state {none[0]} has none")
    return flags


def _numbers(name: str, value: object) -> FloatArray:
    array = as_numbers(value)
    if array is None:
        raise InvalidWorldError(f"{name} must hold numbers, in rows of the same length; got {value!r:.80}")
    return array


def as_table(name: str, value: npt.ArrayLike) -> AnyArray:
    """An array of any kind of entries, in rows of the same length."""
    try:
        return np.asarray(value)
    except ValueError:
        raise InvalidWorldError(f"{name} must have rows of the same length; got {value!r:.80}") from None


def check_shape(name: str, value: npt.ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Finite numbers of a given shape."""
    array = _numbers(name, value)
    if array.shape != shape:
        raise InvalidWorldError(f"{name} must have shape {shape}; got {array.shape}")
    bad = np.argwhere(~(np.abs(array) <= LARGEST))
    if bad.size:
        where = tuple(int(i) for i in bad[0])
        wanted = f"at most {LARGEST:g} in size" if np.isfinite(array[where]) else "finite"
        raise InvalidWorldError(f"{name} must be {wanted}; entry {where} is {array[where]} ({len(bad)} are not)")
    return array


def check_features(features: AnyArray, names: Sequence[str]) -> AnyArray:
    """Features (n, d), which are missing or no larger than can be compared."""
    if features.dtype.kind == "f":
        bad = np.argwhere(np.abs(features) > FARTHEST)
        if bad.size:
            row, column = bad[0]
            raise InvalidWorldError(
                f"feature {names[column]!r} must hold numbers within ±{FARTHEST:g} or nothing; entry {row} is "
                f"{features[row, column]} (beyond in {len(bad)}). Hint: NaN stands for what is missing"
            )
    return features


def reachable_from(moves: Moves, sources: BoolArray) -> BoolArray:
    """States that can be reached from `sources` (these included) along `moves` (S, S)."""
    if isinstance(moves, np.ndarray):
        inside = fresh = np.array(sources, dtype=np.bool_)
        while fresh.any():
            fresh = (moves[fresh] > 0).any(axis=0) & ~inside
            inside = inside | fresh
        return inside
    links, count, starts = sparse.csr_array(moves), moves.shape[0], np.flatnonzero(sources)
    targets = np.append(links.indices, starts)  # one more state, in front of the sources
    places = np.append(links.indptr, len(targets))
    graph = sparse.csr_array((np.ones(len(targets)), targets, places), shape=(count + 1, count + 1))
    reached = np.zeros(count + 1, dtype=np.bool_)
    reached[breadth_first_order(graph, count, return_predecessors=False)] = True
    return reached[:-1]


def reached_over(moves: Moves, state: IntArray, rows: BoolArray, sources: BoolArray) -> BoolArray:
    """States that some policy over some of the rows reaches from `sources`, these included."""
    taken = np.flatnonzero(rows)
    pick = sparse.csr_array((np.ones(len(taken)), (state[taken], taken)), shape=(len(sources), len(state)))
    return reachable_from(sparse.csr_array(pick @ moves), sources)


def surely_ending(moves: Moves, ends: BoolArray) -> BoolArray:
    """States from which the walk along `moves` (S, S) reaches `ends` with probability 1.

    A state fails when it can reach a state that cannot reach an end.
    """
    backwards = moves.T if isinstance(moves, np.ndarray) else sparse.csr_array(moves.T)
    return ~reachable_from(backwards, ~reachable_from(backwards, ends))


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


def leaking(rows: Moves) -> BoolArray:
    """Which rows of probabilities may end the episode."""
    return np.asarray(np.asarray(rows.sum(axis=1)).ravel() < 1 - LEAK)


def leads_to(moves: Moves, states: BoolArray) -> BoolArray:
    """Which rows may lead to one of the states."""
    return np.asarray(moves @ states.astype(np.float64) > 0)


def settled(states: BoolArray, step: Callable[[BoolArray], BoolArray]) -> BoolArray:
    """What steps that only add, or only take away, come to."""
    while True:
        after = step(states)
        if (after == states).all():
            return states
        states = after


def ending_rows(moves: Moves, state: IntArray, leaks: BoolArray, usable: BoolArray, n_states: int) -> BoolArray:
    """Rows that a policy which ends for sure from everywhere may use.

    The largest set of usable rows that never lead out of the states that can reach an end through the set.
    """

    def nearer(ends: BoolArray, rows: BoolArray) -> BoolArray:
        more = ends.copy()
        more[state[rows & (leaks | leads_to(moves, ends))]] = True
        return more

    def safe(rows: BoolArray) -> BoolArray:
        ends = settled(np.zeros(n_states, dtype=np.bool_), lambda ends: nearer(ends, rows))
        return rows & ends[state] & ~leads_to(moves, ~ends)

    return settled(usable, safe)


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

    def staying(inside: BoolArray) -> BoolArray:
        stays = np.zeros(n_states, dtype=np.bool_)
        stays[state[~leaks & ~leads_to(moves, ~inside) & inside[state]]] = True
        return stays

    return not settled(np.ones(n_states, dtype=np.bool_), staying).any()
