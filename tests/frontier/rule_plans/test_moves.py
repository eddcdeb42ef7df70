"""Moves name an action in every state, or none."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff.errors import InvalidOptionError
from polidiff.frontier.rule_plans import Move
from polidiff.frontier.rule_plans.moves import resolve_moves
from polidiff.policies import one_hot
from polidiff.worlds.tabular import TabularMDP

LEVELS = [{"dose": d, "rate": r} for d in range(3) for r in range(2)]  # action = 2 · dose + rate


def dosing(allowed):
    n = len(allowed)
    transitions = np.zeros((n, len(LEVELS), n))
    transitions[:, :, n - 1] = 1.0
    return TabularMDP(
        transitions, np.zeros((n, len(LEVELS))), np.eye(n)[0], absorbing=[n - 1], actions=LEVELS, allowed=allowed,
        features=np.arange(n)[:, None],
    )  # fmt: skip


def choices(world, current, move, fallback="keep"):
    moves = resolve_moves(world, one_hot(np.asarray(current), len(LEVELS)), [move], fallback=fallback)
    return moves.choice[0].tolist()


def test_a_level_keeps_the_other_component_and_is_impossible_where_it_is_not_offered():
    allowed = np.ones((3, 6), dtype=bool)
    allowed[1, 5] = False  # dose 2 with rate 1
    assert choices(dosing(allowed), [1, 1, 0], Move.level("dose", 2)) == [5, -1, -1]


def test_the_nearest_level_stands_in_for_one_that_is_not_offered():
    allowed = np.ones((3, 6), dtype=bool)
    allowed[0, 5] = False
    allowed[1, [3, 5]] = False
    world = dosing(allowed)
    now = len(LEVELS)  # the choice "as now"
    assert choices(world, [1, 1, 0], Move.level("dose", 2), "nearest") == [3, now, -1]


def test_a_step_goes_to_the_next_offered_level():
    allowed = np.ones((3, 6), dtype=bool)
    allowed[0, 2] = False
    assert choices(dosing(allowed), [0, 0, 0], Move.step("dose", +1)) == [4, 2, -1]
    assert choices(dosing(allowed), [4, 4, 0], Move.step("dose", -1)) == [0, 2, -1]


def test_an_aim_depends_on_the_features():
    world = dosing(np.ones((4, 6), dtype=bool))
    move = Move.aim("dose 2 less the state", "dose", lambda features: 2 - features[:, 0])
    assert choices(world, [1, 1, 1, 0], move) == [5, 3, len(LEVELS), -1]


def test_a_mixed_policy_that_is_made_certain_counts_as_changed():
    world = dosing(np.ones((2, 6), dtype=bool))
    current = np.full((2, 6), 1 / 6)
    moves = resolve_moves(world, current, [Move.level("dose", 0)])
    assert moves.choice[0, 0] == 0
    assert moves.changed[0, 0] == pytest.approx(5 / 6)


@pytest.mark.parametrize(
    ("moves", "words"),
    [
        ("levels up", "moves must be 'actions', 'levels'"),
        ([Move.action("fly")], "no action is called 'fly'"),
        ([Move.level("speed", 1)], "no component of the actions is called 'speed'"),
        ([Move.level("dose", 7)], "'dose to 7' is allowed in none"),
        ([Move.keep()], "a move other than 'keep'"),
        (["north"], "moves must be Move objects; got str"),
        ([Move.level("dose", 1), Move.level("dose", 1)], "'dose to 1' is used twice"),
        ([Move.aim("odd", "dose", np.zeros(5))], "one for each of 2 states; got shape \\(5,\\)"),
    ],
)
def test_moves_that_make_no_sense_are_named(moves, words):
    world = dosing(np.ones((2, 6), dtype=bool))
    with pytest.raises(InvalidOptionError, match=words):
        resolve_moves(world, one_hot(np.zeros(2, dtype=np.int64), 6), moves)


def test_levels_need_actions_with_components():
    world = TabularMDP(np.array([[[0.0, 1.0]]] * 2), [[0.0]] * 2, [1.0, 0.0], absorbing=[1])
    with pytest.raises(InvalidOptionError, match="needs actions with ordered components"):
        resolve_moves(world, np.ones((2, 1)), "levels")
