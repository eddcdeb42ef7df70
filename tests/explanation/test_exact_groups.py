"""What an exact table says of its starts: every one is told, every loser is listed, and no winner."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polidiff import TabularMDP, explain
from polidiff.explanation.text import acts_the_same, sentence_text
from polidiff.records.rule import covers_any

STATES = 9
OVERLAPPING = 0  # a table two of whose groups of starts have overlapping rules


def drawn(seed):
    """A table whose states have two features, all but the last of them starts, and two policies by lot or not."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.full(STATES, 0.3), size=(STATES, 3))
    moves[:, :, -1] += 0.3
    moves /= moves.sum(axis=2, keepdims=True)
    places = np.column_stack([np.arange(STATES), rng.integers(0, 4, STATES)]).astype(float)
    world = TabularMDP(
        moves, rng.normal(size=(STATES, 3)).round(2), np.append(rng.dirichlet(np.ones(STATES - 1)), 0.0),
        absorbing=[STATES - 1], actions=["stay", "go", "wait"], features=places, feature_names=["place", "level"],
    )  # fmt: skip
    current = np.eye(3)[rng.integers(0, 3, STATES)]
    lot = rng.dirichlet(np.ones(3), STATES)
    return world, moves, current, np.where(rng.random((STATES, 1)) < 0.5, lot, np.eye(3)[rng.integers(0, 3, STATES)])


def values(world, moves, table):
    """(S − 1,) expected return from each start, by a linear solve of our own."""
    under = np.einsum("sa,sat->st", table, moves)[:-1, :-1]
    return np.linalg.solve(np.eye(STATES - 1) - under, (table * world.rewards).sum(axis=1)[:-1])


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_losers_are_listed_and_winners_are_not(seed):
    world, moves, current, proposed = drawn(seed)
    difference = values(world, moves, proposed) - values(world, moves, current)
    listed = np.zeros(STATES - 1, dtype=bool)
    for entry in explain(world, current, proposed).worse_off:
        listed |= True if entry.start is None else entry.start.covers(world.features[:-1])
    clear = np.abs(difference) > 1e-6
    assert (listed == (difference < 0))[clear].all()


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000))
@example(seed=OVERLAPPING)
def test_a_start_belongs_to_the_first_group_told_that_covers_it_and_a_later_one_says_so(seed):
    world, moves, current, proposed = drawn(seed)
    told = explain(world, current, proposed)
    both, weight = [values(world, moves, table) for table in (proposed, current)], world.initial[:-1]
    difference, left = np.subtract(*both), np.ones(STATES - 1, dtype=bool)
    for sentence in told.sentences:
        covered = covers_any(sentence.rules, world.features[:-1]) if sentence.rules else left
        own, left = covered & left, left & ~covered
        assert sentence.share == pytest.approx(weight[own].sum())
        assert sentence.verdicts[0].difference.estimate == pytest.approx(weight[own] @ difference[own] / sentence.share)
        assert sentence_text(told, sentence).startswith("From any other start") or (own == covered).all()
        if acts_the_same(told, sentence):
            assert difference[own] == pytest.approx(0)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_starts_that_are_in_no_sentence_are_counted_in_a_note(seed):
    world, _, current, proposed = drawn(seed)
    explanation = explain(world, current, proposed)
    told = sum(sentence.share for sentence in explanation.sentences)
    assert told > 0.99 or any("of the starts are in no group" in note for note in explanation.warnings)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_case_by_its_features_is_answered_by_the_policies(seed):
    world, _, current, proposed = drawn(seed)
    explanation = explain(world, current, proposed)
    names = [action.name for action in world.actions]
    for state in range(STATES - 1):
        case = explanation.case(dict(zip(world.feature_names, world.features[state], strict=True)))
        assert case.proposed == names[proposed[state].argmax()]


def test_a_policy_by_lot_is_told_with_all_that_it_does_more_often():
    """Going loses 5 and staying brings 10: the gain of a mixed policy is not told as that of going."""
    moves = np.zeros((2, 3, 2))
    moves[:, :, 1] = 1
    world = TabularMDP(moves, [[10, -5, 0], [0, 0, 0]], [1, 0], absorbing=[1], actions=["stay", "go", "wait"])
    explanation = explain(world, [[0, 0, 1], [0, 0, 1]], [[0.45, 0.50, 0.05], [0, 0, 1]])
    assert "choose go (0 % → 50 %) and stay (0 % → 45 %) more often" in str(explanation)
    patched = explanation.patch.apply(np.array([[0, 0, 1.0], [0, 0, 1.0]]))
    assert patched.probabilities(np.array([0])).tolist() == [[0.0, 0.5, 0.5]]


def test_a_path_is_not_placed_where_only_some_starts_of_its_group_lie():
    """Starts 0 and 3 share a path, and the change is made in 0 alone."""
    moves = np.zeros((5, 2, 5))
    moves[[0, 1, 2, 4], :, 4] = 1
    moves[3, :, 0] = 1
    rewards = np.zeros((5, 2))
    rewards[0, 1] = 5
    world = TabularMDP(
        moves, rewards, [0.25] * 4 + [0], absorbing=[4], actions=["stay", "go"],
        features=np.arange(5.0)[:, None], feature_names=["place"],
    )  # fmt: skip
    text = str(explain(world, [0] * 5, [1, 0, 0, 0, 0]))
    assert "where place < 1, do go instead of stay" in text
    assert "there." not in text


def test_changed_decisions_that_are_discounted_are_called_so():
    moves = np.zeros((3, 2, 3))
    moves[0, :, 1], moves[1:, :, 2] = 1, 1
    world = TabularMDP(moves, np.tile([0.0, 1.0], (3, 1)), [1, 0, 0], absorbing=[2], discount=0.5)
    assert "1.5 discounted decisions per episode" in str(explain(world, [0, 0, 0], [1, 1, 1]))
