"""Diverging states of a log: in the model that it supports, or among its rows where states are features."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from polidiff.divergence import MOSTLY, Divergence, decide, labelled, table
from polidiff.evaluation.log import EstimatedComparison
from polidiff.evaluation.logged.policies import as_log_policy, is_logs
from polidiff.evaluation.logged.second_log import Reordered
from polidiff.evaluation.scores.propensity import CHANCE
from polidiff.options import DivergenceOptions
from polidiff.policies import PolicyLike

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

ESTIMATED = 0.5  # as MOSTLY, of a policy that a second log estimates: near a border its chances are in between


def find_divergence(
    log: Log, current: PolicyLike, proposed: PolicyLike, options: DivergenceOptions, *, seed: int = 0
) -> Divergence:
    """Where the policies part; "log" as a policy stands for the one that wrote the log."""
    if log.discrete:
        followed = EstimatedComparison(log, (current, proposed), seed=seed)
        asked = replace(options, unsure=followed.unsure(options.transition_tolerance))
        return table.find_divergence(followed.place, followed.current, followed.proposed, asked)
    return compare_rows(log, current, proposed, options, seed=seed)


def compare_rows(
    log: Log, current: PolicyLike, proposed: PolicyLike, options: DivergenceOptions, *, seed: int
) -> Divergence:
    """Where the policies part among the logged rows that are held."""
    rows = log.rows
    given = [as_log_policy(log, policy, seed=seed) for policy in (current, proposed)]
    old, new = (np.asarray(policy.probabilities(rows.states), dtype=np.float64) for policy in given)
    by_chance = CHANCE / np.sqrt(len(old)) if is_logs(current) else 0.0
    mostly = ESTIMATED if isinstance(given[1], Reordered) else MOSTLY
    decided = decide(old, new, by_chance, mostly=mostly)
    share = np.full(len(old), 1 / len(old))
    start = np.flatnonzero(rows.first)
    return labelled(
        decided,
        decided.differ(options.policy_tolerance),
        log.actions,
        states=rows.states,
        features=np.asarray(rows.states),
        weight=share,
        judged=share,
        episode=rows.rank,
        first=(np.arange(len(old)) - start[rows.episode]).astype(float),
        facts={"rows compared": len(old)},
    )
