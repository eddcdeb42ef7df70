"""What a log gives the estimators: numbered states (or cells of features), counts, starts, and policies as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polidiff.evaluation.logged.counts import HALVES, Counts, count_log
from polidiff.evaluation.logged.policies import is_logs, logged_shares, state_table
from polidiff.records.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from polidiff.worlds.log import Log


@dataclass(frozen=True, eq=False)
class CountedLog:
    """A log, counted."""

    counts: Counts
    names: tuple[str, ...]  # of the states or cells
    start_state: IntArray  # (n_starts,) state of each logged start
    start_episodes: IntArray  # (n_starts,)
    average: Callable[[Any], FloatArray]  # policy -> (S, A) probabilities
    row_state: Callable[[], IntArray]  # state or cell of every logged row that is held

    def table(self, policy: Any) -> FloatArray:
        """Probabilities (S, A) of a policy; of "log", the logged shares."""
        if is_logs(policy):
            return logged_shares(self.counts.edges.visits)
        return self.average(policy)


def counted_log(
    log: Log,
    policies: Sequence[Any] = (),
    regions: Sequence[Any] = (),
    *,
    seed: int = 0,
    blocks: int = HALVES,
) -> CountedLog:
    """A log counted over its states, or over cells fitted to policies and regions if its states are features.

    Two blocks of episodes are there since the log was read; more of them show over how many episodes a pair is spread.
    """
    if not log.discrete:
        from polidiff.evaluation.logged.cells import count_cells_of

        return count_cells_of(log, policies, regions, seed=seed)
    counts = count_log(log, blocks=blocks)
    starts = log.starts.astype(np.int64)
    return CountedLog(
        counts, log.states, starts, log.start_counts, lambda p: state_table(log, p), lambda: log.rows.states
    )
