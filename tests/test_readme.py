"""The example of the README runs as printed, and every page that the documents link to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("*.md"))


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_ten_lines_of_the_readme_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (example,) = blocks("README.md")
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    shown = re.search(r"```\n(They differ.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    for line in " ".join(shown.group(1).split()).split(" • "):
        assert line in " ".join(printed.split())
    assert (tmp_path / "diff.html").stat().st_size > 10_000


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    folder = (ROOT / page).parent
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8"))
    missing = [link for link in links if not link.startswith("https://") and not (folder / link).exists()]
    assert missing == []


@pytest.mark.parametrize("place", re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", (ROOT / "CONTRIBUTING.md").read_text()))
def test_places_named_in_the_map_exist(place):
    assert any((root / place).exists() for root in (ROOT, ROOT / "src" / "polidiff"))
