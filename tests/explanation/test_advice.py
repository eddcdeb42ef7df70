"""What is advised, and that the evidence carries it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff import Log, explain
from polidiff.domains import chain
from polidiff.evaluation.assumptions.log_checks import FRAGILE_EVERY
from polidiff.explanation.advice import advise, size_of_test
from polidiff.explanation.said import answers, closing, say
from polidiff.records.explanation import Verdict, WorseOff
from polidiff.records.outcome import Assumption, Interval, Outcome
from polidiff.records.plan import UNKNOWN_GAIN
from polidiff.records.rule import Condition, Rule
from polidiff.worlds.log_check import log_summary

from ..report.samples import frontier as plans_sample

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


def test_a_group_that_loses_is_told_once_and_none_is_left_to_adopt():
    rules = [Rule((Condition("state", 0, values=(f"s{2 * k}",)),)) for k in range(5)]
    lost = Interval(-1.0, -2.0, -0.5, 0.95)
    losing = tuple(WorseOff(name, rule, 0.1, lost) for rule in rules for name in ("o0", "o1"))
    told = advise(with_verdicts(["better", "better"], worse_off=losing))
    groups = "starts in s0, starts in s2, starts in s4 and 2 further groups"
    assert told.sentence == f"Adopt a part: it is better on o0 and o1 overall, but {groups} would lose."
    assert told.reasons == ("Keep the current policy for them, and adopt the proposed one for all others.",)


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


def test_what_is_not_known_is_no_reason_against_and_is_not_called_useless() -> None:
    assert (
        advise(with_verdicts(["worse", "same"])).sentence == "Do not adopt it: it is worse on o0 and better on nothing."
    )
    sentence = advise(with_verdicts(["worse", "unknown"])).sentence
    assert sentence == "Do not adopt it on this evidence: it is worse on o0, and what it does to o1 is not known."
    assert answers(with_verdicts(["worse", "unknown"]))[2].text.startswith("No, as far as is known: ")


@pytest.mark.parametrize("status", ["failed", "held"])
def test_no_test_is_sized_by_what_a_failed_assumption_estimates(status: str) -> None:
    seen = Assumption("history", "χ²", status, "what comes next depends on the past", "")
    unknown = verdict("o0", "unknown")
    unknown = replace(unknown, difference=replace(unknown.difference, estimate=1.0))
    world = replace(BASE.world, kind="simulator", facts={"episodes": 400})
    advice = advise(with_verdicts(["unknown"], verdicts=(unknown,), assumptions=(seen,), world=world))
    assert advice.kind == "test first"
    assert ("A test with about" in " ".join(advice.reasons)) == (status == "held")
    assert ("History: what comes next" in " ".join(advice.reasons)) == (status == "failed")
    sizes = re.findall(r"A test with about (\d+)", " ".join(advice.reasons).replace("\u202f", ""))
    assert all(len(size.rstrip("0")) <= 2 for size in sizes)  # two digits: it is sized by an estimate


def test_a_gain_for_most_with_losers_is_adopted_in_part_and_the_losers_are_named() -> None:
    losing = (WorseOff("o0", BASE.regions[0].rule, 0.2, Interval(-1.0, -2.0, -0.5, 0.95)),)
    advice = advise(with_verdicts(["better"], worse_off=losing))
    assert advice.kind == "adopt a part"
    assert advice.reasons[0] == "Keep the current policy for them, and adopt the proposed one for all others."
    assert advice.sentence.endswith("overall, but starts in s1 would lose.")


def test_no_part_is_adopted_of_what_is_not_known() -> None:
    losing = (WorseOff("o0", BASE.regions[0].rule, 0.2, Interval(-1.0, -2.0, -0.5, 0.95)),)
    advice = advise(with_verdicts(["better", "unknown"], worse_off=losing))
    assert advice.kind == "test first"
    assert advice.sentence.endswith("but what it does to o1 is not known, and starts in s1 would lose.")


@pytest.mark.parametrize("status", ["failed", "doubtful"])
def test_a_record_in_doubt_is_tested_first(status: str) -> None:
    doubt = Assumption("history", "χ²", status, "p < .001: what comes next depends on the past", "")
    advice = advise(with_verdicts(["better"], assumptions=(doubt,)))
    assert advice.kind == "test first"
    assert advice.reasons[0].startswith("History: ")


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
    assert advice.reasons[0].startswith("History: ")


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
    effect = Interval(5.0, -1.0, 11.0, 0.95)
    asked = Verdict("o", "unknown", effect, effect, None)
    assert size_of_test(asked, 10.0, 400) == pytest.approx(2 * 62.8, abs=1)
    assert size_of_test(asked, None, 400) is None
    noise = replace(effect, estimate=0.1)  # needs 2,500 times as many episodes
    assert size_of_test(replace(asked, difference=noise), 10.0, 400) is None


@pytest.mark.parametrize("arms", [2, 3, 5])
def test_the_size_of_a_test_told_by_a_trial_is_that_of_two_proportions(arms: int) -> None:
    """However many arms the trial has and however its log was scored: 2 (p₀q₀ + p₁q₁) (1.96 + 0.84)² / δ²."""
    rng = np.random.default_rng(3)
    arm, noise = np.arange(2400) % arms, rng.random(2400)
    bought = (noise < np.where(arm == 1, 0.17, 0.15)).astype(int)
    frame = pl.DataFrame({"x": rng.integers(0, 50, 2400), "arm": arm, "bought": bought})
    outcome = Outcome("bought", "bought", prefer="more", range=(0, 1))
    told = explain(
        Log(frame, state=["x"], action="arm", probability=1 / arms, outcomes=[outcome]), "always:0", "always:1"
    )
    effect = told.verdicts[0].difference.estimate
    shares = [bought[arm == a].mean() for a in (0, 1)]
    size = size_of_test(told.verdicts[0], told.world.spread["bought"], 10**9)
    assert size == pytest.approx(2 * sum(p * (1 - p) for p in shares) * (1.95996 + 0.84162) ** 2 / effect**2, rel=0.1)


def test_the_spread_of_episodes_counts_those_of_one_person_together() -> None:
    """Forty people, all of whose five episodes are alike: an episode says a fifth of what one of its own would."""
    kind = np.repeat(np.arange(40) % 2, 5)
    frame = pl.DataFrame(
        {"x": np.arange(200) % 7, "a": np.arange(200) % 2, "y": kind, "who": np.repeat(np.arange(40), 5)}
    )
    log = Log(frame, state=["x"], action="a", outcomes=[Outcome("y", "y", prefer="more")], group="who")
    assert log_summary(log).spread["y"] == pytest.approx(0.5 * np.sqrt(5))


def test_the_spread_of_episodes_is_not_told_where_one_person_makes_it() -> None:
    """1,000 costs of 20 to 36 and one of 4,000: √1001 times the spread is that person's cost less the mean."""
    costs = np.append(20 + np.arange(1000) % 17, 4000)
    frame = pl.DataFrame({"x": np.arange(1001) % 7, "a": np.arange(1001) % 2, "cost": costs, "even": costs % 2})
    outcomes = [Outcome(name, name, prefer="less") for name in ("cost", "even")]
    assert set(log_summary(Log(frame, state=["x"], action="a", outcomes=outcomes)).spread) == {"even"}


