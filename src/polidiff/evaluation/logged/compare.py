"""Verdicts from a log of labelled states: careful intervals, as wide as people who come back make them.

What single changes do is asked in the same way: the current policy with one region's change, and with all changes but
it, are policies like any other, so their intervals know what nobody has tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from polidiff.evaluation.assumptions.confounding import Comparison, Moves, following
from polidiff.evaluation.assumptions.log_checks import overlap_check
from polidiff.evaluation.comparison import Effects, GroupVerdicts, RegionChanges
from polidiff.evaluation.logged.bounds import NO_MASS, PolicyBounds, bound_policy, difference, value_bounds
from polidiff.evaluation.logged.counted_log import CountedLog, counted_log
from polidiff.evaluation.logged.counts import Edges
from polidiff.evaluation.logged.judge import (
    IntervalPair,
    Judge,
    Question,
    Verdicts,
    assess,
    count_states,
    counted_rows,
    directed,
    each,
    mended_counts,
)
from polidiff.evaluation.logged.model import SplitPolicy, Starts, group_starts, same_rows, split_policy
from polidiff.evaluation.logged.policies import LOG, is_logs, wrote_the_log
from polidiff.evaluation.scores.verdicts import ScoreJudge
from polidiff.evaluation.verdicts import direction_of, student_quantile, verdict
from polidiff.policies import TablePolicy
from polidiff.policies.protocol import PolicyLike, PolicyPair
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.explanation import Verdict
from polidiff.records.numbers import counted, percent
from polidiff.records.outcome import Assumption, Interval, Outcome
from polidiff.worlds.log_check import start_people
from polidiff.worlds.log_rows import LoggedRows

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

MOST_BLOCKS = 40  # of units that are left out in turn
MOST_JUDGED = 5  # regions, the most visited first: each costs two comparisons over the whole log


def judge_log(log: Log, question: Question) -> GroupVerdicts:
    """Differences proposed − current for all outcomes of the log and every group of starts."""
    return (StateJudge if log.discrete else ScoreJudge)(log, question).judged()


class StateJudge(Judge):
    """Two policies over the states of a log."""

    rows: LoggedRows | None

    def __init__(self, log: Log, question: Question, counted: CountedLog | None = None) -> None:
        """`counted`: the log as counts, where several policies are judged on it."""
        self.log, self.question, self.assessment = log, question, assess(log)
        counted = mended_counts(log, counted if counted is not None else counted_log(log))
        self.counted, self.edges = counted, counted.counts.edges
        rng = np.random.default_rng(question.seed)
        new, old, self.warnings = targets(counted, question.current, question.proposed, rng)
        self.targets, self.by_log = (new, old), is_logs(question.current)
        self.starts = group_starts(question.groups, counted.start_state, counted.start_episodes, self.edges.n_states)
        self.episodes, self.people = self.starts.episodes, start_people(log, question.groups)
        self.pair = self._bounds(self.edges)
        self.unsupported = self.pair[0].unsupported
        loops = np.flatnonzero(self.pair[0].model.loops & (self.edges.state_visits > 0))
        self.loops = tuple(counted.names[s] for s in loops)
        self.rows = counted_rows(log)
        self.one_step = log.check.rows == log.check.episodes

    @property
    def _size(self) -> tuple[int, int]:
        """States and actions."""
        states, actions = self.targets[0].table.shape
        return int(states), int(actions)

    def _bounds(self, edges: Edges) -> tuple[PolicyBounds, PolicyBounds]:
        ranges, discount = [outcome.range for outcome in self.log.outcomes], self.log.discount
        new, old = (bound_policy(edges, one, self.starts, ranges, discount=discount) for one in self.targets)
        return new, old

    def plain(self) -> Verdicts:
        """Careful intervals, as wide as units make them."""
        alpha, level = 1 - self.question.level, self.question.level
        groups, columns = range(len(self.episodes)), []
        for k, outcome in enumerate(self.log.outcomes):
            apart = difference(*self.pair, k)
            parts = (apart.bounds(alpha / self.family), apart.bounds(alpha))
            values = [value_bounds(judged, k, alpha) for judged in self.pair]
            intervals = [[as_interval(bounds, g, level) for bounds in (*parts, *values)] for g in groups]
            columns.append([self._verdict(outcome, g, intervals[g]) for g in groups])
        return self._by_units(tuple(tuple(column[g] for column in columns) for g in groups))

    def _verdict(self, outcome: Outcome, group: int, intervals: list[Interval]) -> Verdict:
        joint, alone, proposed, current = intervals
        unknown = direction_of(joint, outcome.margin) == "unknown"
        return verdict(
            outcome,
            joint,
            alone,
            current=current,
            proposed=proposed,
            unsupported=float(self.unsupported[group]),
            note=why_unknown(self.log, self.counted.names, self.pair, group, outcome) if unknown else None,
        )

    def _by_units(self, verdicts: Verdicts) -> Verdicts:
        """Intervals as wide as units (people, or stretches of the log) make them, where episodes are no units."""
        units = self.assessment.units
        if units is None or self.rows is None:
            return verdicts
        values = unit_values(self.log, self.rows, units, self.pair)
        freedom, alpha = len(values) - 1, 1 - self.question.level
        errors = jackknife(np.stack([values[:, 0], values[:, 1], values[:, 0] - values[:, 1]], axis=1))
        joint, alone = stats.t.ppf(1 - alpha / self.family / 2, freedom), stats.t.ppf(1 - alpha / 2, freedom)

        def wider(answer: Verdict, g: int, k: int) -> Verdict:
            new, old, both = (float(errors[part][g, k]) for part in range(3))
            parts = widened(answer.difference, joint * both), widened(answer.pointwise, alone * both)
            noun, behind = self.log.check.noun, float(self.episodes[g])
            many = counted(round(behind), noun) if np.isfinite(behind) else f"the log's {noun}s"
            reason = f"counted as {self.units(g)} {self.assessment.counted_as}, {many} are too few to tell"
            answer = directed(answer, self.log.outcomes[k], *parts, reason)
            assert answer.proposed is not None
            assert answer.current is not None
            return replace(
                answer, proposed=widened(answer.proposed, alone * new), current=widened(answer.current, alone * old)
            )

        return each(verdicts, wider)

    def halves(self) -> list[list[list[IntervalPair]]]:
        """Careful intervals from each half."""
        rows = self.rows
        if rows is None:
            return []
        late, alpha, level = 2 * rows.episode >= rows.n_episodes, 1 - self.question.level, self.question.level
        both = []
        for part in (~late, late):
            some = rows.some(part)
            pair = self._bounds(count_states(self.log, some, self._size[0], blocks=1).edges)
            apart = [difference(*pair, k) for k in range(len(self.log.outcomes))]
            bounds = [(one.bounds(alpha / self.family), one.bounds(alpha)) for one in apart]
            groups = range(len(self.episodes))
            both.append([[(as_interval(j, g, level), as_interval(a, g, level)) for j, a in bounds] for g in groups])
        return both

    def overlap(self) -> Assumption:
        """By the chance that an episode meets what nobody has tried."""
        return overlap_check(self.unsupported, self.episodes, self.log.check.noun)

    def units(self, group: int) -> int:
        """Distinct people (or stretches of the log) whose episodes begin in a group."""
        units, rows = self.assessment.units, self.rows
        assert units is not None
        if rows is None:
            return int(units.max()) + 1
        inside = self.starts.weights[group][rows.states[rows.first]] > 0
        return len(np.unique(units[inside]))

    def moved(self, group: int) -> tuple[FloatArray, FloatArray, BoolArray]:
        """By the visits of both policies."""
        new, old = (judged.visits[group] @ judged.target.table for judged in self.pair)
        count = 0 if self.rows is None else len(self.rows.actions)
        return np.abs(new - old), self.edges.made.sum(axis=0), np.ones(count, dtype=np.bool_)

    def compared(self, k: int, groups: list[int], sign: float = 1.0) -> Comparison:
        """In the log's own states."""
        return Comparison(self._moves.draws(k, self.log.discount), *self.pair, k, groups, sign=sign)

    @cached_property
    def _moves(self) -> Moves:
        rows, clock, (n_states, n_actions) = self.rows, self.assessment.clock, self._size
        assert rows is not None
        if clock is None:
            return Moves(self.edges, rows, n_actions)
        size = n_states // clock.steps
        halved = clock.halved(rows.states, size)
        copies = clock.copies(halved, following(rows, halved, 2 * size), halved[rows.first], size)
        return Moves(self.edges, rows, n_actions, copies)


