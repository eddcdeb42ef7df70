"""The navigation task as a Gymnasium environment, registered as ``polidiff/Navigation-v0``."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from polidiff.domains.navigation import HORIZON, NavigationModel


class NavigationEnv(gymnasium.Env[Any, Any]):
    """One walker; the same numbers as the vectorised model."""

    def __init__(self) -> None:
        self._model = NavigationModel()
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, shape=(2,), dtype=np.float64)
        self.action_space = gymnasium.spaces.Discrete(NavigationModel.n_actions)
        self._position = np.zeros((1, 2))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Back to the lower left tenth."""
        super().reset(seed=seed)
        self._position = self._model.reset(1, self.np_random)
        return np.array(self._position[0]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """A tenth east, north or south."""
        self._position, rewards, ended = self._model.step(self._position, np.array([int(action)]), self.np_random)
        return np.array(self._position[0]), float(rewards[0]), bool(ended[0]), False, {}


def register() -> None:
    """Called by Gymnasium when it looks for environments of installed packages."""
    gymnasium.register(
        "Navigation-v0", entry_point="polidiff.domains.navigation_env:NavigationEnv", max_episode_steps=HORIZON
    )
