"""How often rules are met in the rows of logged episodes.

What rules meet is summed over parts of a log, so that it need not be held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from polidiff.records.arrays import IntArray
from polidiff.records.rule import Rule, first_match
from polidiff.worlds.log_rows import LoggedRows

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

LATEST = 4096  # decisions before a first meeting that are told apart
COUNTING = "counting all rows"


@dataclass(frozen=True, eq=False)
class RuleCoverage:
    """Rows and episodes in which each rule is the first to cover."""

    rows: IntArray  # (R,)
    first: IntArray  # (R, T) episodes that meet the rule for the first time after so many decisions
    people: IntArray  # (R,) distinct people that meet the rule; of several parts of a log, at least as many
    apart: bool  # whether no person is in two parts of a log: every episode is another's

    def __add__(self, other: RuleCoverage) -> RuleCoverage:
        """What was seen in two parts of a log."""
        width = max(self.first.shape[1], other.first.shape[1])
        first = np.zeros((len(self.rows), width), dtype=np.int64)
        for part in (self.first, other.first):
            first[:, : part.shape[1]] += part
        people = self.people + other.people if self.apart else np.maximum(self.people, other.people)
        return RuleCoverage(self.rows + other.rows, first, people, self.apart)

    @property
    def episodes(self) -> IntArray:
        """(R,) that meet each rule."""
        return np.asarray(self.first.sum(axis=1))

    def typical_first(self, rule: int) -> float:
        """Decisions before a rule is first met: the median over the episodes that meet it; endless if none does."""
        below = np.cumsum(self.first[rule])
        if not below[-1:].sum():
            return float("inf")
        middle = [np.searchsorted(below, place, side="right") for place in ((below[-1] - 1) // 2, below[-1] // 2)]
        return float(np.mean(middle))


def cover_all_rows(log: Log, rules: Sequence[Rule]) -> RuleCoverage:
    """What is seen in all rows of a log, whether they are held or not."""
    if not log.sampled:
        return rule_coverage(log.rows, rules)
    return reduce(add, log.count_parts(count_batches, tuple(rules), what=COUNTING))


def count_batches(batches: Iterator[LoggedRows], rules: tuple[Rule, ...]) -> RuleCoverage:
    """What is seen in the rows of whole episodes that come in batches."""
    return reduce(add, (rule_coverage(rows, rules) for rows in batches))


def rule_coverage(rows: LoggedRows, rules: Sequence[Rule]) -> RuleCoverage:
    """What is seen in the rows of whole episodes."""
    where, count = np.asarray(first_match(list(rules), rows.states)), len(rules)
    at = np.minimum(np.arange(len(where)) - np.flatnonzero(rows.first)[rows.episode], LATEST - 1)
    first = np.zeros((count, int(at.max(initial=0)) + 1), dtype=np.int64)
    for k in range(count):
        inside = np.flatnonzero(where == k)
        _, met = np.unique(rows.episode[inside], return_index=True)
        first[k] = np.bincount(at[inside[met]], minlength=first.shape[1])
    people = np.array([len(np.unique(rows.person[where == k])) for k in range(count)], dtype=np.int64)
    met = np.bincount(where[where >= 0], minlength=count)
    return RuleCoverage(met, first, people, rows.unit is None)
