"""Diverging states of a log: in the model that it supports, or among its rows where states are features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polidiff.divergence.record import Divergence, label_swaps
from polidiff.divergence.table import compare_tables
from polidiff.evaluation.log import EstimatedComparison
from polidiff.evaluation.logged.policies import as_log_policy, is_logs, logging_policy, row_chances
from polidiff.options import DivergenceOptions
from polidiff.policies import PolicyLike, top_actions
from polidiff.records.arrays import FloatArray

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

CHANCE = 2.5  # standard errors that a difference must exceed to be more than chance
LEAST = 1e-3  # chance of a logged action, at least


def find_divergence(
    log: Log, current: PolicyLike, proposed: PolicyLike, options: DivergenceOptions, *, seed: int = 0
) -> Divergence:
    """Where the policies part; "log" as a policy stands for the one that wrote the log."""
    if log.discrete:
        followed = EstimatedComparison(log, current, proposed, seed=seed)
        return compare_tables(followed.place, followed.current.table, followed.proposed.table, options)
    return compare_rows(log, current, proposed, options, seed=seed)


def chances_of(log: Log, policy: PolicyLike, *, seed: int) -> FloatArray:
    """(n, A) chances of a policy in the rows that are held; "log": estimated from them.

    Where no feature is seen to move what the log does, its policy is the shares of the whole log: chance borders of an
    estimate would be told as regions.
    """
    rows = log.rows
    if not is_logs(policy):
        return np.asarray(as_log_policy(log, policy).probabilities(rows.states), dtype=np.float64)
    shares = np.bincount(rows.actions, minlength=log.n_actions) / len(rows.actions)
    stated = row_chances(log, seed=seed)[np.arange(len(rows.actions)), rows.actions]
    gain = np.bincount(rows.person, np.log(np.maximum(stated, LEAST)) - np.log(shares[rows.actions]))
    if gain.mean() <= CHANCE * gain.std() / np.sqrt(len(gain)):
        return np.tile(shares, (len(rows.actions), 1))
    return np.asarray(logging_policy(log, seed=seed).probabilities(rows.states), dtype=np.float64)


def compare_rows(
    log: Log, current: PolicyLike, proposed: PolicyLike, options: DivergenceOptions, *, seed: int
) -> Divergence:
    """Where the policies part among the logged rows that are held."""
    rows = log.rows
    old, new = (chances_of(log, policy, seed=seed) for policy in (current, proposed))
    a_b = top_actions(old)
    a_e = top_actions(new, prefer=a_b)
    index = np.arange(len(a_b))
    if is_logs(current):  # which of two equal shares is larger is chance
        a_b = np.where(old[index, a_e] >= old[index, a_b] - CHANCE / np.sqrt(len(a_b)), a_e, a_b)
    p_b, p_e = old[index, a_b], new[index, a_e]
    differs = (a_b != a_e) | (np.abs(p_b - p_e) > options.policy_tolerance)
    label, swaps = label_swaps(differs, a_b, a_e, (p_b, p_e), tuple(action.name for action in log.actions))
    share = np.full(len(a_b), 1 / len(a_b))
    start = np.flatnonzero(rows.first)
    return Divergence(
        states=rows.states,
        features=np.asarray(rows.states),
        label=label,
        swaps=swaps,
        current=a_b,
        proposed=a_e,
        weight=share,
        judged=share,
        episode=rows.person,
        first=(index - start[rows.episode]).astype(float),
        facts={"rows compared": len(a_b)},
    )
