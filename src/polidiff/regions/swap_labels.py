"""Ways to tell a swap: as the pair of actions, or as the direction in which one component moves.

With ordered actions (fluid level, pressor level) there are many pairs and few directions. A direction is told where
it lets fewer words describe the difference as well.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from polidiff.divergence import Divergence
from polidiff.records.action import Action, Direction, Swap
from polidiff.records.arrays import IntArray


@dataclass(frozen=True, eq=False)
class SwapLabels:
    """A label for every visited state, and what each label means."""

    label: IntArray  # (n,) 0 where the policies agree, else 1 + index into `swaps`
    swaps: tuple[Swap, ...]


def as_pairs(divergence: Divergence) -> SwapLabels:
    """Every pair of actions on its own."""
    return SwapLabels(divergence.label, divergence.swaps)


def as_directions(divergence: Divergence, actions: tuple[Action, ...]) -> SwapLabels | None:
    """Pairs joined by the component that moves most and its direction; None if actions have no components."""
    components = list(actions[0].levels) if actions else []
    if not components:
        return None
    index = {action.name: action for action in actions}
    groups: dict[Direction | Swap, list[int]] = {}
    for k, swap in enumerate(divergence.swaps):
        key: Direction | Swap = swap
        if swap.shift is None:
            key = main_direction(index[swap.current], index[swap.proposed])
        groups.setdefault(key, []).append(k)
    label = np.zeros_like(divergence.label)
    swaps: list[Swap] = []
    for key, members in groups.items():
        rows = np.isin(divergence.label, [k + 1 for k in members])
        label[rows] = len(swaps) + 1
        if isinstance(key, Swap):
            swaps.append(key)
            continue
        most = Counter({k: float(divergence.weight[divergence.label == k + 1].sum()) for k in members}).most_common(1)[
            0
        ][0]
        pair = divergence.swaps[most]
        swaps.append(Swap(pair.current, pair.proposed, direction=key))
    return SwapLabels(label, tuple(swaps))


def main_direction(current: Action, proposed: Action) -> Direction:
    """The component that moves by most levels, the first one on a tie.

    >>> main_direction(Action.of({"fluid": 0, "pressor": 2}), Action.of({"fluid": 1, "pressor": 0}))
    Direction(component='pressor', sign=-1)
    """
    moves = {name: proposed.levels[name] - level for name, level in current.levels.items()}
    component = max(moves, key=lambda name: abs(moves[name]))
    return Direction(component, 1 if moves[component] > 0 else -1)
