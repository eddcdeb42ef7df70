r"""Cells told apart by how they were reached, so that what a cell hides shows in the interval.

A cell stands for all its states in the shares in which the *log* met them; a policy that is not the logging one may
meet others. The same rows say so: let r be the number of a policy's own decisions in a row that led to a logged row
(without end if the episode has not left the policy yet). The state (cell, :math:`r \ge k`) is as good a state as the
cell, whatever k, and with k rising its rows come to be those that the policy meets,

.. math:: P(s \mid c,\, r \ge k) \longrightarrow P_\pi(s \mid c),

at the price of fewer draws, which the careful interval knows how to count. Each cell takes the largest k that leaves
enough of the policy's own decisions. Before that, cells are cut where the policies act differently, so that none is
judged by its average. Where every episode is one decision there is no way to a cell, and nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.worlds.log_rows import LoggedRows

ENDLESS = np.iinfo(np.int64).max
LEVELS = (ENDLESS, 8, 4, 2, 1)  # own decisions in a row, most first
ENOUGH = 10  # of a policy's own decisions, among the rows of a cell that its own decisions led to
OWN = 0.5  # a decision is a policy's own if its probability is at least this share of the largest


def acted_apart(tops: Sequence[IntArray], n_actions: int) -> IntArray:
    """(n,) rows in which all policies take the same actions (n,) share a number below A to the power of the policies.

    >>> acted_apart([np.array([0, 0]), np.array([0, 1])], 2)
    array([0, 1])
    """
    number = np.zeros(len(tops[0]), dtype=np.int64)
    for top in tops:
        number = number * n_actions + top
    return number


def own_way(rows: LoggedRows, table: FloatArray, top: IntArray) -> tuple[BoolArray, IntArray]:
    """(n,) whether each decision is a policy's (n, A) own, and how many of its own in a row came right before."""
    index = np.arange(len(table))
    own = table[index, rows.actions] >= OWN * table[index, top]
    return own, own_decisions_before(rows, own)


def own_counts(cell: IntArray, own: BoolArray, run: IntArray, size: int) -> IntArray:
    """(size, levels) own decisions in each cell to which at least so many own decisions in a row have led."""
    return np.column_stack([np.bincount(cell[own & (run >= k)], minlength=size) for k in LEVELS])


def way_levels(counts: IntArray) -> IntArray:
    """(size,) own decisions in a row asked for in each cell: the most that leave enough of the policy's own."""
    enough = counts >= ENOUGH
    return np.where(enough.any(axis=1), np.array(LEVELS)[enough.argmax(axis=1)], 0)


def own_decisions_before(rows: LoggedRows, own: BoolArray) -> IntArray:
    """(n,) own decisions in a row right before each row; without end where its episode has seen no other yet."""
    index = np.arange(len(own))
    last = np.append(-1, np.maximum.accumulate(np.where(own, -1, index))[:-1])
    begin = np.flatnonzero(rows.first)[rows.episode]
    return np.where(last < begin, ENDLESS, index - 1 - last)
