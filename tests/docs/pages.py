"""Runs what a page of the documentation shows, and writes what it printed below it.

``python -m tests.docs.pages docs/tutorials/*.md`` brings the printed blocks of pages up to date.

A fence ``python`` is executed, one with ``console`` runs its ``$ polidiff …`` lines, and one with a title, such as
``toml title="study.toml"``, is written as a file. All fences of a page share one namespace and one folder, in the order
of the page. A fence ``text`` right after one that ran says what it printed. ``<!-- not run: reason -->`` on the line
before a fence leaves it out.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r'^(?P<skip><!-- not run: \S.*? -->\n)?```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n'
    r"(?P<source>.*?)^```$(?:\n\n```text\n(?P<output>.*?)^```$)?",
    flags=re.MULTILINE | re.DOTALL,
)
WIDTH = 110  # columns of what is printed


@dataclass(frozen=True)
class Cell:
    """One fence of a page that does something."""

    language: str
    source: str
    title: str | None
    output: str | None  # what the page says it prints
    line: int
    end: int  # of the fence, in characters of the page


def cells(text: str) -> Iterator[Cell]:
    """The fences of a page that run or become a file, in order.

    >>> [(cell.language, cell.output) for cell in cells("```python\\nprint(1)\\n```\\n\\n```text\\n1\\n```\\n")]
    [('python', '1\\n')]
    """
    for match in FENCE.finditer(text):
        runs = match["language"] in ("python", "console") or match["title"]
        if runs and not match["skip"]:
            line = text.count("\n", 0, match.start("source"))
            yield Cell(match["language"], match["source"], match["title"], match["output"], line, match.end())


def run_page(path: Path, folder: Path, without: tuple[str, ...] = ()) -> Iterator[tuple[Cell, str]]:
    """Each cell of a page with what it printed; cells that hold one of the words `without` are left out."""
    names: dict[str, Any] = {"__name__": "__page__"}
    for cell in cells(path.read_text(encoding="utf-8")):
        if any(word in cell.source for word in without):
            continue
        with chdir(folder):
            yield cell, _run(cell, names, path.name)


def _run(cell: Cell, names: dict[str, Any], page: str) -> str:
    if cell.title:
        Path(cell.title).parent.mkdir(parents=True, exist_ok=True)
        Path(cell.title).write_text(cell.source, encoding="utf-8")
        return ""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        if cell.language == "python":
            exec(compile("\n" * cell.line + cell.source, page, "exec"), names)
        else:
            _type(cell.source)
    return printed.getvalue()


def _type(source: str) -> None:
    """Run the commands of a console fence; a code other than 0 is printed after what the command said."""
    from polidiff.cli.main import run

    for command in re.findall(r"^\$ (.*)$", source.replace("\\\n", " "), flags=re.MULTILINE):
        program, *arguments = shlex.split(command)
        assert program == "polidiff", f"only polidiff is run in pages; came {program}"
        code = run(arguments)
        if code:
            print(f"(exit code {code})")


def tidy(printed: str) -> str:
    """Printed text without empty lines around it, long lines wrapped below where their own words begin."""
    body = "\n".join(_wrapped(line) for line in printed.splitlines()).strip("\n")
    return f"{body}\n" if body else ""


def _wrapped(line: str) -> str:
    indent = "  " + " " * (len(line) - len(line.lstrip()))
    whole = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(line, WIDTH, subsequent_indent=indent, drop_whitespace=True, **whole)


def with_outputs(path: Path) -> str:
    """The page with its printed blocks made anew; a cell that printed nothing gets none."""
    text = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        results = list(run_page(path, Path(folder)))
    for cell, printed in reversed(results):
        head, tail = text[: cell.end], text[cell.end :]
        if cell.output is not None:
            head = head[: head.rindex("\n\n```text\n")]
        text = head + (f"\n\n```text\n{tidy(printed)}```" if tidy(printed) else "") + tail
    return text


if __name__ == "__main__":
    os.environ["COLUMNS"] = str(WIDTH)
    for name in sys.argv[1:]:
        Path(name).write_text(with_outputs(Path(name)), encoding="utf-8")
