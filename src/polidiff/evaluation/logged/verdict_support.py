"""Verdicts from a log with what they rest on: units instead of episodes, time, and unrecorded reasons.

The judge's interval is never made narrower here: people who come back widen it, a failed test turns the verdict to
unknown, and what no test can see is told as the strength Γ up to which the verdict holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from polidiff.evaluation.assumptions.confounding import Acting, Comparison, Draws, Moves, holds_up_to, near_enough
from polidiff.evaluation.assumptions.log_checks import episode_totals, overlap_check, rare_event_check, unrecorded_check
from polidiff.evaluation.assumptions.words import DRAWN, fragile, hidden_reasons, rests_on
from polidiff.evaluation.logged.assessment import Assessment
from polidiff.evaluation.logged.counts import count_rows
from polidiff.evaluation.logged.episodes import some_episodes
from polidiff.evaluation.logged.starts import Starts
from polidiff.evaluation.logged.worst_case_bounds import PolicyBounds, bound_policy, difference
from polidiff.evaluation.verdicts import as_unknown, direction_of
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.explanation import Verdict
from polidiff.records.outcome import Assumption, Interval, Outcome
from polidiff.worlds.log_rows import LoggedRows

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

MOST_BLOCKS = 40  # of units that are left out in turn


@dataclass(frozen=True, eq=False)
class Judgement:
    """Two policies judged on one log: what verdicts were made from."""

    log: Log
    assessment: Assessment
    rows: LoggedRows | None  # with numbered states (or cells); None where the log is not held
    pair: tuple[PolicyBounds, PolicyBounds]  # proposed, current
    level: float
    family: int

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """In the order of the verdicts of a group."""
        return self.log.outcomes

    @property
    def starts(self) -> Starts:
        """Groups of starts, in the order of the verdicts."""
        return self.pair[0].starts

    @property
    def size(self) -> tuple[int, int]:
        """States and actions."""
        shape = self.pair[0].target.table.shape
        return int(shape[0]), int(shape[1])


Verdicts = tuple[tuple[Verdict, ...], ...]
Strengths = list[list[tuple[float | None, float | None]]]  # [group][outcome] Γ for every decision, and for one


@dataclass(frozen=True, eq=False)
class Backing:
    """What verdicts rest on beside their intervals, however these were made."""

    assessment: Assessment
    overlap: Assumption
    episodes: FloatArray  # (groups,)
    one_step: bool
    strengths: Strengths
    rare: list[list[Assumption | None]]  # [group][outcome] events that may be missing from the log

    def told(self, verdicts: Verdicts) -> Verdicts:
        """Each verdict with its strength and the line of what it rests on."""
        return tuple(tuple(self._line(v, g, k) for k, v in enumerate(group)) for g, group in enumerate(verdicts))

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """All that verdicts rest on; of rare events the gravest."""
        rare = [check for group in self.rare for check in group if check is not None]
        worst = sorted(rare, key=lambda a: ("doubtful", "not testable", "held").index(a.status))[:1]
        return (*self.assessment.assumptions, self.overlap, *worst, unrecorded_check(self.assessment.randomised))

    def _line(self, verdict: Verdict, group: int, k: int) -> Verdict:
        (every, one), rare, assessment = self.strengths[group][k], self.rare[group][k], self.assessment
        gamma = None if every is None else hidden_reasons(every, None if self.one_step else one, assessment.scale)
        if gamma is None and verdict.direction != "unknown" and assessment.randomised:
            gamma = DRAWN
        unit, episodes = "episodes", float(self.episodes[group])
        if assessment.units is not None:
            unit = f"episodes, counted as {int(assessment.units.max()) + 1} {assessment.counted_as}"
        checks = [*assessment.assumptions, self.overlap, *([rare] if rare is not None else [])]
        line = rests_on(episodes, unit, checks, gamma) if np.isfinite(episodes) else None
        return replace(verdict, holds_up_to=None if verdict.direction == "unknown" else every, rests_on=line)


def supported(
    judgement: Judgement, verdicts: Verdicts, *, lines: bool = True
) -> tuple[Verdicts, tuple[Assumption, ...]]:
    """Verdicts per group and outcome with what they rest on, and all assumptions behind them.

    Without `lines` only the intervals know of the log's assumptions: strengths Γ take time, and are not always told.
    """
    verdicts = _by_units(judgement, verdicts)
    verdicts = _through_time(judgement, verdicts)
    reason = judgement.assessment.reason
    if reason is not None:
        verdicts = tuple(tuple(as_unknown(v, reason) for v in group) for group in verdicts)
    if not lines:
        return verdicts, judgement.assessment.assumptions
    strengths = _strengths(judgement, verdicts)
    verdicts = _withstanding(judgement, verdicts, strengths)
    largest, episodes = _largest(judgement), judgement.starts.episodes
    rare = [
        [_rare_events(judgement, v, g, k, largest) for k, v in enumerate(group)] for g, group in enumerate(verdicts)
    ]
    several = judgement.rows is not None and len(judgement.rows.actions) > judgement.rows.n_episodes
    overlap = overlap_check(judgement.pair[0].unsupported, episodes)
    backing = Backing(judgement.assessment, overlap, episodes, not several, strengths, rare)
    return backing.told(verdicts), backing.assumptions


def _withstanding(judgement: Judgement, verdicts: Verdicts, strengths: Strengths) -> Verdicts:
    """Where the past was seen to matter, only verdicts that withstand some unrecorded reasons as well.

    A deeper state silences the test of history, also where a reason that was never recorded stands behind it.
    """
    if judgement.assessment.deepened is None:
        return verdicts
    reason = "the past matters in this log, and weak unrecorded reasons behind that would be enough to explain it"
    weak = [[every is not None and fragile(every, True) for every, _ in group] for group in strengths]
    return tuple(
        tuple(as_unknown(v, reason) if weak[g][k] else v for k, v in enumerate(group))
        for g, group in enumerate(verdicts)
    )


def directed(verdict: Verdict, outcome: Outcome, difference: Interval, pointwise: Interval, reason: str) -> Verdict:
    """The verdict for other intervals."""
    direction = direction_of(difference, outcome.margin)
    note = reason if direction == "unknown" and verdict.note is None else verdict.note
    valence = outcome.valence(direction)
    return replace(verdict, direction=direction, valence=valence, difference=difference, pointwise=pointwise, note=note)


def _by_units(judgement: Judgement, verdicts: Verdicts) -> Verdicts:
    """Intervals as wide as units (people, or stretches of the log) make them, where episodes are no units."""
    units, rows = judgement.assessment.units, judgement.rows
    if units is None or rows is None:
        return verdicts
    values = unit_values(judgement.log, rows, units, judgement.pair)
    freedom, alpha = len(values) - 1, 1 - judgement.level
    errors = jackknife(np.stack([values[:, 0], values[:, 1], values[:, 0] - values[:, 1]], axis=1))
    half = stats.t.ppf(1 - alpha / judgement.family / 2, freedom), stats.t.ppf(1 - alpha / 2, freedom)
    found = []
    for g, group in enumerate(verdicts):
        told = []
        for k, verdict in enumerate(group):
            joint, alone, new, old = (
                widened(interval, quantile * float(errors[part][g, k]))
                for interval, quantile, part in (
                    (verdict.difference, half[0], 2),
                    (verdict.pointwise, half[1], 2),
                    (verdict.proposed, half[1], 0),
                    (verdict.current, half[1], 1),
                )
            )
            assert joint is not None
            assert alone is not None
            reason = f"people come back: {freedom + 1} blocks of them are too few to tell"
            verdict = directed(verdict, judgement.outcomes[k], joint, alone, reason)
            told.append(replace(verdict, proposed=new, current=old))
        found.append(tuple(told))
    return tuple(found)


def by_units(
    log: Log,
    assessment: Assessment,
    rows: LoggedRows | None,
    judged: PolicyBounds,
    outcomes: Mapping[str, Interval],
) -> dict[str, Interval]:
    """Intervals of one policy's outcomes, as wide as units make them."""
    if assessment.units is None or rows is None:
        return dict(outcomes)
    values = unit_values(log, rows, assessment.units, (judged,))
    errors = jackknife(values)[0, 0]
    return {
        name: widened(interval, float(stats.t.ppf((1 + interval.level) / 2, len(values) - 1) * errors[k])) or interval
        for k, (name, interval) in enumerate(outcomes.items())
    }


