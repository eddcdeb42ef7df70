"""Standard streams that may be closed, full, or unable to write a character: a command's code stands all the same."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO


class Forgiving:
    """A text stream. A reader that has gone is no fault; a stream that cannot take more is one, told at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.fault: OSError | None = None

    def write(self, text: str) -> int:
        """Write, or drop what nobody can take."""
        if self.fault is None:
            try:
                return self._stream.write(text)
            except OSError as error:
                self._give_up(error)
        return len(text)

    def flush(self) -> None:
        """Flush, or drop what nobody can take."""
        if self.fault is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Say no more, and let the interpreter flush into nothing when it ends."""
        self.fault = error
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def forgiving_streams() -> Iterator[None]:
    """Standard streams on which writing never raises; characters that a terminal does not know are replaced."""
    before = sys.stdout, sys.stderr
    for stream in before:
        encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "")
        if encoding != "utf8" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    sys.stdout, sys.stderr = (stream if stream is None else Forgiving(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def fault_of_stdout() -> OSError | None:
    """Why the result could not be written; a reader that has gone had enough, which is no fault."""
    if sys.stdout is None:
        return None
    sys.stdout.flush()
    fault = getattr(sys.stdout, "fault", None)
    return None if isinstance(fault, BrokenPipeError) else fault
