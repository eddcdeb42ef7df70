"""The explanation as an executable patch: what a reader would do who follows the rules to the letter."""

from __future__ import annotations

from typing import Any

import numpy as np

from polidiff.divergence.record import Divergence
from polidiff.records.arrays import BoolArray
from polidiff.records.patch import Edit, Patch
from polidiff.regions.describe import Described
from polidiff.worlds.tabular import TabularMDP


def patch_of(world: Any, described: Described, divergence: Divergence) -> Patch:
    """One edit per region and pair of actions; a direction is patched with the most frequent target of each action."""
    names = tuple(action.name for action in world.actions)
    where = described.region_of(divergence.features)
    edits: list[Edit] = []
    for k, told in enumerate(described.regions):
        inside = (where == k) & divergence.diverging
        if told.swap.direction is None:
            pairs = [(names.index(told.swap.current), names.index(told.swap.proposed))]
        else:
            pairs = _frequent_targets(divergence, inside, len(names))
        for current, proposed in pairs:
            states = None
            if isinstance(world, TabularMDP):
                matching = divergence.states[(where == k) & (divergence.current == current)]
                states = tuple(int(s) for s in matching if world.allowed[s, proposed])
            edits.append(Edit(told.rule, current, proposed, states, told.swap.shift))
    features = None if isinstance(world, TabularMDP) else world.features_of
    return Patch(tuple(edits), names, world.feature_names, features)


def _frequent_targets(divergence: Divergence, inside: BoolArray, count: int) -> list[tuple[int, int]]:
    key = divergence.current[inside] * count + divergence.proposed[inside]
    mass = np.bincount(key, weights=divergence.weight[inside], minlength=count * count).reshape(count, count)
    np.fill_diagonal(mass, 0.0)
    return [(int(a), int(mass[a].argmax())) for a in np.flatnonzero(mass.sum(axis=1) > 0)]
