r"""Fitted-Q: values of decisions by repeated regression, for states that are features.

.. math:: Q_{j+1}(s, a) \approx g + \gamma \sum_{a'} \pi(a' \mid s')\, Q_j(s', a')

With :math:`\pi` given this evaluates a policy; with the best supported action in its place it learns one. Rows whose
successor was not recorded take no part. The bootstrap refits on reweighted episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.evaluation.logged.counted_log import as_log_policy
from polidiff.evaluation.logged.encoder import Encoder, fit_encoder
from polidiff.evaluation.logged.episodes import outcomes_to_come
from polidiff.evaluation.monte_carlo import student_quantile
from polidiff.parallel import run_tasks
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray
from polidiff.records.outcome import Interval
from polidiff.worlds.log_rows import LoggedRows
from polidiff.worlds.shards.transition_counts import CUT

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

SWEEPS = 30
RESAMPLES = 30


@dataclass(frozen=True, eq=False)
class FittedQ:
    """A regressor of the outcome to come, given encoded features and one indicator per action."""

    regressor: Any
    encode: Encoder
    n_actions: int

    def values(self, states: AnyArray) -> FloatArray:
        """(n, A) expected outcome of each action."""
        return _all_actions(self.regressor, self.encode(states), self.n_actions)


def default_regressor(seed: int) -> Any:
    """Boosted trees: they keep missing values and need no scaling."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(max_iter=60, max_leaf_nodes=15, early_stopping=False, random_state=seed)


def fitted_q(
    log: Log,
    policy: Any,
    outcome: int = 0,
    *,
    regressor: Callable[[int], Any] = default_regressor,
    sweeps: int = SWEEPS,
    weights: FloatArray | None = None,
    seed: int = 0,
) -> FittedQ:
    """Values of a policy's decisions for one outcome; any regressor with fit(X, y, sample_weight) and predict."""
    encode = fit_encoder(_matrix(log.rows.states))
    chances = np.asarray(as_log_policy(log, policy).probabilities(log.rows.states), dtype=np.float64)
    ahead = _Ahead(outcome, log.discount, log.n_actions, lambda q: (chances * q).sum(axis=1))
    return _sweep(log.rows, encode, ahead, regressor, sweeps, weights, seed)


def fitted_q_interval(
    log: Log,
    policy: Any,
    outcome: int = 0,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    sweeps: int = SWEEPS,
    regressor: Callable[[int], Any] = default_regressor,
    seed: int = 0,
) -> Interval:
    """Expected outcome over the logged starts; Student interval on the scatter of resampled episodes."""
    if resamples < 2:
        raise InvalidOptionError(f"resamples must be at least 2; got {resamples!r}")
    estimate = _start_mean(log, policy, outcome, regressor, sweeps, None)
    seeds = np.random.SeedSequence(seed).spawn(resamples)
    tasks = [(log, policy, outcome, regressor, sweeps, child) for child in seeds]
    drawn = run_tasks(_start_mean, tasks, what="refitting values on resampled episodes")
    half = student_quantile(level, resamples - 1) * float(np.std(drawn, ddof=1))
    return Interval(estimate, estimate - half, estimate + half, level)


def fitted_q_iteration(
    log: Log,
    rows: LoggedRows,
    supported: BoolArray,
    *,
    sign: float = 1.0,
    outcome: int = 0,
    sweeps: int = SWEEPS,
    seed: int = 0,
) -> FittedQ:
    """Values of the best supported decisions over rows of the log: `supported` (n, A) says what each state offers."""
    encode = fit_encoder(_matrix(rows.states))

    def best(q: FloatArray) -> FloatArray:
        return np.asarray(sign * np.where(supported, sign * q, -np.inf).max(axis=1))

    ahead = _Ahead(outcome, log.discount, log.n_actions, best)
    return _sweep(rows, encode, ahead, default_regressor, sweeps, None, seed)


def _start_mean(
    log: Log, policy: Any, outcome: int, regressor: Any, sweeps: int, child: np.random.SeedSequence | None
) -> float:
    rows = log.rows
    episodes = np.ones(rows.n_episodes)
    if child is not None:
        episodes = np.random.default_rng(child).exponential(size=rows.n_episodes)
    weights = None if child is None else episodes[rows.episode]
    fitted = fitted_q(log, policy, outcome, regressor=regressor, sweeps=sweeps, weights=weights)
    starts = rows.states[rows.first]
    chances = np.asarray(as_log_policy(log, policy).probabilities(starts), dtype=np.float64)
    return float(np.average((chances * fitted.values(_matrix(starts))).sum(axis=1), weights=episodes))


@dataclass(frozen=True, eq=False)
class _Ahead:
    """Which outcome is summed, and what a state is worth given the values (n, A) of its actions."""

    outcome: int
    discount: float
    n_actions: int
    value: Callable[[FloatArray], FloatArray]


def _sweep(
    rows: LoggedRows,
    encode: Encoder,
    ahead: _Ahead,
    regressor: Callable[[int], Any],
    sweeps: int,
    weights: FloatArray | None,
    seed: int,
) -> FittedQ:
    """Regress on logged sums first, then sweep: close to the logging policy few sweeps are needed."""
    n_actions, discount = ahead.n_actions, ahead.discount
    x = encode(_matrix(rows.states))
    usable = rows.follow != CUT
    inputs = _with_action(x, rows.actions, n_actions)[usable]
    weight = None if weights is None else weights[usable]
    target = outcomes_to_come(rows, discount)[:, ahead.outcome]
    fitted = regressor(seed).fit(inputs, target[usable], sample_weight=weight)
    follow, goes_on = rows.follow, rows.follow >= 0
    for _ in range(sweeps):
        value = ahead.value(_all_actions(fitted, x, n_actions))
        target = rows.gains[:, ahead.outcome] + discount * np.where(goes_on, value[np.where(goes_on, follow, 0)], 0.0)
        fitted = regressor(seed).fit(inputs, target[usable], sample_weight=weight)
    return FittedQ(fitted, encode, n_actions)


def _with_action(x: FloatArray, actions: AnyArray, n_actions: int) -> FloatArray:
    return np.column_stack([x, np.eye(n_actions)[actions]])


def _all_actions(regressor: Any, x: FloatArray, n_actions: int) -> FloatArray:
    columns = [regressor.predict(_with_action(x, np.full(len(x), a), n_actions)) for a in range(n_actions)]
    return np.column_stack(columns)


def _matrix(states: AnyArray) -> AnyArray:
    return states if states.ndim == 2 else states[:, None].astype(np.float64)
