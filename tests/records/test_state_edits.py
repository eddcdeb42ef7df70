"""Edits of many states are made when asked for, and are the edits of a plain patch."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff.records.patch import Edit, Patch, StateEdits
from polidiff.records.rule import Condition, Rule


@pytest.fixture
def lazy():
    edits = StateEdits(("a", "b", "c"), np.array([0, 2]), np.array([1, 0]), np.array([0, 1]))
    return Patch(edits, ("left", "right"), ("state",))


@pytest.fixture
def plain():
    def edit(state, name, current, proposed):
        return Edit(Rule((Condition("state", 0, values=(name,)),)), current, proposed, (state,))

    return Patch((edit(0, "a", 1, 0), edit(2, "c", 0, 1)), ("left", "right"), ("state",))


def test_they_equal_the_edits_they_stand_for_in_both_directions(lazy, plain):
    assert lazy == plain
    assert plain == lazy
    assert hash(lazy) == hash(plain)
    assert lazy.edits[:1] == plain.edits[:1]
    assert lazy.edits[-1] == plain.edits[-1]
    assert lazy != Patch(plain.edits[:1], plain.actions, plain.feature_names)


def test_they_are_written_and_read_as_plain_edits(lazy, plain):
    assert lazy.to_dict() == plain.to_dict()
    assert Patch.from_dict(lazy.to_dict()) == plain


def test_they_are_applied_and_undone(lazy):
    changed = lazy.apply(np.array([1, 0, 0]))
    assert changed.probabilities(np.arange(3)).argmax(axis=1).tolist() == [0, 0, 1]
    assert lazy.undo(changed).probabilities(np.arange(3)).argmax(axis=1).tolist() == [1, 0, 0]
