"""Patches: applied, undone, mismatched, saved."""

from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff import Log, Patch, as_policy, explain
from polidiff.domains import navigation
from polidiff.errors import InvalidPolicyError, PatchMismatchError
from polidiff.policies import difference, one_hot, top_actions
from polidiff.records.action import Shift
from polidiff.records.codec import from_dict
from polidiff.records.patch import Edit
from polidiff.records.rule import Condition, Rule
from tests.strategies import pairs_of_tables


def table_of(policy, size: int) -> np.ndarray:
    return policy.probabilities(np.arange(size))


@given(pairs_of_tables())
def test_patching_with_the_difference_gives_the_proposed_policy(pair):
    current, proposed = pair
    patched = difference(current, proposed, n_actions=4).apply(current, strict=True)
    assert (table_of(patched, len(current)) == one_hot(proposed, 4)).all()


@given(pairs_of_tables())
def test_undoing_a_patch_gives_the_policy_back(pair):
    current, proposed = pair
    patch = difference(current, proposed, n_actions=4)
    patched = patch.apply(current)
    written_out = table_of(patched, len(current))
    assert (table_of(patch.undo(patched), len(current)) == one_hot(current, 4)).all()
    assert (table_of(patch.undo(written_out), len(current)) == one_hot(current, 4)).all()


@given(pairs_of_tables())
def test_a_patch_from_its_file_does_the_same(pair):
    current, proposed = pair
    patch = difference(current, proposed, n_actions=4)
    back = from_dict(patch.to_dict())
    assert back == patch
    assert (table_of(back.apply(current), len(current)) == one_hot(proposed, 4)).all()


@given(pairs_of_tables())
def test_the_difference_of_a_policy_with_itself_is_empty(pair):
    assert len(difference(pair[0], pair[0])) == 0


def test_tables_of_different_length_have_no_difference():
    with pytest.raises(PatchMismatchError, match=r"one length; got \(2,\) and \(3,\)"):
        difference([0, 1], [0, 1, 1])


SOUTH_WEST = Rule((Condition("x", 0, high=0.1), Condition("y", 1, high=0.1)))


def test_an_edit_by_rule_acts_where_it_covers_and_finds_its_action():
    patch = Patch((Edit(SOUTH_WEST, navigation.NORTH, navigation.EAST),), navigation.ACTIONS, ("x", "y"))
    points = np.random.default_rng(0).uniform(0, 0.6, size=(500, 2))
    expected = np.array(navigation.current(points))
    expected[SOUTH_WEST.covers(points) & (expected == navigation.NORTH)] = navigation.EAST
    assert (top_actions(patch.apply(navigation.current).probabilities(points)) == expected).all()


def test_the_first_edit_that_acts_decides():
    edits = (Edit(SOUTH_WEST, 0, 1), Edit(Rule(), 1, 2), Edit(Rule(), 0, 3))
    patched = Patch(edits, ("a", "b", "c", "d")).apply(lambda states: np.zeros(len(states), dtype=int))
    assert top_actions(patched.probabilities(np.array([[0.0, 0.0], [0.5, 0.5]]))).tolist() == [1, 3]


def test_rules_may_speak_about_features_of_the_observation():
    patch = Patch(
        (Edit(Rule((Condition("sum", 0, low=1.0),)), 0, 1),), ("a", "b"), ("sum",), lambda X: X.sum(1)[:, None]
    )
    patched = patch.apply(lambda states: np.zeros(len(states), dtype=int))
    assert top_actions(patched.probabilities(np.array([[0.4, 0.4], [0.6, 0.6]]))).tolist() == [0, 1]


@pytest.mark.parametrize("row", [[0.7, 0.2, 0.1], [1.0, 0.0, 0.0]])
def test_a_shift_sets_one_probability_and_keeps_the_others_in_proportion(row):
    base = as_policy(np.array([row]))
    edit = Edit(Rule(), 0, 0, (0,), Shift(row[0], 0.4))
    new = Patch((edit,), ("a", "b", "c")).apply(base).probabilities([0])[0]
    assert new[0] == pytest.approx(0.4)
    assert new.sum() == pytest.approx(1.0)
    if row[0] < 1:
        assert new[1] / new[2] == pytest.approx(row[1] / row[2])


def test_a_mismatch_is_named_as_a_warning_or_an_error():
    patch = difference(np.array([0, 0, 0]), np.array([0, 1, 1]))
    with pytest.warns(UserWarning, match="in state 2 the policy takes 'action 1'"):
        patched = patch.apply(np.array([0, 0, 1]))
    assert top_actions(table_of(patched, 3)).tolist() == [0, 1, 1]
    with pytest.raises(PatchMismatchError, match=r"an edit replaces 'action 0' in 1 states; .*\(1 of 1 do not match"):
        patch.apply(np.array([0, 0, 1]), strict=True)


def test_a_patch_that_fits_raises_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        difference(np.array([0, 0]), np.array([1, 0])).apply(np.array([0, 0]))


@settings(max_examples=12)
@given(seed=st.integers(0, 1000), always=st.sampled_from(["go", "wait"]))
def test_chances_equal_by_luck_are_patched_to_the_proposed_policy(seed, always):
    """Of 51:49 in a log the text says "more often"; the patch does so whichever share is the larger one."""
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame({"s": rng.choice(["calm", "tense"], 400), "a": rng.choice(["go", "wait"], 400),
                          "y": rng.random(400)})  # fmt: skip
    log = Log(frame, state="s", action="a", reward="y", return_range=(0, 1))
    quality = explain(log, "log", f"always:{always}").quality
    assert quality.completeness["return"] == pytest.approx(1.0)


def offers(first: str, second: str, actions: tuple[str, str]) -> Log:
    rng = np.random.default_rng(0)
    acts = rng.choice(actions, 300)
    columns = {first: rng.random(300), second: rng.random(300), "act": acts, "paid": rng.random(300)}
    return Log(pl.DataFrame(columns), state=[first, second], action="act", reward="paid", return_range=(0, 1))


def test_a_patch_finds_features_and_actions_by_name_and_is_refused_where_they_are_not():
    made = Patch((Edit(Rule((Condition("x", 0, low=0.5),)), 1, 0),), ("go", "stay"), ("x", "z"))
    there = explain(offers("z", "x", ("go", "stay")), "always:stay", made)
    assert there.regions[0].rule == Rule((Condition("x", 1, low=0.5),))
    others = (
        (offers("x", "age", ("left", "right")), "action 'stay'"),
        (offers("age", "z", ("go", "stay")), "feature 'x'"),
    )
    for log, what in others:
        with pytest.raises(InvalidPolicyError, match=f"speaks of {what}, which this world does not have; it has"):
            explain(log, f"always:{log.actions[1].name}", made)
