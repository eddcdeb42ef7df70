"""Open nodes of the branch and bound, one per row of some arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polidiff.records.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Nodes:
    """Open nodes, one per row."""

    choice: IntArray  # (b, S) best completion at `price`
    price: FloatArray  # (b,)
    tilt: FloatArray  # (b, guards) price of each guarded outcome
    total: FloatArray  # (b,) its return less price times changes, less what it takes from the guards' limits
    fixed: BoolArray  # (b, S)
    active: BoolArray  # (b, pairs)
    low: FloatArray  # (b,) the node may still beat steps between these numbers of changes
    high: FloatArray  # (b,)
    visits: FloatArray  # (b, S) at least so many visits are sure

    def __len__(self) -> int:
        return len(self.price)

    def bounding(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """What bounds a node, and between which numbers of changes: total, price, low, high."""
        return self.total, self.price, self.low, self.high

    def take(self, index: IntArray | slice | BoolArray) -> Nodes:
        """Some of the nodes."""
        return Nodes(*(getattr(self, name)[index] for name in self.__dataclass_fields__))


def join(parts: list[Nodes]) -> Nodes:
    """All nodes of several groups."""
    return Nodes(*(np.concatenate([getattr(p, name) for p in parts]) for name in Nodes.__dataclass_fields__))