def widened(interval: Interval | None, half: float) -> Interval | None:
    """An interval that reaches at least so far to both sides of its estimate; None and exact ones as they are."""
    if interval is None or interval.exact or not np.isfinite(interval.estimate):
        return interval
    centre = interval.estimate
    return replace(interval, low=min(interval.low, float(centre - half)), high=max(interval.high, float(centre + half)))


def unit_values(log: Log, rows: LoggedRows, units: IntArray, policies: Sequence[PolicyBounds]) -> FloatArray:
    """(blocks, policies, groups, outcomes) best guesses with each block of units (episodes,) left out in turn."""
    blocks = min(int(units.max()) + 1, MOST_BLOCKS)
    block = (units % blocks)[rows.episode].astype(np.uint64)
    states, actions = policies[0].target.table.shape
    counts = count_rows(replace(rows, hashed=block), rows.states, states, actions, blocks=blocks)
    groups, ranges = policies[0].starts, [outcome.range for outcome in log.outcomes]
    values = np.zeros((blocks, len(policies), len(groups.weights), len(ranges)))
    for left in range(blocks):
        part = counts.part(np.arange(blocks) != left)
        begun = part.starts.sum(axis=0) * (groups.weights > 0) if np.isfinite(groups.episodes).all() else groups.weights
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


