"""A policy that was given as rules is told by those rules, not by others learned to look like them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, explain
from polidiff.domains import navigation
from polidiff.policies import PatchedPolicy, as_policy, rule_patch
from polidiff.records.parse import parse_rules


def patched(base, world, *texts):
    """The base with rules such as "x < 0.1: east"."""
    names = [action.name for action in world.actions]
    split = [text.rpartition(": ") for text in texts]
    rules = [(rule, names.index(to)) for where, _, to in split for rule in parse_rules(where, world.feature_names)]
    return PatchedPolicy(base, rule_patch(rules, names, world.feature_names, world.features_of))


@pytest.fixture(scope="module")
def visits():
    """One decision per visit, by a coin toss."""
    rng = np.random.default_rng(3)
    columns = {"age": rng.integers(18, 90, 600), "dose": rng.random(600), "arm": rng.choice(["a", "b"], 600)}
    table = pl.DataFrame({**columns, "y": rng.random(600)})
    return Log(table, state=["age", "dose"], action="arm", reward="y", probability=0.5)


def test_a_log_is_told_by_the_rule_that_was_given(visits):
    always_a = as_policy("always:a", actions=visits.actions)
    explanation = explain(visits, always_a, patched(always_a, visits, "age < 41.5 and dose >= 0.25: b"))
    (region,) = explanation.regions
    bounds = {c.feature: (c.low, c.high) for c in region.rule.conditions}
    assert bounds == {"age": (-np.inf, 41.5), "dose": (0.25, np.inf)}
    assert (region.current, region.proposed, region.precision, region.recall) == ("a", "b", 1.0, 1.0)


def test_a_simulator_is_told_by_the_rules_that_were_given():
    world = navigation.world()
    base = as_policy(navigation.current, actions=world.actions)
    explanation = explain(world, base, patched(base, world, "x < 0.1 and y >= 0.2 and y < 0.3: north"), starts=50)
    (region,) = explanation.regions
    assert {c.feature: (c.low, c.high) for c in region.rule.conditions} == {"x": (-np.inf, 0.1), "y": (0.2, 0.3)}


def test_rules_that_do_not_tell_the_whole_difference_are_not_taken_for_it(visits):
    always_a = as_policy("always:a", actions=visits.actions)
    other_base = as_policy(lambda states: (states[:, 1] > 0.5).astype(int), actions=visits.actions)
    explanation = explain(visits, always_a, patched(other_base, visits, "age < 41.5: b"))
    assert explanation.quality.f1 > 0.9
    assert any(c.feature == "dose" for region in explanation.regions for c in region.rule.conditions)


def test_another_learner_that_was_asked_for_is_used(visits):
    always_a = as_policy("always:a", actions=visits.actions)
    explanation = explain(visits, always_a, patched(always_a, visits, "age < 41.5: b"), classifier="tree")
    assert "tree" in explanation.methods.classifier
