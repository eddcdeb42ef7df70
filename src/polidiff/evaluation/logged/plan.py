"""Planning from a log: models that only offer what was tried, a half that chooses and a half that judges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from polidiff.evaluation.logged.bounds import spread
from polidiff.evaluation.logged.counted_log import CountedLog
from polidiff.evaluation.logged.counts import Counts, Edges
from polidiff.evaluation.logged.model import build_model, split_policy
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.outcome import Outcome
from polidiff.worlds.protocol import aim
from polidiff.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

MIN_SUPPORT = 10  # times a pair must have been seen before a plan may use it
MIN_GROUP = 10  # episodes in which it must have been seen: a plan names no smaller group of people
END, UNKNOWN = "end", "unknown"


@dataclass(frozen=True, eq=False)
class Halves:
    """A log counted over its states, and two parts of it: one chooses a plan, the other judges it."""

    whole: CountedLog
    choosing: CountedLog
    judging: CountedLog


def choose_and_judge(counted: CountedLog) -> Halves:
    """A log split by episodes, so that a plan is not judged on the rows that chose it."""
    even, odd = counted.counts.halves()
    return Halves(counted, replace(counted, counts=even), replace(counted, counts=odd))


def supported_world(log: Log, counted: CountedLog, *, min_support: int, pessimism: float = 0.0) -> TabularMDP:
    """The estimated world, offering only pairs seen at least `min_support` times (or the state's most frequent pair).

    A pair must also have been seen in ten blocks of episodes, whatever `min_support`: no plan names a change that
    rests on fewer people.

    With `pessimism` z, each decision's reward is lowered by z standard errors of its estimated consequence, so that the
    best plan is the one with the best lower bound.
    """
    edges = counted.counts.edges
    met = edges.state_visits > 0
    allowed = (
        often_seen(counted, min_support) | (edges.visits == edges.visits.max(axis=1, keepdims=True)) & met[:, None]
    )
    return _as_world(log, counted, allowed, _penalty(log, edges, pessimism))


def often_seen(counted: CountedLog, min_support: int) -> BoolArray:
    """(S, A) pairs seen often enough, by enough people, for a plan to put them anywhere."""
    return np.asarray((counted.counts.edges.visits >= min_support) & (_groups(counted.counts) >= MIN_GROUP))


def _groups(counts: Counts) -> IntArray:
    """(S, A) blocks of episodes in which each pair was seen: at most as many as episodes, and all that counts keep."""
    shape = counts.n_states, counts.n_actions
    assert counts.n_blocks >= 2 * MIN_GROUP
    pair = np.ravel_multi_index((counts.state, counts.action), shape)
    spread = np.unique(pair * counts.n_blocks + counts.block)
    return np.asarray(np.bincount(spread // counts.n_blocks, minlength=shape[0] * shape[1]).reshape(shape))


def estimated_world(log: Log, counted: CountedLog) -> TabularMDP:
    """The estimated world in which every decision is possible; those that nobody has tried lead to "unknown"."""
    allowed = np.ones(counted.counts.edges.visits.shape, dtype=np.bool_)
    return _as_world(log, counted, allowed, np.zeros(allowed.shape))


def _as_world(log: Log, counted: CountedLog, allowed: BoolArray, penalty: FloatArray) -> TabularMDP:
    edges, size, n_actions = counted.counts.edges, counted.counts.n_states, log.n_actions
    end, unknown = size, size + 1
    met = edges.state_visits > 0
    chance = edges.count / edges.pair_visits[edges.row]
    action = edges.pair_action[edges.row]
    lost = np.argwhere((edges.visits == 0) & (allowed | ~met[:, None]))
    matrices = []
    for a in range(n_actions):
        here, gone = action == a, lost[lost[:, 1] == a, 0]
        data = np.concatenate([chance[here], np.ones(len(gone))])
        rows = np.concatenate([edges.state[here], gone])
        columns = np.concatenate([edges.to[here], np.full(len(gone), unknown)])
        matrices.append(sparse.csr_array((data, (rows, columns)), shape=(size + 2, size + 2)))
    offered = np.vstack([allowed | ~met[:, None], np.ones((2, n_actions), dtype=np.bool_)])
    gains = [_expected_gains(edges, j, n_actions) for j in range(counted.counts.n_outcomes)]
    (k, sign), total = aim(log), log.return_outcome
    described = log.discrete and log.has_features and size == log.n_states  # deeper states have no features
    return TabularMDP(
        matrices,
        _pad(sign * gains[k] - penalty),
        np.append(edges.starts / edges.starts.sum(), [0.0, 0.0]),
        absorbing=[end, unknown],
        actions=log.actions,
        states=[*_distinct(counted.names), END, UNKNOWN],
        features=_features(log, size) if described else None,
        feature_names=log.feature_names if described else None,
        allowed=offered,
        discount=log.discount,
        outcomes=_beside(total, log, gains),
        include_return=total is not None and any(outcome.name == total.name for outcome in log.outcomes),
        return_name="return" if total is None else total.name,
    )


def _expected_gains(edges: Edges, outcome: int, n_actions: int) -> FloatArray:
    table = np.zeros((edges.n_states, n_actions))
    totals = np.bincount(edges.row, edges.sums[:, outcome], len(edges.pair_state))
    table[edges.pair_state, edges.pair_action] = totals / edges.pair_visits
    return table


def _beside(total: Outcome | None, log: Log, gains: list[FloatArray]) -> list[Outcome]:
    """The outcomes beside the return."""
    pairs = zip(log.outcomes, gains, strict=True)
    return [replace(outcome, of=_pad(gain)) for outcome, gain in pairs if total is None or outcome.name != total.name]


def _penalty(log: Log, edges: Edges, pessimism: float) -> FloatArray:
    """(S, A) standard errors of each pair's expected return, valued as the logging policy goes on."""
    table = np.zeros(edges.visits.shape)
    if pessimism == 0.0:
        return table
    k, _ = aim(log)
    shares = edges.visits / np.maximum(edges.state_visits, 1)[:, None]
    model = build_model(edges, split_policy(shares, None), discount=log.discount)
    values = model.values(k, 0.0)
    variance = spread(edges, k, values, values, log.discount).pair / edges.pair_visits
    table[edges.pair_state, edges.pair_action] = pessimism * np.sqrt(np.maximum(variance, 0.0))
    return table


def _pad(table: FloatArray) -> FloatArray:
    return np.vstack([table, np.zeros((2, table.shape[1]))])


def _features(log: Log, size: int) -> AnyArray:
    table = log.features_of(np.arange(size))
    blank = np.full((2, table.shape[1]), None if table.dtype == object else np.nan, dtype=table.dtype)
    return np.vstack([table, blank])


def _distinct(names: tuple[str, ...]) -> list[str]:
    taken = {END, UNKNOWN}
    return [f"{name} (state {s})" if name in taken or names.count(name) > 1 else name for s, name in enumerate(names)]
