"""No output made from a log shows a group smaller than `min_group`, and what is left refers to nothing that is gone."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff.errors import InvalidOptionError
from polidiff.explanation.result_comparison import compare_results
from polidiff.records.action import Shift
from polidiff.records.codec import dumps, encode, from_dict, parts_of, to_dict
from polidiff.records.consistency import check_record
from polidiff.records.explanation import (
    ActionSupport,
    EpisodePair,
    Explanation,
    Region,
    Sentence,
    Support,
    WorseOff,
)
from polidiff.records.outcome import Assumption, Outcome
from polidiff.records.plan import Frontier
from polidiff.records.rule import Condition, Rule
from polidiff.records.suppression import suppressed
from polidiff.report import answers
from polidiff.report.charts import chart, charts_of
from polidiff.report.markdown import markdown
from polidiff.report.page import page_html
from tests.results import ACTIONS, EPISODES, RARE, explanation, frontier, results

LEAST = 10


def texts(record: Explanation) -> list[str]:
    """Everything that a result says without drawing."""
    said = [str(record), dumps(record), markdown(record)]
    if isinstance(record, Explanation):
        said += [answers.when(record, action) for action in ACTIONS]
        said.append(answers.what_if(record, "age < 0.6") if record.world.features[0].name == "age" else "")
        said += [answers.why_not(record, "treat", region.id) for region in suppressed(record).regions]
        case = {"age": 0.3, "town": "place 1"} if record.world.features[0].name == "age" else "place 1"
        said.append(str(record.case(case)))
    return said


@settings(max_examples=150)
@given(results())
def test_what_is_left_refers_to_nothing_that_is_gone_and_is_all_that_is_left_later(record):
    shown = suppressed(record)
    check_record(shown, type(shown).__schema__[0])
    assert from_dict(to_dict(record)).to_dict() == to_dict(record)
    assert encode(suppressed(shown)) == encode(shown)


@settings(max_examples=100, deadline=None)
@given(results())
def test_a_larger_group_may_be_asked_for_later(record):
    later, at_once = suppressed(suppressed(record, LEAST), 250), suppressed(record, 250)
    if isinstance(record, Frontier):
        assert (encode(later.plans), encode(later.ledger)) == (encode(at_once.plans), encode(at_once.ledger))
        return
    assert [region.key for region in later.regions] == [region.key for region in at_once.regions]
    assert [edit.rule for edit in later.patch.edits] == [edit.rule for edit in at_once.patch.edits]
    for one, other in zip(later.verdicts, at_once.verdicts, strict=True):  # never more than at once
        assert encode(one) == encode(other) or (one.note or "").startswith("not told")
    assert {group.start for group in later.worse_off} <= {group.start for group in at_once.worse_off}


@given(st.integers(0, 2**32 - 1))
def test_a_limit_above_all_people_leaves_no_plan_however_often_they_decide(seed):
    record = frontier(seed)
    record = replace(record, world=replace(record.world, facts={**record.world.facts, "people": 100}))
    assert not any(plan.changes > 0 for plan in suppressed(record, 250).plans[1:])


def test_an_outcome_keeps_its_name_whatever_it_holds_and_rare_names_beside_it_do_not():
    odd = "said \"yes\" or 'no'"
    record = replace(explanation(0), outcomes=(Outcome(odd),), verdicts=(), regions=(), sentences=(), worse_off=())
    record = replace(record, warnings=(f"{odd} was not seen in 'RAREname'",))
    told = suppressed(record)
    assert told.outcomes[0].name == odd
    assert told.warnings[0].startswith(odd)
    assert "RAREname" not in told.warnings[0]


def with_gossip(record: Explanation | Frontier) -> Explanation | Frontier:
    """The result with a rare name in every remark that a stage may write, and in the rules of the study."""
    told = "seen in 'RAREname' only"
    record = replace(
        record,
        warnings=(told,),
        assumptions=(Assumption("drift", told, "failed", told, told),),
        methods=replace(record.methods, study={"policies": {"current": "log", "rules": ["town = RAREtown: treat"]}}),
    )
    if isinstance(record, Frontier):
        plans = (replace(plan, warnings=(told,), rests_on=told, sentences=(told,)) for plan in record.plans)
        return replace(record, plans=tuple(plans))
    verdicts = tuple(replace(verdict, note=told, rests_on=told) for verdict in record.verdicts)
    said = tuple(replace(s, verdicts=verdicts) for s in record.sentences)
    return replace(record, verdicts=verdicts, sentences=said, episodes=(EpisodePair(("RAREname",), ("wait",)),))


def assert_nobody_is_pointed_at(record: Explanation | Frontier, *, draws: bool) -> None:
    """The law: no part, text, page, picture or comparison speaks of fewer than `LEAST`."""
    shown = suppressed(record)
    check_record(shown, type(shown).__schema__[0])
    people = record.world.people
    for place, part in parts_of(shown, "result"):
        if isinstance(part, (Region, Sentence)):
            assert part.support.episodes >= LEAST, place
        if isinstance(part, Region):
            assert all(swap.share * part.support.episodes >= LEAST for swap in part.swaps), place
        if isinstance(part, WorseOff):
            assert part.share * EPISODES >= LEAST - 1e-9, place
        if isinstance(part, Condition) and part.feature in people:
            assert all(people[part.feature].get(str(value), 0) >= LEAST for value in part.values or ()), place
    said = [*texts(record), str(compare_results(record, record))]
    if draws:
        said += [page_html(record), *(str(chart(record, name).to_dict(validate=False)) for name in charts_of(shown))]
    assert not any(name in text for name in (*RARE, "93.25") for text in said)  # the largest age is one person's


@settings(max_examples=150)
@given(results())
def test_no_output_of_a_log_points_at_a_small_group(record):
    assert_nobody_is_pointed_at(with_gossip(record), draws=False)


@pytest.mark.slow
def test_no_output_of_a_thousand_logs_points_at_a_small_group():
    for seed in range(500):
        for record in (explanation(seed, named=bool(seed % 2)), frontier(seed)):
            assert_nobody_is_pointed_at(with_gossip(record), draws=True)


@given(st.integers(10, 400), st.integers(1, 3), st.integers(0, 400), st.integers(1, 20))
def test_no_share_of_a_region_tells_how_few_have_an_action(people, each, taken, least):
    record = next(told for seed in range(99) if (told := explanation(seed)).regions)
    decisions, taken = people * each, min(taken, people * each)  # several may be one person's
    support = replace(record.regions[0].support, episodes=people, share=decisions / record.world.facts["rows"])
    region = replace(record.regions[0], rule=Rule(), shift=Shift(taken / decisions, 1.0), support=support)
    shown = suppressed(replace(record, regions=(region,), sentences=()), least).regions
    for told in shown:
        have = round(told.shift.current * decisions)
        assert have in (0, decisions) or least <= have <= decisions - least
    assert bool(shown) or people < least or decisions - taken < least  # as many change


@pytest.mark.parametrize(("others", "may"), [(4, False), (12, True)])
def test_a_change_of_a_few_people_is_withheld_however_often_they_decide(others, may):
    record = next(told for seed in range(99) if (told := explanation(seed)).regions)
    got = (ActionSupport(ACTIONS[0], 200, 0.5, 1.0), ActionSupport(ACTIONS[1], others, 0.5, 0.0))
    support = Support(1, 200, 1.0, None, got)
    region = replace(record.regions[0], rule=Rule(), shift=Shift(0.5, 1.0), proposed=ACTIONS[0], support=support)
    assert bool(suppressed(replace(record, regions=(region,), sentences=()), LEAST).regions) == may


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_how_much_is_left_out_is_said(seed, named):
    record = explanation(seed, named=named)
    shown = suppressed(record)
    gone = len(record.regions) - len(shown.regions)
    assert shown.withheld == gone
    assert any(f"{gone} region" in line for line in shown.warnings) == bool(gone)
    if gone and not shown.regions:
        assert "act the same wherever" not in str(record)


@given(results(kinds=("table", "simulator")))
def test_a_table_or_a_simulator_is_nobodys_record(record):
    assert encode(suppressed(record, 500)) | {"methods": None} == encode(record) | {"methods": None}


@given(results())
def test_the_explicit_way_out_shows_everything(record):
    everything, shown = encode(record), encode(suppressed(record, 1))
    everything["world"].pop("people"), shown["world"].pop("people")
    assert shown | {"methods": None} == everything | {"methods": None}


@pytest.mark.parametrize("wrong", [0, -3, 2.5, True])
def test_the_smallest_group_is_a_count(wrong):
    with pytest.raises(InvalidOptionError, match="min_group must be a whole number of at least 1"):
        suppressed(frontier(0), wrong)


def test_ranges_shrink_to_what_is_shown():
    record = next(r for r in map(suppressed, map(explanation, range(99))) if r.regions and not r.pictures)
    rules = [region.rule for region in record.regions]
    rules += [rule for s in record.sentences if s.start is not None for rule in (s.start, *s.also)]
    rules += [group.start for group in record.worse_off]
    bounds = [b for rule in rules for c in rule.conditions if c.feature == "age" for b in (c.low, c.high)]
    age = record.world.features[0]
    assert (age.low, age.high) == (min(b for b in bounds if math.isfinite(b)), max(bounds))