def targets(
    counted: CountedLog, current: PolicyLike, proposed: PolicyLike, rng: np.random.Generator
) -> tuple[SplitPolicy, SplitPolicy, tuple[str, ...]]:
    """Both policies split against the one that wrote the log: new, old, warnings."""
    edges = counted.counts.edges
    visits = edges.visits
    new, old, shares = counted.table(proposed), counted.table(current), counted.table(LOG)
    known: FloatArray | None = None
    warnings: tuple[str, ...] = ()
    if not is_logs(current):
        known = old if wrote_the_log(edges.made, old[:: edges.copies], rng) else None
        if known is None:
            warnings = (
                "the logged actions do not look like the current policy's: on average it gives them probability "
                f"{float((visits * old).sum() / visits.sum()):.2f}; both policies are judged from the pairs they need",
            )
    met = visits.sum(axis=1) > 0
    split = [
        split_policy(table, known, same=None if known is not None else same_rows(table, shares) & met)
        for table in (new, old)
    ]
    return split[0], split[1], warnings


def as_interval(bounds: tuple[FloatArray, FloatArray, FloatArray], index: int, level: float) -> Interval:
    """One interval out of (guess, low, high) arrays."""
    guess, low, high = (float(part[index]) for part in bounds)
    return Interval(guess, low, high, level)


