"""What logged episodes meet.

Where states are labels, the proposed policy is followed in the model that the log supports, which is a table. Where
states are features there are no moves to follow it in: which regions an episode meets is read off the logged episodes
themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from polidiff.evaluation.log import EstimatedComparison, RowsComparison
from polidiff.journeys import table
from polidiff.journeys.record import Journeys, Meetings
from polidiff.records.rule import Rule

if TYPE_CHECKING:
    from polidiff.worlds.log import Log


def follow(
    log: Log,
    comparison: EstimatedComparison | RowsComparison,
    rules: Sequence[Rule],
    *,
    seed: int,
    episodes: int,
) -> Journeys | Meetings:
    """Episodes of the proposed policy in the estimated model, or the logged episodes."""
    if isinstance(comparison, EstimatedComparison):
        return table.follow(comparison.place, comparison, rules, seed=seed, episodes=episodes)
    coverage = comparison.coverage(rules)
    first = np.array([coverage.typical_first(k) for k in range(len(rules))])
    return Meetings(coverage.episodes / max(1, log.check.episodes), first, comparison.one_step)