def _through_time(judgement: Judgement, verdicts: Verdicts) -> Verdicts:
    """Where the world changed within the log, intervals span what either half of it says alone."""
    rows = judgement.rows
    if not judgement.assessment.drifts or rows is None:
        return verdicts
    late = 2 * rows.episode >= rows.n_episodes
    halves = [_of_part(judgement, some_episodes(rows, part)) for part in (~late, late)]
    reason = "early and late episodes of the log do not say the same"

    def spanned(verdict: Verdict, g: int, k: int) -> Verdict:
        joint = _spanning(verdict.difference, [half[0][k] for half in halves], g)
        alone = _spanning(verdict.pointwise, [half[1][k] for half in halves], g)
        return directed(verdict, judgement.outcomes[k], joint, alone, reason)

    return tuple(tuple(spanned(v, g, k) for k, v in enumerate(group)) for g, group in enumerate(verdicts))


def _of_part(judgement: Judgement, rows: LoggedRows) -> list[list[tuple[FloatArray, FloatArray, FloatArray]]]:
    """[simultaneous, alone][outcome] bounds (groups,) of the difference from a part of the log."""
    states, actions = judgement.size
    edges = count_rows(rows, rows.states, states, actions, blocks=1).edges
    ranges, alpha = [outcome.range for outcome in judgement.outcomes], 1 - judgement.level
    new, old = (
        bound_policy(edges, judged.target, judgement.starts, ranges, discount=judgement.log.discount)
        for judged in judgement.pair
    )
    apart = [difference(new, old, k) for k in range(len(ranges))]
    return [[part.bounds(level) for part in apart] for level in (alpha / judgement.family, alpha)]


def _spanning(own: Interval, others: Sequence[tuple[FloatArray, FloatArray, FloatArray]], group: int) -> Interval:
    low, high = (pick(float(other[at][group]) for other in others) for at, pick in ((1, min), (2, max)))
    return replace(own, low=min(own.low, low), high=max(own.high, high))


def _strengths(judgement: Judgement, verdicts: Verdicts) -> Strengths:
    """[group][outcome] Γ up to which a decided verdict holds, for every decision and for one of each episode."""
    found: Strengths = [[(None, None)] * len(group) for group in verdicts]
    if judgement.rows is None or judgement.assessment.randomised:
        return found
    moves, near = None, (judgement.pair[0].model.solve, judgement.pair[1].model.solve)
    quantile = float(stats.norm.isf((1 - judgement.level) / judgement.family / 2))
    for k, outcome in enumerate(judgement.outcomes):
        for direction, sign in (("more", 1.0), ("less", -1.0)):
            decided = [g for g, group in enumerate(verdicts) if group[k].direction == direction]
            if not decided:
                continue
            moves = moves if moves is not None else Moves(judgement.rows, *judgement.size)
            ends = [verdicts[g][k].difference for g in decided]
            edge = np.array([part.low if sign > 0 else -part.high for part in ends])
            compared = _compared(judgement, moves.draws(k, judgement.log.discount), outcome, decided)
            compared = replace(compared, near=near, within=near_enough(edge))
            compared = compared if sign > 0 else compared.negated()
            both = holds_up_to(compared, edge, quantile)
            near = compared.sides[0].near, compared.sides[1].near  # moves are the same for all outcomes
            for g, every, one in zip(decided, *both, strict=True):
                found[g][k] = float(every), float(one)
    return found


def _compared(judgement: Judgement, draws: Draws, outcome: Outcome, groups: Sequence[int]) -> Comparison:
    never = draws.visits.sum(axis=1) == 0
    new, old = (
        Acting(judged.target.table, (judged.target.rho >= 1.0) | never, judged.model.loops) for judged in judgement.pair
    )
    return Comparison(draws, new, old, judgement.starts.weights[list(groups)], outcome.range or (0.0, 0.0))


def _largest(judgement: Judgement) -> FloatArray:
    """(outcomes,) how far the outcome of a logged episode lies from the mean at most."""
    rows = judgement.rows
    if rows is None:
        return np.full(len(judgement.outcomes), np.inf)
    totals = episode_totals(rows)
    return np.asarray(np.abs(totals - totals.mean(axis=0)).max(axis=0, initial=0.0))


def _rare_events(judgement: Judgement, verdict: Verdict, group: int, k: int, largest: FloatArray) -> Assumption | None:
    """What an event that comes with one action, too rare to be seen, would have to cost to turn the verdict."""
    if verdict.direction not in ("more", "less"):
        return None
    new, old = (judged.visits[group] @ judged.target.table for judged in judgement.pair)
    taken = judgement.pair[0].model.edges.visits.sum(axis=0)
    heaviest = float((np.abs(new - old) / np.maximum(taken, 1.0)).max())
    if heaviest <= 0:
        return None
    edge = verdict.difference.low if verdict.direction == "more" else -verdict.difference.high
    return rare_event_check(edge, 1 / heaviest, judgement.outcomes[k].range, float(largest[k]))
