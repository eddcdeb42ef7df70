"""Starts of a simulator are grouped by path and direction, on other episodes than those that judge them."""

from __future__ import annotations

import gymnasium
import numpy as np
import polars as pl
import pytest

from polidiff import Log, Simulator, TabularMDP, explain
from polidiff.evaluation.verdicts import StartOutcomes
from polidiff.explanation import groups
from polidiff.explanation.groups import start_signs
from polidiff.explanation.text import start_text
from polidiff.records.outcome import Outcome
from polidiff.records.rule import Rule


class Sides:
    """One decision at x = −1 or 1: action 1 pays x times its worth, and luck."""

    n_actions, horizon = 2, 1

    def __init__(self, worth=1.0):
        self.worth = worth

    def reset(self, count, rng):
        return np.where(rng.random((count, 1)) < 0.5, -1.0, 1.0)

    def step(self, states, actions, rng):
        paid = actions * (self.worth * states[:, 0] + rng.normal(size=len(states)))
        return states, paid, np.ones(len(states), dtype=bool)


def never(states):
    return np.zeros(len(states), dtype=int)


def always(states):
    return np.ones(len(states), dtype=int)


def told(explanation):
    return sorted(
        (sentence.start.conditions[0].low, sentence.verdicts[0].direction, round(sentence.share, 1))
        for sentence in explanation.sentences
    )


def test_starts_that_gain_and_starts_that_lose_are_two_sentences_as_in_a_table():
    simulated = explain(Simulator(Sides()), never, always)
    moves = np.zeros((3, 2, 3))
    moves[:, :, 2] = 1
    known = TabularMDP(
        moves,
        np.array([[0.0, -1.0], [0.0, 1.0], [0.0, 0.0]]),
        np.array([0.5, 0.5, 0.0]),
        absorbing=[2],
        features=np.array([[-1.0], [1.0], [5.0]]),
        feature_names=["x0"],
    )
    exact = explain(known, [0, 0, 0], [1, 1, 0])
    directions = [direction for _, direction, _ in told(simulated)]
    assert directions == [direction for _, direction, _ in told(exact)] == ["less", "more"]
    assert [share for *_, share in told(simulated)] == [0.5, 0.5]
    assert simulated.methods.family == 3, "two groups and everyone, one outcome"
    (loser,) = simulated.worse_off
    assert loser.difference.contains(-1.0)


def test_a_first_group_that_holds_every_start_is_no_group(monkeypatch):
    monkeypatch.setattr(groups, "_rules_for", lambda *given: (Rule(),))
    explanation = explain(Simulator(Sides()), never, always)
    (sentence,) = explanation.sentences
    assert sentence.start is None
    assert explanation.methods.family == 1


def test_luck_alone_makes_no_groups():
    for seed in range(5):
        explanation = explain(Simulator(Sides(worth=0.0)), never, always, seed=seed)
        assert len(explanation.sentences) == 1


@pytest.mark.parametrize("columns", [1, 2])
def test_directions_are_those_of_classes_of_similar_starts(columns):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (600, columns))
    gain = np.sign(x[:, 0]) + 0.5 * rng.normal(size=600)
    forming = StartOutcomes(x, np.full(600, 1 / 600), np.zeros((600, 1)), gain[:, None], False, "600 episodes")
    signs = start_signs(forming, (Outcome("gain"),))[:, 0]
    assert (signs == np.sign(x[:, 0])).mean() > 0.97


def test_a_class_that_is_not_decided_joins_the_common_direction():
    rng = np.random.default_rng(0)
    x = np.repeat([[0.0], [1.0]], [300, 30], axis=0)
    gain = np.where(x[:, 0] == 0, 1.0, 0.0) + rng.normal(size=330)
    forming = StartOutcomes(x, np.full(330, 1 / 330), np.zeros((330, 1)), gain[:, None], False, "330 episodes")
    assert (start_signs(forming, (Outcome("gain"),)) == 1).all()


class Ring:
    """Five numbered places, six steps round them; action 1 pays at the first place."""

    n_actions, horizon = 2, 6

    def reset(self, count, rng):
        return rng.integers(0, 5, count)

    def step(self, states, actions, rng):
        return (states + 1) % 5, 1.0 * actions * (states == 0), np.zeros(len(states), dtype=bool)


@pytest.fixture(scope="module")
def ring():
    return explain(Simulator(Ring()), never, lambda states: (np.asarray(states).ravel() == 0).astype(int))


def test_support_counts_distinct_states_not_visits(ring):
    assert [region.support.states for region in ring.regions] == [1]
    assert sum(sentence.support.states for sentence in ring.sentences) == 5
    assert all(
        sentence.starts or sentence.start is None or sentence.start.conditions[0].values for sentence in ring.sentences
    )


def test_the_cut_share_is_told_for_each_policy(ring):
    note = "100 % of the current and 100 % of the proposed policy's episodes reach the horizon and are cut there."
    assert note in ring.warnings


def test_a_feature_called_state_is_no_list_of_names():
    told = explain(Simulator(Sides(), feature_names=["state"]), never, always)
    sentence = told.sentences[0]
    assert start_text(told, sentence).startswith("From a start where state ")


class Late(Sides):
    """The same for twenty steps."""

    horizon = 20

    def step(self, states, actions, rng):
        return states, actions * states[:, 0], np.zeros(len(states), dtype=bool)


def test_the_note_on_splits_names_what_limits_them():
    told = explain(Simulator(Late()), never, always, max_steps=90_000)
    (note,) = [warning for warning in told.warnings if "splits" in warning]
    assert "of the splits were followed (max_steps)" in note


class TwoDoors(gymnasium.Env):
    """One decision behind one of two doors: action 1 pays behind the second door and costs behind the first."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.door = int(self.np_random.integers(2))
        return self.door, {}

    def step(self, action):
        return self.door, float(action) * (2 * self.door - 1), True, False, {}


def test_numbered_starts_that_lose_are_named_once():
    explanation = explain(Simulator(TwoDoors), np.array([0, 0]), np.array([1, 1]))
    (loser,) = explanation.worse_off
    assert loser.starts == loser.start.conditions[0].values == ("s0",)


def test_a_start_of_too_few_people_is_told_with_another_so_that_no_verdict_is_withheld():
    rng = np.random.default_rng(0)
    state, action = np.repeat(["a", "b", "c"], [80, 80, 4]), rng.integers(0, 2, 164)
    paid = np.where(state == "a", 1.0, -1.0) * action + rng.normal(0, 0.1, 164)
    table = pl.DataFrame({"state": state, "action": action, "paid": paid})
    explanation = explain(Log(table, state="state", action="action", reward="paid"), "log", "always:1")
    shown = {start_text(explanation, one): one.verdicts[0].direction for one in explanation.sentences}
    assert shown == {"From a": "more", "From b or c": "less"}
