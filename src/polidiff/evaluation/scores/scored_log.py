r"""A log as scores: its rows, the chances of their actions, and each policy against the log.

Scores of a policy are made once and used for everyone, for segments, for outcomes and for what single changes do.

An empty value counts as a level of its own. That is right if whoever decided did not know it either. If they knew it
and only the record lost it, rows with gaps are compared without a reason of their decision. How much that moves a score
is seen where the value is recorded. With :math:`d_i = s_i^{-j} - s_i` how the score of row i changes if nobody's value
of feature j is used, :math:`g` the share of rows that are empty and :math:`\bar d` the mean of :math:`d` over the
others, the scores of the second reading are

.. math:: s_i - \bar d \quad \text{where } j \text{ is empty}, \qquad
          s_i - \frac{g}{1 - g} (d_i - \bar d) \quad \text{elsewhere;}

their mean is :math:`\bar s - g \bar d`, and their variance has that of :math:`\bar d` in it. Intervals span both
readings.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from polidiff.evaluation.assumptions.confounded_levels import levels_move_both, moved_together, short_stretches
from polidiff.evaluation.assumptions.log_checks import stretches
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
from polidiff.evaluation.scores.propensity import Propensity, logging_chances, looks_written_by
from polidiff.policies import PatchedPolicy, one_hot
from polidiff.policies.protocol import PolicyLike
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.numbers import number
from polidiff.records.outcome import Interval
from polidiff.records.rule import missing_entries
from polidiff.worlds.log_rows import LoggedRows

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

FEWEST_EMPTY = 0.01  # share of the rows below which what they hide is too little to tell
LEAST_RECORDED = 0.1  # share of the rows that the others are thought to be at least
MOST_ALONE = 3  # features that are left out one at a time; the others together
MIN_GROUP = 10  # rows whose number is told


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
            found.append((gap, self._estimated(replace(decisions, x=x, probability=None))))
        return found

    @cached_property
    def _one_draw(self) -> ScoredLog:
        """The log in the first draw of the folds, in which scores without features are made."""
        if self.single is None or not self.single.draws:
            return self
        return replace(self, single=replace(self.single, scores=self.single.draws[0], draws=()), _known={})

    @property
    def hiding(self) -> tuple[str, ...]:
        """What other readings of the record rest on."""
        return ("empty values",) * bool(self._without) + ("the time in the log",) * (self.by_time is not None)

    def hidden(self, new: FloatArray | None, old: FloatArray | None) -> FloatArray | None:
        """(n, M) what is added to the scores of new − old in another reading of the record; None: there is no other.

        Only the record lost what is empty; the time in the log is a feature.
        """
        if not self.hiding:
            return None
        plain = self._one_draw._rows_apart(new, old)

        def read(other: ScoredLog) -> FloatArray:
            return other._rows_apart(*(self._as_log(table, other) for table in (new, old)))

        total = np.zeros_like(plain) if self.by_time is None else read(self.by_time) - plain
        for gap, other in self._without:
            total += gap.second_reading(plain, read(other))
        return total

    def _as_log(self, table: FloatArray | None, other: ScoredLog) -> FloatArray | None:
        """A policy (n, A) that is the log's own in the same rows of another estimate."""
        if table is None:
            return None
        same = np.abs(table - self.chances.table).max(axis=1) < 1e-9
        return np.where(same[:, None], other.chances.table, table)

    @cached_property
    def confounded(self) -> tuple[str, ...]:
        """Why what the record holds does not tell alike cases, if so: rare levels, people or times that move both."""
        said = (
            "who gets which action, and what comes of it, depend on levels of {!r} that are too rare to be told apart"
        )
        levels = tuple(said.format(one.name) for one in self.shared if one.moves_both(*self._beyond))
        unmended = self.together if self.by_time is None else None
        return (*levels, *filter(None, [unmended]))

    @cached_property
    def _beyond(self) -> tuple[FloatArray, FloatArray]:
        """(n, A) actions and (n, M) outcomes beyond what was expected of them."""
        index, actions = np.arange(len(self.decisions.actions)), self.decisions.actions
        ahead = self.decisions.to_come(self.log.discount)
        expected = ahead.mean(axis=0) if self.single is None else self.single.fitted[index, actions]
        return one_hot(actions, self.decisions.n_actions) - self.chances.table, ahead - expected

    @cached_property
    def _in_log(self) -> tuple[LoggedRows, IntArray]:
        """The rows that are scored as they stand in the log, and the decision (n,) that each of them is."""
        scored = np.zeros(len(self.log.rows.actions), dtype=np.bool_)
        scored[self.decisions.order] = True
        return self.log.rows.some(scored), np.argsort(self.decisions.order)

    @cached_property
    def together(self) -> str | None:
        """Why people who come back, or else time, stand behind decisions and what comes of them, if so.

        Nothing does where actions were drawn.
        """
        if assess(self.log).randomised:
            return None
        (rows, order), (taken, brought) = self._in_log, self._beyond
        begins = np.flatnonzero(rows.first)
        total, x = brought[order][begins], self.decisions.x[order][begins]
        if self.single is None:  # what a straight line through the first states tells was expected
            design = np.column_stack([np.ones(len(x)), x])
            total = total - design @ np.linalg.lstsq(design, total, rcond=None)[0]
        return moved_together(rows, self._people, taken[order], total)

    @cached_property
    def _people(self) -> IntArray | None:
        """(episodes,) whose they are, where the log says so."""
        known = assess(self.log)
        scored = np.unique(self.log.rows.episode[self.decisions.order])
        return known.units[scored] if known.counted_as == "people" and known.units is not None else None

    @cached_property
    def by_time(self) -> ScoredLog | None:
        """The log with its stretch as a feature, where decisions and outcomes depend on the time and this mends it."""
        if self.single is None or self.chances.known or self._people is not None or self.together is None:
            return None
        rows, order = self._in_log
        part = np.empty(len(order), dtype=np.int64)
        part[order] = stretches(rows)
        known, alone = self.decisions, np.arange(len(order))
        x, kinds = np.column_stack([known.x, part]), np.column_stack([known.kinds, part]).astype(np.int64)
        timed = self._estimated(replace(known, x=x, kinds=kinds, unit=alone))
        taken, brought = (beyond[order] for beyond in timed._beyond)
        finer = stretches(rows, parts=2), short_stretches(rows)
        return None if any(levels_move_both(level, taken, brought) for level in finer) else timed

    def _estimated(self, decisions: Decisions) -> ScoredLog:
        """The log with other features, whose chances and outcomes are estimated anew."""
        chances = logging_chances(decisions, seed=self.seed)
        single = one_step_scores(decisions, chances=chances, seed=self.seed) if decisions.one_step else None
        return ScoredLog(self.log, decisions, chances, single, self.seed)

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


