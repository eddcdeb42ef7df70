"""Region records: ids, support, precision and recall, and what each action is worth there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from polidiff.divergence.record import Divergence
from polidiff.evaluation.exact import ExactEvaluator, outcome_tensor
from polidiff.explanation.journeys import Journeys
from polidiff.policies import Policy
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.explanation import Region, Support, SwapShare
from polidiff.regions.describe import Described, ToldRegion
from polidiff.streams import Stream
from polidiff.worlds.rollouts import play_from
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP

MOST_LISTED = 50
PLAYED = 50  # states of a region from which every action is tried


def meeting_order(described: Described, journeys: Journeys) -> IntArray:
    """Regions in order of typical first meeting; those never met last."""
    with np.errstate(all="ignore"):
        met = journeys.weight[:, None] * journeys.meets
        mean = np.nansum(met * np.nan_to_num(journeys.first_met), axis=0) / met.sum(axis=0)
    return np.argsort(np.where(np.isnan(mean), np.inf, mean), kind="stable")


def region_ids(described: Described, order: IntArray) -> tuple[str, ...]:
    """Names of regions: the state itself where a region is one state, else S1, S2 … in order of meeting."""
    ids = [""] * len(described.regions)
    for rank, k in enumerate(order):
        values = described.regions[k].rule.conditions[0].values if described.regions[k].rule.conditions else None
        single = values is not None and len(values) == 1 and described.regions[k].rule.features == ("state",)
        ids[k] = str(values[0]) if single and values is not None else f"S{rank + 1}"
    return tuple(ids)


def region_records(
    world: Any, described: Described, divergence: Divergence, ids: tuple[str, ...], proposed: FloatArray | None
) -> tuple[Region, ...]:
    """Records of all regions, in the order they are matched."""
    where = described.region_of(divergence.features)
    judge = described.held_out if described.held_out.any() else np.ones(len(where), dtype=np.bool_)
    values = _action_values(world, proposed) if isinstance(world, TabularMDP) and proposed is not None else None
    return tuple(
        _record(world, told, divergence, described, where == k, judge, ids[k], values)
        for k, told in enumerate(described.regions)
    )


def _record(
    world: Any,
    told: ToldRegion,
    divergence: Divergence,
    described: Described,
    inside: BoolArray,
    judge: BoolArray,
    name: str,
    values: FloatArray | None,
) -> Region:
    label = described.telling.label
    weight = divergence.judged if divergence.judged[inside & judge].sum() > 0 else divergence.weight
    right = inside & judge & (label == told.label)
    covered = float(weight[inside & judge].sum())
    such = float(weight[judge & (label == told.label)].sum())
    states: tuple[str, ...] = ()
    if isinstance(world, TabularMDP):
        states = tuple(world.states[s] for s in divergence.states[inside][:MOST_LISTED])
    episodes = int(np.unique(divergence.episode[inside]).size) if (divergence.episode >= 0).any() else int(inside.sum())
    return Region(
        id=name,
        rule=told.rule,
        current=told.swap.current,
        proposed=told.swap.proposed,
        support=Support(int(inside.sum()), episodes, float(divergence.judged[inside].sum())),
        precision=float(weight[right].sum()) / covered if covered > 0 else 1.0,
        recall=float(weight[right].sum()) / such if such > 0 else 1.0,
        shift=told.swap.shift,
        direction=told.swap.direction,
        swaps=_pairs(divergence, inside, weight),
        states=states,
        action_values=_values_inside(world, divergence, inside, weight, values),
        merged=told.merged,
    )


def _pairs(divergence: Divergence, inside: BoolArray, weight: FloatArray) -> tuple[SwapShare, ...]:
    mass = np.bincount(divergence.label[inside], weights=weight[inside], minlength=len(divergence.swaps) + 1)
    total = mass.sum()
    order = [k for k in np.argsort(-mass, kind="stable") if k > 0 and mass[k] > 0]
    return tuple(
        SwapShare(divergence.swaps[k - 1].current, divergence.swaps[k - 1].proposed, float(mass[k] / total))
        for k in order[:10]
    )


def with_played_values(
    world: Simulator,
    proposed: Policy,
    described: Described,
    divergence: Divergence,
    regions: tuple[Region, ...],
    *,
    seed: int,
) -> tuple[Region, ...]:
    """Regions with what each action is worth there, played from some of their states in a vectorised model."""
    where = described.region_of(divergence.features)
    names = [action.name for action in world.actions]
    valued = []
    for k, region in enumerate(regions):
        rows = np.flatnonzero(where == k)[:PLAYED]
        states = np.repeat(divergence.states[rows], world.n_actions, axis=0)
        first = np.tile(np.arange(world.n_actions), len(rows))
        totals = play_from(world, proposed, states, first, seed=(seed, Stream.REGION_VALUES, k))
        means = totals.reshape(len(rows), world.n_actions, -1).mean(axis=0) if len(rows) else totals
        values = {
            outcome.name: {name: float(means[a, m]) for a, name in enumerate(names)}
            for m, outcome in enumerate(world.outcomes)
            if len(rows)
        }
        valued.append(replace(region, action_values=values))
    return tuple(valued)


def _action_values(world: TabularMDP, proposed: FloatArray) -> FloatArray:
    """Expected outcomes (S, A, M) of taking an action and following the proposed policy from then on."""
    gains = outcome_tensor(world)
    values = np.nan_to_num(ExactEvaluator(world, proposed).values(gains))
    ahead = (world.transitions @ values).reshape(gains.shape)
    return np.where(world.allowed[:, :, None], gains + world.discount * ahead, np.nan)


def _values_inside(
    world: Any, divergence: Divergence, inside: BoolArray, weight: FloatArray, values: FloatArray | None
) -> Mapping[str, Mapping[str, float]]:
    if values is None or not inside.any():
        return {}
    states, share = divergence.states[inside], weight[inside]
    share = share / share.sum() if share.sum() > 0 else np.full(len(states), 1 / len(states))
    result: dict[str, dict[str, float]] = {}
    for m, outcome in enumerate(world.outcomes):
        here = values[states, :, m]
        offered = ~np.isnan(here)
        mass = share @ offered
        means = np.divide(share @ np.nan_to_num(here), mass, out=np.full(len(mass), np.nan), where=mass > 0)
        result[outcome.name] = {world.actions[a].name: float(v) for a, v in enumerate(means) if not np.isnan(v)}
    return result
