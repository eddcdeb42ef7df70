"""``python -m benchmarks.evidence``: every table of the evidence pages from the results files."""

from __future__ import annotations

from benchmarks.evidence import PAGES, written

for path in sorted(PAGES.glob("*.md")):
    page = path.read_text(encoding="utf-8")
    if (anew := written(page)) != page:
        path.write_text(anew, encoding="utf-8")
        print(path.name)
