"""The explanation as an executable patch: what a reader would do who follows the rules to the letter."""

from __future__ import annotations

import numpy as np

from polidiff.divergence.record import Divergence
from polidiff.evaluation.comparison import Comparison
from polidiff.records.arrays import BoolArray
from polidiff.records.patch import Edit, Patch
from polidiff.regions.describe import Described


def patch_of(comparison: Comparison, described: Described, divergence: Divergence) -> Patch:
    """One edit per region and pair of actions; a direction is patched with the most frequent target of each action."""
    world = comparison.place
    names = tuple(action.name for action in world.actions)
    where = described.region_of(divergence.features)
    edits: list[Edit] = []
    for k, region in enumerate(described.regions):
        inside = (where == k) & divergence.diverging
        if region.swap.direction is None:
            pairs = [(names.index(region.swap.current), names.index(region.swap.proposed))]
        else:
            pairs = _frequent_targets(divergence, inside, len(names))
        for current, proposed in pairs:
            matching = divergence.states[(where == k) & (divergence.current == current)]
            states = comparison.edited_states(matching, proposed)
            edits.append(Edit(region.rule, current, proposed, states, region.swap.shift))
    return Patch(tuple(edits), names, world.feature_names, comparison.patch_features)


def _frequent_targets(divergence: Divergence, inside: BoolArray, count: int) -> list[tuple[int, int]]:
    key = divergence.current[inside] * count + divergence.proposed[inside]
    mass = np.bincount(key, weights=divergence.weight[inside], minlength=count * count).reshape(count, count)
    np.fill_diagonal(mass, 0.0)
    return [(int(a), int(mass[a].argmax())) for a in np.flatnonzero(mass.sum(axis=1) > 0)]
