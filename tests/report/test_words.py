"""Sentences that a result can make, and when they would be false: who loses, runs of names, numbers, counts."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from polidiff import TabularMDP, check, explain, improve
from polidiff.domains import chain
from polidiff.evaluation.assumptions.log_checks import fragile, only_if, rests_on
from polidiff.explanation.plan_text import plan_answers
from polidiff.explanation.region_places import group_words, losers
from polidiff.explanation.said import answers, closing, say
from polidiff.explanation.text import quality_text, rests_on_lines
from polidiff.explanation.verdict_words import verdicts_text
from polidiff.explanation.words import amount_text, bounds_text, interval_text, names_text, rule_text
from polidiff.records.explanation import Tail, WorseOff
from polidiff.records.numbers import counted
from polidiff.records.outcome import Assumption, Interval, Outcome
from polidiff.records.rule import Condition, Rule
from polidiff.records.suppression import suppressed
from polidiff.report import view
from polidiff.report.markdown import markdown
from tests.report import samples
from tests.results import SEEDS, explanation

KINDS = st.sampled_from(["table", "simulator", "log"])


def says_worse(record):
    """Outcomes that some verdict shown calls worse."""
    shown = suppressed(record)
    groups = (shown.verdicts, *(sentence.verdicts for sentence in shown.sentences))
    return {verdict.outcome for verdicts in groups for verdict in verdicts if verdict.valence == "worse"}


@settings(max_examples=150, deadline=None)
@given(SEEDS, KINDS, st.booleans())
def test_nobody_is_worse_off_is_said_only_where_no_verdict_is_worse(seed, kind, named):
    record = explanation(seed, kind, named=named)
    text, page = str(record), markdown(record)
    worse = says_worse(record) | {entry.outcome for entry in suppressed(record).worse_off}
    assert ("Worse off:" in text) == bool(worse)
    assert ("No group is shown to lose" in page) <= (not worse)
    assert {entry.outcome for entry in losers(suppressed(record))} == worse


@settings(max_examples=150, deadline=None)
@given(SEEDS, KINDS)
def test_everyone_is_listed_where_everyone_loses(seed, kind):
    record = suppressed(explanation(seed, kind))
    listed = {(entry.outcome, entry.start) for entry in losers(record)}
    for verdict in record.verdicts:
        if verdict.valence == "worse" and not any(entry.outcome == verdict.outcome for entry in record.worse_off):
            assert (verdict.outcome, None) in listed


NAMES = st.lists(st.from_regex(r"(s|place )(0|[1-9][0-9]?)", fullmatch=True), min_size=1, max_size=40, unique=True)


@given(NAMES)
def test_a_run_of_names_holds_every_name_between_its_ends_and_no_other(names):
    said: list[str] = []
    text = names_text(names)
    more = re.search(r" or ([0-9]+) more$", text)
    for piece in re.split(r", | or ", text if more is None else text[: more.start()]):
        first, _, last = piece.partition(" … ")
        prefix, start = re.fullmatch(r"(.*?)([0-9]+)", first).groups()
        end = re.fullmatch(r"(.*?)([0-9]+)", last or first)[2]
        said += [f"{prefix}{number}" for number in range(int(start), int(end) + 1)]
    assert len(re.split(r", | or ", text)) <= 7
    assert said == names[: len(said)]
    assert len(said) + (int(more[1]) if more else 0) == len(names)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["s1", "s3", "s5", "s7"], "s1, s3, s5 or s7"),
        (["s2", "s3", "s4"], "s2 … s4"),
        (["s2", "s3"], "s2 or s3"),
        (["ward", "s8", "s9", "s10", "s12"], "ward, s8 … s10 or s12"),
        (["s01", "s02", "s03"], "s01 … s03"),
        (["2", "3", "4", "8"], "2 … 4 or 8"),
    ],
)
def test_a_dash_stands_only_between_neighbours(names, text):
    assert names_text(names) == text


@given(st.floats(-1e6, 1e6), st.floats(0, 1e3))
def test_an_amount_behind_better_or_worse_has_no_sign(middle, half):
    if abs(middle) > half:
        assert not re.search("[+−-]", amount_text(Interval(middle, middle - half, middle + half, 0.95)))


def test_shares_are_said_in_percent_and_their_differences_in_points():
    survival = Outcome("survival", prefer="more", range=(0, 1))
    assert bounds_text(Interval(0.787, 0.75, 0.81, 0.95), survival) == "78.7 [75, 81] %"
    assert interval_text(Interval(-0.02, -0.03, -0.01, 0.95), outcome=survival) == (
        "−2 percentage points, between −3 and −1"
    )
    assert bounds_text(Interval.exactly(3.0), Outcome("stay", unit="h")) == "3 h"


@given(st.integers(0, 3) | st.integers(0, 10**7))
def test_one_is_singular_and_all_else_plural(count):
    assert counted(count, "rule").endswith(" rule") == (count == 1)


@settings(max_examples=100, deadline=None)
@given(SEEDS, KINDS)
def test_counts_agree_with_their_verbs(seed, kind):
    record = suppressed(explanation(seed, kind))
    said = " ".join([*(card.detail for card in view.summary_cards(record)), *(a.spoken for a in answers(record))])
    assert not re.search(r"\b1 (rules|comparisons)\b|\b1 rule say\b|\b1 comparison remain\b", said)
    assert not re.search(r"(?:^|[^.0-9])(?:0|[2-9]|[1-9][0-9]+) (rule|comparison)\b", said)


def test_a_loss_for_everyone_is_told_of_everyone_on_page_and_in_text():
    moves = np.zeros((4, 2, 4))
    moves[:, :, 3] = 1.0
    rewards = np.array([[1.0, 0.2], [1.0, 0.2], [1.0, 0.2], [0.0, 0.0]])
    wards = ["ward a", "ward c", "ward e", "out"]
    world = TabularMDP(moves, rewards, [1 / 3, 1 / 3, 1 / 3, 0.0], absorbing=[3], states=wards, return_name="wellbeing")
    told = explain(world, [0] * 4, [1] * 4)
    assert "Worse off:\n• all starts together: less wellbeing (by 0.8)" in str(told)
    assert say(told).lines("worse") == ("all starts together: less wellbeing (by 0.8)",)
    assert "No group" not in markdown(told)


def test_what_has_no_region_is_not_called_perfect():
    told = replace(samples.plain(), regions=(), changes=0.3)
    assert "F1" not in quality_text(told)
    assert "no rule was found" in quality_text(told)
    assert "transition_tolerance" in quality_text(replace(told, tradeoff=()))


def test_outcomes_that_rest_on_other_tests_are_named():
    told = samples.plain()
    lines = ("Rests on 9 people; tested and held: drift.", "Rests on 9 people; not tested: drift.")
    one, two = (replace(told.verdicts[0], outcome=name, rests_on=line) for name, line in zip("ab", lines, strict=True))
    for verdicts, expected in [((one, two), [f"a: {lines[0]}", f"b: {lines[1]}"]), ((one,), [lines[0]])]:
        assert rests_on_lines(replace(told, verdicts=verdicts))[: len(verdicts)] == expected


def test_people_that_are_counted_are_not_called_tested():
    grouped = Assumption("independence", "outcomes within and between units", "held", "", "")
    assert "tested and held: drift" in rests_on(9, "people", [grouped, replace(grouped, name="drift")], None)
    assert "held: independence" in rests_on(9, "people", [replace(grouped, p_value=0.5)], None)


def test_several_plans_that_break_a_guard_are_listed_as_several():
    frontier = improve(chain.world(), chain.current())
    unkept = tuple(replace(plan, kept=k not in (1, 2)) for k, plan in enumerate(frontier.plans))
    (line,) = (line for line in closing(replace(frontier, plans=unkept))[-1].lines if "guards" in line)
    assert line == "not shown to keep the guards: plans 1 and 2"


@settings(max_examples=100, deadline=None)
@given(SEEDS, KINDS)
def test_but_stands_once_and_parts_what_is_better_from_what_is_worse(seed, kind):
    record = explanation(seed, kind)
    names = [f"o{k}" for k in range(9)]
    outcomes = [Outcome(name, prefer="more") for name in names]
    drawn = np.random.default_rng(seed)
    base = record.verdicts[0]
    verdicts = [
        replace(base, outcome=name, direction=way, valence=outcome.valence(way) if way in ("more", "less") else None)
        for name, outcome, way in zip(
            names, outcomes, drawn.choice(["more", "less", "same", "unknown"], 9), strict=True
        )
    ][: drawn.integers(1, 10)]
    sides = verdicts_text(verdicts, outcomes, figures=False).split(" but ")
    valences = [{v.valence for v in verdicts if v.valence and f" {v.outcome}" in f" {side} "} for side in sides]
    assert len(sides) == len({v.valence for v in verdicts} - {None}) or len(sides) == 1
    assert all(len(found) <= 1 for found in valences)
    told = sum(v.outcome in " ".join(sides) for v in verdicts)
    assert " ".join(sides).count("an unknown effect") <= 1
    more = re.search(r"\b(\d+) more", " ".join(sides))
    assert told + (int(more[1]) if more else 0) == len(verdicts)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_whom_a_decision_harms_is_told_where_the_first_rule_that_fits_is_this_one(seed):
    """Rows of the group, by brute force over a grid: those of its rule that no earlier rule covers."""
    drawn = np.random.default_rng(seed)
    rules = []
    for _ in range(3):
        low = np.round(drawn.uniform(0, 0.6, 2), 1)
        rules.append(samples.box((low[0], low[0] + 0.3), (low[1], low[1] + 0.3) if drawn.random() < 0.7 else None))
    assume(len(set(rules)) == 3)
    base = samples.plain()
    regions = tuple(replace(base.regions[0], id=f"S{k}", rule=rule) for k, rule in enumerate(rules, 1))
    world = replace(base.world, kind="log", facts={**base.world.facts, "episodes": 100, "rows": 100})
    record = replace(base, regions=regions, world=world)
    assert record.world.one_step
    grid = np.stack(np.meshgrid(*[np.linspace(0.05, 0.95, 10)] * 2), axis=-1).reshape(-1, 2)
    for k, rule in enumerate(rules):
        words = group_words(record, WorseOff("return", rule, 0.5, Interval.exactly(-1.0)))
        assert words.startswith("decisions where ")
        taken = {f"S{j + 1}" for j in range(k) if (rules[j].covers(grid) & rule.covers(grid)).any()}
        assert set(re.findall(r"S\d", words)) == taken
    everyone = WorseOff("return", Rule(()), 1.0, Interval.exactly(-1.0))
    assert group_words(record, everyone) == "all decisions together"


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_the_strength_that_undoes_it_is_the_least_and_the_same_wherever_it_is_told(seed):
    drawn = np.random.default_rng(seed)
    base = samples.from_log()
    gammas = [round(float(g), 2) for g in drawn.uniform(1.05, 1.95, len(base.verdicts))]
    verdicts = tuple(replace(v, holds_up_to=g) for v, g in zip(base.verdicts, gammas, strict=True))
    verdicts = tuple(
        replace(v, note=only_if(v.holds_up_to) if fragile(v.holds_up_to, base.world.one_step) else None)
        for v in verdicts
    )
    record = replace(base, verdicts=verdicts, assumptions=())
    decided = [v.holds_up_to for v in verdicts if v.direction in ("more", "less")]
    told = re.findall(r"by (?:more than )?(\d+) %", " ".join(answer.spoken for answer in answers(record)))
    assert told == ([f"{round(100 * (min(decided) - 1))}"] if decided else []), "once on the first screen"
    overall = next(line for line in str(record).splitlines() if line.startswith("Over all"))
    assert 1 <= overall.count(only_if(min(decided))) <= decided.count(min(decided)), "for all at once, or for each"


def test_strictly_more_than_nothing_is_not_said_to_be_at_least_nothing():
    above = Rule((Condition("speed", 0, low=math.nextafter(0.0, 1.0)),))
    assert rule_text(above) == "speed > 0"
    assert rule_text(Rule((Condition("speed", 0, low=0.0),))) == "speed ≥ 0"


def test_the_first_screen_of_plans_names_who_loses_and_says_what_to_do_for_them():
    record = samples.frontier()
    lines = ("From any start: more return.", *(f"Worse off: starts in s{k}: less return, by {k}." for k in (1, 2)))
    plans = tuple(replace(plan, sentences=lines) if plan is record.knee else plan for plan in record.plans)
    told = {answer.question: answer for answer in plan_answers(replace(record, plans=plans))}
    lost = "worse on length. Some starts lose: starts in s1: less return, by 1. Further groups are named below."
    assert lost in told["For whom worse?"].spoken
    assert told["What now?"].text.startswith("Weigh plan 2: ")
    assert "Some starts lose by it: keep the current policy for them." in told["What now?"].spoken
    gains = replace(record, plans=plans, outcomes=tuple(replace(o, prefer=None) for o in record.outcomes[1:]))
    gains = replace(gains, outcomes=(record.outcomes[0], *gains.outcomes))
    told = {answer.question: answer for answer in plan_answers(gains)}
    assert (
        told["What now?"].text == "Adopt a part of plan 2: it is better on return overall, but some starts would lose."
    )
    assert told["What now?"].spoken.count("Keep the current policy for them") == 1
    calm = replace(gains, plans=tuple(replace(plan, sentences=plan.sentences[:1]) for plan in plans))
    assert plan_answers(calm)[0].text.startswith("Adopt plan 2: it is better on return, and no group is shown to lose")
    unseen = replace(gains, plans=record.plans)
    assert plan_answers(unseen)[0].text.startswith("Look at plan 2 first")
    assert "whether some groups lose was not looked at" in plan_answers(unseen)[3].text
    assert "lose" not in {a.question: a for a in plan_answers(record)}["What now?"].spoken


def test_of_many_groups_that_lose_it_is_said_on_which_outcome_most_starts_do():
    base = samples.plain()
    rules = [Rule((Condition("x", 0, low=k / 10, high=(k + 1) / 10),)) for k in range(5)]
    losing = tuple(WorseOff("length", rule, 0.02, Interval.exactly(1.0)) for rule in rules)
    tails = (replace(base.tails[0], outcome="return", share_worse=0.2), Tail("length", 0.5, 1.0, 0.62))
    record = replace(base, verdicts=(), sentences=(), worse_off=losing, tails=tails)
    lost = {answer.question: answer.text for answer in answers(record)}["For whom worse?"]
    assert lost.endswith("; and 3 further groups. On length, 62 % of starts lose, on no other outcome more.")
    long = [Rule((*rule.conditions, Condition("y" * 400, 1, low=k))) for k, rule in enumerate(rules * 2)]
    many = tuple(WorseOff("length", rule, 0.02, Interval.exactly(1.0)) for rule in long)
    unread = {answer.question: answer.text for answer in answers(replace(record, worse_off=many))}["For whom worse?"]
    assert unread == "10 groups of starts lose, told below. On length, 62 % of starts lose, on no other outcome more."
    few = {answer.question: answer.text for answer in answers(replace(record, worse_off=losing[:2]))}
    assert "no other outcome" not in few["For whom worse?"]


def test_plans_are_named_by_the_outcome_that_they_improve():
    record = samples.frontier()
    assert str(record).startswith("3 plans: from 9.9895 (current) to 21.9905 ")
    named = str(replace(record, objective="stay in the middle band"))
    assert named.startswith("3 plans for stay in the middle band: from ")
    assert re.split(" {2,}", named.splitlines()[2].strip()) == [
        "plan", "changes per episode", "stay in the middle band", "change",
    ]  # fmt: skip
    sought = str(replace(record, objective="stay in the middle band", budget=3.0))
    assert sought.startswith("The best plan for stay in the middle band within 3 changes per episode: from ")


def test_a_check_says_shares_in_points_and_amounts_with_their_units():
    outcomes = (Outcome("survival", prefer="more", range=(0, 1)), Outcome("stay", prefer="less", unit="hours"))
    survival = samples.verdict("survival", 0.8, 0.75, half=0.01, valence="worse")
    stay, spent = samples.verdict("stay", 5.0, 5.5, half=1.0), Interval(math.nan, -math.inf, math.inf, 0.95)
    record = replace(samples.plain(), outcomes=outcomes, verdicts=(survival, stay), worse_off=(), sentences=())
    assert check(record).reasons == (
        "the effect on stay is unknown (+0.5 hours, between −0.5 and +1.5)",
        "survival gets worse (by 5 percentage points, between 4 and 6)",
    )
    assert "difference to current −5 percentage points, between −6 and −4" in check(
        record, keep="survival>=current", allow_unknown=True
    ).reasons[0]  # fmt: skip
    blank = replace(record, verdicts=(replace(stay, difference=spent, note="too few to tell"),))
    assert check(blank).reasons == ("the effect on stay is unknown (too few to tell)",)
