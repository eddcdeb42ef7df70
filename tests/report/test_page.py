"""The page as text: what it holds, what it must never hold."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import time
from html.parser import HTMLParser

import pytest

from polidiff.errors import InvalidInputError, InvalidOptionError
from polidiff.explanation.plan_text import edits_sentence
from polidiff.explanation.words import rule_text
from polidiff.records.codec import from_dict, to_dict
from polidiff.records.patch import Patch
from polidiff.report.page import page_html
from tests.report import extremes, samples

VOID = {"meta", "img", "br", "input", "link", "hr"}


class Reader(HTMLParser):
    """Collects elements, visible text and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1:] == [tag]
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif not (self.open and self.open[-1] == "style"):
            self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert not reader.open
    return reader


def data_of(page: str) -> dict:
    return json.loads(next(text for attrs, text in read(page).scripts if attrs.get("id") == "polidiff-data"))


@pytest.fixture(scope="module")
def page() -> str:
    """A difference and plans on one page."""
    return page_html(samples.plain(), samples.frontier())


def test_the_page_says_who_is_worse_off_before_anything_else(page):
    headings = re.findall(r"<h2[^>]*>([^<]*)</h2>", page)
    assert headings[0] == "Who would be worse off"


def test_every_sentence_comes_with_its_words_its_chips_and_its_support():
    explanation = samples.plain()
    text = html.unescape(page_html(explanation))
    for sentence in explanation.sentences:
        assert rule_text(sentence.start) in text
    assert text.count("Behind it:") == len(explanation.sentences)
    assert text.count('class="sentence"') == len(explanation.sentences)


OWN_TABLES = ("chart-plans", "chart-regions")  # "All plans" and "Regions" of the page have their numbers


def test_every_figure_has_a_text_twin_and_a_name(page):
    reader = read(page)
    charts = [attrs for _, attrs in reader.elements if attrs.get("class") == "chart"]
    twins = {attrs["id"] for _, attrs in reader.elements if (attrs.get("id") or "").startswith("twin-")}
    assert len(charts) >= 10
    for chart in charts:
        assert chart["role"] == "img"
        assert len(chart["aria-label"]) > 20
        assert chart["id"].replace("chart-", "twin-") in twins or chart["id"] in OWN_TABLES


def test_the_page_refers_to_no_address(page):
    for tag, attrs in read(page).elements:
        assert "src" not in attrs, tag
        assert (attrs.get("href") or "#").startswith("#")
    style = re.search(r"<style>(.*?)</style>", page, re.S).group(1)
    assert "url(" not in style
    assert "@import" not in style


def test_the_content_policy_admits_exactly_the_two_scripts_of_the_page():
    reader = read(page_html(extremes.hostile()))
    policy = next(attrs["content"] for _, attrs in reader.elements if attrs.get("http-equiv"))
    run = [text for attrs, text in reader.scripts if attrs.get("type") != "application/json"]
    digests = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run}
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == digests
    assert len(run) == 2
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy


def test_hostile_names_stay_text(page):
    plain = read(page)
    hostile = read(page_html(extremes.hostile(), extremes.hostile_frontier()))
    assert {tag for tag, _ in hostile.elements} <= {tag for tag, _ in plain.elements}
    assert len(hostile.scripts) == 3
    assert not any(name.startswith("on") for _, attrs in hostile.elements for name in attrs)
    assert "<script>window.hacked=1</script>" in "".join(hostile.text)
    assert "\u202e" not in "".join(hostile.text)
    assert "⟨U+202E⟩" in "".join(hostile.text)
    assert "49" not in [text.strip() for text in hostile.text]


def test_the_page_is_the_same_bytes_each_time_and_from_its_json():
    record = samples.plain()
    page = page_html(record)
    again = from_dict(json.loads(json.dumps(to_dict(record))))
    assert page_html(record) == page_html(again) == page


def test_a_large_result_stays_within_the_limits():
    explanation, frontier = extremes.huge(), extremes.huge_frontier()
    page_html(samples.plain())  # the chart library is made once
    began = time.process_time()
    page = page_html(explanation, frontier)
    assert time.process_time() - began < 20
    assert len(page.encode()) < 1_500_000
    data = next(text for attrs, text in read(page).scripts if attrs.get("id") == "polidiff-data")
    assert len(data.encode()) < 300_000
    assert len(json.loads(data)["plans"]["plans"]) == 400


