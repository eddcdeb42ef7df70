r"""Does the recorded state say all that matters of the past? Tested, and mended where it can be.

A verdict from a log with discrete states takes what follows a decision to depend on that decision alone,

.. math:: (s_{t+1}, g_t) \perp (s_{t-1}, a_{t-1}) \mid (s_t, a_t) .

Where this is rejected, the state is deepened by past decisions, :math:`(s_t;\, s_{t-1}, a_{t-1})`, and so on until the
test is quiet. A deeper state cures what the past explains. It does not cure reasons that were never recorded: under
those the test falls quiet as well, so the first rejection is always told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

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


@dataclass(frozen=True, eq=False)
class Transitions:
    """What follows the decisions of a log with numbered states, as whole numbers."""

    rows: LoggedRows
    shown: IntArray  # (n,) states as recorded; where those of the rows are deeper, the next one holds the past by name

    @cached_property
    def pair(self) -> IntArray:
        """(n,) number of state and action."""
        return np.asarray(self.rows.states.astype(np.int64) * (int(self.rows.actions.max()) + 1) + self.rows.actions)

    @cached_property
    def responses(self) -> list[IntArray]:
        """(n,) each: the next state (-1 at the end), then each outcome in bins of its pair."""
        rows = self.rows
        after = np.where(rows.follow >= 0, np.append(self.shown, 0)[rows.follow], -1)
        gains = [binned(self.pair, column) for column in rows.gains.T if (column != column[0]).any()]
        return [after.astype(np.int64), *gains]

    def p_value(self, factor: IntArray, *, once: bool = False) -> float:
        """Of "what follows a decision depends on a factor (n,)": the least of the responses', times their number.

        Rows whose successor was not recorded are left out; with `once`, so are all but the first time that an episode
        makes a decision in a state: how often it comes back depends on what follows, as if episodes were different.
        """
        known = self.rows.follow >= -1
        if once:
            known = known & self._first_times
        if not known.any():
            return 1.0
        found = [pooled_chi2(self.pair[known], factor[known], part[known]).p_value for part in self.responses]
        return min(1.0, len(found) * min(found))

    @cached_property
    def _first_times(self) -> BoolArray:
        _, first = np.unique(self.rows.episode * (int(self.pair.max()) + 1) + self.pair, return_index=True)
        found = np.zeros(len(self.pair), dtype=np.bool_)
        found[first] = True
        return found


def transitions_of(rows: LoggedRows) -> Transitions:
    """The transitions of a log as it is."""
    return Transitions(rows, rows.states)


def history_p_value(transitions: Transitions) -> float:
    """P-value of "what follows a decision depends on the decision before"."""
    before = previous_row(transitions.rows)
    return transitions.p_value(np.where(before >= 0, transitions.pair[before], -1))


def deepen(transitions: Transitions, n_states: int, *, deepest: int = DEEPEST) -> Deepened:
    """States deepened by past decisions until the history test is quiet, or `deepest` is reached.

    A past that too few rows share stays with its state's other rare pasts: support is worth more than their difference.
    """
    rows, state = transitions.rows, transitions.shown
    original, p_values, deep = np.arange(n_states), [history_p_value(transitions)], rows
    before, wide = previous_row(rows), int(rows.actions.max(initial=0)) + 1
    while p_values[-1] < REJECTED and len(p_values) <= deepest:
        way = np.where(before >= 0, deep.states[before] * wide + rows.actions[before] + 2, 1)
        label, original = _with_past(state.astype(np.int64), way, n_states)
        deep = replace(rows, states=label)
        p_values.append(history_p_value(Transitions(deep, state)))
    return Deepened(deep, original, tuple(p_values))


def _with_past(state: IntArray, way: IntArray, n_states: int) -> tuple[IntArray, IntArray]:
    """(n,) numbers of (state, way here), rare ways merged, and the state of each number; all states keep one."""
    width = int(way.max(initial=0)) + 1
    _, number, count = np.unique(state * width + way, return_inverse=True, return_counts=True)
    shown = state * width + np.where(count[number] < OFTEN, 0, way)
    every = np.arange(n_states, dtype=np.int64) * width  # a state's rare pasts, also where there are none
    keys, label = np.unique(np.append(shown, every), return_inverse=True)
    return label[: len(state)], keys // width
