"""Weighted estimates beside the model's: where they disagree beyond their intervals, the state may not be Markov."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polidiff.evaluation.logged.behaviour import estimate_behaviour
from polidiff.evaluation.logged.counted_log import LOG, CountedLog, as_log_policy, counted_log
from polidiff.evaluation.logged.counts import Counts, count_rows
from polidiff.evaluation.logged.episodes import some_episodes, whole_episodes
from polidiff.evaluation.logged.model import build_model, split_policy
from polidiff.evaluation.logged.weighting import Weighted, weighted_estimates
from polidiff.evaluation.monte_carlo import student_quantile
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.outcome import Interval
from polidiff.worlds.log_rows import LoggedRows

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

EFFECTIVE_FLOOR = 100.0  # below this the weighted intervals are not worth showing
MOST_CUT = 0.01
LEAST_CHANCE = 1e-3


@dataclass(frozen=True, eq=False)
class CrossCheck:
    """Estimates side by side, outcome -> method -> interval, over the logged starts."""

    estimates: Mapping[str, Mapping[str, Interval]]
    effective: float  # effective sample size, in episodes
    episodes: int
    behaviour: str  # where the logging probabilities come from
    shown: bool  # whether the effective sample size allows intervals
    warnings: tuple[str, ...]


def cross_check(
    log: Log,
    policy: Any,
    *,
    model: Mapping[str, Interval] | None = None,
    level: float = 0.95,
    counted: CountedLog | None = None,
    seed: int = 0,
) -> CrossCheck:
    """Five weighted estimates of a policy's outcomes; compared with the model's intervals if these are given."""
    counted = counted if counted is not None else counted_log(log, (policy,), seed=seed)
    keep = whole_episodes(log.rows)
    cut = 1 - float(keep[log.rows.first].mean())
    if cut > MOST_CUT:
        said = f"{cut:.0%} of the episodes were cut, so whole episodes cannot be reweighted without bias"
        return CrossCheck({}, 0.0, int((keep & log.rows.first).sum()), "none", False, (said,))
    rows, state = some_episodes(log.rows, keep), counted.row_state()[keep]
    chances, source = logging_chances(log, counted, keep, seed)
    table = counted.table(policy)
    taken = row_chances(log, counted, policy, keep)
    q, v = _cross_fitted(rows, state, table, log.n_actions, log.discount)
    found = weighted_estimates(rows, taken / chances, q, v, discount=log.discount)
    names = [outcome.name for outcome in log.outcomes]
    shown = found.effective >= EFFECTIVE_FLOOR
    estimates = {name: _intervals(found, k, level, shown) for k, name in enumerate(names)}
    warnings = _disagreements(estimates, model, shown) if model is not None else ()
    return CrossCheck(estimates, found.effective, rows.n_episodes, source, shown, warnings)


def row_chances(log: Log, counted: CountedLog, policy: Any, keep: Any) -> FloatArray:
    """(n,) probability of each logged action under the policy."""
    actions, states = log.rows.actions[keep], log.rows.states[keep]
    if isinstance(policy, str) and policy == LOG:
        shares: FloatArray = counted.table(LOG)[counted.row_state()[keep], actions]
        return shares
    table = np.asarray(as_log_policy(log, policy).probabilities(states), dtype=np.float64)
    chances: FloatArray = table[np.arange(len(actions)), actions]
    return chances


def logging_chances(log: Log, counted: CountedLog, keep: Any, seed: int) -> tuple[FloatArray, str]:
    """(n,) probability with which each logged action was taken, and where that comes from."""
    if log.rows.probability is not None:
        return log.rows.probability[keep], "the probability column"
    if log.discrete:
        shares = counted.table(LOG)[log.rows.states[keep], log.rows.actions[keep]]
        return shares, "the shares of each state in the log"
    behaviour = estimate_behaviour(log, seed=seed)
    chances = behaviour.row_probabilities[np.arange(len(keep)), log.rows.actions][keep]
    return np.maximum(chances, LEAST_CHANCE), f"{behaviour.method}, calibration error {behaviour.calibration_error:.3f}"


def _cross_fitted(
    rows: LoggedRows, state: IntArray, table: FloatArray, n_actions: int, discount: float
) -> tuple[FloatArray, FloatArray]:
    """Model values (n, M) of each row's action and state, from the half of the episodes that the row is not in."""
    q, v = np.zeros(rows.gains.shape), np.zeros(rows.gains.shape)
    for half in (0, 1):
        here = rows.episode % 2 == half
        if not here.any() or here.all():
            continue
        counts = count_rows(some_episodes(rows, ~here), state[~here], len(table), n_actions)
        for k in range(counts.n_outcomes):
            action_values, values = _model_values(counts, table, k, discount)
            q[here, k], v[here, k] = action_values[state[here], rows.actions[here]], values[state[here]]
    return q, v


def _model_values(counts: Counts, table: FloatArray, outcome: int, discount: float) -> tuple[FloatArray, FloatArray]:
    """Q (S, A) and V (S,) of the estimated model; unseen pairs count as their state, unseen states as the mean."""
    edges = counts.edges
    model = build_model(edges, split_policy(table, None), discount=discount, lend=True)
    values = model.values(outcome, 0.0)
    met = (edges.state_visits > 0) & ~model.loops
    values = np.where(met, values, values[met].mean() if met.any() else 0.0)
    draws = edges.sums[:, outcome] + edges.count * discount * np.append(values, 0.0)[edges.to]
    totals = np.bincount(edges.row, draws, len(edges.pair_state)) / edges.pair_visits
    q = np.repeat(values[:, None], edges.visits.shape[1], axis=1)
    q[edges.pair_state, edges.pair_action] = totals
    return q, np.asarray((table * q).sum(axis=1))


def _intervals(found: Weighted, outcome: int, level: float, shown: bool) -> dict[str, Interval]:
    t = student_quantile(level, max(found.effective - 1, 1.0))
    intervals = {}
    for name, estimate in found.estimates.items():
        half = t * found.errors[name][outcome] if shown else np.inf
        middle = float(estimate[outcome])
        intervals[name] = Interval(middle, float(middle - half), float(middle + half), level)
    return intervals


def _disagreements(
    estimates: Mapping[str, Mapping[str, Interval]], model: Mapping[str, Interval], shown: bool
) -> tuple[str, ...]:
    if not shown:
        return ("the weighted estimates rest on too few effective episodes to check the model",)
    said = []
    for name, others in estimates.items():
        robust, own = others["WDR"], model[name]
        if robust.low > own.high or robust.high < own.low:
            said.append(
                f"{name}: the model says {own.low:.4g} to {own.high:.4g}, the doubly robust estimate {robust.low:.4g} "
                f"to {robust.high:.4g}; the state may not be Markov"
            )
    return tuple(said)
