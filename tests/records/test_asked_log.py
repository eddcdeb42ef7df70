"""What a result of a log says of one case, or at a prompt, in the process that made it: nothing of a few people."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, evaluate, explain, improve

RARE, WORTH = "rare ward", 500.5


@pytest.fixture(scope="module")
def log() -> Log:
    rng = np.random.default_rng(0)
    place, done = (rng.choice(words, 300).astype(object) for words in (["A", "B"], ["low", "high"]))
    paid = rng.normal(size=300).round(3)
    place[:2], done[:2], paid[:2] = RARE, "high", WORTH
    return Log(pl.DataFrame({"s": place, "a": done, "r": paid}), state="s", action="a", reward="r")


def test_a_case_is_answered_from_what_may_be_shown(log):
    told = explain(log, "log", "always:low")
    few, many = told.case(RARE), told.case("A")
    assert few.region is None
    assert few.expected == ()
    assert "500" not in few.text
    assert "501" not in few.text
    assert many.region == "A"
    assert "was not judged" in many.text  # an estimate of one state is no exact value
    assert all(verdict.difference.low < verdict.difference.high for verdict in many.expected)
    assert told.case({"state": "A"}).expected == told.case(["A"]).expected == many.expected


def test_a_prompt_shows_the_text_and_no_more(log):
    told, plans = explain(log, "log", "always:low"), improve(log, "log")
    assert repr(told) == str(told)
    assert repr(plans) == str(plans)
    assert not any(RARE in said for said in (repr(told), repr(plans), repr(evaluate(log, "log"))))
