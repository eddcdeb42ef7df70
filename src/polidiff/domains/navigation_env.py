"""The navigation task as a Gymnasium environment, registered as ``polidiff/Navigation-v0``.

Gymnasium 1.0 and later look into no installed package by themselves: import this module first, or write the id as
``"polidiff.domains.navigation_env:polidiff/Navigation-v0"``. `Simulator` finds the plain id without either.
"""

from __future__ import annotations

import gymnasium
import numpy as np

from polidiff.domains.navigation import HORIZON, NavigationModel
from polidiff.records.arrays import FloatArray

ID = "polidiff/Navigation-v0"
FARTHEST = 0.1 * (HORIZON + 1)  # a walker that never turns


class NavigationEnv(gymnasium.Env[FloatArray, np.int64]):
    """One walker; the same numbers as the vectorised model."""

    def __init__(self) -> None:
        self._model = NavigationModel()
        self.observation_space = gymnasium.spaces.Box(-FARTHEST, FARTHEST, shape=(2,), dtype=np.float64)
        self.action_space = gymnasium.spaces.Discrete(NavigationModel.n_actions)
        self._position = np.zeros((1, 2))

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[FloatArray, dict[str, object]]:
        """Back to the lower left tenth."""
        super().reset(seed=seed)
        self._position = self._model.reset(1, self.np_random)
        return np.array(self._position[0]), {}

    def step(self, action: np.int64) -> tuple[FloatArray, float, bool, bool, dict[str, object]]:
        """A tenth east, north or south."""
        self._position, rewards, ended = self._model.step(self._position, np.array([int(action)]), self.np_random)
        return np.array(self._position[0]), float(rewards[0]), bool(ended[0]), False, {}


def register() -> None:
    """Make the id known to Gymnasium, once."""
    if ID not in gymnasium.registry:
        gymnasium.register(ID, entry_point=f"{__name__}:NavigationEnv", max_episode_steps=HORIZON)


register()