def test_where_no_plan_is_shown_to_gain_the_notes_say_why_the_first_is_not() -> None:
    first, *_, last = plans_sample().plans
    why = "this plan is not shown to improve 'return': one person makes half of the uncertainty"
    gain = Interval(0.0, -1.0, 1.0, 0.95)
    plans = replace(first, gain=None), *(replace(last, changes=n, gain=gain, warnings=(why,)) for n in (1.0, 2.0))
    notes = next(block for block in closing(replace(plans_sample(), plans=plans)) if block.kind == "notes")
    assert [line for line in notes.lines if "not shown" in line] == [why.replace("this plan", "plan 1")]


def test_every_plan_whose_gain_is_not_known_says_why_and_shared_reasons_are_said_once() -> None:
    first, *_, last = plans_sample().plans
    shown = replace(last, gain=Interval(1.0, 0.5, 1.5, 0.95))
    reasons = ["one person makes it", "few rows", "one person makes it"]
    wide = [replace(last, gain=Interval(0.1, -9.0, 9.0, 0.95), warnings=(UNKNOWN_GAIN + why,)) for why in reasons]
    record = replace(plans_sample(), plans=(replace(first, gain=None), shown, *wide))
    assert record.best is shown
    notes = next(block for block in closing(record) if block.kind == "notes")
    assert [line for line in notes.lines if "is not known" in line] == [
        "what plans 2 and 4 would gain is not known: one person makes it",
        "what plan 3 would gain is not known: few rows",
    ]
