"""Sentences that nobody would sign, looked for in all that is said of random results: text, Markdown and page."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff.explanation.said import MOST_BOUNDS, MOST_FEATURES, answers
from polidiff.explanation.words import amount_text, before_and_after, interval_text, listing
from polidiff.records.action import Shift
from polidiff.records.explanation import ActionSupport, Explanation, Sentence, Support, Verdict
from polidiff.records.numbers import with_unit
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.plan import PlanRule
from polidiff.records.rule import Condition, Rule
from polidiff.records.suppression import suppressed
from polidiff.report.answers import why_not
from polidiff.report.markdown import markdown
from polidiff.report.page import page_html
from polidiff.report.plans import plan_sentences
from tests.report import samples
from tests.report.test_statements import said
from tests.results import FEW, explanation, frontier, one_of_few, page_of

SEEDS, KINDS = st.integers(0, 10_000), st.sampled_from(["table", "simulator", "log"])
UNSIGNED = {
    "bounds that say nothing": r"∞|\bnan\b|unknown,? unknown",
    "one of many": r"(?<![\d.,\u202f])\b1 (?:steps|hours|percentage points|episodes|people|decisions|rules)\b",
    "a long number without a break": r"(?<![\w.,/:-])\d{5,}(?![\w.])",
    "the rest of everything": r"[Oo]therwise, everywhere",
    "no bound that can be read": r"(?:more than|by) <1 %",
    "two brackets": r"\) \(",
    "a sign behind words that say which way": r"\b(?:more|less|fewer)\b[^.;:()¦\n]{0,80}\([+−±]\d",
    "no decisions": r"(?<![\d.])0 decisions per episode",
    "one list, two meanings": r"\bboth comparison\b|\ball [12] comparisons",
}
FINITE = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))


def tellings(record: object, page: str = "") -> Iterator[str]:
    yield str(record)
    yield markdown(record).replace("\\", "")
    parted = r"</(?:dt|dd|p|li|h\d|th|td|strong|span|figcaption|option)>"
    yield said(re.sub(parted, " ¦ \\g<0>", page or page_html(record))).split("Made with polidiff")[0]


def unsigned(text: str) -> list[tuple[str, str]]:
    return [(name, found[0]) for name, pattern in UNSIGNED.items() for found in re.finditer(pattern, text)]


@settings(max_examples=48)
@given(FEW, st.booleans())
def test_no_telling_of_a_result_holds_a_sentence_that_nobody_would_sign(seed, plans):
    texts = tellings(one_of_few(seed, plans), page_of(seed, plans))
    assert [found for text in texts for found in unsigned(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "±0, between −∞ and +∞",
        "worse by 1 steps",
        "from 19936 played",
        "otherwise, everywhere: A",
        "undone by reasons that change odds ∞ times",
        "held up to odds that change by more than <1 %",
        "fluid in S6 (told below) (75 % of episodes reach it)",
        "0 decisions per episode change",
    ],
)
def test_those_sentences_would_be_found(text):
    assert unsigned(f"It is {text}.")


def withheld(seed: int) -> Explanation:
    """A log in which only three people meet a change."""
    record = explanation(seed, "log")
    region = replace(samples.from_log().regions[0], support=Support(3, 3, 0.003))
    calm = Sentence(None, 1.0, (), 1.0, record.verdicts, Support(50, 1000, 1.0))
    record = replace(record, regions=(region,), sentences=(calm,), pictures=(), sample=())
    verdicts = tuple(
        Verdict(o.name, "more", Interval(0.5, 0.2, 0.8, 0.95), Interval(0.5, 0.2, 0.8, 0.95), None)
        for o in record.outcomes
    )
    return replace(record, verdicts=verdicts, lead="difference")


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_an_effect_that_is_not_told_is_said_not_to_be_told_and_why(seed):
    record = withheld(seed)
    assert all(math.isnan(verdict.difference.estimate) for verdict in suppressed(record).verdicts)
    for text in tellings(record):
        assert f"not told, because fewer than 10 {record.world.counted_in} meet a change" in text
        assert re.findall(r"[±+−]\S+ \(not told|unknown effect on \w+ \([±+−\d]|unknown[:,] [±+−\d]", text) == []


@given(FINITE, FINITE.map(abs), st.booleans(), st.booleans(), st.booleans())
def test_bounds_are_told_where_they_are_and_only_there(middle, half, low, high, share):
    interval = Interval(middle, middle - half if low else -math.inf, middle + half if high else math.inf, 0.95)
    text = interval_text(interval, outcome=Outcome("survival", range=(0, 1)) if share else None)
    assert ("at least" in text) == (low and not high)
    assert ("at most" in text) == (high and not low)
    if half > abs(middle) / 100 and low and high:
        assert "between" in text
    assert ("percentage point" in text) == share


@given(FINITE, st.sampled_from(["steps", "hours on pressors", "injuries", "boxes", "h", "ms", "€", "status", "loss"]))
def test_a_unit_is_singular_behind_one_only(value, unit):
    one = {"steps": "step", "hours on pressors": "hour on pressors", "injuries": "injury", "boxes": "box"}.get(
        unit, unit
    )
    for number in (1.0, value):
        text = amount_text(Interval.exactly(number), Outcome("stay", unit=unit))
        amount, behind = text.split(" ", 1) if "\u202f" not in text else text.replace("\u202f", "").split(" ", 1)
        assert behind == (one if amount == "1" else unit)
    assert with_unit("12", f" {unit}") == f"12 {unit}"


@given(FINITE, FINITE, FINITE.map(abs), FINITE.map(abs))
def test_before_and_after_are_rounded_alike_and_to_what_their_intervals_carry(before, after, one, other):
    sides = Interval(before, before - one, before + one, 0.95), Interval(after, after - other, after + other, 0.95)
    numbers = [text.replace("\u202f", "").replace("−", "-") for text in before_and_after(*sides).split(" → ")]
    for text, side in zip((numbers * 2)[:2], sides, strict=True):
        coarse = max(one, other) or max(abs(before), abs(after)) / 1000
        assert abs(float(text) - side.estimate) <= coarse + 1e-3 * abs(side.estimate)


def test_names_that_hold_commas_are_told_apart():
    assert listing(["a", "b, by night", "c"]) == "a; b, by night; and c"


@settings(max_examples=12)
@given(SEEDS, KINDS)
def test_where_only_chances_shift_no_number_of_changed_decisions_is_said(seed, kind):
    record = explanation(seed, kind)
    regions = tuple(replace(region, proposed=region.current, shift=Shift(0.2, 0.7)) for region in record.regions)
    for text in tellings(replace(record, regions=regions, changes=0.0)):
        assert re.findall(r"(?<![\d.])0 (?:changed )?decisions|0 % of decisions change", text) == []


@settings(max_examples=12)
@given(SEEDS, KINDS)
def test_the_last_rule_of_a_list_holds_everywhere_else(seed, kind):
    record = frontier(seed, kind)
    rest = PlanRule(Rule(), "wait", 1.0, 0.5, 1.0)
    plans = tuple(replace(plan, rules=(*plan.rules, rest)) if plan.rules else plan for plan in record.plans)
    record = suppressed(replace(record, plans=plans))
    listed, first = (any(len(plan.rules) > 1 for plan in some) for some in (record.plans, [record.knee]))
    for text, told in zip(tellings(record), (listed, first, first), strict=True):
        assert "therwise, everywhere" not in text
        assert ("verywhere else" in text) >= told


def test_a_plan_that_changes_nothing_from_some_starts_says_so():
    record = samples.plain()
    none = Interval(0.0, -1.0, 1.0, 0.95)
    unknown = tuple(replace(v, direction="unknown", valence=None, difference=none) for v in record.verdicts)
    calm = Sentence(record.sentences[0].start, 0.5, (), 1.0, unknown, Support(9, 90, 1.0))
    plan = replace(samples.frontier().plans[1], _explain=lambda: replace(record, sentences=(calm,)))
    assert re.fullmatch(r"From .*: nothing changes\.", plan_sentences(plan, samples.frontier())[0])


@settings(max_examples=20)
@given(SEEDS, st.integers(1, 6))
def test_a_long_rule_is_told_on_the_first_screen_by_its_features(seed, count):
    region = explanation(seed, "simulator").regions[:1] or samples.plain().regions[:1]
    rule = Rule(tuple(Condition(f"f{k}", k, low=0.25, high=0.5) for k in range(count)))
    regions = tuple(replace(region[0], id=f"S{k}", rule=rule) for k in (1, 2))
    told = answers(replace(samples.plain(), regions=regions, sentences=()))[1].text
    whole = 4 * count <= MOST_BOUNDS  # two regions, two bounds for each feature
    named = [f"f{k}" in told for k in range(count)]
    assert all(named) if whole or count <= MOST_FEATURES else sum(named) == MOST_FEATURES - 1 and " more" in told
    assert ("0.25" in told) == whole
    assert "S1" in told
    assert "S2" in told


def test_places_too_long_for_the_first_screen_are_told_by_what_is_done_there():
    base = samples.plain()
    rule = Rule(tuple(Condition(f"f{k}", k, low=0.25, high=0.5) for k in range(3)))
    swaps = [("N", "E"), ("N", "S"), ("N", "E"), ("N", "E")]
    regions = tuple(
        replace(base.regions[0], id=f"S{k}", current=one, proposed=other, rule=rule)
        for k, (one, other) in enumerate(swaps, 1)
    )
    told = answers(replace(base, regions=regions, sentences=()))[1].text.split(": ", 1)[1]
    assert told == "E instead of N in S1, S3 and S4; S instead of N in S2. The regions depend on f0, f1 and f2."


def test_a_policy_that_draws_its_action_is_worth_the_mean_over_its_chances():
    record = samples.plain()
    region = record.regions[0]
    values = dict(zip((a.name for a in record.world.actions), (1.0, 3.0, 5.0, 7.0), strict=False))
    chances = dict(zip(values, (0.5, 0.25, 0.25), strict=False))
    drawn = tuple(ActionSupport(name, 0, share, float(name == region.proposed)) for name, share in chances.items())
    region = replace(region, action_values={"return": values}, support=replace(region.support, actions=drawn))
    action = next(name for name in values if name not in (region.current, region.proposed))
    told = why_not(replace(record, regions=(region,)), action, region.id)
    assert f"; the current policy's mix of actions {0.5 * 1 + 0.25 * 3 + 0.25 * 5:g}; " in told
    assert f"{region.proposed} (proposed) {values[region.proposed]:g}" in told


def test_what_another_action_is_worth_is_told_with_the_unit_of_the_outcome():
    record = samples.plain()
    region = record.regions[0]
    share = Outcome("survival", range=(0, 1))
    values = {"survival": {"wait": 0.7868, region.proposed: 0.5, region.current: 0.25}}
    record = replace(
        record, outcomes=(share,), verdicts=(), sentences=(), regions=(replace(region, action_values=values),)
    )
    action = next(a.name for a in record.world.actions if a.name not in (region.current, region.proposed))
    values["survival"][action] = values["survival"].pop("wait")
    told = why_not(record, action, region.id)
    assert f"survival: 78.68 %; {region.current} (current) 25 %; {region.proposed} (proposed) 50 %" in told
