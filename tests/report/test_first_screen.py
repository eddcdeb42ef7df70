"""A scripted reader who has the text of the first screen and nothing else answers five questions about any result."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff import Outcome, TabularMDP, compare, explain, improve
from polidiff.explanation.advice import doubts
from polidiff.explanation.plan_text import plan_verdicts
from polidiff.explanation.region_places import losers
from polidiff.explanation.said import answers
from polidiff.records.action import Shift
from polidiff.records.explanation import Explanation, RegionEffect, Verdict
from polidiff.records.outcome import Assumption, Interval
from polidiff.records.plan import Frontier
from polidiff.records.suppression import suppressed
from polidiff.report.page import page_html
from tests.report import extremes, samples
from tests.results import FEW, explanation, one_of_few, page_of

MOST_WORDS = 155  # of all five answers
QUESTIONS = ("What now?", "What changes?", "Is it better?", "For whom worse?", "How sure is that?")
ADVICE = (
    "There is nothing to adopt", "Say first which", "Do not adopt it", "Weigh it", "Test it first", "Adopt a part",
    "Adopt it", "There is no reason to change", "Look for the reason first",
)  # fmt: skip
SEEDS = st.integers(0, 10_000)


def read(page: str) -> dict[str, str]:
    """Question -> answer, from the text above the first section."""
    top = re.sub(r"<style>.*?</style>", "", page.split("<main")[0], flags=re.S)
    found = re.findall(r"<dt>([^<]*\?)</dt><dd>(.*?)</dd>", top, flags=re.S)
    return {q: re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer))).strip() for q, answer in found}


def reading_of(verdicts: tuple[Verdict, ...], outcomes: tuple[Outcome, ...]) -> str:
    """The word that the reader must find, worked out from the verdicts another way: counted."""
    preferred = [o.name for o in outcomes if o.prefer is not None]
    asked = [v for v in verdicts if v.outcome in preferred]
    better, worse = (sum(v.valence == tone for v in asked) for tone in ("better", "worse"))
    unknown = sum(v.direction == "unknown" for v in asked)
    if not asked:
        return "Not defined"
    if better:
        return "Yes" if worse + unknown == 0 else "In part"
    if worse:
        return "No, as far as is known" if unknown else "No"
    return "Not known" if unknown else "Neither better nor worse"


def advised(record: Frontier, verdicts: tuple[Verdict, ...]) -> str:
    """How the advice about the plan shown first begins: nobody has looked for groups that it harms."""
    plan, tones = f"plan {record.plans.index(record.knee)}", reading_of(verdicts, record.outcomes)
    worse, doubted = any(v.valence == "worse" for v in verdicts), bool(doubts(record, list(verdicts)))
    if tones == "In part":
        return f"Weigh {plan}: " if worse else f"Test {plan} first: "
    fixed = {"Not defined": "Say first which", "No": f"Do not adopt {plan}: ", "Not known": f"Test {plan} first: "}
    fixed["No, as far as is known"] = f"Do not adopt {plan} on this evidence: "
    gain = f"Test {plan} first: " if doubted else f"Look at {plan} first"
    return {**fixed, "Neither better nor worse": "There is no reason to change", "Yes": gain}[tones]


def queue(**options: object) -> TabularMDP:
    """Three counters at which people wait; one clerk is slower than two."""
    moves = np.zeros((4, 2, 4))
    moves[:3, 0, 3], moves[:3, 1, 3] = 0.9, 0.2
    moves[range(3), :, range(3)] += 1 - moves[:3, :, 3]
    moves[3, :, 3] = 1
    wait = Outcome("waiting", 1.0, prefer="less", unit="minutes", more="a longer wait", less="a shorter wait")
    return TabularMDP(moves, np.zeros((4, 2)), [1 / 3, 1 / 3, 1 / 3, 0], absorbing=[3], include_return=False,
                      actions=["two clerks", "one clerk"], outcomes=[wait], **options)  # fmt: skip


def only_chances() -> Explanation:
    """The same actions, chosen with other probabilities."""
    base = samples.plain()
    shift = Shift(0.2, 0.7)
    return replace(base, changes=0.0, regions=tuple(replace(r, proposed=r.current, shift=shift) for r in base.regions))


def in_doubt() -> Explanation:
    """A log whose test of drift failed."""
    failed = Assumption("drift", "early against late", "failed", "p = .001", "verdicts are unknown", 0.001)
    return replace(samples.from_log(), assumptions=(failed,))


PAGES = {
    "a loss for everyone": (lambda: explain(queue(), [0] * 4, [1, 1, 1, 0]), "Do not adopt it", "No: a longer wait"),
    "nothing different": (lambda: explain(queue(), [0] * 4, [0] * 4), "There is nothing", "Neither better nor worse"),
    "a shift that no region tells": (
        lambda: explain(queue(), np.array([[0.9, 0.1]] * 4), np.array([[0.85, 0.15]] * 4), transition_tolerance=0.5),
        "Do not adopt it",
        "No: a longer wait",
    ),
    "only chances": (only_chances, "Weigh it", "In part"),
    "sixty regions": (extremes.huge, "Weigh it", "In part"),
    "hostile names": (extremes.hostile, "Weigh it", "In part"),
    "a table without a better plan": (lambda: improve(queue(), [0] * 4), "No change is worth it", "No plan is better"),
    "plans": (samples.frontier, "Weigh plan 2: it is better on ", "In part"),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_reader_finds_the_five_answers(name):
    made, now, better = PAGES[name]
    answers = read(page_html(made()))
    assert tuple(answers) == QUESTIONS
    assert all(answers.values())
    assert answers["What now?"].startswith(now)
    assert answers["Is it better?"].startswith(better)
    assert sum(len(answer.split()) for answer in answers.values()) <= MOST_WORDS


def test_where_only_chances_change_no_decision_is_said_to():
    record = only_chances()
    assert read(page_html(record))["What changes?"].startswith("How often actions are chosen changes: ")
    assert "only in how often an action is chosen" in str(record)
    assert "0 decisions" not in str(record)


@given(SEEDS, st.sampled_from(["table", "simulator", "log"]))
def test_outcomes_that_nobody_called_better_or_worse_stand_apart(seed, kind):
    record = explanation(seed, kind)
    text = next(answer.text for answer in answers(record) if answer.question == "Is it better?")
    told, _, apart = text.partition(" Not called better or worse: ")
    phrases = {outcome.name: outcome.phrase for outcome in record.outcomes}
    neutral = [v for v in record.verdicts if v.direction in ("more", "less") and v.valence is None]
    aside = neutral if len(neutral) < len(record.verdicts) else []
    assert bool(apart) == bool(aside)
    for verdict in record.verdicts:
        if verdict.direction in ("more", "less"):
            assert phrases[verdict.outcome](verdict.direction) in (apart if verdict in aside else told)


@given(FEW)
def test_the_answers_about_a_difference_are_those_of_the_record(seed):
    record, answers = suppressed(one_of_few(seed, False)), read(page_of(seed, False))
    assert tuple(answers) == QUESTIONS
    assert answers["What now?"].startswith(ADVICE)
    word = reading_of(record.verdicts, record.outcomes)
    in_record = bool(doubts(record, [v for v in record.verdicts if v.valence is not None]))
    told = f"In the record, {word[0].lower()}{word[1:]}" if in_record else word
    assert answers["Is it better?"].startswith(f"{told}: ")
    assert answers["For whom worse?"].startswith(("No group is shown", "Nobody can say")) == (not losers(record))
    assert answers["How sure is that?"].startswith("Exact") == all(v.difference.exact for v in record.verdicts)
    largest = sorted(record.regions, key=lambda r: -r.support.share)[:3]
    told = [region for region in largest if region.proposed in answers["What changes?"]]
    assert told[:1] == largest[:1]
    assert told == largest or "further rule" in answers["What changes?"]


@given(FEW)
def test_the_answers_about_plans_are_those_of_the_record(seed):
    record: Frontier = suppressed(one_of_few(seed, True))
    answers = read(page_of(seed, True))
    assert tuple(answers) == QUESTIONS
    if record.knee is record.plans[0]:
        assert answers["What now?"] == "No change is worth it on this evidence."
        assert answers["Is it better?"].startswith(("Not known", "No plan is better"))
        return
    verdicts = plan_verdicts(record, record.knee)
    assert answers["What now?"].startswith(advised(record, verdicts))
    assert answers["Is it better?"].startswith(f"{reading_of(verdicts, record.outcomes)}: ")
    assert ("it is worse on" in answers["For whom worse?"]) == any(v.valence == "worse" for v in verdicts)


def test_a_record_in_doubt_is_never_a_plain_yes():
    record = in_doubt()
    assert doubts(record, list(record.verdicts))
    assert read(page_html(record))["Is it better?"].startswith("In the record, ")


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_a_number_of_a_region_is_one_that_the_first_screen_has_told_or_comes_with_its_place(seed):
    base = explanation(seed, "simulator")
    effects = [RegionEffect({v.outcome: v.difference}, {v.outcome: Interval.exactly(0.0)}) for v in base.verdicts[:1]]
    regions = tuple(
        replace(
            r, id=f"S{k}", effect=effects[0] if k == 1 and effects else None, support=replace(r.support, share=0.1 * k)
        )
        for k, r in enumerate((base.regions * 5)[:5], 1)
    )
    found = {a.question: a.spoken for a in answers(replace(base, regions=regions))}
    told = set(re.findall(r"\bS\d", found["What changes?"]))
    for number, place in re.findall(r"\b(S\d)( \(where | \(everywhere)? carries", found["Is it better?"]):
        assert number in told or place


def test_two_results_are_compared_under_the_name_of_their_study():
    base = samples.plain()
    named = replace(base, methods=replace(base.methods, study={"title": "Reminders"}))
    assert "<title>Reminders: what is different since the last result</title>" in page_html(compare(base, named))
    assert "<title>What is different since the last result</title>" in page_html(compare(named, base))
