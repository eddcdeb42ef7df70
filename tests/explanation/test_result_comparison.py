"""Two results side by side: laws over random results, and what a reader is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from polidiff import compare
from polidiff.errors import InvalidOptionError
from polidiff.explanation.result_comparison import shared_place, size_status
from polidiff.records.explanation import Feature, WorseOff
from polidiff.records.outcome import Interval
from polidiff.records.rule import Condition, Rule
from polidiff.records.suppression import suppressed
from polidiff.report.page import page_html
from tests.report import samples
from tests.results import RARE, results

ANY = results(kinds=("log", "table", "simulator"))


@settings(max_examples=25, deadline=None)
@given(ANY)
def test_a_result_compared_with_itself_has_not_changed(record):
    comparison = compare(record, record)
    assert not comparison.changed
    assert comparison.setbacks == ()
    assert comparison.advice_before == comparison.advice_after


@settings(max_examples=25, deadline=None)
@given(ANY, ANY)
def test_what_is_new_one_way_is_gone_the_other_way(old, new):
    if type(old) is not type(new):
        with pytest.raises(InvalidOptionError, match="got one of each"):
            compare(old, new)
        return
    there, back = compare(old, new), compare(new, old)
    for one, other in (("new", "gone"), ("larger", "smaller")):
        assert counted(there, one) == counted(back, other)
        assert counted(there, other) == counted(back, one)
    assert {v.outcome for v in there.verdicts} == {v.outcome for v in back.verdicts}


def counted(comparison, status):
    parts = (*comparison.differences, *comparison.losers, *comparison.verdicts)
    return sum(part.status == status for part in parts)


@settings(max_examples=25, deadline=None)
@given(results(), results())
def test_every_region_is_told_once_and_nobody_rare_is_named(old, new):
    if type(old) is not type(new):
        return
    comparison = compare(old, new)
    page = page_html(comparison)
    assert not any(name in page or name in str(comparison) for name in RARE)
    if comparison.kind == "explanation":
        for record, ids in (
            (old, [c.old for c in comparison.differences]),
            (new, [c.new for c in comparison.differences]),
        ):
            assert sorted(filter(None, ids)) == sorted(region.id for region in suppressed(record).regions)


def test_a_rule_whose_bounds_moved_a_little_is_the_same_difference():
    old = samples.plain()
    first = old.regions[0]
    nudged = replace(first.rule.conditions[0], high=0.11)
    moved = replace(first, rule=Rule((nudged, *first.rule.conditions[1:])))
    comparison = compare(old, replace(old, regions=(moved, *old.regions[1:])))
    assert [change.status for change in comparison.differences] == ["same", "same", "same"]
    assert comparison.differences[0].place_before == "0 ≤ x < 0.1 and 0.2 ≤ y < 0.3"
    assert "moved: E instead of N where 0 ≤ x < 0.11 and 0.2 ≤ y < 0.3" in str(comparison)


@pytest.mark.parametrize(("share", "status"), [(0.05, "smaller"), (0.03, "new")])
def test_a_region_within_the_old_one_is_the_same_difference_if_it_has_most_of_its_decisions(share, status):
    old = samples.plain()
    base, low = old.regions[0], Rule((Condition("x", 0, low=0.1),))
    wide = replace(base, rule=low, support=replace(base.support, share=0.08, episodes=10**9))
    narrow = replace(wide, rule=Rule((Condition("x", 0, low=0.1, high=0.12),)), key="")
    narrow = replace(narrow, support=replace(wide.support, share=share))
    before, after = (replace(old, regions=(region,)) for region in (wide, narrow))
    found = [change.status for change in compare(before, after).differences]
    assert found == ([status] if status == "smaller" else ["new", "gone"])


def test_another_swap_in_the_same_place_is_another_difference():
    old = samples.plain()
    other = replace(old.regions[0], proposed="W")
    comparison = compare(old, replace(old, regions=(other, *old.regions[1:])))
    assert sorted(change.status for change in comparison.differences) == ["gone", "new", "same", "same"]


def test_a_verdict_that_turns_for_the_worse_and_a_new_loser_are_setbacks():
    old = samples.plain()
    worse = (replace(old.verdicts[0], direction="unknown", valence=None), *old.verdicts[1:])
    group = WorseOff("return", Rule((Condition("y", 1, low=0.9),)), 0.1, Interval(-2.0, -3.0, -1.0, 0.95))
    new = replace(old, verdicts=worse, worse_off=(*old.worse_off, group))
    assert compare(old, new).setbacks == (
        "return has turned from better to unknown",
        "newly worse off: return for starts where y ≥ 0.9",
    )
    assert compare(new, old).setbacks == ()


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        ((2.0, 1.5, 2.5), (4.0, 3.0, 5.0), "larger"),
        ((-2.0, -2.5, -1.5), (-4.0, -5.0, -3.0), "larger"),
        ((4.0, 3.0, 5.0), (2.0, 1.5, 2.5), "smaller"),
        ((2.0, 1.5, 2.5), (2.4, 1.9, 2.9), "same"),  # the intervals meet
        ((2.0, 2.0, 2.0), (2.1, 2.1, 2.1), "same"),  # exact, but less than a tenth
    ],
)
def test_larger_means_apart_and_by_a_tenth(before, after, status):
    assert size_status(Interval(*before, 0.95), Interval(*after, 0.95)) == status


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        (Condition("x", 0, high=0.5), Condition("x", 0, high=0.4), 0.8),
        (Condition("x", 0, high=0.5), Condition("x", 0, low=0.5), 0.0),
        (Condition("x", 0, high=0.5), Condition("y", 1, high=0.5), 0.25),  # half of x, half of y
        (Condition("ward", 2, values=("A", "B")), Condition("ward", 2, values=("B", "C")), 1 / 3),
    ],
)
def test_the_place_that_two_rules_share(one, other, share):
    features = {
        "x": Feature("x", "number", 0.0, 1.0),
        "y": Feature("y", "number", 0.0, 1.0),
        "ward": Feature("ward", "category", values=("A", "B", "C")),
    }
    assert shared_place(Rule((one,)), Rule((other,)), features) == pytest.approx(share)


def test_frontiers_are_compared_by_their_best_plans():
    old = samples.frontier()
    new = replace(old, plans=old.plans[:3])
    comparison = compare(old, new)
    assert [change.status for change in comparison.differences] == ["gone", "same", "same"]
    assert comparison.verdicts[0].status == "same"  # 21.9905 and 21.9895: less than a tenth
    assert "Changes of the best plan: 1 gone and 2 as before" in str(comparison)


def test_rules_of_plans_are_told_in_their_order_and_in_the_unit_of_what_they_improve():
    old = samples.rule_frontier()
    share = replace(old.outcomes[0], name="answered", range=(0.0, 1.0), unit=None)
    best = old.best
    first = replace(best.rules[0], without=best.expected_return - 0.05)
    rest = replace(first, rule=Rule(), without=best.expected_return - 0.02)
    plans = tuple(replace(plan, rules=(first, rest)) if plan is best else plan for plan in old.plans)
    text = str(compare(old, replace(old, outcomes=(*old.outcomes, share), objective="answered", plans=plans)))
    assert f"{rest.deed} everywhere else (worth +2 percentage points)" in text


def test_results_of_other_worlds_and_levels_are_compared_with_a_word_of_caution():
    old = samples.plain()
    new = replace(samples.from_log(), methods=replace(old.methods, level=0.9))
    said = " ".join(compare(old, new).cautions)
    assert "from a simulator, the newer one from a log" in said
    assert "hold at 95 % in the older result, 90 % in the newer" in said


def test_all_starts_that_lost_before_are_no_new_losers_where_a_group_is_gone():
    group = WorseOff("return", Rule((Condition("y", 1, low=0.9),)), 0.1, Interval(-2.0, -3.0, -1.0, 0.95))
    new = samples.plain()
    verdict = replace(new.verdicts[0], outcome="return", valence="worse", difference=Interval(-1.0, -2.0, -0.5, 0.95))
    new = replace(new, verdicts=(verdict, *new.verdicts[1:]), worse_off=(), sentences=())
    assert not compare(replace(new, worse_off=(group,)), new).setbacks


def test_a_group_within_one_that_lost_or_around_it_is_neither_new_nor_gone():
    everyone = replace(samples.plain(), sentences=(), worse_off=())  # its verdict on length is worse for all starts
    some, elsewhere = (
        replace(everyone, verdicts=(), worse_off=(WorseOff("length", Rule((where,)), 0.5, Interval.exactly(8.0)),))
        for where in (Condition("x", 0, high=0.4), Condition("x", 0, low=0.6))
    )
    for was, now, turned in ((some, everyone, []), (everyone, some, []), (some, elsewhere, ["new", "gone"])):
        comparison = compare(was, now)
        assert [loser.status for loser in comparison.losers] == turned
        assert any("newly worse off" in setback for setback in comparison.setbacks) == bool(turned)


def test_a_verdict_that_has_become_the_same_is_told_in_words():
    old = samples.plain()
    new = replace(old, verdicts=tuple(replace(v, direction="same", valence=None) for v in old.verdicts))
    assert "is now the same" in str(compare(old, new))
    assert "is the same, as before" in str(compare(new, new))
