"""What single changes do, from a log: the current policy with one region's change, and with all changes but it.

Every such policy is judged as any proposed policy is (`compare_log`), so its interval knows what nobody has tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polidiff.evaluation.comparison import Effects, RegionChanges
from polidiff.evaluation.logged.compare import compare_log
from polidiff.evaluation.logged.counted_log import CountedLog
from polidiff.policies import one_hot
from polidiff.records.arrays import AnyArray, FloatArray
from polidiff.records.explanation import RegionEffect

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

MOST_JUDGED = 5  # regions, the most visited first: each costs two comparisons over the whole log


def logged_effects(
    log: Log,
    policies: tuple[Any, Any],
    changes: RegionChanges,
    share: Callable[[int], FloatArray],
    *,
    counted: CountedLog,
    level: float,
    seed: int,
) -> Effects:
    """Effects of single changes; `share` (S,) tells how much of each state or cell of the log lies in a region."""
    changes = replace(changes, asked=changes.asked[:MOST_JUDGED])
    old, new = (counted.table(policy) for policy in policies)
    family = 2 * len(changes.asked) * len(log.outcomes)
    tables = replace(counted, average=lambda p: p.table if isinstance(p, MixedTable) else counted.average(p))

    def difference(table: FloatArray) -> dict[str, Any]:
        found = compare_log(
            log, policies[0], MixedTable(table), level=level, family=family, counted=tables, lines=False, seed=seed
        )
        return {verdict.outcome: verdict.difference for verdict in found.verdicts[0]}

    effects = {}
    for k in changes.asked:
        inside = share(k)[:, None]
        effects[k] = RegionEffect(difference(old + inside * (new - old)), difference(new + inside * (old - new)))
    return effects


@dataclass(frozen=True, eq=False)
class MixedTable:
    """A mix of two policies over the states or cells that a log was counted in."""

    table: FloatArray  # (S, A)


@dataclass(frozen=True, eq=False)
class Inside:
    """Not a policy but a question in its form: the first action inside a region, the second outside."""

    changes: RegionChanges
    region: int
    n_actions: int

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Averaged over a cell, the first column is the share of the cell that lies in the region."""
        return one_hot(1 - self.changes.covers(states, self.region).astype(np.int64), self.n_actions)
