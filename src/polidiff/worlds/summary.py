"""What a result says about its world: actions, features with the range seen, facts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch

import numpy as np

from polidiff.records.arrays import AnyArray
from polidiff.records.explanation import Feature, WorldSummary
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP

Facts = Mapping[str, str | float | int]


@singledispatch
def world_summary(world: object, seen: AnyArray | None = None, facts: Facts | None = None) -> WorldSummary:
    """The summary of a world, given feature rows that were seen in it and what was found out on the way."""
    raise NotImplementedError


@world_summary.register
def _(world: TabularMDP, seen: AnyArray | None = None, facts: Facts | None = None) -> WorldSummary:
    known: dict[str, str | float | int] = {"states": world.n_states, "starts": len(world.starts)}
    if world.discount < 1:
        known["discount"] = world.discount
    everywhere = world.features_of(np.arange(world.n_states))
    return WorldSummary(
        "table", world.actions, features_seen(everywhere, world.feature_names), {**known, **(facts or {})}
    )


@world_summary.register
def _(world: Simulator, seen: AnyArray | None = None, facts: Facts | None = None) -> WorldSummary:
    rows = world.features_of(world.stepper(16, (0,)).states) if seen is None else seen
    known = {"horizon": world.horizon, **(facts or {})}
    return WorldSummary("simulator", world.actions, features_seen(rows, world.feature_names), known)


def features_seen(rows: AnyArray, names: tuple[str, ...]) -> tuple[Feature, ...]:
    """Each feature with its kind and range."""
    result = []
    for column, name in zip(rows.T, names, strict=True):
        if column.dtype == object and not all(isinstance(v, (int, float)) for v in column[:100]):
            values = sorted({str(v) for v in column})
            result.append(Feature(name, "category", values=tuple(values[:50])))
        else:
            numbers = column.astype(float)
            result.append(Feature(name, "number", float(np.nanmin(numbers)), float(np.nanmax(numbers))))
    return tuple(result)
