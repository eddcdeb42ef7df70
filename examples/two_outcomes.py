"""Deep sea treasure: a richer treasure costs time. Both are told, neither is hidden in a weight."""

import mo_gymnasium
import numpy as np

from polidiff import Outcome, Simulator, explain

world = Simulator(
    lambda: mo_gymnasium.make("deep-sea-treasure-v0"),
    horizon=50,
    actions=["up", "down", "left", "right"],
    feature_names=["depth", "distance"],
    outcomes=[
        Outcome("treasure", "reward:0", prefer="more", more="a richer treasure", less="a poorer treasure"),
        Outcome("time", lambda states, actions, after: 1.0, prefer="less", more="a longer dive", less="a shorter dive"),
    ],
    include_return=False,
)


def nearest(observations):
    """Dive at once."""
    return np.full(len(np.atleast_2d(observations)), 1)


def further(observations):
    """Swim three cells out, then dive."""
    return np.where(np.atleast_2d(observations)[:, 1] < 3, 3, 1)


print(explain(world, nearest, further, starts=20))
