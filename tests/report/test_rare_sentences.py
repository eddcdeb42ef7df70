"""Sentences that few results need, each made from a record that needs it and from one that does not."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from polidiff import compare
from polidiff.explanation.plan_text import knee_text, plan_answers
from polidiff.explanation.said import answers
from polidiff.explanation.text import sentence_text
from polidiff.records.action import Direction, Often, Shift
from polidiff.records.explanation import FOLLOWED, ActionSupport, Explanation, WorseOff
from polidiff.records.outcome import Assumption, Interval
from polidiff.report.comparison import answers as compared
from tests.report import samples


def answered(record: Explanation) -> dict[str, str]:
    return {answer.question: answer.spoken for answer in answers(record)}


def test_what_the_first_changes_add_and_what_the_rest_is_that_of_the_plans():
    frontier = samples.frontier()
    now, knee, best = (plan.expected_return for plan in (frontier.plans[0], frontier.knee, frontier.best))
    first, of, adds, rest = map(float, re.findall(r"\d+(?:\.\d+)?", knee_text(frontier)))
    assert (first, of) == (frontier.knee.changes, frontier.best.changes)
    assert (adds, rest) == pytest.approx((knee - now, best - knee), rel=1e-3)


def test_a_single_plan_is_not_called_the_most():
    frontier = samples.frontier()
    assert knee_text(replace(frontier, plans=frontier.plans[:2])) == "It is the only plan."
    assert knee_text(replace(frontier, plans=frontier.plans[:3])) == "It gains most."


@pytest.mark.parametrize("count", range(1, 9))
def test_regions_that_are_told_first_and_those_that_are_counted_are_all(count):
    base = samples.plain()
    rules = [samples.box((k / 10, (k + 1) / 10)) for k in range(count)]
    regions = tuple(replace(base.regions[0], id=f"S{k}", rule=rule) for k, rule in enumerate(rules, 1))
    told = answered(replace(base, regions=regions, sentences=()))["What changes?"]
    more = re.search(r"; (\d+) further rules? below", told)
    assert len(re.findall(r"\bS\d\b", told)) + (int(more[1]) if more else 0) == count


def test_other_parts_of_an_action_are_named_where_a_direction_leaves_them_open():
    base = samples.plain()
    also = replace(base.regions[0], direction=Direction("fluid", 1, ("pressor",)))
    told = answered(replace(base, regions=(also,), sentences=()))["What changes?"]
    assert ", more fluid where " in told
    assert told.endswith(". Other parts of the action (pressor) may change too.")
    alone = replace(base.regions[0], direction=Direction("fluid", 1, ()))
    assert "Other parts" not in answered(replace(base, regions=(alone,), sentences=()))["What changes?"]


@pytest.mark.parametrize(("status", "said"), [("failed", True), ("doubtful", True), ("held", False)])
def test_what_is_in_doubt_is_what_did_not_hold(status, said):
    drift = Assumption("drift", "early against late", status, "late ones differ", "", 0.001)
    record = replace(samples.from_log(), assumptions=(drift,))
    assert (f" In doubt: drift ({status})." in answered(record)["How sure is that?"]) == said


def test_an_exact_result_names_what_was_played_only_where_something_was():
    record = samples.chain()
    assert answered(record)["How sure is that?"].endswith("nothing was sampled.")
    world = replace(record.world, facts={**record.world.facts, FOLLOWED: 19_936})
    told = answered(replace(record, world=world))["How sure is that?"]
    assert told.endswith("Only the shares of episodes that meet changes come from 19\u202f936 played episodes.")


def test_a_path_of_many_stretches_tells_the_first_six_and_counts_all():
    base = samples.plain()
    rules = [samples.box((k / 10, (k + 1) / 10)) for k in range(9)]
    regions = tuple(replace(base.regions[0], id=f"S{k}", rule=rule) for k, rule in enumerate(rules, 1))
    for length in (3, 7, 9):
        sentence = replace(base.sentences[0], path=tuple(region.id for region in regions[:length]), others=())
        text = sentence_text(replace(base, regions=regions), sentence)
        assert text.count("do E instead of N") == (length if length < 8 else 6)
        assert ("and so on, 9 stretches in all" in text) == (length == 9)
    back = replace(base.sentences[0], path=("S1", "S2", "S1", "S2", "S1"), others=())
    assert ", and so on in turn, 5 stretches in all" in sentence_text(replace(base, regions=regions), back)


def test_who_newly_loses_is_a_group_that_lost_before_neither_alone_nor_within_another():
    base = samples.plain()
    low, high = (WorseOff("length", samples.box(x), 0.2, Interval(1.0, 0.8, 1.2, 0.95)) for x in ((0, 0.3), (0.6, 1)))
    then, now = replace(base, worse_off=(low,)), replace(base, worse_off=(low, high))
    newly = next(a.text for a in compared(compare(then, now)) if a.question == "Who newly loses?")
    assert newly == "New: length for starts where 0.6 ≤ x < 1."
    unchanged = next(a.text for a in compared(compare(now, now)) if a.question == "Who newly loses?")
    assert unchanged == "Nobody is shown to."


def test_what_is_done_at_times_only_is_done_more_or_less_often():
    region = samples.plain().regions[0]

    def told(**changed: object) -> str:
        record = replace(samples.plain(), regions=(replace(region, **changed),), sentences=())
        return answered(record)["What changes?"].split(", ", 1)[1]

    assert told(proposed="N", shift=Shift(0.2, 0.7)).startswith("N more often where")
    assert told(proposed="N", shift=Shift(0.7, 0.2)).startswith("N less often where")
    both = Shift(0.0, 0.5, (Often("E", 0.0, 0.4),))
    assert told(proposed="N", shift=both).startswith("N and E more often where")
    actions = (ActionSupport("N", 9, 0.6, 0.0), ActionSupport("E", 9, 0.4, 1.0))
    assert told(support=replace(region.support, actions=actions)).startswith("E more often where")
    assert told().startswith("E instead of N where")


@pytest.mark.parametrize(
    ("unknown", "said"), [(0, "."), (1, ", but 1 comparison remains"), (3, ", but 3 comparisons remain")]
)
def test_comparisons_that_remain_unknown_are_counted(unknown, said):
    base = samples.plain()
    verdicts = [
        replace(v, direction="unknown" if k < unknown else "same", valence=None) for k, v in enumerate(base.verdicts)
    ]
    told = answered(replace(base, verdicts=tuple(verdicts), sentences=(), worse_off=()))["For whom worse?"]
    assert told.startswith(f"No group is shown to lose{said}")


def test_a_plan_that_is_not_proven_says_how_far_it_may_be_from_the_best():
    frontier = samples.frontier()
    last = replace(frontier.plans[-1], gap=0.03, proven=False)
    told = plan_answers(replace(frontier, plans=(frontier.plans[0], last)))[-1].text
    assert told.startswith("Its return may be up to 3 % of the range from the best")


def test_the_share_of_a_group_is_that_of_the_starts_and_not_of_its_path():
    base = samples.plain()
    shares = [re.search(r"\((\d+) % of starts\)", sentence_text(base, sentence)) for sentence in base.sentences]
    assert [found and int(found[1]) for found in shares] == [48, 40, 12]
