"""Tasks that lose their worker, and an environment. Workers import this file by its name, so it lies on their path."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from polidiff.parallel import _answer


class Corridor(gymnasium.Env[Any, Any]):
    """A place between 0 and 5; action 1 moves on, action 0 may move back. Ends beyond 5."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(-1.0, 9.0, (1,), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Somewhere on the left."""
        super().reset(seed=seed)
        self.place = float(self.np_random.uniform(0, 2))
        return np.array([self.place]), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move, more or less."""
        self.place = max(0.0, self.place + (1.0 if action else -0.5) * self.np_random.uniform(0.5, 1.0))
        return np.array([self.place]), -1.0 - 0.1 * action, self.place > 5, False, {}


def number(folder: str) -> int:
    """How many tasks were begun before this one, on all workers."""
    count = 0
    while True:
        try:
            os.close(os.open(Path(folder) / str(count), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            count += 1
        else:
            return count


def deadly(folder: str, driver: int, function: Any, task: tuple[Any, ...]) -> Any:
    """The answer of a task; the second task that is begun kills its worker instead."""
    if number(folder) == 1 and os.getpid() != driver:
        (Path(folder) / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _answer(function, task)


def slow(folder: str, driver: int, function: Any, task: tuple[Any, ...]) -> Any:
    """The answer of a task, after a while."""
    number(folder)
    time.sleep(0.4)
    return _answer(function, task)
