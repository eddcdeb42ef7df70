"""A short version of the fuzzing that `python -m benchmarks fuzz` does at length, and what counts as a failure."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from hypothesis import strategies as st

from polidiff.errors import InvalidInputError
from tests.fuzz import judge
from tests.fuzz.doors import DOORS
from tests.fuzz.judge import Door, try_door

ROOT = Path(__file__).resolve().parents[2]
CASES = {"reports": 20, "command line": 25, "study files": 50, "whole studies": 6}


@pytest.mark.parametrize("name", DOORS)
def test_whatever_comes_in_is_accepted_or_refused_in_one_line(name):
    tally = try_door(DOORS[name], CASES.get(name, 120))
    assert not tally.failures, tally.examples
    assert tally.accepted + tally.refused == tally.cases >= CASES.get(name, 120)


def tried(enter) -> judge.Tally:
    return try_door(Door("a door", st.just(0), enter), 1)


def test_an_error_that_was_not_meant_is_a_failure_and_names_its_place():
    def enter(case, folder):
        from polidiff.records.outcome import Interval

        Interval.exactly("no number")

    assert list(tried(enter).failures) == ["ValueError in outcome.py:exactly"]


def test_a_warning_an_empty_message_and_a_hang_are_failures(monkeypatch):
    monkeypatch.setattr(judge, "SECONDS", 0.05)

    def loop(case, folder):
        while True:
            pass

    def refuse(case, folder):
        raise InvalidInputError("")

    assert "UserWarning" in next(iter(tried(lambda case, folder: warnings.warn("x", stacklevel=1)).failures))
    assert next(iter(tried(refuse).failures)) == "a message that is not one line"
    assert "TooLongError" in next(iter(tried(loop).failures))


def test_what_is_accepted_and_what_is_refused_is_counted():
    def refuse(case, folder):
        raise InvalidInputError("not this")

    assert (tried(refuse).refused, tried(refuse).accepted) == (1, 0)
    assert tried(lambda case, folder: None).accepted == 1


def test_the_page_tells_what_the_recorded_run_found():
    recorded = json.loads((ROOT / "benchmarks" / "results" / "fuzz.json").read_text(encoding="utf-8"))["doors"]
    page = (ROOT / "docs" / "evidence" / "robustness.md").read_text(encoding="utf-8")
    for name, found in recorded.items():
        counts = [found["cases"], found["accepted"], found["refused"], sum(found["failures"].values())]
        assert f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |" in page
