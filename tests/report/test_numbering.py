"""One page, one numbering: a number stands for one change wherever it is told, and its key for the change itself."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from polidiff import explain, improve
from polidiff.domains import navigation
from polidiff.explanation.change_numbers import number_changes
from polidiff.explanation.plan_text import change_texts, render_frontier
from polidiff.records.numbers import number as told
from polidiff.records.rule import Condition, Rule, change_key
from polidiff.report.markdown import markdown
from polidiff.report.page import page_html
from polidiff.report.plans import plans_table, plans_view
from tests.report import extremes


@pytest.fixture(scope="module")
def both():
    world = navigation.world()
    told = explain(world, navigation.current, navigation.proposed_2, max_steps=50_000)
    return told, improve(world, navigation.current, [navigation.proposed_1, navigation.proposed_2])


def test_a_change_of_a_plan_has_the_number_of_the_region_that_does_the_same(both):
    told, frontier = both
    numbering = number_changes(told, frontier)
    assert numbering.of(frontier.best) == tuple(region.id for region in told.regions) == ("S1", "S2", "S3")
    assert change_texts(frontier.best, numbering)[1].startswith("S2: east instead of south where 0.1 ≤ x < 0.2")


def test_no_number_stands_for_two_changes_on_a_page(both):
    told, frontier = both
    page = html.unescape(re.sub(r"<script.*", "", page_html(told, frontier), flags=re.DOTALL))
    text = re.sub(r"<[^>]+>", "\n", page)
    meanings: dict[str, set[str]] = {}
    for number, swap in re.findall(
        r"\b(S[0-9]+)[:\s]+((?:east|north|south) (?:→|instead of) (?:east|north|south))", text
    ):
        said = re.match(r"(\w+) (→|instead of) (\w+)", swap)
        meanings.setdefault(number, set()).add(f"{said[1]}→{said[3]}" if said[2] == "→" else f"{said[3]}→{said[1]}")
    assert set(meanings) == {"S1", "S2", "S3", "S4", "S5"}
    assert all(len(swaps) == 1 for swaps in meanings.values()), meanings


def test_a_change_of_a_plan_never_takes_the_number_of_a_region_everywhere(both):
    told, frontier = both
    everywhere = replace(told.regions[1], rule=Rule(()))
    numbering = number_changes(replace(told, regions=(told.regions[0], everywhere)), frontier)
    assert numbering.of(frontier.best) == ("S1", "S3", "S4")


def test_plans_are_told_below_an_explanation_with_the_numbers_of_its_regions(both):
    told, frontier = both
    last = replace(told.regions[2], id="S9")
    text = render_frontier(frontier, replace(told, regions=(*told.regions[:2], last)))
    assert re.findall(r"• (S\d+): ", text) == ["S1", "S2", "S9", "S10", "S11"]
    assert text.endswith("• S10 and S11 are offered changes, but no regions of the difference above")
    assert "offered changes" not in str(frontier)


def test_a_plan_is_told_by_its_place_and_plan_0_changes_nothing():
    frontier = extremes.huge_frontier()
    view = plans_view(frontier, room=40_000)
    rows = plans_table(view.plans, frontier).rows
    assert 2 < len(rows) < len(frontier.plans)  # the page is thinned
    assert all(told(frontier.cost(frontier.plans[int(place)])) == cost for place, cost, *_ in rows)
    assert (rows[0][0], rows[-1][0]) == ("0", str(len(frontier.plans) - 1))


def test_every_change_of_the_ledger_has_a_number_of_its_own(both):
    told, frontier = both
    numbering = number_changes(told, frontier)
    numbers = [numbering.of_entry(entry) for entry in frontier.ledger.entries]
    assert sorted(numbers) == ["S1", "S2", "S3", "S4", "S5"]
    assert "S1: north instead of east" in markdown(frontier)


def test_keys_stay_when_seed_sample_or_sibling_change(both):
    told, frontier = both
    world = navigation.world()
    again = explain(world, navigation.current, navigation.proposed_2, max_steps=80_000, seed=5)
    assert {region.key for region in again.regions} == {region.key for region in told.regions}
    fewer = replace(told, regions=told.regions[1:])
    assert number_changes(fewer, frontier).numbers[told.regions[2].key] == told.regions[2].id
    assert {entry.key for entry in frontier.ledger.entries} > {region.key for region in told.regions}


def test_a_key_knows_swap_and_place_and_nothing_else():
    low = Rule((Condition("x", 0, high=0.1), Condition("town", 1, values=("a", "b"))))
    same = Rule((Condition("town", 3, values=("b", "a")), Condition("x", 7, high=0.10001)))
    assert change_key(low, "N", "E") == change_key(same, "N", "E")
    others = [
        change_key(low, "E", "N"),
        change_key(low, "N", "S"),
        change_key(Rule(low.conditions[:1]), "N", "E"),
        change_key(Rule((replace(low.conditions[0], missing=True), low.conditions[1])), "N", "E"),
        change_key(Rule((replace(low.conditions[0], high=0.11), low.conditions[1])), "N", "E"),
    ]
    assert len({change_key(low, "N", "E"), *others}) == 6
