"""How far long work has come: silent unless someone listens.

Stages report through `track`; the command line installs a listener that draws bars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
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
