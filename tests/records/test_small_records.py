"""Actions, intervals and outcomes."""

from __future__ import annotations

import pytest

from polidiff import Outcome
from polidiff.errors import InvalidOutcomeError, InvalidWorldError
from polidiff.records.action import Action, as_actions
from polidiff.records.outcome import Assumption, Evaluation, Interval


def test_actions_from_names_levels_and_mappings():
    assert [a.name for a in as_actions(["wait", Action("go")], 2)] == ["wait", "go"]
    dosed = as_actions([{"fluid": 0, "pressor": 2}, {"fluid": 1, "pressor": 2}], 2)
    assert dosed[0] == Action("fluid 0, pressor 2", {"fluid": 0.0, "pressor": 2.0})
    named = as_actions({"none": {"dose": 0}, "full": {"dose": 2.5}}, 2)
    assert named[1] == Action("full", {"dose": 2.5})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (["a"], "expected 2 action names; got 1"),
        (["a", "a"], "action names must be unique; 'a' is used twice"),
        ([{"dose": 1}, "none"], r"same components \['dose'\]; 'none' has \[\]"),
    ],
)
def test_actions_that_cannot_be_told_apart_or_compared(spec, message):
    with pytest.raises(InvalidWorldError, match=message):
        as_actions(spec, 2)


def test_intervals():
    known = Interval.exactly(2)
    assert known.exact
    assert known.width == 0
    guessed = Interval(2.0, 1.0, 4.0, 0.95)
    assert not guessed.exact
    assert guessed.contains(4.0)
    assert not guessed.contains(4.1)
    assert guessed.scaled(2.0) == Interval(4.0, 2.0, 8.0, 0.95)


def test_an_outcome_has_words_and_a_valence_for_each_direction():
    cost = Outcome("cost", 1.0, prefer="less", more="dearer")
    assert (cost.phrase("more"), cost.phrase("less")) == ("dearer", "less cost")
    assert (cost.valence("more"), cost.valence("less"), cost.valence("same")) == ("worse", "better", None)
    assert Outcome("length", 1.0).valence("more") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": " "}, "an outcome needs a name"),
        ({"name": "cost", "prefer": "cheap"}, "prefer of outcome 'cost' must be 'more', 'less' or None; got 'cheap'"),
        ({"name": "cost", "margin": -1}, "margin of outcome 'cost' must be at least 0; got -1"),
        ({"name": "cost", "margin": float("nan")}, "margin of outcome 'cost' must be at least 0; got nan"),
        ({"name": "cost", "range": (2, 1)}, r"range of outcome 'cost' must be \(low, high\); got \(2, 1\)"),
    ],
)
def test_outcomes_that_cannot_be_used(options, message):
    with pytest.raises(InvalidOutcomeError, match=message):
        Outcome(**options)


def test_the_text_of_an_evaluation_has_a_line_per_outcome_the_method_and_what_speaks_against_it():
    known = Evaluation({"stay": Interval.exactly(4.0)}, {}, "exact", 0.0)
    assert str(known) == "stay: 4\nMethod: exact."
    drift = Assumption("drift", "early against late", "failed", "p = .01", "The effect may have changed.")
    held = Assumption("overlap", "weights", "held", "all below 10", "")
    guessed = Evaluation({"stay": Interval(2.0, 1.5, 2.5, 0.9)}, {}, "50 episodes", 0.25, assumptions=(held, drift))
    assert str(guessed).splitlines() == [
        "stay: 2, between 1.5 and 2.5",
        "Method: 50 episodes, 90 % intervals. 25 % of the episodes are cut.",
        "Drift: p = .01. The effect may have changed.",
    ]
