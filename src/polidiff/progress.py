"""How far long work has come, silent unless someone listens, and when it has to stop.

Stages report through `track`; the command line installs a listener that draws bars.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

Listener: TypeAlias = Callable[[str, float, str], None]  # what is done, share done, remark
T = TypeVar("T")

_listener: ContextVar[Listener | None] = ContextVar("polidiff_progress", default=None)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Send reports of the work inside to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(what: str, share: float, remark: str = "") -> None:
    """Tell the listener, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(what, share, remark)


def track(what: str, items: Sequence[T]) -> Iterable[T]:
    """The items, reporting after each.

    >>> with listening(lambda what, share, remark: print(what, share)):
    ...     _ = list(track("roll-outs", [1, 2]))
    roll-outs 0.5
    roll-outs 1.0
    """
    for index, item in enumerate(items):
        yield item
        report(what, (index + 1) / len(items))


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
