"""What charts are drawn from."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from polidiff.records.explanation import Arrow, Feature
from polidiff.records.rule import Condition, Rule
from polidiff.report.charts import regions as boxes
from polidiff.report.charts.outcomes import difference_rows, layout
from polidiff.report.charts.regions import coarser
from polidiff.report.figures import explanation_figures
from tests.report import extremes, samples


def test_a_coarser_picture_keeps_all_visits_and_their_place():
    fine = extremes.huge().pictures[0]
    for most in (900, 100, 1):
        coarse = coarser(fine, most)
        assert len(coarse.cells) <= most
        assert sum(c.visits for c in coarse.cells) == pytest.approx(sum(c.visits for c in fine.cells))
        for axis in ("x", "y"):
            mean = sum(getattr(c, axis) * c.visits for c in coarse.cells) / sum(c.visits for c in coarse.cells)
            assert mean == pytest.approx(0.5, abs=getattr(coarse, f"{axis}_step"))


def test_a_small_picture_is_left_alone():
    assert coarser(samples.picture()).cells == samples.picture().cells


def test_the_pair_of_features_is_the_one_rules_speak_about():
    features = [Feature(name, "number", 0.0, 1.0) for name in "abcd"]
    rules = [Rule((Condition("d", 3, low=0.2), Condition("b", 1, high=0.5))), Rule((Condition("d", 3, high=0.1),))]
    assert boxes.telling_pair(rules, features) == ("b", "d")
    assert boxes.telling_pair(rules, features[:1]) is None
    assert boxes.telling_pair([Rule((Condition("a", 0, values=("u",)),))], features) is None
    three = Rule(tuple(Condition(name, place, low=0.5) for place, name in enumerate("abc")))
    assert boxes.telling_pair([three] * 5, features) is None, "no rectangle says what it says"
    assert boxes.telling_pair([three] * 5 + rules, features) == ("b", "d")
    assert not boxes.is_drawn(three, ("a", "b"))
    assert all(boxes.is_drawn(rule, ("b", "d")) for rule in rules)


def test_boxes_are_the_rule_within_the_range_seen():
    rule = Rule((Condition("x", 0, low=0.5), Condition("x", 0, high=0.7), Condition("y", 1, low=0.9)))
    assert boxes.side(rule, "x", (0.0, 1.0)) == (0.5, 0.7)
    assert boxes.side(rule, "z", (0.0, 1.0)) == (0.0, 1.0)
    assert boxes.side(rule, "y", (0.0, 0.5)) == (0.9, 0.9)


def test_the_forest_plot_has_a_row_for_all_starts_and_one_per_group():
    rows = difference_rows(samples.plain(), "length")
    assert [row["g"] for row in rows] == ["All starts", "Group 1", "Group 2", "Group 3"]
    assert [row["v"] for row in rows] == ["worse", "worse", "unknown", "same"]


def test_no_two_states_of_a_graph_share_a_place():
    places = layout(samples.chain().graph)
    assert max(Counter(places.values()).values()) == 1
    assert len(places) == 12


def test_a_graph_that_is_one_loop_is_drawn():
    loop = [Arrow("a", "b", "both", 1.0), Arrow("b", "a", "both", 1.0), Arrow("c", "c", "both", 1.0)]
    assert layout(loop) == {"c": (0.0, 0.5), "a": (0.0, -0.5), "b": (1.0, 0.0)}


def test_outlines_are_explained_where_some_are_drawn():
    record = samples.plain()
    notes = [explanation_figures(record)["where"][0].note]
    elsewhere = tuple(replace(r, rule=Rule((Condition("other", 2, low=0.0),))) for r in record.regions)
    for regions in ((*record.regions, *elsewhere), elsewhere):
        notes.append(explanation_figures(replace(record, regions=regions))["where"][0].note)
    assert notes[0].endswith(" Outlines: the rules.")
    assert notes[1].endswith(" Outlines: the rules that speak about these two features and no other.")
    assert notes[2].endswith(" Stronger: more.")
