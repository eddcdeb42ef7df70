"""How many got each action in a region, and how often, against a plain loop over the rows."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from polidiff import Log
from polidiff.evaluation import compare
from polidiff.records.explanation import ActionSupport, Support
from polidiff.records.rule import Condition, Rule
from polidiff.records.suppression import suppressed
from polidiff.report.answers import when
from tests.report import samples

ACTIONS = ("a", "b", "c")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    stay = np.repeat(np.arange(60), 4)
    return pl.DataFrame({
        "who": stay // 2, "stay": stay, "step": np.tile(np.arange(4), 60), "x": rng.integers(0, 3, 240),
        "action": rng.choice(ACTIONS, 240, p=[0.5, 0.3, 0.2]), "gain": rng.random(240),
    })  # fmt: skip


def by_hand(frame: pl.DataFrame, x: int) -> list[ActionSupport]:
    rows = [row for row in frame.to_dicts() if row["x"] == x]
    found = []
    for action in ACTIONS:
        mine = [row for row in rows if row["action"] == action]
        found.append(
            ActionSupport(action, len({row["who"] for row in mine}), len(mine) / len(rows), float(action == "b"))
        )
    return found


@pytest.mark.parametrize("discrete", [True, False])
def test_actions_of_a_region_are_counted_as_by_hand(frame, discrete):
    log = Log(frame, state="x" if discrete else ["x"], action="action", episode="stay", step="step", reward="gain",
              group="who", truncated=True)  # fmt: skip
    name = "state" if discrete else "x"
    values = [("0",), ("2",)] if discrete else None
    rules = [Rule((Condition(name, 0, values=v),)) for v in values] if values else [
        Rule((Condition(name, 0, high=0.5),)), Rule((Condition(name, 0, low=1.5),)),
    ]  # fmt: skip
    for support, x in zip(compare(log, "log", "always:b").support(rules), (0, 2), strict=True):
        for entry, expected in zip(support.actions, by_hand(frame, x), strict=True):
            assert (entry.action, entry.people) == (expected.action, expected.people)
            assert (entry.current, entry.proposed) == pytest.approx((expected.current, expected.proposed))


def with_actions(*counts: int):
    explanation = samples.plain()
    actions = tuple(
        ActionSupport(action.name, n, 0.25, 0.5 if k == 0 else 0.1)
        for k, (action, n) in enumerate(zip(explanation.world.actions, counts, strict=False))
    )
    region = replace(explanation.regions[0], support=Support(1, 100, 0.5, 0.0, actions))
    world = replace(explanation.world, kind="log")
    return replace(explanation, world=world, regions=(region, *explanation.regions[1:]))


def test_an_action_that_a_handful_got_is_not_shown_nor_found_by_subtracting():
    told = suppressed(with_actions(4, 30, 70, 80)).regions[0].support.actions
    assert [entry.people for entry in told] == [70, 80]


def test_when_tells_the_chances_of_actions_that_no_swap_names():
    explanation = with_actions(40, 30, 70, 80)
    assert "(25 % → 50 %)" in when(explanation, explanation.world.actions[0].name)
