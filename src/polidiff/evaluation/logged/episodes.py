"""Sums along logged episodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.worlds.log_rows import LoggedRows
from polidiff.worlds.shards.transition_counts import CUT


def outcomes_to_come(rows: LoggedRows, discount: float = 1.0) -> FloatArray:
    r"""(n, M) what each outcome adds from a row to the end of its record, :math:`\sum_{u \ge t} \gamma^{u-t} g_u`."""
    total = np.array(rows.gains)
    if discount == 1.0:
        running = np.cumsum(rows.gains[::-1], axis=0)[::-1]
        last = np.flatnonzero(np.append(np.diff(rows.episode) > 0, True))
        after = np.vstack([running[1:], np.zeros((1, total.shape[1]))])[last]
        return np.asarray(running - after[rows.episode])
    for row in range(len(total) - 2, -1, -1):
        if rows.episode[row] == rows.episode[row + 1]:
            total[row] += discount * total[row + 1]
    return total


def some_episodes(rows: LoggedRows, keep: BoolArray) -> LoggedRows:
    """The rows of some episodes (n,), renumbered."""
    place = np.cumsum(keep) - 1
    follow = rows.follow[keep]
    _, episode = np.unique(rows.episode[keep], return_inverse=True)
    return replace(
        rows,
        states=rows.states[keep],
        actions=rows.actions[keep],
        episode=episode,
        follow=np.where(follow >= 0, place[follow], follow),
        gains=rows.gains[keep],
        probability=None if rows.probability is None else rows.probability[keep],
        hashed=None if rows.hashed is None else rows.hashed[keep],
        unit=None if rows.unit is None else rows.unit[keep],
    )


def whole_episodes(rows: LoggedRows) -> BoolArray:
    """(n,) rows of episodes whose record runs to the end without a cut or a gap."""
    broken = np.bincount(rows.episode, rows.follow == CUT, rows.n_episodes) > 0
    return np.asarray(~broken[rows.episode])
