"""What one policy achieves, from a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polidiff.evaluation.logged.behaviour import wrote_the_log
from polidiff.evaluation.logged.bootstrap import RESAMPLES, bootstrap_values
from polidiff.evaluation.logged.borrowed_bounds import borrowed_bounds, borrowed_values
from polidiff.evaluation.logged.compare import AUTO, as_interval
from polidiff.evaluation.logged.counted_log import LOG, CountedLog, counted_log
from polidiff.evaluation.logged.counts import BLOCKS, count_log, count_rows
from polidiff.evaluation.logged.cross_check import cross_check
from polidiff.evaluation.logged.model import SplitPolicy, same_rows, split_policy
from polidiff.evaluation.logged.starts import Starts, group_starts
from polidiff.evaluation.logged.worst_case_bounds import PolicyBounds, bound_policy, value_bounds
from polidiff.records.arrays import FloatArray
from polidiff.records.evaluation import Evaluation
from polidiff.records.interval import Interval

if TYPE_CHECKING:
    from polidiff.worlds.log import Log


def evaluate_log(
    log: Log,
    policy: Any,
    *,
    level: float = 0.95,
    logged_by: Any = AUTO,
    checks: bool = True,
    resamples: int = RESAMPLES,
    counted: CountedLog | None = None,
    seed: int = 0,
) -> Evaluation:
    """Expected outcomes of a policy over the logged starts and from each of them, under the careful rule.

    Parameters
    ----------
    policy : policy, or "log"
        "log" is the policy that wrote the log.
    logged_by : policy, "auto" or None
        Who wrote the log. "auto": this policy, if the logged actions look like it. None: not known.
    checks : bool
        Also give the weighted estimates, the effective sample size and the bootstrap, in ``details``.
    """
    counted = counted if counted is not None else counted_log(log, (policy,), seed=seed, history=True)
    target = single_target(counted, policy, logged_by, np.random.default_rng(seed))
    edges, ranges = counted.counts.edges, [outcome.range for outcome in log.outcomes]
    starts = group_starts(None, counted.start_state, counted.start_episodes, edges.n_states)
    judged = bound_policy(edges, target, starts, ranges, discount=log.discount)
    bounds = [value_bounds(judged, k, 1 - level) for k in range(len(ranges))]
    outcomes = {o.name: as_interval(bounds[k], 0, level) for k, o in enumerate(log.outcomes)}
    details = {
        "rows": float(log.check.rows),
        "episodes": float(log.check.episodes),
        **({"episodes drawn": float(log.rows.n_episodes)} if log.sampled else {}),
        "unsupported": float(judged.unsupported[0]),
        "states in loops": float((judged.model.loops & (edges.state_visits > 0)).sum()),
        **_borrow_details(log, judged, level),
    }
    if checks:
        details |= _check_details(log, counted, policy, target, outcomes, level, resamples, seed)
    return Evaluation(
        outcomes=outcomes,
        per_start=_per_start(log, counted, target, level) if log.discrete else {},
        method=f"careful model of {log.check.episodes} logged episodes",
        truncated=log.check.cut / max(log.check.episodes, 1),
        details=details,
    )


def single_target(counted: CountedLog, policy: Any, logged_by: Any, rng: np.random.Generator) -> SplitPolicy:
    """A policy split against the one that wrote the log."""
    table, visits = counted.table(policy), counted.counts.edges.visits
    if isinstance(logged_by, str) and logged_by == AUTO:
        known = table if not isinstance(policy, str) and wrote_the_log(visits, table, rng) else None
    else:
        known = None if logged_by is None else counted.table(logged_by)
    if known is not None:
        return split_policy(table, known)
    return split_policy(table, None, same=same_rows(table, counted.table(LOG)) & (visits.sum(axis=1) > 0))


def _per_start(log: Log, counted: CountedLog, target: SplitPolicy, level: float) -> dict[str, dict[str, Interval]]:
    """Outcome -> start -> interval; each start on its own."""
    edges = counted.counts.edges
    single = np.zeros((len(counted.start_state), edges.n_states))
    single[np.arange(len(single)), counted.start_state] = 1.0
    starts = Starts(single, np.full(len(single), np.inf))
    judged = bound_policy(edges, target, starts, [outcome.range for outcome in log.outcomes], discount=log.discount)
    found: dict[str, dict[str, Interval]] = {}
    for k, outcome in enumerate(log.outcomes):
        bounds = value_bounds(judged, k, 1 - level)
        found[outcome.name] = {
            counted.names[state]: as_interval(bounds, index, level) for index, state in enumerate(counted.start_state)
        }
    return found


def _borrow_details(log: Log, judged: PolicyBounds, level: float) -> dict[str, float]:
    lent = borrowed_bounds(judged, level=level)
    details: dict[str, float] = {}
    for k, outcome in enumerate(log.outcomes):
        low, high = borrowed_values(judged, lent, k, 1 - level)
        details |= {f"{outcome.name}: borrow low": float(low[0]), f"{outcome.name}: borrow high": float(high[0])}
    return details


def _check_details(
    log: Log,
    counted: CountedLog,
    policy: Any,
    target: SplitPolicy,
    outcomes: dict[str, Interval],
    level: float,
    resamples: int,
    seed: int,
) -> dict[str, float]:
    checked = cross_check(log, policy, model=outcomes, level=level, counted=counted, seed=seed)
    details = {"effective episodes": checked.effective, "disagreements": float(len(checked.warnings))}
    for name, methods in checked.estimates.items():
        for method, interval in methods.items():
            details[f"{name}: {method}"] = interval.estimate
            details |= {f"{name}: {method} low": interval.low, f"{name}: {method} high": interval.high}
    drawn = _bootstrapped(log, counted, target, resamples, seed)
    for k, outcome in enumerate(log.outcomes):
        low, high = np.quantile(drawn[:, k], [(1 - level) / 2, (1 + level) / 2])
        details |= {f"{outcome.name}: bootstrap low": float(low), f"{outcome.name}: bootstrap high": float(high)}
    return details


def _bootstrapped(log: Log, counted: CountedLog, target: SplitPolicy, resamples: int, seed: int) -> FloatArray:
    """(B, K) outcomes over the logged starts; what is unknown in the middle of its range (0 without one)."""
    starts = group_starts(None, counted.start_state, counted.start_episodes, counted.counts.n_states)
    middle = np.array([0.0 if o.range is None else sum(o.range) / 2 for o in log.outcomes])
    counts = counted.counts
    if log.discrete:
        counts = count_log(log, blocks=BLOCKS)
    elif log.sampled:
        counts = count_rows(log.rows, counted.row_state(), counts.n_states, log.n_actions, blocks=BLOCKS)
    drawn = bootstrap_values(counts, target, starts, middle, discount=log.discount, resamples=resamples, seed=seed)
    values: FloatArray = drawn[:, 0, :]
    return values
