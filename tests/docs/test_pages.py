"""What must hold for the pages together: they are found, linked, short, and show no code that nobody runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.evidence import BLOCK, written
from tests.docs.gallery import EXPECTED
from tests.docs.pages import ROOT
from tests.docs.site import TASKS

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))
USERS_PATH = [DOCS / "index.md", *DOCS.glob("tutorials/*.md"), *DOCS.glob("how-to/*.md")]
EVIDENCE = sorted(DOCS.glob("evidence/*.md"))
HELD_ELSEWHERE = {  # tables whose values other tests compute
    ("environments.md", "| script | asks | first line of the answer | processor seconds |"),
    ("paper.md", "| task | quantity | value |"),
    ("reproduction.md", "| where | what | how close |"),
}
MOST_WORDS = 8_000


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def navigation() -> dict[str, str]:
    """Page -> which of the kinds of pages it stands under in the navigation."""
    kind, found = "", {}
    for line in (ROOT / "mkdocs.yml").read_text(encoding="utf-8").splitlines():
        if top := re.match(r"  - (\S[^:]*):", line):
            kind = top[1]
        if page := re.search(r": (\S+\.md)$", line):
            found[page[1]] = kind
    return found


def test_every_page_is_in_the_navigation_under_its_kind():
    kinds = {"tutorials": "Tutorials", "how-to": "How-to", "reference": "Reference", "assumptions": "Reference",
             "method": "Reference", "evidence": "Evidence", "gallery": "Gallery", ".": "Start"}  # fmt: skip
    places = {page.relative_to(DOCS) for page in PAGES}
    assert navigation() == {place.as_posix(): kinds[place.parent.as_posix()] for place in places}


def test_a_user_reads_at_most_eight_thousand_words():
    """What pages print when they run is not counted: it is looked at, not read."""
    words = [len(re.sub(r"^```text\n.*?^```$", "", text(page), flags=re.M | re.S).split()) for page in USERS_PATH]
    assert sum(words) <= MOST_WORDS


def test_no_measurements_stand_in_the_way_of_a_user():
    assert [page.name for page in USERS_PATH if re.search(r"python -m benchmarks|benchmarks/results", text(page))] == []


@pytest.mark.parametrize("page", [task.replace(".html", ".md") for task in TASKS])
def test_a_newcomers_tasks_are_linked_from_the_start_page(page):
    assert f"({page})" in text(DOCS / "index.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text(page))
    made = {f"{name}.html" for name in EXPECTED} if page.parent.name == "gallery" else set()  # by make docs
    here = [link for link in links if not link.startswith("https://") and link not in made]
    assert [link for link in here if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_no_fence_hides_python_from_the_tests(page):
    """Python under another name, or in an indented fence, would not be run."""
    hidden = re.findall(r"^(?: +```python|```(?:py|pycon|ipython)\b)", text(page), flags=re.MULTILINE)
    assert hidden == []


def test_tables_of_measurements_are_what_was_measured():
    stale = [page.name for page in EVIDENCE if written(text(page)) != text(page)]
    assert stale == [], "python -m benchmarks.evidence writes them anew"


def test_no_table_of_decimals_was_typed_by_hand():
    """A table with a decimal number in most of its rows is made from results, or its values have tests of their own."""
    typed = set()
    for page in EVIDENCE:
        for table in re.findall(r"(?:^\|.*\n)+", BLOCK.sub("", text(page)), flags=re.M):
            head, _, *rows = table.splitlines()
            if sum(bool(re.search(r"\d\.\d|\.\d\d", row)) for row in rows) > len(rows) / 2:
                typed.add((page.name, head))
    assert typed <= HELD_ELSEWHERE


HELD_BY_THE_REPRODUCTION = ("paper.md", "reproduction.md")  # `polidiff paper` compares every value that they name
FIGURE = re.compile(
    r"(?<![\w.])(?:\d+\.\d+|\.\d\d+|[\d,.]+ ?(?:%|s|ms|µs|MB|GB|times|seconds|minutes|hours|nodes)(?!\w))"
)
NOMINAL = "95 %"  # the level of an interval


def test_no_figure_in_the_running_text_of_evidence_was_typed():
    """What was measured stands in a block that is made from results; text around it says what was asked."""
    typed = {}
    for page in EVIDENCE:
        prose = re.sub(r"^```.*?^```$|`[^`\n]*`|^\|.*\n", "", BLOCK.sub("", text(page)), flags=re.M | re.S)
        found = [figure for figure in FIGURE.findall(prose) if figure != NOMINAL]
        if found and page.name not in HELD_BY_THE_REPRODUCTION:
            typed[page.name] = found
    assert typed == {}
