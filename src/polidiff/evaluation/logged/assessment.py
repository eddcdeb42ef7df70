"""All checks of a log at once, and what verdicts must do about those that failed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from polidiff.evaluation.assumptions.confounding_one_step import largest_scale
from polidiff.evaluation.assumptions.feature_history import drift_feature_check, feature_history_check
from polidiff.evaluation.assumptions.history import Deepened, deepen, transitions_of
from polidiff.evaluation.assumptions.log_checks import (
    cut_check,
    drift_check,
    history_check,
    independence_check,
    propensity_check,
    stretches,
)
from polidiff.evaluation.logged.counted_log import CountedLog
from polidiff.evaluation.logged.counts import Clock, Counts, count_rows
from polidiff.evaluation.logged.rows import some_episodes
from polidiff.evaluation.scores.decisions import numbers_of
from polidiff.records.arrays import IntArray
from polidiff.records.outcome import Assumption
from polidiff.worlds.log_rows import LoggedRows

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

MOST_TESTED = 100_000  # rows; more show nothing that matters and take time
MOST_HELD = 2_000_000  # rows of a log with discrete states that are read for the checks
NAMES = ("history", "drift", "independence", "propensities", "cut episodes")
_ASSESSED: WeakKeyDictionary[object, Assessment] = WeakKeyDictionary()  # one log is judged many times


@dataclass(frozen=True, eq=False)
class Assessment:
    """What was found out about a log."""

    assumptions: tuple[Assumption, ...]
    rows: LoggedRows | None  # all rows that are held; None where the log is too long
    deepened: Deepened | None = None  # where the past or the time matters: the rows with deeper states
    units: IntArray | None = None  # (episodes,) what counts as one person, where that is not the episode
    counted_as: str = "people"  # what units are
    scale: tuple[str, float] | None = None  # the feature that moves the odds of decisions most, and how far

    def status(self, name: str) -> str:
        """Of one assumption."""
        return next((a.status for a in self.assumptions if a.name == name), "not testable")

    @property
    def randomised(self) -> bool:
        """Whether the log records with which probabilities actions were drawn, and they are right."""
        return self.rows is not None and self.rows.probability is not None and self.status("propensities") == "held"

    @property
    def drifts(self) -> bool:
        """Whether early and late episodes follow different worlds."""
        return self.status("drift") == "failed"

    @property
    def clock(self) -> Clock | None:
        """How decisions count together where the number of decisions so far is part of the state."""
        deepened = self.deepened
        return Clock(deepened.steps, deepened.tail) if deepened is not None and deepened.pooled else None

    @property
    def reason(self) -> str | None:
        """Why no verdict can be given, if none can."""
        if self.deepened is not None and not self.deepened.quiet:
            return (
                "what follows a decision depends on what came before it, and "
                f"{self.deepened.depth} past decisions as part of the state do not mend that"
            )
        if self.deepened is None and self.status("history") == "failed":
            return "what follows a decision depends on what came before it, beyond the recorded features"
        return None


def assess(log: Log) -> Assessment:
    """All checks; a log is checked once."""
    if log not in _ASSESSED:
        _ASSESSED[log] = _assess(log)
    return _ASSESSED[log]


def _assess(log: Log) -> Assessment:
    if log.discrete and log.check.rows > MOST_HELD:
        long = f"the log has {log.check.rows} rows; up to {MOST_HELD} are tested"
        return Assessment(tuple(Assumption(name, "", "not testable", long, "") for name in NAMES), None)
    rows = log.rows
    tested, units = _thinned(rows), _units(rows)
    own = None if units is None else units[np.unique(rows.episode[_thin(rows)])]
    names = log.states if log.discrete else ()
    moves = transitions_of(tested) if log.discrete else None
    common = (independence_check(tested, own, moves), propensity_check(tested), cut_check(rows, names))
    if moves is None:
        x = numbers_of(tested.states)
        checks: tuple[Assumption, ...] = (feature_history_check(tested, x), drift_feature_check(tested, x))
        scale = largest_scale(tested.states, tested.actions, log.feature_names)
        return _counting(Assessment((*checks, *common), rows, None, units, scale=scale))
    deepened = deepen(moves, log.n_states)
    deeper = deepened.depth > 0 or deepened.steps > 1
    if deeper and tested is not rows:
        deepened = replace(deepen(transitions_of(rows), log.n_states), p_values=deepened.p_values)
    checks = (history_check(deepened), drift_check(moves, own), *common)
    return _counting(Assessment(checks, rows, deepened if deeper else None, units))


def _counting(assessment: Assessment) -> Assessment:
    """Where episodes that stand together are alike and nobody says whose they are, stretches of the log count."""
    rows = assessment.rows
    if rows is None or assessment.units is not None or assessment.status("independence") != "failed":
        return assessment
    return replace(assessment, units=stretches(rows)[rows.first], counted_as="stretches of the log")


def _units(rows: LoggedRows) -> IntArray | None:
    """(episodes,) number of the person of each, where the log says who is who and some come back."""
    if rows.unit is None:
        return None
    _, unit = np.unique(rows.unit[rows.first], return_inverse=True)
    return unit if int(unit.max(initial=0)) + 1 < len(unit) else None


def _thin(rows: LoggedRows) -> IntArray:
    """(n,) whether a row is of an episode that is tested: all, or every so manieth."""
    every = int(np.ceil(len(rows.actions) / MOST_TESTED))
    return np.asarray(rows.episode % max(every, 1) == 0)


def _thinned(rows: LoggedRows) -> LoggedRows:
    return rows if len(rows.actions) <= MOST_TESTED else some_episodes(rows, np.asarray(_thin(rows), dtype=np.bool_))


def count_states(log: Log, rows: LoggedRows, n_states: int, *, blocks: int) -> Counts:
    """Counts of some of the rows whose states were numbered as the assessment of the log asks."""
    clock = assess(log).clock
    if clock is None:
        return count_rows(rows, rows.states, n_states, log.n_actions, blocks=blocks)
    return clock.counts(rows, n_states, log.n_actions, blocks)


def deeper_counts(log: Log, deepened: Deepened, counted: CountedLog) -> CountedLog:
    """A log counted over deeper states, as much of it as was counted; policies act as in the state below."""
    rows, original = deepened.rows, deepened.original
    counts = count_states(log, rows, len(original), blocks=counted.counts.n_blocks)
    counts = counts.part(counted.counts.starts.sum(axis=1) > 0)
    begun, first = rows.states[rows.first], np.zeros(log.n_states, dtype=np.int64)
    first[original[begun]] = begun  # all episodes that begin in a state have no past, or a rare one
    names = tuple(log.states[s] for s in original)
    return replace(
        counted,
        counts=counts,
        names=names,
        start_state=first[counted.start_state],
        average=lambda policy: counted.average(policy)[original],
        row_state=lambda: rows.states,
    )


def numbered_rows(log: Log, assessment: Assessment, counted: CountedLog) -> LoggedRows | None:
    """The rows that are held with the states (or cells) that they were counted in; None where they are not all held."""
    if assessment.deepened is not None:
        return assessment.deepened.rows
    if assessment.rows is None or log.sampled:
        return None
    return assessment.rows if log.discrete else replace(assessment.rows, states=counted.row_state())
