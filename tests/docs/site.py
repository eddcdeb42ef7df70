"""Reads the built site as a visitor would: ``python -m tests.docs.site site``.

Every link leads to a page and a place in it, nothing is fetched from elsewhere, a newcomer's six tasks are at most two
clicks from the start page, and the search finds them in a browser that opened the site from disk without a network.
"""

from __future__ import annotations

import os
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.browser.conftest import browser, wait_for

START = "index.html"
ON_A_SERVER = "404.html"  # its links begin at the root of one
CLICKS = 2
TASKS = {  # page -> what a newcomer would type to find it
    "how-to/from_a_table_to_a_decision.html": "my own CSV",
    "how-to/your_environment.html": "gymnasium environment",
    "how-to/your_policy.html": "scikit-learn policy",
    "how-to/limit_a_plan.html": "freeze a group",
    "tutorials/gate_in_ci.html": "gate",
    "how-to/read_a_verdict.html": "unknown verdict",
}
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Page(HTMLParser):
    """What a page links to, loads and can be linked at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.clicks: list[str] = []  # links of the text itself, without navigation and search
        self.fetched: list[str] = []
        self.places: set[str] = set()
        self._in_article = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what leads elsewhere and what can be reached."""
        given = {name: value for name, value in attrs if value is not None}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        self._in_article |= tag == "article"
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
            if self._in_article:
                self.clicks.append(given["href"])
        if FETCHED.get(tag) in given and given.get("rel") != "canonical":
            self.fetched.append(given[FETCHED[tag]])

    def handle_endtag(self, tag: str) -> None:
        """Leave the text."""
        self._in_article &= tag != "article"


def target(link: str, page: Path) -> tuple[Path, str] | None:
    """File and place that a link of a page leads to; None where it leaves the site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    return ((page.parent / unquote(parts.path)).resolve() if parts.path else page), unquote(parts.fragment)


def broken(pages: dict[Path, Page]) -> list[str]:
    """Links that lead nowhere."""
    found = []
    for path, page in pages.items():
        for link in (*page.links, *page.fetched):
            place = target(link, path)
            if place is None:
                continue
            file, fragment = place
            if not file.exists() or (fragment and file in pages and fragment not in pages[file].places):
                found.append(f"{path.name}: {link}")
    return found


def reached(pages: dict[Path, Page], start: Path, clicks: int) -> set[Path]:
    """Pages that links in the text lead to, within a number of clicks."""
    seen = {start}
    for _ in range(clicks):
        places = (target(link, path) for path in seen & set(pages) for link in pages[path].clicks)
        seen = seen | {place[0] for place in places if place is not None}
    return seen


def found_by_search(folder: Path, query: str, driver: Any) -> list[str]:
    """What the search box of the start page offers for a query, as addresses below the folder."""
    driver.get((folder / START).as_uri())
    wait_for(driver, "return document.querySelector('.md-search__input') !== null")
    script = """const box = document.querySelector(".md-search__input");
        document.getElementById("__search").click(); box.focus(); box.value = arguments[0];
        box.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));"""
    driver.execute_script(script, query)
    wait_for(driver, "return document.querySelector('.md-search-result__link') !== null")
    links = "return [...document.querySelectorAll('.md-search-result__link')].map((a) => a.href)"
    root = folder.as_uri() + "/"
    return [link.removeprefix(root).split("?")[0].split("#")[0] for link in driver.execute_script(links)]


def check(folder: Path) -> None:
    """All of it, with a word about each."""
    pages = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("**/*.html"))
        if path.name != ON_A_SERVER
    }
    assert broken(pages) == [], broken(pages)
    away = [f"{path.name}: {link}" for path, page in pages.items() for link in page.fetched if "//" in link]
    assert away == [], away
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values()):,} links, nothing fetched")
    near = reached(pages, folder / START, CLICKS)
    assert [task for task in TASKS if folder / task not in near] == []
    if not shutil.which("chromedriver") and os.environ.get("POLIDIFF_REQUIRE_BROWSER") != "1":
        print("the search was not tried: it needs Chromium and chromedriver")
        return
    with browser() as driver:
        for task, query in TASKS.items():
            offered = found_by_search(folder, query, driver)
            assert task in offered[:3], f"{query!r} finds {offered}, not {task}"
            print(f"{query!r}: {task} is answer {1 + offered.index(task)}")


if __name__ == "__main__":
    check(Path(sys.argv[1]).resolve())
