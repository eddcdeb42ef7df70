"""The first screen answers what a decision-maker asks, and never against the record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polidiff import explain
from polidiff.domains import chain
from polidiff.explanation.said import answers
from polidiff.records.explanation import Explanation
from polidiff.records.outcome import Outcome
from polidiff.report.markdown import markdown
from polidiff.report.page import page_html

QUESTIONS = ("What now?", "What changes?", "Is it better?", "For whom worse?", "How sure is that?")


def on_screen(explanation: Explanation) -> dict[str, str]:
    return {answer.question: " ".join((answer.text, *answer.more)) for answer in answers(explanation)}


@pytest.fixture(scope="module")
def difference() -> Explanation:
    return explain(chain.world(), chain.current(), chain.proposed())


def test_every_question_has_an_answer_on_page_and_in_markdown(difference: Explanation) -> None:
    page, text = page_html(difference), markdown(difference)
    for question, answer in on_screen(difference).items():
        assert question in QUESTIONS
        assert answer
        assert question in page
        assert question in text


def test_what_changes_names_the_states_and_the_swap(difference: Explanation) -> None:
    answer = on_screen(difference)["What changes?"]
    assert answer == (
        "0.818 decisions per episode change (11 % of these make little or no difference at once): action 1 instead of "
        "action 0 in s1 and s5."
    )
    assert difference.changes * (1 - 0.1111) == pytest.approx(8 / 11, abs=1e-3)  # of 11 starts 2 meet s1 and 6 meet s5
    assert "they describe 100 % of the changes that make a difference" in page_html(difference)


def test_a_loss_on_average_is_never_followed_by_nobody_loses(difference: Explanation) -> None:
    everyone = replace(difference, worse_off=())
    assert any(verdict.valence == "worse" for verdict in everyone.verdicts)
    assert on_screen(everyone)["For whom worse?"] == "All starts together: a longer trajectory."


def test_nothing_different_says_so_everywhere() -> None:
    same = explain(chain.world(), chain.current(), chain.current())
    said = on_screen(same)
    assert said["What changes?"].startswith("Nothing")
    assert said["What now?"].startswith("There is nothing to adopt")


def test_without_a_preference_better_is_not_said(difference: Explanation) -> None:
    open_ended = tuple(Outcome(o.name, o.of) for o in difference.outcomes)
    verdicts = tuple(replace(verdict, valence=None) for verdict in difference.verdicts)
    said = on_screen(replace(difference, outcomes=open_ended, verdicts=verdicts, worse_off=()))
    assert said["Is it better?"].startswith("Not defined: more ")
    assert "Adopt" not in said["What now?"]


def test_an_exact_result_says_that_nothing_was_sampled(difference: Explanation) -> None:
    assert "nothing was sampled" in on_screen(difference)["How sure is that?"]
