"""Every page with code runs as printed: all cells in one namespace, in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, WIDTH, cells, run_page, tidy

PAGES = [path for path in sorted(ROOT.glob("docs/**/*.md")) if any(cells(path.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_cells_of_a_page_run_and_print_what_it_says(page: Path, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    for cell, printed in run_page(page, tmp_path):
        assert cell.output is None or tidy(printed) == cell.output, (
            f"line {cell.line}; run python -m tests.docs.pages {page.relative_to(ROOT).as_posix()}"
        )


def test_all_six_tutorials_run_something():
    assert sum(page.parent.name == "tutorials" for page in PAGES) == 6
