"""Two rules of thumb for landing on the moon: the second one brakes earlier. What does that do to the fuel?"""

import numpy as np

from polidiff import Outcome, Simulator, explain

NOTHING, LEFT, MAIN, RIGHT = range(4)


def pilot(brake):
    """Steer towards the middle and upright; fire the main engine when falling faster than `brake` times the height."""

    def act(observations):
        x, height, vx, vy, angle, spin, left, right = np.atleast_2d(observations).T
        tilt = np.clip(0.5 * x + vx, -0.4, 0.4)
        turn = 0.5 * (tilt - angle) - spin
        fall = -brake * height - vy
        landed = (left > 0) | (right > 0)
        turn, fall = np.where(landed, 0.0, turn), np.where(landed, -0.5 * vy, fall * 0.5)
        fire = (fall > np.abs(turn)) & (fall > 0.05)
        return np.select([fire, turn < -0.05, turn > 0.05], [MAIN, RIGHT, LEFT], NOTHING)

    return act


world = Simulator(
    "LunarLander-v3",
    horizon=300,
    outcomes=[Outcome("main engine", lambda s, a, n: (a == MAIN).astype(float), prefer="less", unit="bursts")],
)
print(explain(world, pilot(0.8), pilot(0.4), starts=20, max_steps=10_000, max_splits=1, max_rules=2))
