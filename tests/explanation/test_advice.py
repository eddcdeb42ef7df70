"""What is advised, and that the evidence carries it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff import explain
from polidiff.domains import chain
from polidiff.evaluation.assumptions.log_checks import FRAGILE_EVERY
from polidiff.explanation.advice import advise, size_of_test
from polidiff.explanation.said import say
from polidiff.records.explanation import Verdict, WorseOff
from polidiff.records.outcome import Assumption, Interval, Outcome

BASE = explain(chain.world(), chain.current(), chain.proposed())
DIRECTIONS = {"better": (1.0, 2.0), "worse": (-2.0, -1.0), "unknown": (-1.0, 2.0), "same": (0.0, 0.0)}


def verdict(name: str, kind: str, holds_up_to: float | None = None) -> Verdict:
    """A verdict about an outcome of which more is better."""
    low, high = DIRECTIONS[kind]
    interval = Interval((low + high) / 2, low, high, 0.95)
    direction = {"better": "more", "worse": "less"}.get(kind, kind)
    valence = kind if kind in ("better", "worse") else None
    return Verdict(name, direction, interval, interval, valence, Interval(5.0, 4.0, 6.0, 0.95), holds_up_to=holds_up_to)


def with_verdicts(kinds: list[str], **changes: object) -> object:
    outcomes = tuple(Outcome(f"o{k}", np.zeros((1, 1)), prefer="more") for k in range(len(kinds)))
    verdicts = tuple(verdict(f"o{k}", kind) for k, kind in enumerate(kinds))
    plain = {"sentences": (), "worse_off": (), "assumptions": ()}  # what the chain says of its own outcomes is gone
    return replace(BASE, **{"outcomes": outcomes, "verdicts": verdicts, **plain, **changes})


@pytest.mark.parametrize(
    ("kinds", "advice"),
    [
        (["better"], "adopt"),
        (["better", "same"], "adopt"),
        (["worse"], "do not"),
        (["worse", "unknown"], "do not"),
        (["better", "worse"], "weigh"),
        (["better", "unknown"], "test first"),
        (["unknown"], "test first"),
        (["same", "same"], "no reason"),
    ],
)
def test_the_rules_of_the_advice(kinds: list[str], advice: str) -> None:
    assert advise(with_verdicts(kinds)).kind == advice


def test_a_gain_for_most_with_losers_is_adopted_in_part_and_the_losers_are_named() -> None:
    losing = (WorseOff("o0", BASE.regions[0].rule, 0.2, Interval(-1.0, -2.0, -0.5, 0.95)),)
    advice = advise(with_verdicts(["better"], worse_off=losing))
    assert advice.kind == "adopt a part"
    assert advice.reasons[0].startswith("Keep the current policy for starts ")
    assert advice.reasons[0].endswith(", and adopt the proposed one for all others.")
    assert "would lose" in advice.sentence


@pytest.mark.parametrize("status", ["failed", "doubtful"])
def test_a_record_in_doubt_is_tested_first(status: str) -> None:
    doubt = Assumption("history", "χ²", status, "p < .001: what comes next depends on the past", "")
    advice = advise(with_verdicts(["better"], assumptions=(doubt,)))
    assert advice.kind == "test first"
    assert "history" in advice.reasons[0]


def test_a_verdict_that_weak_unrecorded_reasons_would_turn_is_tested_first() -> None:
    strong, weak = (verdict("o0", "better", gamma) for gamma in (FRAGILE_EVERY + 0.5, FRAGILE_EVERY - 0.1))
    assert advise(with_verdicts(["better"], verdicts=(strong,))).kind == "adopt"
    assert advise(with_verdicts(["better"], verdicts=(weak,))).kind == "test first"


@pytest.mark.parametrize("kinds", [["better", "better"], ["worse", "worse"], ["better", "worse"]])
def test_what_is_decided_says_up_to_which_strength_of_unrecorded_reasons_it_holds(kinds: list[str]) -> None:
    condition = "if no unrecorded reason changes the odds of a decision by more than 81 %"
    for strengths, told in (((1.81, 4.0), 1), ((float("inf"), 1.81), 1), ((float("inf"), None), 0), ((None, None), 0)):
        pairs = zip(kinds, strengths, strict=True)
        said = with_verdicts(kinds, verdicts=tuple(verdict(f"o{k}", *pair) for k, pair in enumerate(pairs)))
        said = replace(said, world=replace(said.world, kind="log", facts={}))
        assert advise(said).sentence.count(condition) == told
        assert say(said).opening[1].count(condition) == told


def test_a_loss_in_a_record_in_doubt_says_so() -> None:
    doubt = Assumption("history", "χ²", "failed", "p < .001: what comes next depends on the past", "")
    advice = advise(with_verdicts(["worse"], assumptions=(doubt,)))
    assert advice.kind == "do not"
    assert "in doubt" in advice.sentence
    assert "history" in advice.reasons[0]


def test_without_a_preference_nothing_is_advised() -> None:
    outcomes = (Outcome("o0", np.zeros((1, 1))),)
    assert advise(with_verdicts(["better"], outcomes=outcomes)).kind == "undefined"


def test_nothing_different_is_nothing_to_adopt() -> None:
    same = explain(chain.world(), chain.current(), chain.current())
    assert advise(same).kind == "nothing"


@settings(max_examples=200, deadline=None)
@given(kinds=st.lists(st.sampled_from(sorted(DIRECTIONS)), min_size=1, max_size=6))
def test_adopting_is_never_advised_while_something_is_worse_or_unknown(kinds: list[str]) -> None:
    advice = advise(with_verdicts(kinds))
    if advice.kind == "adopt":
        assert "better" in kinds
        assert not {"worse", "unknown"} & set(kinds)
    if advice.kind == "do not":
        assert "worse" in kinds


def test_the_size_of_a_test_is_that_of_the_textbook() -> None:
    """Two arms, σ = 10, δ = 5, two-sided 5 %, power 80 %: 63 in each arm (Cohen 1988, d = 0.5: 64 with Student's t)."""
    spread = 1.959964 * 10 / np.sqrt(400)
    current = Interval(0.0, -spread, spread, 0.95)
    effect = Interval(5.0, -1.0, 11.0, 0.95)
    asked = Verdict("o", "unknown", effect, effect, None, current)
    assert size_of_test(asked, 400) == pytest.approx(2 * 62.8, abs=1)
    assert size_of_test(replace(asked, current=None), 400) is None
    noise = replace(effect, estimate=0.1)  # needs 2,500 times as many episodes
    assert size_of_test(replace(asked, difference=noise), 400) is None
