"""A log whose states are features as scores: its rows, the chances of their actions, and each policy against the log.

Scores of a policy are made once and used for everyone, for segments, for outcomes and for what single changes do.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polidiff.evaluation.comparison import Effects, RegionChanges
from polidiff.evaluation.logged.assessment import assess
from polidiff.evaluation.logged.policies import LOG, EstimatedPolicy, as_log_policy, is_logs
from polidiff.evaluation.scores.decisions import Decisions, deal, decisions_of
from polidiff.evaluation.scores.difference import DifferenceScores, assessed, difference_scores
from polidiff.evaluation.scores.intervals import score_intervals
from polidiff.evaluation.scores.one_step import OneStepScores, repeated_scores
from polidiff.evaluation.scores.propensity import Propensity, logging_chances, looks_written_by
from polidiff.policies import PatchedPolicy
from polidiff.records.arrays import FloatArray
from polidiff.records.explanation import RegionEffect
from polidiff.records.outcome import Interval

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

MOST_SINGLE = 500_000  # rows of one decision each that are scored: their regressions fit into memory
MOST_REPEATED = 10_000  # rows up to which changes of single regions are judged there, each by two more policies
MOST_REGIONS = 3  # so many of them


@dataclass(frozen=True, eq=False)
class ScoredLog:
    """The rows of a log with their chances; scores of policies against the log are made once each."""

    log: Log
    decisions: Decisions
    chances: Propensity
    single: OneStepScores | None  # of every action, where each row is an episode
    seed: int
    _known: dict[bytes, DifferenceScores] = field(default_factory=dict, repr=False)

    @property
    def episodes(self) -> int:
        """How many episodes are scored."""
        return int(self.decisions.episode[-1]) + 1

    def policy(self, policy: Any) -> FloatArray | None:
        """(n, A) chances of a policy; None: the one that wrote the log.

        Where edits leave a decision to the estimated policy of the log, it is the log's own.
        """
        if is_logs(policy):
            return None
        states = self.log.rows.states[self.decisions.order]
        table = np.asarray(as_log_policy(self.log, policy).probabilities(states), dtype=np.float64)
        if isinstance(policy, PatchedPolicy) and isinstance(policy.base, EstimatedPolicy):
            unchanged = np.abs(table - policy.base.probabilities(states)).max(axis=1) < 1e-12
            table = np.where(unchanged[:, None], self.chances.table, table)
        return table

    def scores(self, table: FloatArray | None) -> DifferenceScores:
        """Scores of a policy (n, A) less the log's own; None: the log's own, all 0."""
        if table is None or np.abs(table - self.chances.table).max() < 1e-9:
            same = self.chances.table
            zero, one = np.zeros_like(self.decisions.gains), np.ones(len(same))
            return assessed(self.decisions, zero, same, same, self.chances, one, 1.0)
        key = hashlib.sha256(np.ascontiguousarray(table).tobytes()).digest()
        if key not in self._known:
            self._known[key] = difference_scores(
                self.decisions,
                table,
                None,
                self.chances,
                discount=self.log.discount,
                seed=self.seed,
                scores=self.single,
            )
        return self._known[key]

    def apart(self, new: FloatArray | None, old: FloatArray | None) -> DifferenceScores:
        """Scores of one policy less another; how far they can be believed is how far either is from the log."""
        parts = [self.scores(table) for table in (new, old)]
        rows, one = parts[0].rows - parts[1].rows, np.ones(len(self.chances.logged))
        after, before = (self.chances.table if table is None else table for table in (new, old))
        both = assessed(self.decisions, rows, after, before, self.chances, one, 1.0)
        return replace(
            both,
            inflation=max(part.inflation for part in parts),
            changes=max(part.changes for part in parts),
            often=max(part.often for part in parts),
        )

    @property
    def observed(self) -> FloatArray:
        """(n, M) what the log itself pays, as scores."""
        return np.asarray(self.log.discount ** self.decisions.step[:, None] * self.decisions.gains)


def scored_log(log: Log, current: Any = LOG, *, seed: int = 0) -> ScoredLog:
    """The rows that are held; the current policy is taken as the one that wrote the log if the log looks like it."""
    assessment, rows = assess(log), log.rows
    if assessment.units is not None:
        rows = replace(rows, unit=assessment.units[rows.episode])
    if assessment.status("propensities") == "failed":
        rows = replace(rows, probability=None)
    decisions = decisions_of(rows, log.n_actions)
    if decisions.one_step and len(decisions.actions) > MOST_SINGLE:
        parts = -(-len(decisions.actions) // MOST_SINGLE)
        decisions = decisions.some((deal(decisions.n_units, parts, seed) == 0)[decisions.unit])
    single = repeated_scores(decisions, seed=seed) if decisions.one_step else None
    chances = logging_chances(decisions, seed=seed) if single is None else single.propensity
    given = ScoredLog(log, decisions, chances, None, seed).policy(current)
    if given is not None and decisions.probability is None and looks_written_by(given, chances, decisions):
        logged = given[np.arange(len(given)), decisions.actions]
        chances = Propensity(given, logged, True, "those of the current policy", 0.0)
        single = repeated_scores(decisions, chances=chances, seed=seed) if decisions.one_step else None
    return ScoredLog(log, decisions, chances, single, seed)


def value_intervals(scored: ScoredLog, policy: Any, *, level: float) -> tuple[dict[str, Interval], DifferenceScores]:
    """What a policy achieves over the logged starts, and how far that can be believed."""
    decisions, scores = scored.decisions, scored.scores(scored.policy(policy))
    total = decisions.per_unit(scored.observed + scores.rows)
    size = decisions.per_unit(np.repeat(decisions.first[:, None], total.shape[1], axis=1).astype(np.float64))
    ends = score_intervals(total, size, level=level, inflation=scores.inflation)
    return {o.name: within(ends.alone(k), o.range) for k, o in enumerate(scored.log.outcomes)}, scores


def within(interval: Interval, declared: tuple[float, float] | None) -> Interval:
    """A value's interval inside the declared range."""
    if declared is None:
        return interval
    centre, low, high = (float(np.clip(v, *declared)) for v in (interval.estimate, interval.low, interval.high))
    return Interval(centre, low, high, interval.level)


def score_effects(scored: ScoredLog, policies: tuple[Any, Any], changes: RegionChanges, *, level: float) -> Effects:
    """What the current policy with one region's change brings, and the proposed one without it, against the current."""
    decisions = scored.decisions
    if not decisions.one_step:
        if len(decisions.actions) > MOST_REPEATED:
            return {}
        changes = replace(changes, asked=changes.asked[:MOST_REGIONS])
    old, new = (scored.policy(policy) for policy in policies)
    before, after = (scored.chances.table if table is None else table for table in (old, new))
    states, strict = scored.log.rows.states[decisions.order], changes.strict(level, len(scored.log.outcomes))

    def difference(table: FloatArray) -> dict[str, Interval]:
        ends = scored.apart(table, old).intervals(level=strict)
        return {o.name: replace(ends.alone(k), level=level) for k, o in enumerate(scored.log.outcomes)}

    effects = {}
    for k in changes.asked:
        inside = changes.covers(states, k)[:, None]
        alone, without = np.where(inside, after, before), np.where(inside, before, after)
        effects[k] = RegionEffect(difference(alone), difference(without))
    return effects
