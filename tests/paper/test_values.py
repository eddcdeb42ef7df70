"""Every value agrees, and one that did not would be noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polidiff.paper import values as expectations
from polidiff.paper.values import Value, checked_values


def test_every_value_comes_out(values):
    assert [value for value in values if not value.ok] == []


def test_values_have_names_of_their_own_and_cover_both_tasks(values):
    names = [value.id for value in values]
    assert len(set(names)) == len(names)
    parts = {name.split(".")[0] for name in names}
    assert parts == {"chain", "log", "text", "navigation", "pi", "bar"}


def test_the_differences_along_the_chain_are_the_forced_ones():
    # written out in the paper's text: two detours from s0 and s1, one from s2 … s5, none further on
    forced = (2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0)
    for table in (expectations.CHAIN_LENGTH, expectations.CHAIN_VISITS):
        assert tuple(new - old for old, new in zip(*table.values(), strict=True)) == forced


@pytest.mark.parametrize(
    ("value", "got", "tolerance", "at_least", "ok"),
    [
        (1.0, 1.0 + 9e-10, 1e-9, False, True),
        (1.0, 1.0 + 2e-9, 1e-9, False, False),
        (1.0, float("nan"), 1e-9, False, False),
        (0.95, 0.99, 1e-9, True, True),
        (0.95, 0.94, 1e-9, True, False),
        ("s1, s5", "s1, s5", 1e-9, False, True),
        ("s1, s5", "s1", 1e-9, False, False),
        (1.0, "missing", 1e-9, False, False),
    ],
)
def test_a_number_may_be_off_by_its_tolerance_and_words_not_at_all(value, got, tolerance, at_least, ok):
    assert Value("id", "", "", value, got, tolerance=tolerance, at_least=at_least).ok is ok


def test_what_is_not_there_is_off(runs):
    fewer = {name: outcomes for name, outcomes in runs.navigation.exact.items() if name != "κ = 3"}
    untold = replace(runs.chain, paper=replace(runs.chain.paper, forms={}))
    without = replace(runs, chain=untold, navigation=replace(runs.navigation, exact=fewer))
    off = {value.id for value in checked_values(without) if not value.ok}
    plan = {"navigation.plan.3.collected", "navigation.plan.3.stay", "navigation.optimum", "navigation.remark"}
    assert off == plan | {"text.7.paths", "text.7.states", "text.7.outcomes"}


def test_a_policy_that_does_nothing_new_is_noticed(runs):
    same = replace(runs, chain=replace(runs.chain, proposed=runs.chain.current))
    off = {value.id for value in checked_values(same) if not value.ok}
    assert off == {f"chain.{what}.proposed.s{start}" for what in ("length", "visits") for start in range(6)}


def test_a_lost_sentence_is_noticed(runs):
    shorter = replace(runs.chain.paper, sentences=runs.chain.paper.sentences[:-1])
    off = [v.id for v in checked_values(replace(runs, chain=replace(runs.chain, paper=shorter))) if not v.ok]
    assert off == ["text.4.4.count", "text.4.4.7.starts", "text.4.4.7.steps", "text.4.4.7.directions"]
