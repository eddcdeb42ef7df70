"""Rules that tell a part are not credited with the whole; a doubt about some starts is not about all."""

from dataclasses import replace

import numpy as np
import pytest

from polidiff import Simulator, TabularMDP, explain
from polidiff.evaluation.verdicts import RARE_IN_GROUPS, rare_events
from polidiff.explanation.advice import advise


class Line:
    """One decision at a place between 0 and 10; action 1 brings 1."""

    n_actions = 2

    def reset(self, count, rng):
        return rng.uniform(0, 10, (count, 1))

    def step(self, states, actions, rng):
        return states, actions.astype(float), np.ones(len(states), dtype=bool)


def never(states):
    return np.zeros(len(states), dtype=int)


def at_both_ends(states):
    return ((states[:, 0] < 3) | (states[:, 0] >= 7)).astype(int)


@pytest.fixture(scope="module", params=[1, None])
def explanation(request):
    return explain(Simulator(Line(), feature_names=["x"]), never, at_both_ends, max_rules=request.param, starts=200)


def test_the_first_line_says_how_much_the_rules_tell_and_no_part_is_credited_with_the_whole(explanation):
    text = str(explanation)
    if len(explanation.regions) == 1:
        first = f"); one region tells {explanation.quality.recall:.0%} of these.".replace("%", " %")
        assert first in text.splitlines()[0]
        assert "All changes together lead to" in text
        assert "This leads to" not in text
    else:
        assert text.startswith("They differ in 2 regions, in ")
        assert "All changes together" not in text


def test_a_doubt_about_some_starts_turns_no_advice_about_all(explanation):
    few = {"the difference in return of starts where x < 0.1": np.ones(5)}
    for name, turned in ((RARE_IN_GROUPS, False), ("rare events", True)):
        doubted = replace(explanation, assumptions=rare_events(few, name))
        assert (advise(doubted) != advise(explanation)) is turned
        assert "Rare events" in str(doubted)


def test_a_region_that_neither_policy_meets_alone_is_said_to_be_met_in_turns_and_has_no_precision():
    """From s0 the current policy goes by s1, the proposed one by s2; s3 is met by who changes over on the way."""
    moves = np.zeros((5, 2, 5))
    moves[0, 0, 1] = moves[0, 1, 2] = moves[1, 1, 3] = moves[2, 0, 3] = 1
    moves[1, 0, 4] = moves[2, 1, 4] = moves[3, :, 4] = moves[4, :, 4] = 1
    rewards = np.array([[0, 0], [1, 2], [3, 4], [5, 6], [0, 0]])
    lines = str(explain(TabularMDP(moves, rewards, [1, 0, 0, 0, 0], absorbing=[4]), [0] * 5, [1] * 5)).splitlines()
    assert "• s3: action 1 instead of action 0 (met only where the two policies take turns)" in lines
    assert sum("right in 100 %" in line for line in lines) == 3
