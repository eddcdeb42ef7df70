"""Answers say what the record holds, and where it holds nothing, that it does not."""

from __future__ import annotations

import json
import math
import operator
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff import explain, load
from polidiff.cli.main import main, polidiff
from polidiff.domains import chain
from polidiff.errors import InvalidInputError
from polidiff.explanation.said import say
from polidiff.explanation.words import interval_text
from polidiff.records.codec import from_dict
from polidiff.records.explanation import Cell, Explanation, Feature, PathShare, Picture, RegionEffect
from polidiff.records.numbers import percent
from polidiff.records.rule import Condition, Rule
from polidiff.records.suppression import suppressed
from polidiff.report import answers
from polidiff.report.markdown import markdown
from polidiff.report.page import page_html
from tests.report import samples
from tests.results import ACTIONS, explanation

EXPECTED = "What this case alone may expect was not judged; the mean of "
ROWS = 1_500
STUDY = """[world.log]
path = "log.csv"
action = "action"
state = ["age"]
"""
STEPS = 'episode = "episode"\nstep = "step"\nterminated = "ended"\n'
RULE = """[policies]
current = "log"
rules = ["age < 65: call"]
[[outcomes]]
name = "good"
column = "good"
prefer = "more"
range = [-15, 15]
"""


def logged(steps: int) -> pl.DataFrame:
    """Contacts drawn with other chances for the young and the old; ages do not change within an episode."""
    rng = np.random.default_rng(5)
    age = np.repeat(rng.integers(20, 80, ROWS // steps), steps)
    drawn = rng.random(ROWS)
    action = np.where(drawn < np.where(age < 50, 0.2, 0.7), "call", np.where(drawn < 0.8, "email", "none"))
    good = rng.normal(0, 1, ROWS) + (action == "call")
    episode, step = np.repeat(np.arange(ROWS // steps), steps), np.tile(np.arange(steps), ROWS // steps)
    return pl.DataFrame(
        {"episode": episode, "step": step, "age": age, "action": action, "good": good, "ended": step == steps - 1}
    )


@pytest.fixture(scope="module", params=[1, 3], ids=["one step", "three steps"])
def told(request, tmp_path_factory) -> Explanation:
    """Everybody under 65 is called, read back from its file."""
    folder = tmp_path_factory.mktemp("answers")
    logged(request.param).write_csv(folder / "log.csv")
    (folder / "study.toml").write_text(STUDY + STEPS * (request.param > 1) + RULE)
    path = folder / "told.json"
    with pytest.raises(SystemExit) as done:
        main(["explain", str(folder / "study.toml"), "-o", str(path)])
    assert not done.value.code
    return load(path)


def test_what_was_done_is_never_called_untried(told):
    frame = logged(1 if told.world.one_step else 3)
    assert told.regions
    for region in told.regions:
        inside = region.rule.covers({"age": frame["age"].to_numpy()})
        for action in set(frame.filter(pl.Series(inside))["action"]) - {region.proposed}:
            said = answers.why_not(told, action, region.id)
            assert "never tried" not in said
            assert "was not measured" in said
            assert "• good: " in said


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["log", "table", "simulator"]))
def test_without_values_nothing_is_said_of_an_action_by_itself(seed, kind):
    record = explanation(seed, kind)
    record = replace(record, regions=tuple(replace(region, action_values={}) for region in record.regions))
    for region in suppressed(record).regions:
        for action in set(ACTIONS) - {region.proposed}:
            assert "was not measured" in answers.why_not(record, action, region.id)


@pytest.mark.parametrize("absent", [None, float("nan")])
def test_a_missing_value_is_said_to_be_missing(told, absent):
    case = told.case({"age": absent})
    assert case.text.startswith("For age = missing: ")
    assert case.region is None  # no rule of ages covers it


def test_a_case_that_does_not_change_is_given_no_effect(told):
    same, other = told.case({"age": 70}), told.case({"age": 30})
    assert same.expected == ()
    assert EXPECTED not in same.text
    assert "as now" in same.text
    assert ("cannot be told" in same.text) == (not told.world.one_step)
    means = any(sentence.start is None for sentence in told.sentences)
    assert bool(other.expected) == (EXPECTED in other.text) == (not means)
    assert ("the mean over all starts" in other.text) == means


def test_a_start_of_a_table_from_which_nothing_changes_is_told_so_from_its_file(tmp_path):
    read = load(explain(chain.world(), chain.current(), chain.proposed()).save(tmp_path / "chain.json"))
    assert (
        str(read.case("s7"))
        == "For s7: action 0, as now. From s6 … s10, the two policies act the same wherever it matters."
    )
    assert read.case("s7").expected == ()


def test_a_name_is_no_case_of_a_result_that_speaks_of_features(told):
    with pytest.raises(InvalidInputError, match=r"by name, such as \{'age': 0.05\}; got 'ward 3'"):
        told.case("ward 3")


def test_a_case_is_given_an_effect_where_all_such_starts_meet_a_change(told):
    if told.world.one_step:
        return
    sentence, region = told.sentences[0], told.regions[0].id
    for share, known in ((1.0, True), (0.7, False)):
        path = {"path": (region,), "path_share": 0.6, "others": (PathShare((region, region), share - 0.6),)}
        group = replace(sentence, start=Rule((Condition("age", 0, low=65.0),)), **path)
        case = replace(told, sentences=(group,)).case({"age": 70})
        assert (EXPECTED in case.text) == bool(case.expected) == known
        anywhere = replace(told, sentences=(replace(group, start=None),)).case({"age": 70})  # perhaps far from a start
        assert anywhere.text.endswith("cannot be told from this result.")
        assert not anywhere.expected


def test_a_case_whose_action_becomes_more_likely_is_not_as_now(told):
    shifted = [region for region in told.regions if region.shift is not None]
    assert shifted
    said = str(told.case({"age": 60}))
    assert "call more often" in said
    assert "as now" not in said


def test_every_region_that_may_change_how_often_an_action_is_taken_is_named(told):
    for action in ("call", "email", "none"):
        said = answers.when(told, action)
        assert all(f" {region.id}" in said for region in told.regions), said


def test_of_two_actions_one_loses_what_the_other_gains(told):
    regions = tuple(replace(region, support=replace(region.support, actions=())) for region in told.regions)
    two = replace(told, world=replace(told.world, actions=told.world.actions[:2]), regions=regions)
    region = next(region for region in told.regions if region.shift is not None)
    lost = round(100 * (1 - region.shift.current))
    assert f"email less often ({lost} % → 0 %) in {region.id}" in answers.when(two, "email")


def test_chances_are_those_of_the_rows_where_the_result_holds_them(told):
    frame = logged(1 if told.world.one_step else 3)
    for region in told.regions:
        inside = frame.filter(pl.Series(region.rule.covers({"age": frame["age"].to_numpy()})))
        emails = round(100 * (inside["action"] == "email").mean())
        assert f"no longer ({emails} % → 0 %) in {region.id}" in answers.when(told, "email")
        if region.shift is not None:  # said everywhere with the chances that this answer has
            assert region.shift.current == pytest.approx((inside["action"] == region.current).mean())


@pytest.mark.parametrize("asked", [["when", "email"], ["why-not", "email", "--in", "S1"], ["what-if", "age<50"]])
def test_an_answer_as_json_says_the_text_and_its_regions(told, tmp_path, asked):
    told.save(tmp_path / "x.json")
    said = [CliRunner().invoke(polidiff, ["ask", str(tmp_path / "x.json"), *asked, *more]) for more in ([], ["--json"])]
    answer = from_dict(json.loads(said[1].output))
    assert answer.text == said[0].output.rstrip("\n")
    assert all(region in suppressed(told).regions for region in answer.regions)
    assert answer.regions


def test_where_regions_overlap_a_later_one_is_said_to_lie_outside_the_first_and_counts_only_there():
    result = next(told for seed in range(20) if (told := explanation(seed, "simulator")).regions)
    region = replace(result.regions[0], effect=None)
    old, young = Rule((Condition("age", 0, low=65.0),)), Rule((Condition("age", 0, high=65.0),))
    grown = Rule((Condition("age", 0, low=40.0),))

    def with_rules(*rules):
        regions = tuple(replace(region, id=f"S{k}", rule=rule) for k, rule in enumerate(rules, 1))
        return replace(result, regions=regions, sentences=(), sample=(), pictures=(), lead="difference")

    for told, counts in ((with_rules(old, grown), True), (with_rules(old, young), False)):
        for text in (say(told).text(), markdown(told), page_html(told)):
            assert ("outside S1" in text) == counts  # each line is true where it is read alone
        assert ("outside S1" in answers.when(told, region.proposed)) == counts
    both = with_rules(old, grown)
    assert "S2" not in answers.what_if(both, "age >= 70")
    assert "S2, part of it" in answers.what_if(both, "age >= 50")
    assert "S1, all of it" in answers.what_if(both, "age >= 50")
    assert "S2, all of it" in answers.what_if(both, "age >= 40 and age < 65")
    assert [r.id for r in answers.answered(both, "what-if", "age >= 70", "").regions] == ["S1"]


@settings(max_examples=150, deadline=None)
@given(
    values=st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0]), min_size=1, max_size=6),
    step=st.sampled_from([0.05, 0.5, 1.0, 2.0]),
    bound=st.sampled_from([-0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0]),
    sign=st.sampled_from(["<", "<=", ">", ">="]),
)
def test_a_share_of_visits_from_a_picture_is_that_of_the_values_or_is_not_told(values, step, bound, sign):
    cells = tuple(
        Cell((math.floor(v / step + 1e-9) + 0.5) * step, 0.5, values.count(v) / len(values), None) for v in set(values)
    )
    base = samples.plain()
    world = replace(base.world, features=(Feature("pain", "number", 0.0, 3.0), Feature("mobile", "number", 0.0, 1.0)))
    record = replace(base, world=world, sample=(), pictures=(Picture("pain", "mobile", step, 1.0, cells),))
    told = re.search(r"(\S+ %) of visits fall there", answers.what_if(record, f"pain {sign} {bound}"))
    compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[sign]
    share = sum(compare(v, bound) for v in values) / len(values)
    if told is not None:
        assert told[1] == percent(share)
    if step <= 0.5 and sign in ("<", ">="):  # where no value lies between the edges, it is told
        assert (told is not None) == (share > 0)


def test_one_comparison_is_told_with_one_interval(told):
    """Where one region holds the whole change, what it does by itself is what all changes do."""
    (region, *others) = told.regions
    whole = told.verdicts[0].difference
    wider = replace(whole, low=whole.low - 1.0, high=whole.high + 1.0)
    other = replace(wider, estimate=whole.estimate + 0.5)
    for alone, shown in ((wider, whole), (other, other)):
        asked = replace(region, effect=RegionEffect({"good": alone}, {}))
        said = answers.why_not(replace(told, regions=(asked, *others)), "none", region.id)
        assert f"• good: {interval_text(shown)}" in said
