"""The proposed policy in batch form: a second log, written by it.

What it does is estimated from its rows, as for any log: shares of actions where states are labels, a calibrated
classifier where they are features. Where the second log has no row of a state, or where the two logs cannot be told
apart, it counts as acting as the first log does: nothing is told that is not shown.

What it achieves needs no model: the mean of its own episodes, beside that of the first log's. That is a comparison of
two groups of episodes, and it rests on both having begun alike; their starts are compared, and where they differ no
verdict is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from polidiff.errors import InvalidPolicyError
from polidiff.evaluation.comparison import GroupVerdicts
from polidiff.evaluation.logged.counted_log import CountedLog
from polidiff.evaluation.logged.counts import HALVES, count_rows
from polidiff.evaluation.logged.named import MOST_CUT, Estimates, as_verdicts, standard_error
from polidiff.evaluation.logged.policies import logged_shares, logging_policy
from polidiff.policies import Policy, TablePolicy
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.numbers import number, percent
from polidiff.records.outcome import Assumption
from polidiff.records.parse import Known, offered
from polidiff.worlds.log_rows import LoggedRows
from polidiff.worlds.protocol import known_actions

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

APART = 0.01  # chance below which two logs act differently in a state
STARTS_APART = 0.001  # chance below which they begin with different cases
ASSUMES = "Both logs are taken to have begun with the same kind of cases, in the same world."


def policy_behind(log: Log, other: Log, *, seed: int = 0) -> Policy:
    """The policy that wrote the other log, over the states and actions of this one."""
    order = _numbers(known_actions(log), known_actions(other), "action")
    if log.discrete != other.discrete or log.feature_names != other.feature_names:
        raise InvalidPolicyError(
            f"both logs must tell states by the same columns: {_columns(log)} here, {_columns(other)} in the other"
        )
    if not log.discrete:
        return Reordered(logging_policy(other, seed=seed), order, log.n_actions)
    first, second = (_visits(log, rows) for rows in (log.rows, rows_as_of(log, other)))
    differs = np.array([_differ(one, two) for one, two in zip(first, second, strict=True)])
    return TablePolicy(np.where(differs[:, None], logged_shares(second), logged_shares(first)))


def rows_as_of(log: Log, other: Log) -> LoggedRows:
    """The rows of the other log with states, actions and outcomes numbered as in this one."""
    rows = other.rows
    state = _numbers(_states(log), _states(other), "state")
    action = _numbers(known_actions(log), known_actions(other), "action")
    gains = rows.gains[:, _outcome_order(log, other)]
    return replace(rows, states=state[rows.states], actions=action[rows.actions], gains=gains, probability=None)


def counted_together(log: Log, other: Log, counted: CountedLog) -> CountedLog:
    """The first log's starts, and the moves that either log shows: both were written in one world."""
    one, two = log.rows, rows_as_of(log, other)
    both = LoggedRows(
        states=np.concatenate([one.states, two.states]),
        actions=np.concatenate([one.actions, two.actions]),
        episode=np.concatenate([one.episode, two.episode + one.n_episodes]),
        follow=np.concatenate([one.follow, np.where(two.follow >= 0, two.follow + len(one.follow), two.follow)]),
        gains=np.concatenate([one.gains, two.gains]),
        probability=None,
    )
    counts = count_rows(both, both.states, log.n_states, log.n_actions, blocks=HALVES)
    return replace(counted, counts=counts)


def _visits(log: Log, rows: LoggedRows) -> FloatArray:
    visits = np.zeros((log.n_states, log.n_actions))
    np.add.at(visits, (rows.states, rows.actions), 1.0)
    return visits


def judge_logs(
    log: Log, other: Log, masks: Sequence[BoolArray], others: Sequence[BoolArray], *, level: float
) -> GroupVerdicts:
    """Mean outcomes of both logs' episodes side by side, for groups given as masks over the episodes of each."""
    totals = [one.rows.to_come(one.discount)[one.rows.first] for one in (other, log)]
    totals[0] = totals[0][:, _outcome_order(log, other)]
    person = [one.rows.person[one.rows.first] for one in (other, log)]
    shape = (len(masks), len(log.outcomes))
    values, errors, freedom = np.zeros((2, *shape)), np.full((3, *shape), np.inf), np.ones(len(masks))
    for g, pair in enumerate(zip(others, masks, strict=True)):
        if min(int(mask.sum()) for mask in pair) < 2:
            continue
        for k, mask in enumerate(pair):
            own = totals[k][mask]
            values[k, g] = own.mean(axis=0)
            errors[k, g] = standard_error((own - own.mean(axis=0)) / len(own), person[k][mask])
        errors[2, g] = np.sqrt((errors[:2, g] ** 2).sum(axis=0))
        freedom[g] = min(len(np.unique(person[k][mask])) for k, mask in enumerate(pair)) - 1
    alike = starts_alike(log, other)
    failures = tuple(_why_not(log, other, alike, pair) for pair in zip(masks, others, strict=True))
    counts = " and ".join(number(one.rows.n_episodes) for one in (log, other))
    method = f"means of {counts} logged {log.check.noun}s side by side"
    estimates = Estimates(values, errors, np.maximum(freedom, 1.0), np.zeros(len(masks)), failures, method)
    verdicts = as_verdicts(log, estimates, masks, (alike,), level=level)
    people = np.array([len(np.unique(person[0][mask])) for mask in others])
    fewest = np.minimum(people, people if verdicts.people is None else verdicts.people)
    return replace(verdicts, warnings=(*log.notes, ASSUMES), assumptions=(alike,), people=fewest)


