"""Verdicts from a log with what they rest on, whatever its states are: intervals, time, and unrecorded reasons.

Two judges answer the same questions: `compare.StateJudge` counts labelled states, `scores.verdicts.ScoreJudge` scores
feature rows. What they share is here. An interval is never made narrower: a failed test turns the verdict to unknown,
and what no test can see is told as the strength Γ up to which the verdict holds.

All checks of a log at once, and what verdicts must do about those that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from scipy import stats

from polidiff.evaluation.assumptions.confounded_levels import moved_together
from polidiff.evaluation.assumptions.confounding import Comparison, holds_up_to
from polidiff.evaluation.assumptions.confounding_one_step import largest_scale
from polidiff.evaluation.assumptions.feature_history import drift_feature_check, feature_history_check
from polidiff.evaluation.assumptions.history import MOST_ACTIONS, Deepened, deepen, off_means, transitions_of
from polidiff.evaluation.assumptions.log_checks import (
    DRAWN,
    UNSEEN,
    cut_check,
    drift_check,
    farthest,
    fragile,
    hidden_reasons,
    history_check,
    independence_check,
    only_if,
    people_drift_check,
    propensity_check,
    rare_event_check,
    rests_on,
    stretches,
    unrecorded_check,
)
from polidiff.evaluation.comparison import GroupVerdicts
from polidiff.evaluation.logged.counted_log import CountedLog
from polidiff.evaluation.logged.counts import Counts, FixedLength, count_rows
from polidiff.evaluation.scores.decisions import numbers_of
from polidiff.evaluation.verdicts import as_unknown, direction_of, not_carried
from polidiff.policies.protocol import PolicyLike
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.explanation import Verdict
from polidiff.records.numbers import counted, number
from polidiff.records.outcome import Assumption, Interval, Outcome
from polidiff.worlds.log_check import MOST_HELD
from polidiff.worlds.log_rows import EpisodeRows, LoggedRows

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

MOST_TESTED = 30_000  # rows; more show nothing that matters and take time
NAMES = ("history", "drift", "independence", "propensities", "cut episodes")
_ASSESSED: WeakKeyDictionary[object, Assessment] = WeakKeyDictionary()  # one log is judged many times
DRIFTED = "early and late {} of the log do not say the same"
WEAK = "the past matters in this log, and weak unrecorded reasons behind that would be enough to explain it"
Verdicts = tuple[tuple[Verdict, ...], ...]  # per group, per outcome
IntervalPair = tuple[Interval, Interval]  # of a difference: all of them together, and alone
Strength = tuple[float | None, float | None]  # Γ for every decision, and for one of each episode


@dataclass(frozen=True, eq=False)
class Assessment:
    """What was found out about a log."""

    assumptions: tuple[Assumption, ...]
    rows: LoggedRows | None  # all rows that are held; None where the log is too long
    deepened: Deepened | None = None  # where the past or the time matters: the rows with deeper states
    units: IntArray | None = None  # (episodes,) what counts as one person, where that is not the episode
    counted_as: str = "people"  # what units are
    scale: tuple[str, float] | None = None  # the feature that moves the odds of decisions most, and how far
    confounded: str | None = None  # what moves decisions and outcomes together, beside the state

    def status(self, name: str) -> str:
        """Of one assumption."""
        return next((a.status for a in self.assumptions if a.name == name), "not testable")

    @property
    def randomised(self) -> bool:
        """Whether the log records with which probabilities actions were drawn, and they are right."""
        return self.rows is not None and self.rows.probability is not None and self.status("propensities") == "held"

    @property
    def clock(self) -> FixedLength | None:
        """How decisions count together where the number of decisions so far is part of the state."""
        deepened = self.deepened
        return FixedLength(deepened.steps, deepened.tail) if deepened is not None and deepened.pooled else None

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
        return self.confounded


def assess(log: Log) -> Assessment:
    """All checks; a log is checked once."""
    if log not in _ASSESSED:
        found, names = _assess(log), tests_of(log)
        _ASSESSED[log] = replace(found, assumptions=tuple(a for a in found.assumptions if a.name in names))
    return _ASSESSED[log]


def tests_of(log: Log) -> tuple[str, ...]:
    """What a log is tested for: a single decision has no history, and its record is not cut."""
    single = log.check.noun == "decision" and not log.check.cut
    return NAMES[1:-1] if single else NAMES


def _assess(log: Log) -> Assessment:
    if log.discrete and log.check.rows > MOST_HELD:
        long = f"the log has {counted(log.check.rows, 'row')}; up to {number(MOST_HELD)} are tested"
        return Assessment(tuple(Assumption(name, "", "not testable", long, "") for name in NAMES), None)
    rows = log.rows
    thin, units = _thin(rows), _units(rows)
    tested = rows if thin.all() else rows.some(thin)
    own = None if units is None else units[np.unique(rows.episode[thin])]
    names = log.states if log.discrete else ()
    moves = transitions_of(tested) if log.discrete else None
    common = (independence_check(tested, own, moves), propensity_check(tested), cut_check(rows, names))
    drift = None if own is None else people_drift_check(tested, own)
    if moves is None:
        x = numbers_of(tested.states)
        checks = (feature_history_check(tested, x), drift_feature_check(tested, x) if drift is None else drift)
        scale = largest_scale(tested.states, tested.actions, log.feature_names)
        return _counting(Assessment((*checks, *common), rows, None, units, scale=scale))
    drift = drift_check(moves) if drift is None else drift
    deepened = deepen(moves, log.n_states)
    deeper = deepened.depth > 0 or deepened.steps > 1
    if deeper and tested is not rows:
        deepened = replace(deepen(transitions_of(rows), log.n_states), p_values=deepened.p_values)
    found = Assessment((history_check(deepened), drift, *common), rows, deepened if deeper else None, units)
    if found.randomised:
        return _counting(found)
    often = np.argsort(-np.bincount(tested.actions), kind="stable")[:MOST_ACTIONS]
    taken = off_means((tested.actions[:, None] == often).astype(np.float64), tested.states)
    begins = np.flatnonzero(tested.first)
    brought = off_means(tested.to_come(log.discount)[begins], tested.states[begins])
    return _counting(replace(found, confounded=moved_together(tested, own, taken, brought)))


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


def _thin(rows: LoggedRows) -> BoolArray:
    """(n,) whether a row is of an episode that is tested: all, or every so manieth."""
    every = int(np.ceil(len(rows.actions) / MOST_TESTED))
    return np.asarray(rows.episode % max(every, 1) == 0)


def count_states(log: Log, rows: LoggedRows, n_states: int, *, blocks: int) -> Counts:
    """Counts of some of the rows whose states were numbered as the assessment of the log asks."""
    clock = assess(log).clock
    if clock is None:
        return count_rows(rows, rows.states, n_states, log.n_actions, blocks=blocks)
    return clock.counts(rows, n_states, log.n_actions, blocks)


def mended_counts(log: Log, counted: CountedLog) -> CountedLog:
    """A log counted over deeper states where the past matters, as much of it as was; policies act as in those below."""
    deepened = assess(log).deepened
    if deepened is None:
        return counted
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


def counted_rows(log: Log) -> LoggedRows | None:
    """The rows of a log with discrete states, as `mended_counts` numbers these; None where they are not all held."""
    assessment = assess(log)
    if assessment.deepened is not None:
        return assessment.deepened.rows
    return None if log.sampled else assessment.rows


@dataclass(frozen=True, eq=False)
class Question:
    """Two policies on one log: who is asked about, and how sure the answer must be."""

    current: PolicyLike  # a policy, or "log" for the one that wrote the log
    proposed: PolicyLike
    groups: Sequence[AnyArray] | None = None  # masks over ``log.starts``, or weights that are taken as known; None: all
    level: float = 0.95
    family: int | None = None  # comparisons over which the level must hold; None: groups × outcomes
    judging: BoolArray | None = None  # (episodes,) that judge; the others help to estimate what they are compared with
    lines: bool = True  # whether verdicts say what they rest on, and up to which strength of unrecorded reasons
    seed: int = 0


class Judge:
    """Two policies judged on one log."""

    log: Log
    assessment: Assessment
    question: Question
    rows: EpisodeRows | None  # with numbered states, or features; None where the log is not held
    one_step: bool  # whether every episode is a single decision
    by_log: bool  # whether the current policy is the one that wrote the log
    episodes: FloatArray  # (groups,) behind each; inf where a group is a known distribution
    unsupported: FloatArray  # (groups,) share of the proposed policy that rests on nothing in the log
    people: IntArray | None  # (groups,) distinct people behind each, where the log says who is who
    warnings: tuple[str, ...]  # what a reader must know beside the verdicts
    loops: tuple[str, ...] = ()  # states that cannot leave an estimated loop under the proposed policy

    @property
    def family(self) -> int:
        """Comparisons over which the level holds."""
        asked = self.question.family
        return asked if asked is not None else len(self.episodes) * len(self.log.outcomes)

    def plain(self) -> Verdicts:
        """Before the log's assumptions speak."""
        raise NotImplementedError

    def halves(self) -> list[list[list[IntervalPair]]]:
        """[half][group][outcome] what the early and the late half of the log say of the difference."""
        raise NotImplementedError

    def overlap(self) -> Assumption:
        """Whether the log has what the proposed policy does."""
        raise NotImplementedError

    def units(self, group: int) -> int:
        """Distinct units behind a group, where episodes are no units of their own."""
        raise NotImplementedError

    def moved(self, group: int) -> tuple[FloatArray, FloatArray, BoolArray]:
        """(A,) by how much an episode takes each action more or less, (A,) how often the log takes it, (n,) where."""
        raise NotImplementedError

    def compared(self, k: int, groups: list[int], sign: float = 1.0) -> Comparison:
        """An outcome's difference in some groups, as unrecorded reasons are weighed; `sign` −1: turned round."""
        raise NotImplementedError

    def holds(
        self, k: int, sign: float, groups: list[int], edge: FloatArray, quantile: float
    ) -> list[tuple[float, float]]:
        """Γ up to which the sign of an outcome's difference holds in some groups, `edge` away from 0."""
        return holds_up_to(self.compared(k, groups, sign), edge, quantile)

    def judged(self) -> GroupVerdicts:
        """All groups."""
        verdicts, assumptions = self.verdicts()
        return GroupVerdicts(
            verdicts=verdicts,
            unsupported=self.unsupported,
            episodes=self.episodes,
            family=self.family,
            loops=self.loops,
            warnings=self.warnings,
            assumptions=assumptions,
            people=self.people,
        )

    def heaviest(self, group: int) -> tuple[float, int, FloatArray | None]:
        """The most that one logged decision counts for among those that change, and how many take its action.

        Where every episode is one decision, also the mean outcomes (M,) of those.
        """
        moved, taken, inside = self.moved(group)
        weight = moved / np.maximum(taken, 1.0)
        action = int(weight.argmax())
        own = self.rows.gains[inside & (self.rows.actions == action)] if self.rows is not None and self.one_step else ()
        return float(weight[action]), int(taken[action]), np.mean(own, axis=0) if len(own) else None

    def verdicts(self) -> tuple[Verdicts, tuple[Assumption, ...]]:
        """All groups with what their verdicts rest on, and all assumptions behind them."""
        verdicts = self._with_unseen(self._through_time(self.plain()))
        if self.assessment.reason is not None:
            verdicts = each(verdicts, lambda v, g, k: self.not_carried(v, k, str(self.assessment.reason)))
        if not self.question.lines:
            return verdicts, self.assessment.assumptions
        strengths = self._strengths(verdicts)
        if self.assessment.deepened is not None and not self.assessment.deepened.explained:
            # a deeper state silences the test of history, also where an unrecorded reason stands behind it; such a
            # reason shows in decisions that depend on the past beyond the deeper state
            verdicts = each(verdicts, lambda v, g, k: as_unknown(v, WEAK) if fragile(strengths[g][k][0], True) else v)
        rare = [[self._rare(v, g, k) for k, v in enumerate(group)] for g, group in enumerate(verdicts)]
        gravest = self._gravest(rare)
        statuses = {check.status for check in gravest}  # where it is less grave, a line does not say the opposite
        overlap, whole = self.overlap(), int(np.argmax(self.episodes))

        def checks(g: int, own: Assumption | None) -> list[Assumption]:
            """What the line of a verdict tells; that of everyone names what speaks against the verdict of a group."""
            alarms = [check for check in gravest if check.alarming and g == whole]
            return [overlap, *([own] if own and own.status in statuses else alarms)]

        verdicts = each(verdicts, lambda v, g, k: self._line(v, g, strengths[g][k], checks(g, rare[g][k])))
        unrecorded = unrecorded_check(self.assessment.randomised)
        return verdicts, (*self.assessment.assumptions, overlap, *gravest, unrecorded)

    def not_carried(self, verdict: Verdict, k: int, reason: str) -> Verdict:
        """The verdict on an outcome where the log cannot carry the comparison; what it brought itself it still says."""
        return not_carried(verdict, self.log.outcomes[k], reason, verdict.current if self.by_log else None)

    def _through_time(self, verdicts: Verdicts) -> Verdicts:
        """Where the world changed within the log, intervals span what either half of it says alone."""
        halves = self.halves() if self.assessment.status("drift") == "failed" else []
        if not halves:
            return verdicts

        def spanned(verdict: Verdict, g: int, k: int) -> Verdict:
            joint, alone = zip(*(half[g][k] for half in halves), strict=True)
            wider = verdict.difference.spanning(*joint), verdict.pointwise.spanning(*alone)
            return directed(verdict, self.log.outcomes[k], *wider, DRIFTED.format(f"{self.log.check.noun}s"))

        return each(verdicts, spanned)

    def _with_unseen(self, verdicts: Verdicts) -> Verdicts:
        """Where no logged episode tells two policies apart, intervals span what too rare an event may bring.

        Of an action taken n times, a chance below 3 / n may be missing (rule of three); how much such an event brings
        is bounded by the declared range only.
        """

        def spanned(verdict: Verdict, g: int, k: int) -> Verdict:
            joint, (heaviest, taken, means), outcome = verdict.difference, self.heaviest(g), self.log.outcomes[k]
            if joint.width > 0 or heaviest <= 0:
                return verdict
            usual = None if means is None else float(means[k])
            most = min(UNSEEN * heaviest * farthest(outcome.range, usual), farthest(outcome.range, None))
            reason = (
                f"no logged episode tells the two policies apart in {outcome.name}, and what follows an action fewer "
                f"than 3 in {number(max(taken, 3))} times may not have been seen"
            )
            if outcome.range is None:
                reason += f"; {outcome.name!r} has no declared range that would bound it"
            alone = replace(verdict.pointwise, low=-most, high=most)
            return directed(verdict, outcome, replace(joint, low=-most, high=most), alone, reason)

        return each(verdicts, spanned)

    def _strengths(self, verdicts: Verdicts) -> list[list[Strength]]:
        """[group][outcome] Γ up to which a decided verdict holds, for every decision and for one of each episode."""
        strengths: list[list[Strength]] = [[(None, None)] * len(group) for group in verdicts]
        if self.assessment.randomised or self.rows is None:
            return strengths
        quantile = float(stats.norm.isf((1 - self.question.level) / self.family / 2))
        for k in range(len(self.log.outcomes)):
            for direction, sign in (("more", 1.0), ("less", -1.0)):
                decided = [g for g, group in enumerate(verdicts) if group[k].direction == direction]
                if decided:
                    edge = np.array([_edge(verdicts[g][k]) for g in decided])
                    for g, both in zip(decided, self.holds(k, sign, decided, edge, quantile), strict=True):
                        strengths[g][k] = both
        return strengths

    def _rare(self, verdict: Verdict, group: int, k: int) -> Assumption | None:
        """What an event that comes with one action, too rare to be seen, would have to cost to turn the verdict."""
        if verdict.direction not in ("more", "less"):
            return None
        heaviest, taken, means = self.heaviest(group)
        if heaviest <= 0:
            return None
        declared, usual = self.log.outcomes[k].range, None if means is None else float(means[k])
        return rare_event_check(_edge(verdict), heaviest, taken, declared, usual)

    def _gravest(self, rare: list[list[Assumption | None]]) -> list[Assumption]:
        """The one statement on rare events: that of the verdict which they turn most easily."""
        grave = ("doubtful", "not testable", "held")
        checks = [(grave.index(check.status), g, check) for g, group in enumerate(rare) for check in group if check]
        if not checks:
            return []
        worst, _, check = min(checks, key=lambda entry: entry[0])
        whole = int(np.argmax(self.episodes))
        if all(status > worst for status, g, _ in checks if g == whole):
            where = "some decisions" if self.one_step else "some starts"  # a group that may be too small to be told
            check = replace(check, detail=check.detail.replace("the verdict", f"what is found for {where}"))
        return [check]

    def _line(self, verdict: Verdict, group: int, strength: Strength, checks: Sequence[Assumption]) -> Verdict:
        """The verdict with its strength and the line of what it rests on."""
        (every, one), assessment, episodes = strength, self.assessment, float(self.episodes[group])
        gamma = None if every is None else hidden_reasons(every, None if self.one_step else one, assessment.scale)
        if gamma is None and verdict.direction != "unknown" and assessment.randomised:
            gamma = DRAWN
        unit = f"{self.log.check.noun}s"
        if assessment.units is not None:
            unit += f", counted as {self.units(group)} {assessment.counted_as}"
        line = rests_on(episodes, unit, [*assessment.assumptions, *checks], gamma) if np.isfinite(episodes) else None
        if verdict.direction == "unknown":
            return replace(verdict, rests_on=line)
        doubt = only_if(every) if every is not None and fragile(every, self.one_step) else None
        return replace(verdict, holds_up_to=every, rests_on=line, note=doubt or verdict.note)


def directed(verdict: Verdict, outcome: Outcome, difference: Interval, pointwise: Interval, reason: str) -> Verdict:
    """The verdict for other intervals."""
    direction = direction_of(difference, outcome.margin)
    note = reason if direction == "unknown" and verdict.note is None else verdict.note
    valence = outcome.valence(direction)
    return replace(verdict, direction=direction, valence=valence, difference=difference, pointwise=pointwise, note=note)


def each(verdicts: Verdicts, change: Callable[[Verdict, int, int], Verdict]) -> Verdicts:
    """Every verdict changed, given its group and outcome."""
    return tuple(tuple(change(v, g, k) for k, v in enumerate(group)) for g, group in enumerate(verdicts))


def _edge(verdict: Verdict) -> float:
    """How far the interval of a decided verdict lies from 0."""
    return verdict.difference.low if verdict.direction == "more" else -verdict.difference.high
