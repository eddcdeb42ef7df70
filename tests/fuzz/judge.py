"""What may happen at a door: the document is accepted, or refused in one line that says why. Nothing else.

A traceback of any other kind, a warning, a message over several lines and a case that takes too long are failures.
"""

from __future__ import annotations

import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from polidiff.errors import PolidiffError

SECONDS = 5.0  # of computing for one case
PATIENCE = 300.0  # seconds on the clock, in case it waits for something that never comes
LONGEST = 1_100  # characters of a message


class FailureError(AssertionError):
    """A case that was neither accepted nor refused as it should be: its kind, and what was said."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__(f"{kind}: {said[:400]!r}")
        self.kind = kind


class TooLongError(Exception):
    """A case that did not come to an end."""


def without_folders(text: str) -> str:
    """A failure as it may be kept: without the folders of one machine.

    >>> without_folders('File "/home/me/.venv/lib/site-packages/scipy/x.py", line 3')
    'File "site-packages/scipy/x.py", line 3'
    """
    return re.sub(r"/[^\s\"']*/(?=(?:site-packages|src|tests)/)", "", text)


@dataclass(frozen=True)
class Door:
    """Where something from outside comes in."""

    name: str
    cases: SearchStrategy[Any] | Callable[[int], Any]  # or the case of a number
    enter: Callable[[Any, Path], Any]  # the case and a folder of its own
    seconds: float | None = None  # of computing for one case, if not `SECONDS`


@dataclass
class Tally:
    """What came of many cases."""

    door: str
    cases: int = 0
    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0  # seconds of computing for one case
    failures: Counter[str] = field(default_factory=Counter)  # by kind and place
    examples: dict[str, str] = field(default_factory=dict)  # the first case of each kind
    seconds: float = 0.0


def verdict(door: Door, case: Any, folder: Path) -> str:
    """ "accepted" or "refused"; raises `FailureError` for anything else."""
    try:
        with no_warnings(), time_limit(door.seconds or SECONDS):
            door.enter(case, folder)
    except PolidiffError as error:
        check_message(str(error))
        return "refused"
    except FailureError:
        raise
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        raise FailureError(place_of(error), str(error)) from error
    return "accepted"


def written(folder: Path, name: str, content: bytes) -> Path:
    """A file with some content."""
    path = folder / name
    path.write_bytes(content)
    return path


def check_message(text: str) -> None:
    """One line, not empty, of a length that people read."""
    if not text.strip() or "\n" in text or "\r" in text:
        raise FailureError("a message that is not one line", text)
    if len(text) > LONGEST:
        raise FailureError(f"a message of over {LONGEST} characters", text)


def place_of(error: BaseException) -> str:
    """The kind of an error and the last of our own lines that it passed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/polidiff/" in frame.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "outside"
    return f"{type(error).__name__} in {place}"


@contextmanager
def no_warnings() -> Iterator[None]:
    """Warnings of libraries are failures; our own remarks about a patch that does not fit are not."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="an edit replaces")
        yield


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """An error in whatever runs when the time of computing is over, or the patience."""

    def over(number: int, frame: FrameType | None) -> None:
        raise TooLongError(f"not done after {seconds:g} s of computing or {PATIENCE:g} s of waiting")

    clocks = ((signal.SIGPROF, signal.ITIMER_PROF, seconds), (signal.SIGALRM, signal.ITIMER_REAL, PATIENCE))
    before = [signal.signal(sign, over) for sign, _, _ in clocks]
    try:
        for _, timer, limit in clocks:
            signal.setitimer(timer, limit)
        yield
    finally:
        for (sign, timer, _), handler in zip(clocks, before, strict=True):
            signal.setitimer(timer, 0.0)
            signal.signal(sign, handler)


def try_door(door: Door, count: int, *, start: int = 0) -> Tally:
    """`count` cases at a door, failures counted by kind instead of raised."""
    tally = Tally(door.name)

    def one(case: Any) -> None:
        began = time.process_time()
        try:
            with tempfile.TemporaryDirectory() as folder:
                result = verdict(door, case, Path(folder))
            tally.accepted += result == "accepted"
            tally.refused += result == "refused"
        except FailureError as failure:
            tally.failures[failure.kind] += 1
            if failure.kind not in tally.examples:
                tally.examples[failure.kind] = without_folders(f"{failure} from {case!r}")[:3_000]
                print(f"{door.name}, case {tally.cases}: {tally.examples[failure.kind]}", file=sys.stderr, flush=True)
        tally.cases += 1
        tally.slowest = max(tally.slowest, time.process_time() - began)

    began = time.process_time()
    if isinstance(door.cases, SearchStrategy):
        run = settings(
            max_examples=count,
            phases=[Phase.generate],
            database=None,
            deadline=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
        )(seed(start)(given(door.cases)(one)))
        run()
    else:
        for number in range(start, start + count):
            one(door.cases(number))
    tally.seconds = time.process_time() - began
    return tally
