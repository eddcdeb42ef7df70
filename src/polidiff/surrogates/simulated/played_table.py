r"""A table over cells, estimated from played episodes (section 5.2 and appendix C of the paper, mended).

Between cells the current policy acts. Each episode assigns a choice to every cell at random, so that every pair (cell,
choice) is seen and an episode behaves as one deterministic plan would. The total of rewards and outcomes until the next
cell belongs to the pair,

.. math:: \hat T(k' \mid k, c) = \frac{n(k, c, k')}{n(k, c)}, \qquad \hat R(k, c) = \frac{\sum r_{k,c:k'}}{n(k, c)},

what happens before the first cell is a constant offset, and staying in a cell is a self-loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.records.outcome import Outcome
from polidiff.surrogates.simulated.cell_games import CellCounts
from polidiff.worlds.protocol import aim
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP


def played_table(
    world: Simulator,
    counts: CellCounts,
    allowed: BoolArray,
    actions: Sequence[Any],
    states: Sequence[str],
    *,
    discount: float = 1.0,
) -> TabularMDP:
    """The estimated table: cells, a place for episodes that meet none, and the end.

    `allowed` (K + 2, C) says which choices each of them offers; `states` names the cells.
    """
    cells, choices = counts.gains.shape[:2]
    visits = counts.moves.sum(axis=2)
    seen = np.maximum(visits, 1.0)[:, :, None]
    moves = np.zeros((cells + 2, choices, cells + 2))
    moves[:cells, :, :cells] = counts.moves[:, :, :cells] / seen
    moves[:cells, :, cells + 1] = counts.moves[:, :, cells] / seen[:, :, 0]
    moves[:cells, :, cells + 1][visits == 0] = 1.0
    moves[cells, :, cells + 1] = 1.0
    gains = np.zeros((cells + 2, choices, counts.gains.shape[2]))
    gains[:cells] = counts.gains / seen
    main, _ = aim(world)
    return TabularMDP(
        moves,
        gains[:, :, main],
        np.append(counts.first, 0.0) / counts.first.sum(),
        absorbing=[cells + 1],
        actions=actions,
        states=[*states, "no region", "end"],
        allowed=allowed,
        discount=discount,
        outcomes=_outcomes(world.outcomes, gains, main),
        return_name=world.outcomes[main].name,
    )


def _outcomes(outcomes: Sequence[Outcome], gains: FloatArray, main: int) -> list[Outcome]:
    return [
        Outcome(o.name, gains[:, :, m], prefer=o.prefer, margin=o.margin, more=o.more, less=o.less, unit=o.unit)
        for m, o in enumerate(outcomes)
        if m != main
    ]
