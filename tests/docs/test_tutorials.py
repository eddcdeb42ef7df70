"""Every page with code runs, all cells in one namespace and one folder, and prints the numbers that it shows.

Words are not compared: a better sentence somewhere in the package must not break a page that says the same in older
words. ``python -m tests.docs.pages`` brings them up to date.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, WIDTH, cells, run_page

WITH_CODE = [path for path in sorted(ROOT.glob("docs/**/*.md")) if any(cells(path.read_text(encoding="utf-8")))]
PAGES = [path for path in WITH_CODE if path.parent.name != "gallery"]  # test_gallery.py runs that one


def numbers(text: str) -> set[str]:
    """All numbers in a text, as they are written."""
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_cells_of_a_page_run_and_print_the_numbers_it_shows(page: Path, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    for cell, printed in run_page(page, tmp_path):
        stale = numbers(cell.output or "") - numbers(printed)
        assert not stale, f"line {cell.line}; run python -m tests.docs.pages {page.relative_to(ROOT).as_posix()}"


def test_all_six_tutorials_run_something():
    assert sum(page.parent.name == "tutorials" for page in PAGES) == 6
