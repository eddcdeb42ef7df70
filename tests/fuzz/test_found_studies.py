"""Whole studies that fuzzing failed on, as they were found; each ends with a known exit code, told in every format."""

from __future__ import annotations

import pytest

from polidiff.errors import InvalidInputError
from tests.fuzz.judge import no_warnings
from tests.fuzz.whole_studies import Whole, enter_whole

FOUND = {
    "all episodes are held out when rules are learned": Whole(
        seed=2076252259, kind="episodes", features=True, verb="improve", names=("a", "b", "c", "d"),
        options={}, plans={"time_limit": 1.0},
    ),
    "one row, whose episode is cut": Whole(
        seed=1530, kind="episodes", features=True, verb="improve", names=("a", "b", "c", "d"),
        options={"min_group": 2}, plans={"time_limit": 1.0},
    ),
    "every episode of a part is cut": Whole(
        seed=1597000, kind="episodes", features=True, verb="explain", names=("x y", "b", "map", "age"),
        options={"min_group": 9, "max_rules": 2, "seed": 1}, plans={},
    ),
    "an outcome whose name holds quotes, in a log with a limit on groups": Whole(
        seed=3889105530, kind="episodes", features=False, verb="explain",
        names=("a", "b", "c", '"><img src=x onerror="window.hacked=1">'),
        options={"min_group": 2}, plans={}, extra={"outcomes": 1, "scored": 2},
    ),
    "people of whom all early ones have the same mean, but for rounding": Whole(
        seed=4249648436, kind="episodes", features=False, verb="explain", names=("a", "b", "c", "d"),
        options={"min_group": 8}, plans={}, extra={"outcomes": 2, "person": True, "chance": True},
    ),
    "no move of the half that chooses plans is foretold by another": Whole(
        seed=2620132034, kind="episodes", features=False, verb="improve", names=("map", "rate", "b", "c"),
        options={"min_group": 2}, plans={"time_limit": 0.3, "max_rules": 2, "max_conditions": 1},
        extra={"described": True, "chance": True, "ruled": True, "ranged": True},
    ),
    "rule plans in a table whose return is no outcome": Whole(
        seed=1587382048, kind="table", features=True, verb="improve", names=("a", "b", "c", "d"),
        options={}, plans={"time_limit": 0.3, "max_rules": 1},
        extra={"include_return": False, "outcomes": 2, "coordinates": True, "mixed": True},
    ),
    "a second log of the same single case": Whole(
        seed=1315506650, kind="episodes", features=False, verb="explain", names=("a", "b", "c", "d"),
        options={"min_group": 8}, plans={}, extra={"include_return": False, "described": True, "second": True},
    ),
    "the paper's printing of an environment whose starts have numbers": Whole(
        seed=1528588544, kind="environment", features=False, verb="explain", names=("a", "b", "c", "d"),
        options={"min_group": 12, "starts": 1, "style": "paper"}, plans={},
        extra={"outcomes": 1, "coordinates": True, "mixed": True, "chance": True, "ranged": True},
    ),
    "nothing is left to fit values on": Whole(
        seed=3858899669, kind="episodes", features=True, verb="explain", names=("a", "b", "c", "d"),
        options={"max_rules": 1, "evaluation": "fitted q"}, plans={},
        extra={"outcomes": 2, "coordinates": True, "described": True, "chance": True, "missing": "drop", "ruled": True,
               "ranged": True},
    ),
    "a long label whose letters have two halves": Whole(
        seed=40301290, kind="table", features=True, verb="improve",
        names=("~nobody-here/x", "www.x.org", "💊👩\u200d⚕️ dose", "=cmd|' /C calc'!A0"),
        options={"level": 0.5}, plans={"time_limit": 0.3, "min_support": 0.1, "fallback": "nearest"},
        extra={"discount": 0.9, "include_return": True, "outcomes": 1, "named_actions": True, "mixed": True,
               "chance": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FOUND.values(), ids=FOUND)
def test_studies_that_failed(case: Whole, tmp_path) -> None:
    try:
        with no_warnings():
            enter_whole(case, tmp_path)
    except InvalidInputError as refused:
        assert str(refused) == "refused"  # noqa: PT017
