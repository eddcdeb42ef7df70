"""Verdicts from a log: what a proposed policy does to each outcome for each group of starts, and what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polidiff.evaluation.comparison import GroupVerdicts
from polidiff.evaluation.logged.assessment import assess, deeper_counts, numbered_rows
from polidiff.evaluation.logged.behaviour import wrote_the_log
from polidiff.evaluation.logged.borrowed_bounds import borrowed_bounds, borrowed_difference
from polidiff.evaluation.logged.counted_log import LOG, CountedLog, counted_log
from polidiff.evaluation.logged.model import SplitPolicy, same_rows, split_policy
from polidiff.evaluation.logged.starts import group_starts
from polidiff.evaluation.logged.verdict_support import Judgement, supported
from polidiff.evaluation.logged.worst_case_bounds import NO_MASS, PolicyBounds, bound_policy, difference, value_bounds
from polidiff.evaluation.scores.verdicts import compare_by_scores
from polidiff.evaluation.verdicts import direction_of, verdict
from polidiff.records.arrays import FloatArray
from polidiff.records.explanation import Verdict
from polidiff.records.outcome import Interval, Outcome
from polidiff.worlds.log_check import start_people

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

AUTO = "auto"


def compare_log(
    log: Log,
    current: Any,
    proposed: Any,
    groups: Sequence[Any] | None = None,
    *,
    level: float = 0.95,
    family: int | None = None,
    logged_by: Any = AUTO,
    counted: CountedLog | None = None,
    lines: bool = True,
    seed: int = 0,
) -> GroupVerdicts:
    """Differences proposed − current for all outcomes of the log and every group of starts.

    Parameters
    ----------
    current, proposed : policies, or "log"
        "log" is the policy that wrote the log, whatever it was.
    groups : sequence of arrays over ``log.starts``, optional
        Masks, or weights that are taken as known; one group of all starts by default.
    family : int, optional
        Over how many comparisons the level must hold together; by default groups × outcomes.
    logged_by : policy, "auto" or None
        Who wrote the log. "auto": the current policy, if the logged actions look like it. None: not known.
    lines : bool
        Whether verdicts say what they rest on, and up to which strength of unrecorded reasons they hold.
    """
    if not log.discrete:
        return compare_by_scores(log, current, proposed, groups, level=level, family=family, lines=lines, seed=seed)
    counted = counted if counted is not None else counted_log(log)
    assessment = assess(log)
    if assessment.deepened is not None:
        counted = deeper_counts(log, assessment.deepened, counted)
    new, old, by_current, warnings = targets(counted, current, proposed, logged_by, np.random.default_rng(seed))
    edges, ranges = counted.counts.edges, [outcome.range for outcome in log.outcomes]
    starts = group_starts(groups, counted.start_state, counted.start_episodes, edges.n_states)
    pair = tuple(bound_policy(edges, target, starts, ranges, discount=log.discount) for target in (new, old))
    lent = tuple(borrowed_bounds(judged, level=level) for judged in pair)
    size = family if family is not None else len(starts.episodes) * len(log.outcomes)
    told = [_told(log, counted, (pair[0], pair[1]), (lent[0], lent[1]), k, level, size) for k in range(len(ranges))]
    groups_range = range(len(starts.episodes))
    judgement = Judgement(log, assessment, numbered_rows(log, assessment, counted), (pair[0], pair[1]), level, size)
    plain = tuple(tuple(verdicts[g] for verdicts, _ in told) for g in groups_range)
    verdicts, assumptions = supported(judgement, plain, lines=lines)
    loops = np.flatnonzero(pair[0].model.loops & (edges.state_visits > 0))
    return GroupVerdicts(
        verdicts=verdicts,
        borrowed=tuple(tuple(intervals[g] for _, intervals in told) for g in groups_range),
        unsupported=pair[0].unsupported,
        episodes=starts.episodes,
        family=size,
        logged_by_current=by_current,
        loops=tuple(counted.names[s] for s in loops),
        warnings=warnings,
        assumptions=assumptions,
        people=start_people(log, groups),
    )


def targets(
    counted: CountedLog, current: Any, proposed: Any, logged_by: Any, rng: np.random.Generator
) -> tuple[SplitPolicy, SplitPolicy, bool, tuple[str, ...]]:
    """Both policies split against the one that wrote the log: new, old, whether that is the current one, warnings."""
    visits = counted.counts.edges.visits
    new, old, shares = counted.table(proposed), counted.table(current), counted.table(LOG)
    known: FloatArray | None = None
    by_current, warnings = False, tuple[str, ...]()
    if isinstance(current, str) and current == LOG:
        by_current = True
    elif isinstance(logged_by, str) and logged_by == AUTO:
        by_current = wrote_the_log(visits, old, rng)
        known = old if by_current else None
        if not by_current:
            warnings = (
                "the logged actions do not look like the current policy's: on average it gives them probability "
                f"{float((visits * old).sum() / visits.sum()):.2f}; both policies are judged from the pairs they need",
            )
    elif logged_by is not None:
        known = counted.table(logged_by)
        by_current = bool(same_rows(known, old).all())
    met = visits.sum(axis=1) > 0
    split = [
        split_policy(table, known, same=None if known is not None else same_rows(table, shares) & met)
        for table in (new, old)
    ]
    return split[0], split[1], by_current, warnings


def _told(
    log: Log,
    counted: CountedLog,
    pair: tuple[PolicyBounds, PolicyBounds],
    lent: tuple[PolicyBounds, PolicyBounds],
    k: int,
    level: float,
    family: int,
) -> tuple[list[Verdict], list[Interval]]:
    """Verdicts and borrowed intervals of one outcome, per group."""
    alpha, outcome = 1 - level, log.outcomes[k]
    apart = difference(*pair, k)
    joint, alone = apart.bounds(alpha / family), apart.bounds(alpha)
    values = [value_bounds(judged, k, alpha) for judged in pair]
    low, high = borrowed_difference(apart, lent, alpha / family)
    guess = pair[0].starts.weights @ (lent[0].centre[k] - lent[1].centre[k])
    verdicts = [_verdict(log, counted, pair, outcome, g, joint, alone, values, level) for g in range(len(low))]
    inside = np.clip(guess, np.minimum(low, high), high)
    return verdicts, [Interval(float(inside[g]), float(low[g]), float(high[g]), level) for g in range(len(low))]


def _verdict(
    log: Log,
    counted: CountedLog,
    pair: tuple[PolicyBounds, PolicyBounds],
    outcome: Outcome,
    group: int,
    joint: tuple[FloatArray, FloatArray, FloatArray],
    alone: tuple[FloatArray, FloatArray, FloatArray],
    values: Sequence[tuple[FloatArray, FloatArray, FloatArray]],
    level: float,
) -> Verdict:
    difference = as_interval(joint, group, level)
    unknown = direction_of(difference, outcome.margin) == "unknown"
    return verdict(
        outcome,
        difference,
        as_interval(alone, group, level),
        current=as_interval(values[1], group, level),
        proposed=as_interval(values[0], group, level),
        unsupported=float(pair[0].unsupported[group]),
        note=why_unknown(log, counted.names, pair, group, outcome) if unknown else None,
    )


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
            said = f"{_place(log, names, judged, group)}; {mass:.0%} of the {who} policy's episodes meet such a gap"
            if outcome.range is None:
                return f"{said}, and {outcome.name!r} has no declared range that would bound it"
            return said
    episodes = pair[0].starts.episodes[group]
    behind = "" if np.isinf(episodes) else f" from {episodes:.0f} episodes of this group"
    return f"the log has every decision that is needed, but too few of them to tell{behind}: the interval includes 0"


def _place(log: Log, names: tuple[str, ...], judged: PolicyBounds, group: int) -> str:
    """The largest gap that a group meets."""
    asks = judged.asks[group]
    state = int(asks.argmax())
    others = int((asks > NO_MASS).sum()) - 1
    more = f" (and in {others} more {'state' if others == 1 else 'states'})" if others else ""
    edges = judged.model.edges
    if edges.state_visits[state] == 0:
        return f"no decision in {names[state]!r} is followed up in the log{more}"
    if judged.model.loops[state]:
        return f"the log shows no way to an end from {names[state]!r}{more}"
    untried = judged.target.rest[state] * (edges.visits[state] == 0)
    return f"nobody has tried {log.actions[int(untried.argmax())].name!r} in {names[state]!r}{more}"
