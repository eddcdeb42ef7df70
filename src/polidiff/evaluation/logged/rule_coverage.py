"""How often rules are met by the rows of a log, and between which numbers its features lie: sums over parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.rule import Rule, first_match
from polidiff.worlds.log_rows import LoggedRows

LATEST = 4096  # decisions before a first meeting that are told apart


@dataclass(frozen=True, eq=False)
class RuleCoverage:
    """Rows and episodes in which each rule is the first to cover."""

    rows: IntArray  # (R,)
    first: IntArray  # (R, T) episodes that meet the rule for the first time after so many decisions
    low: FloatArray  # (d,) of each feature; NaN where it has no number
    high: FloatArray  # (d,)
    people: IntArray  # (R,) distinct people that meet the rule; of several parts of a log, at least as many
    apart: BoolArray  # () whether no person is in two parts of a log: every episode is another's

    def __add__(self, other: RuleCoverage) -> RuleCoverage:
        """What was seen in two parts of a log."""
        width = max(self.first.shape[1], other.first.shape[1])
        first = np.zeros((len(self.rows), width), dtype=np.int64)
        for part in (self.first, other.first):
            first[:, : part.shape[1]] += part
        low, high = np.fmin(self.low, other.low), np.fmax(self.high, other.high)
        people = self.people + other.people if self.apart else np.maximum(self.people, other.people)
        return RuleCoverage(self.rows + other.rows, first, low, high, people, self.apart)

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


def rule_coverage(rows: LoggedRows, rules: Sequence[Rule], x: FloatArray) -> RuleCoverage:
    """What is seen in the rows of whole episodes, with encoded features (n, d)."""
    where, count = np.asarray(first_match(list(rules), rows.states)), len(rules)
    at = np.minimum(np.arange(len(where)) - np.flatnonzero(rows.first)[rows.episode], LATEST - 1)
    first = np.zeros((count, int(at.max(initial=0)) + 1), dtype=np.int64)
    for k in range(count):
        inside = np.flatnonzero(where == k)
        _, met = np.unique(rows.episode[inside], return_index=True)
        first[k] = np.bincount(at[inside[met]], minlength=first.shape[1])
    low, high = (np.array([end.reduce(column) for column in x.T]) for end in (np.fmin, np.fmax))
    people = np.array([len(np.unique(rows.person[where == k])) for k in range(count)], dtype=np.int64)
    met = np.bincount(where[where >= 0], minlength=count)
    return RuleCoverage(met, first, low, high, people, np.array(rows.unit is None))
