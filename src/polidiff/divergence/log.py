"""Diverging rows of a log whose states are features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polidiff.divergence.record import Divergence, label_swaps
from polidiff.options import DivergenceOptions
from polidiff.policies import Policy, top_actions

if TYPE_CHECKING:
    from polidiff.worlds.log import Log


def compare_rows(log: Log, current: Policy, proposed: Policy, options: DivergenceOptions, *, seed: int) -> Divergence:
    """Where the policies part among the logged rows that are held."""
    rows = log.rows
    old, new = (np.asarray(policy.probabilities(rows.states)) for policy in (current, proposed))
    a_b = top_actions(old)
    a_e = top_actions(new, prefer=a_b)
    index = np.arange(len(a_b))
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
        episode=rows.episode,
        first=(index - start[rows.episode]).astype(float),
        facts={"rows compared": len(a_b)},
    )
