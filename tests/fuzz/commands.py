"""The command line: known exit codes, one line when it refuses, nothing written then, nothing that moves the cursor."""

from __future__ import annotations

import contextlib
import io
import re
import unicodedata
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from polidiff.cli.main import run
from tests.fuzz import documents, seeds
from tests.fuzz.arrays import policies
from tests.fuzz.judge import LONGEST, FailureError, written
from tests.fuzz.logs import csv_bytes

COLUMNS = ("--state", "s", "--action", "a", "--reward", "r", "--episode", "e", "--terminated", "end")


def command(arguments: list[str], codes: set[int]) -> int:
    """Run a command in this process and look at what it leaves."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    said = err.getvalue()
    if code not in codes:
        raise FailureError(f"exit code {code} at {_place(said)}", said[-600:])
    if code in (2, 3) and not said.startswith("Usage:") and (said.count("\n") != 1 or len(said) > LONGEST):
        raise FailureError("a refusal that is not one readable line", said)
    odd = next((c for c in out.getvalue() + said if c != "\n" and unicodedata.category(c) in ("Cc", "Cs")), None)
    if odd is not None:
        raise FailureError("a control character on the terminal", f"{odd!r} in {(out.getvalue() + said)[:300]!r}")
    return code


def _place(said: str) -> str:
    """The kind of an error and our last line, from a printed traceback."""
    places = re.findall(r'File ".*?/(polidiff/[\w/]+\.py)", line \d+, in (\w+)', said)
    kinds = [line.split(":")[0] for line in said.splitlines() if re.match(r"[\w.]+(Error|Exception|Warning)", line)]
    return f"{kinds[-1] if kinds else '?'} in {':'.join(places[-1]) if places else '?'}"


def _line(verb: str, path: Path, made: Path) -> list[str]:
    """The words of a command on a file."""
    place, policy = seeds.folder(), str(seeds.folder() / "two.json")
    words: dict[str, list[str]] = {
        "explain": ["explain", "-q", str(path)],
        "improve": ["improve", "-q", str(path)],
        "check": ["check", "-q", str(path)],
        "report": ["report", str(path), "-o", f"{made}.json"],
        "show": ["patch", "show", str(path)],
        "python": ["patch", "show", str(path), "--as", "python"],
        "sql": ["patch", "show", str(path), "--as", "sql"],
        "apply": ["patch", "apply", str(path), policy, "-o", f"{made}.json"],
        "undo": ["patch", "undo", str(path), policy, "-o", f"{made}.json"],
        "policy": ["explain", str(place / "table.toml"), "--proposed", str(path)],
        "log": ["explain", "--log", str(path), *COLUMNS, "--current", "log", "--proposed", policy],
        "init": ["init", str(path), "-o", f"{made}.toml", "--yes"],
    }
    return words[verb]


def _on(verbs: str, contents: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, Any]]:
    return st.tuples(st.sampled_from(verbs.split()), contents)


cases = st.one_of(
    _on("explain improve check", documents.studies),
    _on("report", documents.results),
    _on("show python sql apply undo", documents.patches | documents.results),
    _on("policy", policies),
    _on("init " * 24 + "log", csv_bytes),
)


def enter_command(case: tuple[str, Any], folder: Path) -> None:
    """Run on the file; a command that refuses leaves nothing behind."""
    verb, content = case
    endings = {"explain": ".toml", "improve": ".toml", "check": ".toml", "log": ".csv", "init": ".csv"}
    ending = endings.get(verb, ".json")
    if verb == "policy":
        ending, content = content
    beside = seeds.folder() if ending == ".toml" else folder  # a study names the files that lie beside it
    path = written(beside, f"case{ending}", content)
    code = command(_line(verb, path, folder / "made"), {0, 1, 2, 3})
    if code in (2, 3) and list(folder.glob("made*")):
        raise FailureError("a refused command that left a file", str(list(folder.glob("made*"))))
