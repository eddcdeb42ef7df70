"""Tasks that lose their worker. Workers import this file by its name, so it lies on their path."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from polidiff.parallel import _answer


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
