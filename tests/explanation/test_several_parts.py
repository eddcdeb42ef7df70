"""Actions of several parts: a direction is told for one of them, and what the others do is told beside it."""

import json

import numpy as np

from polidiff import TabularMDP, explain
from polidiff.explanation.said import answers
from polidiff.explanation.text import sentence_text
from polidiff.records.action import Action, Direction
from polidiff.records.codec import from_dict, to_dict
from polidiff.report.answers import when

LEVELS = [{"fluid": f, "pressor": p} for f in range(2) for p in range(4)]


def told(proposed):
    """Many states with a number each; the current policy does least of both everywhere."""
    count = len(proposed) + 1
    moves = np.zeros((count, len(LEVELS), count))
    for a in range(len(LEVELS)):
        moves[:-1, a, -1] = (1 + a) / 10
        moves[:-1, a, :-1] += (1 - (1 + a) / 10) * np.eye(count - 1)
    moves[-1, :, -1] = 1.0
    rewards = np.tile(np.arange(len(LEVELS), dtype=float), (count, 1))
    initial = np.r_[np.full(count - 1, 1 / (count - 1)), 0.0]
    features = np.arange(count, dtype=float)[:, None]
    world = TabularMDP(
        moves, rewards, initial, absorbing=np.arange(count) == count - 1, actions=LEVELS, features=features,
        feature_names=["map"],
    )  # fmt: skip
    return explain(world, np.zeros(count, dtype=int), np.r_[proposed, 0])


def test_a_part_that_changes_beside_the_one_told_is_told_too():
    names = [Action.of(level).name for level in LEVELS]
    mixed = np.tile([names.index("fluid 0, pressor 2"), names.index("fluid 1, pressor 3")], 10)
    (region,) = told(mixed).regions
    assert (region.direction.component, region.direction.sign) == ("pressor", 1)
    share = sum(swap.share for swap in region.swaps if "fluid 1" in swap.proposed)
    assert 0.1 < share < 0.9
    assert f"fluid changes there too, in {share * 100:.0f} %" in str(told(mixed))


def test_nothing_is_added_where_only_one_part_changes():
    single = np.tile([1, 2, 3], 7)
    assert "changes there too" not in str(told(single))


def test_every_sentence_about_one_part_says_that_others_may_change():
    names = [Action.of(level).name for level in LEVELS]
    mixed = told(np.tile([names.index("fluid 0, pressor 2"), names.index("fluid 1, pressor 3")], 10))
    single = told(np.tile([1, 2, 3], 7))
    for seen, parts in ((mixed, " (fluid may change too)"), (single, "")):
        said = answers(seen)[1].text
        assert "more pressor everywhere" in said
        assert ("Other parts of the action (fluid) may change too." in said) == bool(parts)
        assert f"choose more pressor{parts}." in sentence_text(seen, seen.sentences[0])
        assert ("may change too" in when(seen, seen.regions[0].current)) == bool(parts)
        read = from_dict(json.loads(json.dumps(to_dict(seen))))
        assert answers(read)[1].text == said


def test_directions_that_move_one_part_alike_are_equal_whatever_else_they_move():
    assert Direction("pressor", 1, ("fluid",)) == Direction("pressor", 1)
