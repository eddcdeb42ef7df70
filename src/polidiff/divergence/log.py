"""Diverging states of a log: in the model that it supports, or among its rows where states are features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polidiff.divergence import Divergence, label_swaps, table
from polidiff.evaluation.log import EstimatedComparison
from polidiff.evaluation.logged.policies import CHANCE, as_log_policy, is_logs
from polidiff.options import DivergenceOptions
from polidiff.policies import PolicyLike, top_actions

if TYPE_CHECKING:
    from polidiff.worlds.log import Log


def find_divergence(
    log: Log, current: PolicyLike, proposed: PolicyLike, options: DivergenceOptions, *, seed: int = 0
) -> Divergence:
    """Where the policies part; "log" as a policy stands for the one that wrote the log."""
    if log.discrete:
        followed = EstimatedComparison(log, (current, proposed), seed=seed)
        return table.find_divergence(followed.place, followed.current, followed.proposed, options)
    return compare_rows(log, current, proposed, options, seed=seed)


def compare_rows(
    log: Log, current: PolicyLike, proposed: PolicyLike, options: DivergenceOptions, *, seed: int
) -> Divergence:
    """Where the policies part among the logged rows that are held."""
    rows = log.rows
    given = (as_log_policy(log, policy, seed=seed) for policy in (current, proposed))
    old, new = (np.asarray(policy.probabilities(rows.states), dtype=np.float64) for policy in given)
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
        episode=rows.rank,
        first=(index - start[rows.episode]).astype(float),
        chances=(p_b, p_e),
        facts={"rows compared": len(a_b)},
    )