@dataclass(frozen=True, eq=False)
class Gap:
    """Features that are left out together, and the rows in which one of them is empty."""

    features: tuple[int, ...]
    empty: BoolArray  # (n,)

    def second_reading(self, with_it: FloatArray, without: FloatArray) -> FloatArray:
        """(n, M) what is added to scores (n, M) if only the record lost the values; scores with them and without."""
        if self.empty.all():
            return np.zeros_like(with_it)
        moved = without - with_it
        mean = moved[~self.empty].mean(axis=0)
        share = min(float(self.empty.mean()), 1 - LEAST_RECORDED)
        return np.where(self.empty[:, None], -mean, -share / (1 - share) * (moved - mean))


def gaps_of(states: AnyArray, *, together: bool) -> list[Gap]:
    """What is left out of feature rows (n, d), the emptiest first; `together`: all at once."""
    empty = np.column_stack([missing_entries(column) for column in states.T])
    often = [int(j) for j in np.argsort(-empty.mean(axis=0), kind="stable") if empty[:, j].mean() >= FEWEST_EMPTY]
    alone = 0 if together else MOST_ALONE
    parts = [(j,) for j in often[:alone]] + ([tuple(often[alone:])] if often[alone:] else [])
    return [Gap(part, np.asarray(empty[:, list(part)].any(axis=1))) for part in parts]


def gaps_told(
    missing: Mapping[str, int], features: Sequence[str], rows: int, codes: Mapping[str, int], *, spanned: bool
) -> tuple[str, ...]:
    """One line on the empty values of features, counted by column; `codes` stood for them in the table.

    >>> print(*gaps_told({"lactate": 240, "reward": 3}, ["age", "lactate"], 800, {"lactate": -99}, spanned=False))
    'lactate' is empty in 240 of 800 rows (-99 is read as empty). Empty counts as a value of its own.
    """
    counts = sorted(((missing[name], name) for name in features if missing.get(name)), key=lambda one: -one[0])
    if not counts:
        return ()
    few = f"fewer than {MIN_GROUP}"
    read = {name: f" ({code} is read as empty)" for name, code in codes.items()}
    first, *others = (
        (name, number(count) if count >= MIN_GROUP else few, read.get(name, "")) for count, name in counts
    )
    listed = "".join(f", {name!r} in {count}{code}" for name, count, code in others)
    text = f"{first[0]!r} is empty in {first[1]} of {number(rows)} rows{first[2]}{listed}. "
    text += "Empty counts as a value of its own"
    if spanned:
        text += "; intervals also span what follows if whoever decided knew the value and only the record lost it"
    return (f"{text}.",)
