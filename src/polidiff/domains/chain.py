"""The discrete task of Yao et al. 2022 (arXiv 2207.06269), appendix A.1.

Twelve states; s11 ends the episode. In s1 action 1 takes the detour over s2, in s5 the one over s6, and each detour
visits a desired state at the price of a longer trajectory:

::

    s0 → s1 ─0→ s3 → s4 → s5 ─0→ s7 → s8 ─0→ s9  → s11
          └1→ s2 ┘          └1→ s6 ┘   └1→ s10 ┘

The paper's figure of the moves is missing; this is the reading that agrees with all of its text.
"""

from __future__ import annotations

import numpy as np

from polidiff.records.arrays import IntArray
from polidiff.records.outcome import Outcome
from polidiff.worlds.tabular import TabularMDP

AFTER_0 = (1, 3, 3, 4, 5, 7, 7, 8, 9, 11, 11)
AFTER_1 = (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 11)
DESIRED = (2, 6)


def world(slip: float = 0.0) -> TabularMDP:
    """The chain; with `slip`, the other action's move happens with that probability."""
    moves = np.zeros((12, 2, 12))
    for state, targets in enumerate(zip(AFTER_0, AFTER_1, strict=True)):
        for action in (0, 1):
            moves[state, action, targets[action]] += 1 - slip
            moves[state, action, targets[1 - action]] += slip
    rewards = np.full((12, 2), -0.001)
    rewards[1, 1] = 1.0
    rewards[5, 1] = 3.0
    rewards[[9, 10], 0] = 5.0
    desired = np.isin(np.arange(12), DESIRED).astype(float)
    return TabularMDP(
        moves,
        rewards,
        np.append(np.full(11, 1 / 11), 0.0),
        absorbing=[11],
        actions=["action 0", "action 1"],
        states=[f"s{s}" for s in range(12)],
        outcomes=[
            Outcome("trajectory length", 1.0, prefer="less", more="a longer trajectory", less="a shorter trajectory"),
            Outcome(
                "visits to desired states",
                desired,
                prefer="more",
                more="more visits to desired states",
                less="fewer visits to desired states",
            ),
        ],
        include_return=False,
    )


def current() -> IntArray:
    """Action 0 everywhere."""
    return np.zeros(12, dtype=np.int64)


def proposed() -> IntArray:
    """Action 1 in s0, s1 and s5."""
    actions = current()
    actions[[0, 1, 5]] = 1
    return actions
