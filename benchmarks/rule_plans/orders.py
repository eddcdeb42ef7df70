"""Orders as moves of a rule, for the inventory of `polidiff.domains`."""

from __future__ import annotations

import numpy as np

from polidiff.frontier.rule_plans.moves import Move
from polidiff.records.arrays import FloatArray


def order_up_to(targets: list[int], largest: int = 10, lot: int = 1) -> list[Move]:
    """Moves "order up to U": as many lots as bring stock and order on the way nearest to U from below."""

    def wanted(target: int) -> Move:
        def level(features: FloatArray) -> FloatArray:
            return np.clip((target - features[:, 3]) // lot * lot, 0, largest)

        return Move.aim(f"order up to {target}", "order", level)

    return [wanted(target) for target in targets]
