"""Region records: ids, support, precision and recall, and what each action is worth there."""

from __future__ import annotations

import numpy as np

from polidiff.divergence.record import Divergence
from polidiff.evaluation.comparison import Comparison
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.explanation import Region, Support, SwapShare
from polidiff.regions.describe import Described

MOST_LISTED = 50


def region_ids(described: Described, order: IntArray) -> tuple[str, ...]:
    """Names of regions: the state itself where a region is one state, else S1, S2 … in order of meeting."""
    ids = [""] * len(described.regions)
    for rank, k in enumerate(order):
        values = described.regions[k].rule.conditions[0].values if described.regions[k].rule.conditions else None
        single = values is not None and len(values) == 1 and described.regions[k].rule.features == ("state",)
        ids[k] = str(values[0]) if single and values is not None else f"S{rank + 1}"
    return tuple(ids)


def region_records(
    comparison: Comparison, described: Described, divergence: Divergence, ids: tuple[str, ...], *, seed: int
) -> tuple[Region, ...]:
    """Records of all regions, in the order they are matched."""
    where = described.region_of(divergence.features)
    supports = comparison.support(described.rules) or tuple(
        _support(divergence, where == k) for k in range(len(described.regions))
    )
    return tuple(
        _record(comparison, described, divergence, where, k, ids[k], supports[k], seed)
        for k in range(len(described.regions))
    )


def _support(divergence: Divergence, inside: BoolArray) -> Support:
    """Visited states in a region, and the episodes they belong to; the states of a table are visited by none."""
    played = (divergence.episode >= 0).any()
    episodes = int(np.unique(divergence.episode[inside]).size) if played else int(inside.sum())
    return Support(int(inside.sum()), episodes, float(divergence.judged[inside].sum()))


def _record(
    comparison: Comparison,
    described: Described,
    divergence: Divergence,
    where: IntArray,
    k: int,
    name: str,
    support: Support,
    seed: int,
) -> Region:
    region, label, inside = described.regions[k], described.labels.label, where == k
    judge = described.held_out if described.held_out.any() else np.ones(len(where), dtype=np.bool_)
    weight = divergence.judged if divergence.judged[inside & judge].sum() > 0 else divergence.weight
    right = inside & judge & (label == region.label)
    covered = float(weight[inside & judge].sum())
    such = float(weight[judge & (label == region.label)].sum())
    states = divergence.states[inside]
    return Region(
        id=name,
        rule=region.rule,
        current=region.swap.current,
        proposed=region.swap.proposed,
        support=support,
        precision=float(weight[right].sum()) / covered if covered > 0 else 1.0,
        recall=float(weight[right].sum()) / such if such > 0 else 1.0,
        shift=region.swap.shift,
        direction=region.swap.direction,
        swaps=_pairs(divergence, inside, weight),
        states=comparison.names(states[:MOST_LISTED]),
        action_values=comparison.action_values(states, weight[inside], k, seed=seed),
        merged=region.merged,
    )


def _pairs(divergence: Divergence, inside: BoolArray, weight: FloatArray) -> tuple[SwapShare, ...]:
    mass = np.bincount(divergence.label[inside], weights=weight[inside], minlength=len(divergence.swaps) + 1)
    total = mass.sum()
    order = [k for k in np.argsort(-mass, kind="stable") if k > 0 and mass[k] > 0]
    return tuple(
        SwapShare(divergence.swaps[k - 1].current, divergence.swaps[k - 1].proposed, float(mass[k] / total))
        for k in order[:10]
    )
