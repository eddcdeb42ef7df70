"""Around the work of a command: progress on stderr, results on stdout or into files, whatever the streams can hold."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from polidiff.records.codec import Record
    from polidiff.records.explanation import Explanation
    from polidiff.records.plan import Frontier, ResultComparison


SILENT_SECONDS = 2.0


@contextmanager
def progress(quiet: bool = False) -> Iterator[None]:
    """The work inside, on the engine that the flags name, with bars on stderr if it takes over two seconds.

    Silent when stderr is not a terminal.
    """
    from polidiff.parallel import on_engine
    from polidiff.progress import listening

    context = click.get_current_context(silent=True)
    how = {} if context is None else context.meta
    engine = {name: how.get(f"polidiff.{name}") for name in ("engine", "workers", "address")}
    with on_engine(**engine):
        if quiet or not sys.stderr.isatty():
            yield
            return
        bars = Bars()
        try:
            with listening(bars.report):
                yield
        finally:
            bars.close()


class Bars:
    """Draws a bar for each kind of work, once the work has lasted long enough to wonder about."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.drawn: Progress | None = None
        self.tasks: dict[str, TaskID] = {}

    def report(self, what: str, share: float, remark: str = "") -> None:
        """What is done, and how much of it."""
        if self.drawn is None:
            if time.monotonic() - self.began < SILENT_SECONDS:
                return
            from rich.console import Console
            from rich.progress import Progress

            self.drawn = Progress(console=Console(stderr=True), transient=True)
            self.drawn.start()
        if what not in self.tasks:
            self.tasks[what] = self.drawn.add_task(what, total=1.0)
        self.drawn.update(self.tasks[what], completed=share, description=f"{what} {remark}".strip())

    def close(self) -> None:
        """Take the bars away."""
        if self.drawn is not None:
            self.drawn.stop()


def tell(record: Record, text: str, *, as_json: bool) -> None:
    """Text on stdout, in which names from data do nothing to the terminal; or the record as one JSON document.

    JSON is written in ASCII where the stream cannot write all of its characters.
    """
    import json

    from polidiff.records.codec import dumps
    from polidiff.report.names import shown_lines

    if not as_json:
        click.echo(shown_lines(text))
        return
    document = dumps(record)
    try:
        document.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        document = json.dumps(json.loads(document), indent=1) + "\n"
    click.echo(document, nl=False)


@dataclass(frozen=True)
class Output:
    """Where a result goes, and how much is said on the way."""

    as_json: bool
    output: Path | None
    report: Path | None
    quiet: bool
    verbose: bool

    def deliver(
        self,
        record: Explanation | Frontier | ResultComparison,
        *,
        page: tuple[Explanation | Frontier, ...] = (),
        text: str | None = None,
    ) -> None:
        """Files first, so that nothing is said to be done that is not; then the result on stdout.

        `page` are the results that the report shows, if they are more than `record`; `text` is said instead of its own.
        """
        written = [save(record, self.output)] if self.output is not None else []
        if self.report is not None:
            written.append(save(page or (record,), self.report))
        tell(record, "" if self.as_json else str(record) if text is None else text, as_json=self.as_json)
        for path in () if self.quiet else written:
            click.echo(f"wrote {path}", err=True)

    def remark(self, text: str) -> None:
        """A line on stderr for those who asked for it."""
        if self.verbose:
            click.echo(text, err=True)


def save(record: Record | tuple[Record, ...], path: Path) -> Path:
    """Write a result, or several as one page, in the form that the file's ending names."""
    from polidiff.errors import InvalidOptionError
    from polidiff.records.codec import save_json

    records = record if isinstance(record, tuple) else (record,)
    if path.suffix.lower() in (".html", ".htm"):
        from polidiff.report.page import save_page

        return save_page(records, path)
    if len(records) != 1:
        raise InvalidOptionError(f"several results fit only into one page; {path.name!r} must end in .html")
    if hasattr(records[0], "save"):
        return records[0].save(path)
    if path.suffix.lower() != ".json":
        kind = type(records[0]).__name__.lower()
        raise InvalidOptionError(f"only explanations and frontiers are drawn; this is a {kind}. Hint: save as .json")
    return save_json(records[0], path)


class Forgiving:
    """A text stream. A reader that has gone is no fault; a stream that cannot take more is one, told at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.fault: OSError | None = None

    def write(self, text: str) -> int:
        """Write, or drop what nobody can take."""
        self._attempt(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Flush, or drop what nobody can take."""
        self._attempt(self._stream.flush)

    def _attempt(self, do: Callable[..., object], *what: str) -> None:
        """After a fault say no more, and let the interpreter flush into nothing when it ends."""
        try:
            if self.fault is None:
                do(*what)
        except OSError as error:
            self.fault = error
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def forgiving_streams() -> Iterator[None]:
    """Standard streams on which writing never raises; characters that a terminal does not know are replaced.

    In place of a stream that is closed comes one into nothing, so that no other file takes its number.
    """
    before = sys.stdout, sys.stderr
    for stream in before:
        encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "")
        if encoding != "utf8" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    with open(os.devnull, "w") as first, open(os.devnull, "w") as second:
        sys.stdout, sys.stderr = Forgiving(before[0] or first), Forgiving(before[1] or second)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


def fault_of_stdout() -> OSError | None:
    """Why the result could not be written; a reader that has gone had enough, which is no fault."""
    sys.stdout.flush()
    fault = getattr(sys.stdout, "fault", None)
    return None if isinstance(fault, BrokenPipeError) else fault
