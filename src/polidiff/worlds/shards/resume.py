"""Work on the parts of a log that goes on where it stopped: finished parts are kept, and taken from where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from polidiff.parallel import stream_tasks

K = TypeVar("K", contravariant=True)
T = TypeVar("T")


class Keeper(Protocol[K, T]):
    """Where what was found of parts is kept, each under its key."""

    def holds(self, key: K, /) -> bool:
        """Whether a part is there."""
        ...

    def load(self, key: K, /) -> T | None:
        """What was found of a part that is there; None if it is damaged."""
        ...

    def save(self, key: K, found: T, /) -> None:
        """Keep what was found of a part."""
        ...


def resumed(
    function: Callable[..., T],
    parts: Sequence[tuple[K, tuple[Any, ...]]],
    keeper: Keeper[K, T] | None,
    *,
    threads: int = 1,
) -> Iterator[T]:
    """``function(*task)`` of every (key, task), in order, on the workers that the user chose; once for every key."""
    if keeper is None:
        yield from stream_tasks(function, [task for _, task in parts], threads=threads)
        return
    there = [keeper.holds(key) for key, _ in parts]
    missing = [task for (_, task), known in zip(parts, there, strict=True) if not known]
    fresh = iter(stream_tasks(function, missing, threads=threads))

    def found(key: K, task: tuple[Any, ...], known: bool) -> T:
        kept = keeper.load(key) if known else None
        if kept is not None:
            return kept
        made = function(*task) if known else next(fresh)
        keeper.save(key, made)
        return made

    for (key, task), known in zip(parts, there, strict=True):
        yield found(key, task, known)
