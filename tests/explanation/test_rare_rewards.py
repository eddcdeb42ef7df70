"""Worlds whose rewards are so rare that no single comparison of two actions shows them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polidiff import Simulator, evaluate, explain
from polidiff.explanation.advice import advise
from polidiff.explanation.said import answers
from polidiff.records.explanation import Explanation


class RareRewards:
    """Five decisions; each earns 1 with a small chance that only the action moves."""

    n_actions = 2

    def __init__(self, *chances: float) -> None:
        self.chances = np.array(chances)

    def reset(self, count, rng):
        return np.column_stack([rng.random(count), np.zeros(count)])

    def step(self, states, actions, rng):
        after = states + np.array([0.0, 1.0])
        return after, (rng.random(len(states)) < self.chances[actions]).astype(float), after[:, 1] >= 5


def never(states):
    return np.zeros(len(states), dtype=int)


def on_the_right(states):
    return (states[:, 0] > 0.5).astype(int)


def told(*chances: float) -> Explanation:
    return explain(Simulator(RareRewards(*chances), feature_names=["x", "t"]), never, on_the_right, seed=0)


def test_a_gain_that_no_region_tells_is_never_advised_to_be_adopted():
    seen = told(0.02, 0.025)
    assert not seen.regions
    assert seen.verdicts[0].difference.contains(5 * 0.5 * 0.005)
    assert seen.verdicts[0].valence == "better"
    advice = advise(seen)
    assert advice.kind == "look"
    assert advice.sentence == "Look for the reason first: it is better on return, but no region tells where."
    changes = answers(seen)[1].text
    assert "yet outcomes differ: they act otherwise in 2.49 decisions per episode (between " in changes
    assert changes.endswith("the difference is in decisions whose effect no single comparison shows.")


@pytest.mark.parametrize("withheld", [0, 3])
def test_only_what_is_told_or_withheld_can_be_adopted(withheld):
    seen = replace(told(0.02, 0.025), withheld=withheld)
    assert (advise(seen).kind == "adopt") == bool(withheld)


def test_policies_that_act_otherwise_are_not_said_to_act_the_same():
    seen = told(1e-4, 2e-4)  # a few rewards in 10,000 episodes
    assert seen.verdicts[0].direction == "unknown"
    assert advise(seen).kind == "test first"
    assert "act the same" not in str(seen)
    assert "whether that matters is not known" in str(seen)


def test_an_event_that_never_came_is_in_doubt_however_many_episodes_were_played():
    chance = 2e-6
    seen, value = told(chance, chance), evaluate(Simulator(RareRewards(chance, chance)), never)
    assert value.outcomes["return"].estimate == 0
    for result in (seen, value):
        (doubt,) = result.assumptions
        assert (doubt.name, doubt.status) == ("rare events", "doubtful")
        assert "return is 0 in all of 10 000 episodes" in doubt.detail.replace("\u202f", " ")
    assert "act the same" not in str(seen)
    assert advise(seen).sentence.endswith("it makes no difference to return, but what was played is in doubt.")


def test_policies_that_never_part_are_in_no_doubt_about_their_difference():
    world = Simulator(RareRewards(2e-6, 2e-6))
    same = explain(world, never, never)
    assert not same.assumptions
    assert advise(same).kind == "nothing"
