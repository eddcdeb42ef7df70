"""The paper's sentences as facts, and where the words part."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from polidiff.paper.sentences import BOXES, SECTION_4_4, deviations, draws, printed, region_name
from polidiff.records.rule import Condition, Rule


def box(left, right, low, high):
    return Rule((Condition("x", 0, low=left, high=right), Condition("y", 1, low=low, high=high)))


@pytest.mark.parametrize("name", BOXES)
def test_a_rule_that_spans_a_region_is_that_region(name):
    assert region_name(box(*BOXES[name]), "own name") == name


def test_an_open_side_is_the_same_region_where_nothing_lies_beyond():
    assert draws(box(0.1, 0.2, 0.3, math.inf), BOXES["S3"])
    assert not draws(box(0.1, math.inf, 0.3, 0.4), BOXES["S3"])


def test_the_region_that_the_paper_misprints_is_not_found():
    assert region_name(box(0.4, 0.5, 0.3, 0.4), "R7") == "unknown region R7"


def test_facts_agree_with_the_print_but_for_the_word_between(runs):
    made = printed(runs.chain.paper)
    assert [replace(fact, joined=None) for fact in made] == [replace(fact, joined=None) for fact in SECTION_4_4]
    assert [fact.joined for fact in made] == ["but"] * 6 + [None]


def test_both_wordings_of_section_4_4_are_listed(runs):
    listed = {row[:3] for row in deviations(runs).rows}
    assert ("4.4, starts s2 … s5", "“and”", "“but”") in listed
    assert ("4.4, starts s2 … s5", "“more number of visits”", "“more visits”") in listed
