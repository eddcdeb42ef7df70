"""Landing on the moon by a rule of thumb: what if the pilot lets go of the engines until the ground is near?"""

import numpy as np

from polidiff import Outcome, Simulator, explain

NOTHING, LEFT, MAIN, RIGHT = range(4)


def careful(observations):
    """Steer towards the middle and upright; fire the main engine when falling too fast for the height."""
    x, height, vx, vy, angle, spin, left, right = np.atleast_2d(observations).T
    landed = (left > 0) | (right > 0)
    turn = np.where(landed, 0.0, 0.5 * (np.clip(0.5 * x + vx, -0.4, 0.4) - angle) - spin)
    fall = np.where(landed, -0.5 * vy, 0.5 * (-0.6 * height - vy))
    fire = (fall > np.abs(turn)) & (fall > 0.05)
    return np.select([fire, turn < -0.05, turn > 0.05], [MAIN, RIGHT, LEFT], NOTHING)


def late(observations):
    """The same, but nothing above a height of 0.8."""
    return np.where(np.atleast_2d(observations)[:, 1] > 0.8, NOTHING, careful(observations))


world = Simulator(
    "LunarLander-v3",
    horizon=300,
    outcomes=[
        Outcome("bursts of the main engine", lambda states, actions, after: actions == MAIN, prefer="less",
                more="more bursts of the main engine", less="fewer bursts of the main engine"),
        Outcome("points for the landing", "reward", prefer="more", less="fewer points for the landing"),
    ],
    include_return=False,
)  # fmt: skip
print(explain(world, careful, late, starts=10, max_steps=10_000, max_splits=1, max_rules=3))
