"""What is done instead of what, where the current policy of a log chose by lot."""

from __future__ import annotations

import pytest

from polidiff.explanation.words import swap_text
from polidiff.records.explanation import ActionSupport, Region, Support
from polidiff.records.rule import Rule


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        ({"a": (0.5, 0.0)}, "rare instead of a (50 % → 0 %) or another action"),
        ({"a": (0.7, 0.1), "rare": (0.3, 0.9)}, "rare (30 % → 90 %) instead of a (70 % → 10 %)"),
        ({"a": (0.97, 0.0)}, "rare instead of a"),
        ({}, "rare instead of a"),
    ],
)
def test_an_action_that_was_taken_at_times_is_said_with_how_often(taken, said):
    actions = tuple(ActionSupport(name, 100, *shares) for name, shares in taken.items())
    region = Region("S1", Rule(), "a", "rare", Support(200, 200, 1.0, actions=actions), 1.0, 1.0)
    assert swap_text(region) == said
    assert swap_text(region, short=True) == "a → rare"
