"""Diverging rows of a log whose states are features; one of labelled states is followed in the table it supports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polidiff.divergence import MOSTLY, Divergence, decide, labelled
from polidiff.evaluation.logged.policies import as_log_policy, is_logs
from polidiff.evaluation.logged.second_log import Reordered
from polidiff.evaluation.scores.propensity import CHANCE
from polidiff.options import ExplainOptions
from polidiff.policies import PolicyLike
from polidiff.records.arrays import BoolArray

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

ESTIMATED = 0.5  # as MOSTLY, of a policy that a second log estimates: near a border its chances are in between


def find_divergence(
    log: Log, current: PolicyLike, proposed: PolicyLike, options: ExplainOptions, *, unsure: BoolArray | None = None
) -> Divergence:
    """Where the policies part among the logged rows that are held; "log" stands for the policy that wrote them."""
    rows = log.rows
    given = [as_log_policy(log, policy, seed=options.seed) for policy in (current, proposed)]
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
