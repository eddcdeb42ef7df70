"""The table of docs/evidence/paper.md: every part of the paper has code and a test, or a reason."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evidence" / "paper.md"
LINES = {1: 20, 2: 16, 3: 13, 4: 8}  # of each algorithm, numbered as the paper prints them


def table() -> list[list[str]]:
    text = PAGE.read_text(encoding="utf-8").split("## Fidelity, part by part")[1].split("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip(" |`") for cell in row] for row in rows[2:]]


def test_every_row_names_a_function_and_a_test_that_exist_or_gives_a_reason():
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for part, function, test, differs in table():
        if function == "—":
            assert len(differs.split()) > 5, f"{part}: no code and no reason"
            continue
        module, _, name = function.partition(":")
        assert hasattr(import_module(f"polidiff.{module}"), name), f"{part}: no {function}"
        assert re.search(rf"^\s*def {re.escape(test)}\b", tests, flags=re.MULTILINE), f"{part}: no {test}"


def test_every_line_of_every_algorithm_has_a_row():
    covered = {number: [] for number in LINES}
    for part, *_ in table():
        if found := re.match(r"Algorithm (\d), lines? (\d+)(?:–(\d+))?", part):
            covered[int(found[1])] += range(int(found[2]), int(found[3] or found[2]) + 1)
    assert {number: sorted(lines) for number, lines in covered.items()} == {
        number: list(range(1, count + 1)) for number, count in LINES.items()
    }


def test_every_figure_equation_and_numbered_reading_is_on_the_page():
    parts = " ".join(row[0] for row in table())
    assert {int(k) for k in re.findall(r"Eq\. (\d+)", parts)} == set(range(1, 6))
    assert {int(k) for k in re.findall(r"Figure (\d+)", parts)} == set(range(1, 9))
    assert {int(k) for k in re.findall(r"Algorithm (\d+)", parts)} == {1, 2, 3, 4}
    readings = {int(k) for k in re.findall(r"^\| M(\d+) \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)}
    assert readings == set(range(1, 44))
    assert {int(k) for row in table() for k in re.findall(r"\bM(\d+)", row[3])} <= readings