def test_more_plans_than_fit_are_thinned_and_the_page_says_so():
    frontier = extremes.huge_frontier(1200)
    page = page_html(frontier)
    kept = data_of(page)["plans"]["plans"]
    assert f"{1200 - len(kept)} plans between these are left out" in page
    assert kept[0]["k"][1] == "9.9895"
    assert float(kept[-1]["k"][1]) == pytest.approx(frontier.plans[-1].expected_return, rel=1e-4)


def changes_of(plans: dict, index: int) -> list[int]:
    """The changes of a plan, from those of the plans before it."""
    found: list[int] = []
    for plan in plans["plans"][: index + 1]:
        found = plan["e"] if "e" in plan else [n for n in found if n not in plan["-"]] + plan["+"]
    return found


def test_plans_whose_changes_come_and_go_are_told_in_their_own_order():
    import dataclasses

    frontier = samples.frontier()
    edits = frontier.best.patch.edits
    orders = [(), (2,), (0, 1), (1, 0, 2)]
    plans = tuple(
        dataclasses.replace(plan, patch=dataclasses.replace(plan.patch, edits=tuple(edits[k] for k in order)))
        for plan, order in zip(frontier, orders, strict=True)
    )
    told = data_of(page_html(dataclasses.replace(frontier, plans=plans)))["plans"]
    by_text = {edits_sentence((edit,), frontier.best.patch): k for k, edit in enumerate(edits)}
    for index, order in enumerate(orders):
        assert tuple(by_text[told["changes"][n].split(": ", 1)[1]] for n in changes_of(told, index)) == order


def test_the_slider_has_every_plan_and_tells_each_change_once():
    frontier = samples.frontier()
    plans = data_of(page_html(frontier))["plans"]
    assert [changes_of(plans, k) for k in range(4)] == [[0, 1, 2][: len(plan.patch)] for plan in frontier]
    assert len(plans["changes"]) == 3
    assert plans["plans"][1]["k"][1] == "14.9885"
    assert [o[1] for o in plans["plans"][3]["o"]] == ["+12", "+1", "−8.4"]


def test_plans_told_as_rules_show_their_moves():
    page = html.unescape(page_html(samples.rule_frontier()))
    assert "E where 0 ≤ x < 0.1 and 0.2 ≤ y < 0.3" in page


def test_two_policies_that_act_the_same_make_a_calm_page():
    import dataclasses

    same = dataclasses.replace(
        samples.plain(), regions=(), sentences=(), worse_off=(), tails=(), pictures=(), patch=Patch(), changes=0.0,
        verdicts=samples.plain().sentences[2].verdicts,
    )  # fmt: skip
    page = page_html(same)
    assert "act the same" in page
    assert "No group is shown to lose" in page


def test_groups_of_a_log_smaller_than_the_limit_are_left_out_and_counted():
    page = page_html(samples.from_log(episodes=4))
    text = html.unescape(page)
    assert rule_text(samples.regions()[2].rule) not in text
    assert "fewer than 10 episodes stand behind them: 1 region, 1 group of starts" in text
    assert rule_text(samples.regions()[2].rule) in html.unescape(page_html(samples.from_log(episodes=10)))


def test_small_cells_of_a_log_are_not_drawn():
    charts = data_of(page_html(samples.from_log()))["charts"]
    drawn = sum(len(rows) for rows in charts["regions"][0]["datasets"].values())
    assert drawn < 400 / 2  # none of 400 cells holds 1 % of 1,000 episodes but the busiest
    assert "trajectories" not in charts


def test_a_page_shows_results_and_nothing_else():
    with pytest.raises(InvalidOptionError, match="got Patch"):
        page_html(Patch())
    with pytest.raises(InvalidOptionError, match="one explanation, one frontier"):
        page_html(samples.plain(), samples.plain())


def test_a_page_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot write"):
        samples.plain().save(tmp_path / "missing" / "x.html")
    assert os.listdir(tmp_path) == []
