"""A log as scores: its rows, the chances of their actions, and each policy against the log.

Scores of a policy are made once and used for everyone, for segments, for outcomes and for what single changes do.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from polidiff.evaluation.logged.judge import assess
from polidiff.evaluation.logged.policies import (
    LOG,
    EstimatedPolicy,
    as_log_policy,
    estimated_chances,
    is_logs,
    scored_decisions,
)
from polidiff.evaluation.scores.decisions import Decisions, SharedLevels, fit_encoder, numbers_of, shared_levels
from polidiff.evaluation.scores.difference import (
    DifferenceScores,
    OneStepScores,
    assessed,
    difference_scores,
    one_step_scores,
    repeated_scores,
    within,
)
from polidiff.evaluation.scores.gaps import Gap, gaps_of, gaps_told
from polidiff.evaluation.scores.propensity import Propensity, logging_chances, looks_written_by
from polidiff.policies import PatchedPolicy, one_hot
from polidiff.policies.protocol import PolicyLike
from polidiff.records.arrays import FloatArray
from polidiff.records.outcome import Interval

if TYPE_CHECKING:
    from polidiff.worlds.log import Log


@dataclass(frozen=True, eq=False)
class ScoredLog:
    """The rows of a log with their chances; scores of policies against the log are made once each."""

    log: Log
    decisions: Decisions
    chances: Propensity
    single: OneStepScores | None  # of every action, where each row is an episode
    seed: int
    _known: dict[bytes, DifferenceScores] = field(default_factory=dict, repr=False)

    @cached_property
    def shared(self) -> list[SharedLevels]:
        """Text columns of which some levels count as one."""
        states = self.log.rows.states
        return shared_levels(states[self.decisions.order], self.log.feature_names, fit_encoder(states))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is lost of text columns, and what is empty."""
        check = self.log.check
        names, codes = self.log.feature_names, self.log.empty_codes
        empty = gaps_told(check.missing, names, check.rows, codes, spanned=bool(self._without))
        return (*empty, *(one.note(len(self.decisions.actions)) for one in self.shared))

    @cached_property
    def _without(self) -> list[tuple[Gap, ScoredLog]]:
        """The log as it would be without features that are empty in some rows; nothing where actions were drawn."""
        decisions, states = self.decisions, self.log.rows.states
        if self.chances.known:
            return []
        found = []
        for gap in gaps_of(states[decisions.order], together=not decisions.one_step):
            x = numbers_of(np.delete(states, gap.features, axis=1))[decisions.order]
            less = replace(decisions, x=x, probability=None)
            chances = logging_chances(less, seed=self.seed)
            single = one_step_scores(less, chances=chances, seed=self.seed) if less.one_step else None
            found.append((gap, ScoredLog(self.log, less, chances, single, self.seed)))
        return found

    @cached_property
    def _one_draw(self) -> ScoredLog:
        """The log in the first draw of the folds, in which scores without features are made."""
        if self.single is None or not self.single.draws:
            return self
        return replace(self, single=replace(self.single, scores=self.single.draws[0], draws=()), _known={})

    def hidden(self, new: FloatArray | None, old: FloatArray | None) -> FloatArray | None:
        """(n, M) what is added to the scores of new − old if only the record lost what is empty; None: nothing is."""
        if not self._without:
            return None
        total = np.zeros_like(self.decisions.gains)
        for gap, less in self._without:
            with_it = self._one_draw._rows_apart(new, old)
            without = less._rows_apart(*(self._as_log(table, less) for table in (new, old)))
            total += gap.second_reading(with_it, without)
        return total

    def _as_log(self, table: FloatArray | None, other: ScoredLog) -> FloatArray | None:
        """A policy (n, A) that is the log's own in the same rows of another estimate."""
        if table is None:
            return None
        same = np.abs(table - self.chances.table).max(axis=1) < 1e-9
        return np.where(same[:, None], other.chances.table, table)

    @cached_property
    def confounded(self) -> tuple[str, ...]:
        """Why levels that count as one should have been told apart, if so."""
        index, actions = np.arange(len(self.decisions.actions)), self.decisions.actions
        taken = one_hot(actions, self.decisions.n_actions) - self.chances.table
        ahead = self.decisions.to_come(self.log.discount)
        brought = ahead - (ahead.mean(axis=0) if self.single is None else self.single.fitted[index, actions])
        said = (
            "who gets which action, and what comes of it, depend on levels of {!r} that are too rare to be told apart"
        )
        return tuple(said.format(one.name) for one in self.shared if one.moves_both(taken, brought))

    @property
    def episodes(self) -> int:
        """How many episodes are scored."""
        return int(self.decisions.episode[-1]) + 1

    def policy(self, policy: PolicyLike) -> FloatArray | None:
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
        """Scores of a policy (n, A) less the log's own, with what empty values may hide; None: the log's own, all 0."""
        return replace(self._plain(table), hidden=self.hidden(table, None))

    def _rows_apart(self, new: FloatArray | None, old: FloatArray | None) -> FloatArray:
        return self._plain(new).rows - self._plain(old).rows

    def _plain(self, table: FloatArray | None) -> DifferenceScores:
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
        parts = [self._plain(table) for table in (new, old)]
        rows, one = parts[0].rows - parts[1].rows, np.ones(len(self.chances.logged))
        after, before = (self.chances.table if table is None else table for table in (new, old))
        both = assessed(self.decisions, rows, after, before, self.chances, one, 1.0)
        return replace(
            both,
            inflation=max(part.inflation for part in parts),
            changes=max(part.changes for part in parts),
            often=max(part.often for part in parts),
            hidden=self.hidden(new, old),
        )

    @property
    def observed(self) -> FloatArray:
        """(n, M) what the log itself pays, as scores."""
        return np.asarray(self.log.discount ** self.decisions.step[:, None] * self.decisions.gains)


