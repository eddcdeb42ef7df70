r"""Does the recorded state say all that matters of the past? Tested, and mended where it can be.

A verdict from a log with discrete states takes what follows a decision to depend on that decision alone,

.. math:: (s_{t+1}, g_t) \perp (s_{t-1}, a_{t-1}) \mid (s_t, a_t) .

Where this is rejected, the state is deepened by past decisions, :math:`(s_t;\, s_{t-1}, a_{t-1})`, and so on until the
test is quiet. A deeper state cures what the past explains. It does not cure reasons that were never recorded: under
those the test falls quiet as well, so the first rejection is always told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polidiff.evaluation.assumptions.pooled_chi2 import binned, pooled_chi2
from polidiff.records.arrays import BoolArray, IntArray
from polidiff.worlds.log_rows import LoggedRows

REJECTED = 0.001  # below this an assumption has failed
DOUBTED = 0.0025  # below this it is doubtful; five tests at this level alarm in at most 1.25 % of clean logs
DEEPEST = 3  # past decisions that a state may be deepened by
OFTEN = 10  # rows that a past must have to become a state of its own


@dataclass(frozen=True, eq=False)
class Deepened:
    """A log whose states know some of the past."""

    rows: LoggedRows  # with numbers of deeper states
    original: IntArray  # (deeper states,) the state that each belongs to: a policy's table is ``table[original]``
    p_values: tuple[float, ...]  # of the history test with 0, 1, … past decisions in the state

    @property
    def depth(self) -> int:
        """Past decisions in the state."""
        return len(self.p_values) - 1

    @property
    def quiet(self) -> bool:
        """Whether the test no longer rejects."""
        return self.p_values[-1] >= REJECTED


def previous_row(rows: LoggedRows) -> IntArray:
    """(n,) the row that each row follows; -1 where an episode begins or steps are missing.

    >>> one = LoggedRows(np.zeros(3), np.zeros(3, dtype=int), np.array([0, 0, 1]), np.array([1, -1, -1]),
    ...                  np.zeros((3, 1)), None)
    >>> previous_row(one)
    array([-1,  0, -1])
    """
    before = np.full(len(rows.follow), -1, dtype=np.int64)
    went_on = np.flatnonzero(rows.follow >= 0)
    before[rows.follow[went_on]] = went_on
    return before


def followed(rows: LoggedRows) -> BoolArray:
    """(n,) whether what came next was recorded: a row, or the end."""
    return np.asarray(rows.follow >= -1)


def responses(rows: LoggedRows, pair: IntArray, shown: IntArray) -> list[IntArray]:
    """(n,) each, as whole numbers: the next state (-1 at the end), then each outcome in bins of its pair."""
    after = np.where(rows.follow >= 0, np.append(shown, 0)[rows.follow], -1)
    gains = [binned(pair, column) for column in rows.gains.T if (column != column[0]).any()]
    return [after.astype(np.int64), *gains]


def depends_on(rows: LoggedRows, factor: IntArray, shown: IntArray | None = None, *, once: bool = False) -> float:
    """P-value of "what follows a decision depends on a factor (n,)": the least of the responses', times their number.

    Rows whose successor was not recorded are left out; with `once`, so are all but the first time that an episode makes
    a decision in a state: how often it comes back depends on what follows, which would look like a factor of episodes.
    `shown` (n,) are the states as recorded, where those of the rows
    are deeper: a deeper next state holds the past by its name.
    """
    known = followed(rows)
    if not known.any():
        return 1.0
    pair = rows.states.astype(np.int64) * (int(rows.actions.max()) + 1) + rows.actions
    parts = responses(rows, pair, rows.states if shown is None else shown)
    if once:
        _, first = np.unique(rows.episode * (int(pair.max()) + 1) + pair, return_index=True)
        known &= np.isin(np.arange(len(pair)), first)
    found = [pooled_chi2(pair[known], factor[known], part[known]).p_value for part in parts]
    return min(1.0, len(found) * min(found))


def history_p_value(rows: LoggedRows, shown: IntArray | None = None) -> float:
    """P-value of "what follows a decision depends on the decision before", for numbered states; `shown` as above."""
    before = previous_row(rows)
    pair = rows.states.astype(np.int64) * (int(rows.actions.max()) + 1) + rows.actions
    return depends_on(rows, np.where(before >= 0, pair[before], -1), shown)


def deepen(rows: LoggedRows, n_states: int, *, deepest: int = DEEPEST) -> Deepened:
    """States deepened by past decisions until the history test is quiet, or `deepest` is reached.

    A past that too few rows share stays with its state's other rare pasts: support is worth more than their difference.
    """
    original, p_values, state = np.arange(n_states), [history_p_value(rows)], rows.states
    deep = rows
    before, wide = previous_row(rows), int(rows.actions.max(initial=0)) + 1
    while p_values[-1] < REJECTED and len(p_values) <= deepest:
        way = np.where(before >= 0, deep.states[before] * wide + rows.actions[before] + 2, 1)
        label, original = _with_past(state.astype(np.int64), way, n_states)
        deep = replace(rows, states=label)
        p_values.append(history_p_value(deep, state))
    return Deepened(deep, original, tuple(p_values))


def _with_past(state: IntArray, way: IntArray, n_states: int) -> tuple[IntArray, IntArray]:
    """(n,) numbers of (state, way here), rare ways merged, and the state of each number; all states keep one."""
    width = int(way.max(initial=0)) + 1
    _, number, count = np.unique(state * width + way, return_inverse=True, return_counts=True)
    shown = state * width + np.where(count[number] < OFTEN, 0, way)
    every = np.arange(n_states, dtype=np.int64) * width  # a state's rare pasts, also where there are none
    keys, label = np.unique(np.append(shown, every), return_inverse=True)
    return label[: len(state)], keys // width
