"""What cannot be explained says so in one line."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff import Outcome, explain
from polidiff.domains import chain, navigation
from polidiff.errors import (
    InvalidInputError,
    InvalidOptionError,
    InvalidOutcomeError,
    InvalidPolicyError,
    InvalidWorldError,
)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"policy_tolerance": 1.5}, InvalidOptionError, "policy_tolerance"),
        ({"transition_tolerance": -0.1}, InvalidOptionError, "transition_tolerance"),
        ({"level": 1.0}, InvalidOptionError, "level"),
        ({"max_rules": 0}, InvalidOptionError, "max_rules"),
        ({"max_steps": 0}, InvalidOptionError, "max_steps"),
        ({"style": "poem"}, InvalidOptionError, "style"),
        ({"outcomes": [Outcome("a", 1.0), Outcome("a", 1.0)]}, InvalidOutcomeError, "'a' is used twice"),
        ({"outcomes": [Outcome("speed", "info:speed")]}, InvalidOutcomeError, "info:speed"),
    ],
)
def test_options_out_of_range_are_named(options, error, words):
    with pytest.raises(error, match=words) as caught:
        explain(chain.world(), chain.current(), chain.proposed(), **options)
    assert "\n" not in str(caught.value)


def test_policies_over_other_actions_are_refused():
    with pytest.raises(InvalidPolicyError, match="2 columns"):
        explain(chain.world(), chain.current(), np.full((12, 3), 1 / 3))


def test_something_that_is_no_world_is_named():
    with pytest.raises(InvalidWorldError, match="TabularMDP, Simulator or Log"):
        explain("CartPole", chain.current(), chain.proposed())


def test_no_difference_in_a_simulator_is_told_as_such():
    told = explain(navigation.world(), navigation.current, navigation.current)
    assert told.regions == ()
    assert "act the same" in str(told)


def test_a_case_with_an_unknown_feature_names_the_features():
    told = explain(navigation.world(), navigation.current, navigation.proposed_2)
    with pytest.raises(InvalidInputError, match="'z' is not a feature"):
        told.case({"z": 1.0})