def scored_log(log: Log, current: PolicyLike = LOG, *, seed: int = 0) -> ScoredLog:
    """The rows that are held; the current policy is taken as the one that wrote the log if the log looks like it."""
    assessment, rows = assess(log), None
    if assessment.units is not None:
        rows = replace(log.rows, unit=assessment.units[log.rows.episode])
    decisions = scored_decisions(log, rows, seed=seed)
    if assessment.status("propensities") == "failed":
        decisions = replace(decisions, probability=None)
    estimate = logging_chances if decisions.probability is not None else partial(estimated_chances, log)
    single = repeated_scores(decisions, estimate, seed=seed) if decisions.one_step else None
    chances = estimate(decisions, seed=seed) if single is None else single.propensity
    given = ScoredLog(log, decisions, chances, None, seed).policy(current)
    if given is not None and decisions.probability is None and looks_written_by(given, chances, decisions):
        logged = given[np.arange(len(given)), decisions.actions]
        chances = Propensity(given, logged, True)
        single = repeated_scores(decisions, lambda *_, **__: chances, seed=seed) if decisions.one_step else None
    return ScoredLog(log, decisions, chances, single, seed)


def value_intervals(
    scored: ScoredLog, policy: PolicyLike, *, level: float
) -> tuple[dict[str, Interval], DifferenceScores]:
    """What a policy achieves over the logged starts, and how far that can be believed."""
    scores = scored.scores(scored.policy(policy))
    ends = replace(scores, rows=scored.observed + scores.rows).intervals(level=level)
    values = {o.name: within(ends.alone(k), o.range) for k, o in enumerate(scored.log.outcomes)}
    if scores.reasons():  # the log cannot carry it: only the declared range is known
        ranges = {o.name: o.range or (-math.inf, math.inf) for o in scored.log.outcomes}
        values = {name: replace(one, low=ranges[name][0], high=ranges[name][1]) for name, one in values.items()}
    return values, scores
