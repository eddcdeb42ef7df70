"""A policy written out for every state of a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polidiff.errors import InvalidPolicyError
from polidiff.policies.protocol import check_probabilities, one_hot
from polidiff.records.arrays import AnyArray, FloatArray, IntArray, read_only

MOST_ENTRIES = 2**27  # of a table; a gigabyte
MOST_ACTIONS = 2**16  # where only the largest index tells how many there are


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """Probabilities of actions for every state."""

    table: FloatArray  # (n_states, n_actions), rows sum to 1

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return int(self.table.shape[1])

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Rows of the table."""
        index = np.asarray(states)
        if index.ndim == 2 and index.shape[1] == 1:
            index = index[:, 0]
        if index.ndim != 1:
            raise InvalidPolicyError(
                f"a table policy answers numbers of states; it was asked about states of shape {index.shape[1:]}"
            )
        index = index.astype(np.int64)
        off = np.flatnonzero((index < 0) | (index >= len(self.table)))
        if off.size:
            raise InvalidPolicyError(
                f"a table policy of {len(self.table)} states was asked about state {int(index[off[0]])}"
            )
        rows: FloatArray = self.table[index]
        return rows


def table_policy(array: AnyArray, n_actions: int | None = None, n_states: int | None = None) -> TablePolicy:
    """A policy from (S,) action indices or (S, A) probabilities."""
    if array.ndim == 1:
        table = one_hot(*_checked_actions(array, n_actions))
    elif array.ndim == 2:
        if n_actions is not None and array.shape[1] != n_actions:
            raise InvalidPolicyError(
                f"a policy table must have {n_actions} columns, one per action; got shape {array.shape}"
            )
        table = check_probabilities(array)
    else:
        raise InvalidPolicyError(
            f"a policy table must be (S,) action indices or (S, A) probabilities; got shape {array.shape}"
        )
    if n_states is not None and len(table) != n_states:
        raise InvalidPolicyError(f"a policy table must have {n_states} rows, one per state; got {len(table)}")
    return TablePolicy(read_only(table))


def _check_whole(array: AnyArray) -> None:
    """An error unless every entry is a finite number that a whole number can hold."""
    off = np.flatnonzero(~(np.abs(array) < 2**53)) if array.dtype.kind == "f" else np.zeros(0, dtype=np.int64)
    if off.size:
        raise InvalidPolicyError(
            f"a policy of shape (S,) must hold action indices; entry {off[0]} is {array[off[0]]} "
            f"({off.size} of {len(array)} are off)"
        )


def _checked_actions(array: AnyArray, n_actions: int | None) -> tuple[IntArray, int]:
    _check_whole(array)
    actions = array.astype(np.int64)
    if not np.array_equal(actions, array):
        where = int(np.flatnonzero(actions != array)[0])
        raise InvalidPolicyError(
            f"a policy of shape (S,) must hold action indices; entry {where} is {array[where]!r}. "
            "Hint: pass probabilities as an (S, A) array"
        )
    count = n_actions if n_actions is not None else int(actions.max(initial=0)) + 1
    if count * len(actions) > MOST_ENTRIES or (n_actions is None and count > MOST_ACTIONS):
        raise InvalidPolicyError(
            f"a table of {len(actions)} states and {count} actions is too large (at most {MOST_ENTRIES} entries, "
            f"{MOST_ACTIONS} actions). Hint: action indices count from 0 without gaps; a function is a policy too"
        )
    off = np.flatnonzero((actions < 0) | (actions >= count))
    if off.size:
        raise InvalidPolicyError(
            f"actions must be between 0 and {count - 1}; state {off[0]} has {actions[off[0]]} "
            f"({off.size} of {len(actions)} states are off)"
        )
    return actions, count