def starts_alike(log: Log, other: Log) -> Assumption:
    """Whether the episodes of both logs begin with the same kind of cases, by the feature that differs most."""
    one, two = (each.features_of(each.rows.states[each.rows.first]) for each in (log, other))
    chances = [_same_distribution(one[:, j], two[:, j]) for j in range(one.shape[1])]
    least = min(1.0, min(chances) * len(chances))
    worst = log.feature_names[int(np.argmin(chances))] if log.has_features else "the first state"
    return Assumption(
        "same starts",
        "starts of both logs side by side, feature by feature",
        "failed" if least < STARTS_APART else "held",
        f"p = {least:.2g}" + (f", {worst} most of all" if least < STARTS_APART else ""),
        "A difference in returns may be a difference of cases." if least < STARTS_APART else "",
        least,
    )


def _why_not(log: Log, other: Log, alike: Assumption, pair: tuple[BoolArray, BoolArray]) -> str | None:
    if alike.alarming:
        return f"the two logs begin with different cases ({alike.detail}), so what differs may be the cases"
    cut = max(1 - float(one.rows.whole[one.rows.first].mean()) for one in (log, other))
    if cut > MOST_CUT:
        return f"{percent(cut)} of a log's episodes were cut, and what would have followed is not known"
    return None if min(int(mask.sum()) for mask in pair) >= 2 else f"one of the logs has no such {log.check.noun}s"


def _differ(one: FloatArray, two: FloatArray) -> bool:
    """Whether counts of actions (A,) in a state come from two policies; not if one log never met the state."""
    if not (one.sum() and two.sum()):
        return False
    return _same_counts(np.array([one, two])) < APART


def _same_counts(table: FloatArray) -> float:
    """Chance of counts (2, k) at least as far apart, if both rows were drawn alike (likelihood ratio)."""
    from scipy import stats

    used = table[:, table.sum(axis=0) > 0]
    if used.shape[1] < 2:
        return 1.0
    return float(stats.chi2_contingency(used, correction=False, lambda_="log-likelihood")[1])


def _same_distribution(one: AnyArray, two: AnyArray) -> float:
    from scipy import stats

    if one.dtype.kind in "fiub" and two.dtype.kind in "fiub":
        one, two = (column[~np.isnan(column)] for column in (one, two))
        if min(len(one), len(two)) == 0 or len(one) == len(two) == 1:
            return 1.0  # too few to tell anything apart
        return float(stats.ks_2samp(one, two, method="asymp").pvalue)
    both = [np.asarray(column, dtype=object).astype(str) for column in (one, two)]
    levels = np.unique(np.concatenate(both))
    return _same_counts(np.array([[(column == level).sum() for level in levels] for column in both], dtype=np.float64))


def _states(log: Log) -> Known:
    return Known.of(log.states, lambda: log.common_words("state"))


def _numbers(known: Known, named: Known, what: str) -> IntArray:
    """The number in the first log of each state or action of the second."""
    number = {name: k for k, name in enumerate(known)}
    unknown = [name for name in named if name not in number]
    if unknown:
        some = list(dict.fromkeys([*offered(known), *offered(named)]))[:8]
        listed = ", ".join([*(f'"{name}"' for name in some), *["…"] * (len(some) < len(known) + len(unknown))])
        first = next((name for name in some if name in unknown), None)
        lacking = f"{what}s that few have" if first is None else f"{what} {first!r}"
        raise InvalidPolicyError(
            f"the second log has {lacking}, which the first does not know. Hint: {what}s=[{listed}] where the log is "
            "read (Log, or [world.log]) declares all of both"
        )
    return np.array([number[name] for name in named], dtype=np.int64)


def _outcome_order(log: Log, other: Log) -> IntArray:
    names = [outcome.name for outcome in other.outcomes]
    missing = [outcome.name for outcome in log.outcomes if outcome.name not in names]
    if missing:
        raise InvalidPolicyError(f"the second log must have the outcome {missing[0]!r}; it has {names}")
    return np.array([names.index(outcome.name) for outcome in log.outcomes], dtype=np.int64)


def _columns(log: Log) -> str:
    return ", ".join(log.feature_names) if log.has_features else "labels"


class Reordered:
    """A policy over the actions of one log, told over those of another."""

    def __init__(self, policy: Policy, order: IntArray, n_actions: int) -> None:
        self.policy, self.order, self.n_actions = policy, order, n_actions

    def probabilities(self, states: AnyArray) -> FloatArray:
        """(n, A) with 0 for actions that the other log does not know."""
        table = np.zeros((len(states), self.n_actions))
        table[:, self.order] = self.policy.probabilities(states)
        return table
