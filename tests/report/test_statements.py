"""What a page says, asked of random results: counts, signs, plurals, runs, lists and who loses.

`docs/evidence/report.md` has the table of sentences and the tests that would catch each of them false.
"""

from __future__ import annotations

import html
import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff.explanation.plan_text import plan_verdicts
from polidiff.explanation.words import MOST_NAMED, few, names_text, verdicts_text
from polidiff.records.explanation import Explanation
from polidiff.records.plan import Frontier
from polidiff.records.suppression import suppressed
from polidiff.report.page import page_html
from tests.report import samples
from tests.results import frontier, results

SEEDS = st.integers(0, 10_000)
KINDS = ("table", "simulator", "log")
NOUNS = "rules|groups|episodes|starts|states|decisions|plans|changes|caveats|outcomes|people|comparisons|regions"


def said(page: str) -> str:
    """The words of a page, without its scripts, its style and its marks."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))


@settings(max_examples=25, deadline=None)
@given(results(kinds=KINDS))
def test_what_a_page_says_is_said_rightly_and_denied_by_nothing(record):
    page = page_html(record)
    words, shown = said(page), suppressed(record)
    assert re.findall(rf"(?<![\d.,\u202f])1 (?:{NOUNS})\b", words) == []
    assert re.findall(r"\b(?:better|worse) by [−+-]", words) == []
    if isinstance(shown, Explanation):
        verdicts = [*shown.verdicts, *(v for sentence in shown.sentences for v in sentence.verdicts)]
        if any(verdict.valence == "worse" for verdict in verdicts) or shown.worse_off:
            assert "No group is shown to lose" not in words
        assert set(re.findall(r"<b>(S\d+)</b>", page)) <= {region.id for region in shown.regions}


@given(st.lists(st.integers(0, 30), unique=True, min_size=1, max_size=25))
def test_a_run_of_names_stands_for_neighbours_and_nothing_is_left_out(numbers):
    text = names_text([f"s{number}" for number in numbers])
    told = 0
    for part in re.split(r", | or ", text):
        if run := re.fullmatch(r"s(\d+) … s(\d+)", part):
            first, last = int(run[1]), int(run[2])
            assert set(range(first, last + 1)) <= set(numbers)
            told += last - first + 1
        elif more := re.fullmatch(r"(\d+) more", part):
            told += int(more[1])
        else:
            assert int(part[1:]) in numbers
            told += 1
    assert told == len(numbers)


@given(st.integers(1, 60))
def test_a_sentence_lists_at_most_seven_things(count):
    assert len(re.split(r", | and ", few([f"n{k}" for k in range(count)]))) <= MOST_NAMED
    base = samples.plain()
    outcomes = [replace(base.outcomes[0], name=f"o{k}", more=None, less=None) for k in range(count)]
    verdicts = [replace(base.verdicts[0], outcome=f"o{k}") for k in range(count)]
    text = verdicts_text(verdicts, outcomes)
    assert len(re.findall(r"more o\d", text)) + ("more outcome" in text) <= MOST_NAMED
    rest = re.search(r"and (\d+) more outcomes?$", text)
    assert len(re.findall(r"more o\d", text)) + (int(rest[1]) if rest else 0) == count


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from(KINDS))
def test_the_plan_that_a_page_opens_on_gains_and_costs_no_more_than_the_best(seed, kind):
    record: Frontier = suppressed(frontier(seed, kind))
    knee, best, nothing = record.knee, record.best, record.plans[0]
    assert record.cost(knee) <= record.cost(best) or knee is best
    if knee is not nothing:
        shown = knee.gain.low if record.judged else knee.expected_return - nothing.expected_return
        assert shown > 0
    if best is nothing:
        assert knee is nothing
        assert "No change is worth it on this evidence" in said(page_html(record))


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from(KINDS))
def test_what_a_plan_does_is_better_or_worse_by_its_interval_only(seed, kind):
    record: Frontier = frontier(seed, kind)
    preferred = {outcome.name: outcome for outcome in record.outcomes}
    for plan in record.plans:
        for verdict in plan_verdicts(record, plan):
            outcome = preferred.get(verdict.outcome)
            if verdict.direction == "more":
                assert verdict.difference.low > 0
            if verdict.direction == "less":
                assert verdict.difference.high < 0
            assert verdict.valence == (outcome.valence(verdict.direction) if outcome else None)


def test_the_first_screen_of_plans_answers_for_the_plan_that_the_slider_shows():
    record = samples.frontier()
    assert record.knee is record.plans[2]  # two changes: 21.9895; the third adds 0.001
    words = said(page_html(record))
    assert "Look at plan 3 first." in words
    assert "going from 2 to 3 changed decisions per episode adds 0.001 to expected return" in words
    assert "Plan 3 of 4" in words


def test_nothing_empty_is_shown():
    base: Explanation = samples.plain()
    same = replace(base, regions=(), sentences=(), worse_off=(), tails=(), pictures=(), warnings=(), changes=0.0,
                   verdicts=base.sentences[2].verdicts)  # fmt: skip
    page = page_html(same)
    assert re.findall(r"<h2 id=[^>]*>([^<]*)</h2>", page) == ["Method"]
    assert "Details for reviewers" in page
