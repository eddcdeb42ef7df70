"""What a result says about its world and how it was made."""

from __future__ import annotations

import platform
from dataclasses import replace
from importlib import metadata
from typing import Any

import numpy as np

from polidiff._version import __version__
from polidiff.divergence.record import Divergence
from polidiff.records.arrays import FloatArray
from polidiff.records.explanation import Feature, Methods, WorldSummary
from polidiff.worlds.rollouts import Steppable
from polidiff.worlds.tabular import TabularMDP


def world_summary(world: Steppable, divergence: Divergence | None = None) -> WorldSummary:
    """Actions, features with the range seen, and facts."""
    if isinstance(world, TabularMDP):
        facts: dict[str, str | float | int] = {"states": world.n_states, "starts": len(world.starts)}
        if world.discount < 1:
            facts["discount"] = world.discount
        seen = world.features_of(np.arange(world.n_states))
    else:
        facts = {"horizon": world.horizon}
        seen = divergence.features if divergence is not None else world.features_of(world.stepper(16, (0,)).states)
    if divergence is not None:
        facts.update(divergence.facts)
    return WorldSummary(world.kind, world.actions, features_seen(seen, world.feature_names), facts)  # type: ignore[arg-type]


def features_seen(rows: Any, names: tuple[str, ...]) -> tuple[Feature, ...]:
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


def within(features: tuple[Feature, ...], low: FloatArray, high: FloatArray) -> tuple[Feature, ...]:
    """Features with ranges (d,) that more rows have shown; those of words stay as they are."""
    return tuple(
        replace(feature, low=float(least), high=float(most)) if feature.kind == "number" else feature
        for feature, least, most in zip(features, low, high, strict=True)
    )


def methods_record(options: Any, method: str, family: int) -> Methods:
    """How the result was made."""
    return Methods(
        style=options.style,
        level=options.level,
        policy_tolerance=options.divergence.policy_tolerance,
        transition_tolerance=options.divergence.transition_tolerance,
        seed=options.seed,
        family=family,
        evaluation=method,
        versions=versions(),
    )


def versions() -> dict[str, str]:
    """Versions of what computed the result."""
    libraries = ("numpy", "scipy", "highspy", "scikit-learn")
    return {
        "polidiff": __version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in libraries},
    }