def why_unknown(
    log: Log, names: tuple[str, ...], pair: tuple[PolicyBounds, PolicyBounds], group: int, outcome: Outcome
) -> str:
    """One sentence, naming what would help most."""
    for judged, who in zip(pair, ("proposed", "current"), strict=True):
        mass = float(judged.unsupported[group])
        if mass > NO_MASS:
            decisions, place = f"{who} policy's {log.check.noun}s", _place(log, names, judged, group)
            said = f"{place}; {percent(mass)} of the {decisions} meet such a gap"
            if outcome.range is None:
                return f"{said}, and {outcome.name!r} has no declared range that would bound it"
            return said
    episodes = pair[0].starts.episodes[group]
    behind = "" if np.isinf(episodes) else f" from {counted(round(episodes), log.check.noun)} of this group"
    return f"the log has every decision that is needed, but too few of them to tell{behind}: the interval includes 0"


def _place(log: Log, names: tuple[str, ...], judged: PolicyBounds, group: int) -> str:
    """The largest gap that a group meets."""
    asks = judged.asks[group]
    state = int(asks.argmax())
    others = int((asks > NO_MASS).sum()) - 1
    more = f" (and in {others} more {'state' if others == 1 else 'states'})" if others else ""
    edges, deepened, where = judged.model.edges, assess(log).deepened, repr(names[state])
    if deepened is not None and deepened.steps > 1:
        where += f" as decision {state % deepened.steps + 1} of an episode"
    if deepened is not None and deepened.depth:
        where += " after the same decisions"
    if edges.state_visits[state] == 0:
        return f"no decision in {where} is followed up in the log{more}"
    if judged.model.loops[state]:
        return f"the log shows no way to an end from {where}{more}"
    untried = judged.target.rest[state] * (edges.visits[state] == 0)
    return f"nobody has tried {log.actions[int(untried.argmax())].name!r} in {where}{more}"


def by_units(log: Log, judged: PolicyBounds, intervals: list[list[Interval]]) -> list[list[Interval]]:
    """Intervals of one policy, [outcome][group of starts], as wide as units make them."""
    units, rows = assess(log).units, counted_rows(log)
    if units is None or rows is None:
        return intervals
    values = unit_values(log, rows, units, (judged,))
    halves = student_quantile(intervals[0][0].level, len(values) - 1) * jackknife(values)[0]
    return [[widened(one, halves[g, k]) for g, one in enumerate(groups)] for k, groups in enumerate(intervals)]


def widened(interval: Interval, half: float) -> Interval:
    """An interval that reaches at least so far to both sides of its estimate; exact ones as they are."""
    if interval.exact or not np.isfinite(interval.estimate):
        return interval
    centre = interval.estimate
    return replace(interval, low=min(interval.low, float(centre - half)), high=max(interval.high, float(centre + half)))


def unit_values(log: Log, rows: LoggedRows, units: IntArray, policies: Sequence[PolicyBounds]) -> FloatArray:
    """(blocks, policies, groups, outcomes) best guesses with each block of units (episodes,) left out in turn."""
    blocks = min(int(units.max()) + 1, MOST_BLOCKS)
    block = (units % blocks)[rows.episode].astype(np.uint64)
    counts = count_states(log, replace(rows, hashed=block), len(policies[0].target.table), blocks=blocks)
    groups, ranges = policies[0].starts, [outcome.range for outcome in log.outcomes]
    values = np.zeros((blocks, len(policies), len(groups.weights), len(ranges)))
    for left in range(blocks):
        part = counts.part(np.arange(blocks) != left)
        estimated = np.isfinite(groups.episodes)[:, None]  # else their starts are taken as known
        begun = np.where(estimated, part.starts.sum(axis=0) * (groups.weights > 0), groups.weights)
        begun = np.where(begun.sum(axis=1, keepdims=True) > 0, begun, groups.weights)
        starts = Starts(begun / begun.sum(axis=1, keepdims=True), groups.episodes)
        for p, judged in enumerate(policies):
            bounds = bound_policy(part.edges, judged.target, starts, ranges, discount=log.discount)
            values[left, p] = np.column_stack([starts.weights @ centre for centre in bounds.centre])
    return values


def jackknife(values: FloatArray) -> FloatArray:
    """Standard errors (…) from values (blocks, …) with one block left out each."""
    blocks = len(values)
    return np.asarray(np.sqrt((blocks - 1) / blocks * ((values - values.mean(axis=0)) ** 2).sum(axis=0)))


def logged_effects(
    log: Log, policies: PolicyPair, changes: RegionChanges, *, counted: CountedLog, level: float, seed: int
) -> Effects:
    """Effects of single changes, each judged as a policy."""
    few = replace(changes, asked=changes.asked[:MOST_JUDGED])
    family = 2 * len(few.asked) * len(log.outcomes)

    def apart(table: FloatArray) -> dict[str, Interval]:
        question = Question(policies[0], TablePolicy(table), None, level, family, lines=False, seed=seed)
        return {one.outcome: one.difference for one in StateJudge(log, question, counted).judged().verdicts[0]}

    old, new = (counted.table(policy) for policy in policies)
    return few.effects(log.features_of(np.arange(log.n_states)), old, new, apart)
