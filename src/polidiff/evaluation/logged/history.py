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

from polidiff.policies import top_actions
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.worlds.log_rows import LoggedRows

ENDLESS = np.iinfo(np.int64).max
LEVELS = (ENDLESS, 8, 4, 2, 1)  # own decisions in a row, most first
ENOUGH = 10  # of a policy's own decisions, among the rows of a cell that its own decisions led to
OWN = 0.5  # a decision is a policy's own if its probability is at least this share of the largest


def acted_apart(tables: Sequence[FloatArray]) -> IntArray:
    """(n,) rows in which all policies (n, A) act the same way share a number.

    >>> acted_apart([np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])])
    array([0, 1])
    """
    acted = np.column_stack([top_actions(table) for table in tables])
    return np.asarray(np.unique(acted, axis=0, return_inverse=True)[1]).reshape(-1)


def reached_by_own(rows: LoggedRows, cell: IntArray, table: FloatArray, counted: BoolArray) -> BoolArray:
    """(n,) whether a row was reached by enough of a policy's (n, A) own decisions for the level of its cell."""
    own = table[np.arange(len(cell)), rows.actions] >= OWN * table.max(axis=1)
    run = own_decisions_before(rows, own)
    size = int(cell.max()) + 1
    level, waiting = np.zeros(size, dtype=np.int64), np.ones(size, dtype=np.bool_)
    for k in LEVELS:
        fits = waiting & (np.bincount(cell[counted & own & (run >= k)], minlength=size) >= ENOUGH)
        level[fits] = k
        waiting &= ~fits
    return np.asarray(run >= level[cell])


def own_decisions_before(rows: LoggedRows, own: BoolArray) -> IntArray:
    """(n,) own decisions in a row right before each row; without end where its episode has seen no other yet."""
    index = np.arange(len(own))
    last = np.append(-1, np.maximum.accumulate(np.where(own, -1, index))[:-1])
    begin = np.flatnonzero(rows.first)[rows.episode]
    return np.where(last < begin, ENDLESS, index - 1 - last)
