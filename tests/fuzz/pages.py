"""Reports and answers made from results whose names attack: nothing from data becomes markup, code or a command."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from altair.utils.schemapi import debug_mode
from hypothesis import strategies as st

from polidiff import load
from polidiff.report.page import page_html
from tests.fuzz import seeds
from tests.fuzz.commands import command
from tests.fuzz.judge import FailureError, written
from tests.fuzz.mutate import HOSTILE, as_json, mutated, names
from tests.fuzz.texts import quoted, texts

TAGS = {
    *("html", "head", "meta", "title", "style", "script", "body", "header", "main", "footer", "nav", "section"),
    *(
        "h1",
        "h2",
        "h3",
        "p",
        "a",
        "b",
        "i",
        "bdi",
        "span",
        "strong",
        "small",
        "div",
        "dl",
        "dt",
        "dd",
        "ul",
        "ol",
        "li",
    ),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "details", "summary", "noscript"),
    *("label", "select", "option", "button", "input", "output"),
}
EVALUATED = {"expr", "signal", "labelExpr", "test", "calculate", "filter", "update", "href", "url", "events", "format"}


def names_in(tree: Any) -> list[str]:
    """Names of actions, outcomes and features of a result."""
    world = tree["world"]
    told = [action["name"] for action in world["actions"]] + [outcome["name"] for outcome in tree["outcomes"]]
    return sorted({*told, *(feature["name"] for feature in world["features"])} - {"state"})


def renamed(tree: Any, new: dict[str, str]) -> Any:
    """The tree with names replaced wherever they stand, but for fields that happen to be called like one."""
    if isinstance(tree, dict):
        fields = {"x", "y", "length"} if {"f1", "form", "visits", "cells"} & set(tree) else set()
        return {key if key in fields else new.get(key, key): renamed(entry, new) for key, entry in tree.items()}
    if isinstance(tree, list):
        return [renamed(entry, new) for entry in tree]
    return new.get(tree, tree) if isinstance(tree, str) else tree


def _slimmer(draw: st.DrawFn, tree: Any) -> Any:
    """The tree with what makes pictures left out, in most cases: a picture takes long."""
    if draw(st.integers(0, 19)) == 7:
        return tree
    shorter = {"pictures": 0, "graph": 0, "tradeoff": 1, "verdicts": 0, "hull": 0, "baselines": 0, "sentences": 1}
    kept = {part: tree[part][:count] for part, count in shorter.items() if part in tree}
    if "plans" in tree:
        kept |= {"ledger": None, "plans": [{**plan, "adoption": []} for plan in tree["plans"]]}
    return {**tree, **kept}


@st.composite
def _named(draw: st.DrawFn) -> Any:
    kinds = ("plain", "chain", "log", "plain", "chain", "log", "frontier", "rules")
    tree = _slimmer(draw, seeds.results()[draw(st.sampled_from(kinds))])
    whole = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
    hostile = st.sampled_from([name for name in HOSTILE if name != "\ud800"]) | whole
    return renamed(tree, {name: f"{draw(hostile)}{place}" for place, name in enumerate(names_in(tree))})


_trees = st.integers(0, 2).flatmap(lambda luck: _named().flatmap(lambda t: mutated(t, 1)) if luck == 2 else _named())
pages = _trees.map(as_json)


class Page(HTMLParser):
    """Elements, scripts, and attributes that would fetch or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.scripts: list[str] = []
        self.risky: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the element."""
        self.tags.add(tag)
        if tag == "script":
            self.scripts.append("")
        for name, value in attrs:
            if name.startswith("on") or (name in ("href", "src") and not (value or "").startswith("#")):
                self.risky.append(name)

    def handle_data(self, data: str) -> None:
        """Keep what scripts hold."""
        if self.lasttag == "script" and self.scripts:
            self.scripts[-1] += data


def enter_page(content: bytes, folder: Path) -> None:
    """Drawn; then the page has our elements, our two scripts and one of data, and no name where text is evaluated."""
    record = load(written(folder, "result.json", content))
    with debug_mode(len(content) % 5 == 0):  # the chart library checks its own work in one case of five
        text = page_html(record)
    text.encode()
    page = Page()
    page.feed(text)
    if page.tags - TAGS or page.risky or len(page.scripts) != 3:
        raise FailureError("a page with markup from data", f"{page.tags - TAGS} {page.risky} {len(page.scripts)}")
    data = json.loads(next(script for script in page.scripts if script.startswith('{"config"')))
    _check_expressions(data, {name for name in names_in(json.loads(content)) if len(name) > 12})


def _check_expressions(tree: Any, told: set[str]) -> None:
    if isinstance(tree, dict):
        for key, entry in tree.items():
            if key in EVALUATED and isinstance(entry, str) and any(name in entry for name in told):
                raise FailureError("a name from data in an expression", f"{key}: {entry}")
            _check_expressions(entry, told)
    elif isinstance(tree, list):
        for entry in tree:
            _check_expressions(entry, told)


@st.composite
def _questions(draw: st.DrawFn) -> tuple[bytes, list[str]]:
    tree = draw(_named())
    told = st.sampled_from([*names_in(tree), "S_1", "S_3", "east"]) | names | texts
    verb = draw(st.sampled_from(("when", "why-not", "what-if", "case")))
    asked = draw(told)
    if verb in ("what-if", "case") and draw(st.booleans()):
        feature = draw(st.sampled_from([entry["name"] for entry in tree["world"]["features"]]))
        sign = "=" if verb == "case" else draw(st.sampled_from(("<", ">=", "=")))
        asked = f"{quoted(feature)} {sign} {draw(st.sampled_from(('0.5', 'word', '1e308', '-0')))}"
    where = ["--in", draw(st.sampled_from(("S_1", "S_3", "S_0", "no such")))] if verb == "why-not" else []
    return as_json(tree), [verb, *where, "--", asked.replace("\x00", "").replace("\ud800", "")]


questions = _questions()


def enter_question(case: tuple[bytes, list[str]], folder: Path) -> None:
    """Asked on the command line."""
    content, arguments = case
    command(["ask", str(written(folder, "result.json", content)), *arguments], {0, 2})
