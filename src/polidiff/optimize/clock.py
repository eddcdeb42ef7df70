"""Limits on the work: counts by default, seconds only if asked for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Clock:
    """Says when to stop. Without `seconds` it never does, so that the same input gives the same answer."""

    seconds: float | None = None
    started: float = field(default_factory=time.monotonic)
    stopped: bool = False  # whether time ran out while work was left

    def __reduce__(self) -> tuple[type[Clock], tuple[float | None]]:
        """As seconds left: another machine counts from elsewhere."""
        return Clock, (self.limit(),)

    def left(self) -> float:
        """Seconds left, infinite without a limit."""
        return float("inf") if self.seconds is None else self.seconds - (time.monotonic() - self.started)

    def limit(self) -> float | None:
        """Seconds left as a limit for a solver: at least 0, None without one."""
        return None if self.seconds is None else max(0.0, self.left())

    def over(self) -> bool:
        """Whether time is up; remembered in `stopped`."""
        if self.left() <= 0:
            self.stopped = True
        return self.stopped

    def share(self, part: float) -> Clock:
        """A clock that ends when `part` of what is left has passed."""
        return Clock(None if self.seconds is None else max(0.0, self.left() * part))
