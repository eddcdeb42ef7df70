"""Boxes against all boxes."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from polidiff.frontier.rule_plans.lists import BoxFinder, best_boxes
from polidiff.rules.cell_grid import grid_of_states
from polidiff.worlds.tabular import TabularMDP


def cells_of(features, names=None):
    n = len(features)
    transitions = np.zeros((n + 1, 1, n + 1))
    transitions[:, :, n] = 1.0
    padded = np.vstack([features, features[:1]])
    world = TabularMDP(
        transitions, np.zeros((n + 1, 1)), np.append(np.full(n, 1 / n), 0), absorbing=[n], features=padded,
        feature_names=names,
    )  # fmt: skip
    return world, grid_of_states(world.features, world.feature_names, ~world.absorbing, np.ones(n + 1))


def all_boxes(sizes, conditions):
    intervals = [[(a, b) for a in range(n) for b in range(a, n) if (a, b) != (0, n - 1)] for n in sizes]
    yield ()
    for count in range(1, conditions + 1):
        for columns in combinations(range(len(sizes)), count):
            for chosen in product(*(intervals[j] for j in columns)):
                yield tuple((j, *ends) for j, ends in zip(columns, chosen, strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_one_condition_finds_the_best_box_and_more_never_exceed_the_best(seed):
    rng = np.random.default_rng(seed)
    _, cells = cells_of(rng.integers(0, 5, size=(60, 3)))
    finder = BoxFinder.of(cells, np.arange(60))
    weights = rng.normal(-0.1, 1.0, size=(2, 60))
    for conditions in (1, 2):
        found = best_boxes(finder, weights, conditions=conditions, top=5)
        best = max(
            weights[m][cells.covers(box)[:60]].sum() for m in (0, 1) for box in all_boxes(cells.sizes, conditions)
        )
        sums = [weights[move][cells.covers(box)[:60]].sum() for move, box in found]
        assert sums == pytest.approx(sorted(sums, reverse=True), abs=1e-4)
        assert best + 1e-4 >= sums[0] >= (1.0 if conditions == 1 else 0.75) * best - 1e-4


def test_a_small_box_that_no_single_condition_reveals_is_found():
    grid = np.array(list(product(range(8), range(8))))
    inside = (grid[:, 0] == 3) & (grid[:, 1] == 5)
    _, cells = cells_of(grid)
    finder = BoxFinder.of(cells, np.arange(64))
    found = best_boxes(finder, np.where(inside, 1.0, -0.5)[None], conditions=2, top=1)
    assert found[0][1] == ((0, 3, 3), (1, 5, 5))


def test_cells_cover_what_their_rules_cover():
    rng = np.random.default_rng(1)
    world, cells = cells_of(rng.normal(size=(300, 2)), ["a", "b"])
    box = ((0, 3, 20), (1, 10, int(cells.sizes[1]) - 1))
    np.testing.assert_array_equal(cells.covers(box), cells.rule(box).covers(world.features))
    assert cells.literals(box) == cells.rule(box).literals == 3
    assert not cells.complete


def test_categories_become_this_one_or_another():
    features = np.array([["red", 1], ["blue", 2], ["green", 3], ["red", 4]], dtype=object)
    world, cells = cells_of(features, ["colour", "size"])
    red = cells.rule(((0, 1, 1),))
    assert red.conditions[0].values == ("red",)
    np.testing.assert_array_equal(red.covers(world.features), cells.covers(((0, 1, 1),)))
    other = cells.rule(((0, 0, 0),))
    assert other.covers(world.features)[:4].tolist() == [False, True, True, False]
