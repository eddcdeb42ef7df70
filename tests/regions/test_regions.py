"""Regions: the knee, directions of ordered actions, disjoint cells, and the table over cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polidiff import Outcome, Simulator, TabularMDP, explain
from polidiff.divergence import Divergence
from polidiff.policies import as_policy
from polidiff.records.action import Swap, as_actions
from polidiff.records.rule import Condition, Rule
from polidiff.regions import describe
from polidiff.regions.describe import as_directions, fidelity, knee
from polidiff.rules.lists import intersection
from polidiff.surrogates.region_cells import make_cells
from polidiff.surrogates.simulator_cells import played_table
from polidiff.surrogates.simulator_regions import count_cells


def divergence(features, label, swaps):
    count = len(label)
    share = np.full(count, 1 / count)
    return Divergence(
        states=np.arange(count),
        features=features,
        label=label,
        swaps=swaps,
        current=np.zeros(count, dtype=int),
        proposed=(label > 0).astype(int),
        weight=share,
        judged=share,
        episode=np.full(count, -1),
        first=np.full(count, np.nan),
        chances=(np.ones(count), np.ones(count)),
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_no_rule_beyond_the_knee_is_worth_its_words(scores):
    k = knee(scores)
    assert all(later <= scores[k] + 0.01 * (j + 1) for j, later in enumerate(scores[k + 1 :]))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=20))
def test_fidelity_is_one_exactly_when_all_is_told_rightly(pairs):
    told, truth = (np.array(column) for column in zip(*pairs, strict=True))
    assert (fidelity(told, truth, np.ones(len(told))).f1 == 1.0) == bool((told == truth).all())


def test_planted_boxes_are_found_with_their_bounds():
    rng = np.random.default_rng(0)
    X = rng.random((6000, 2))
    first = (X[:, 0] < 0.3) & (X[:, 1] >= 0.6)
    second = (X[:, 0] >= 0.7) & (X[:, 1] < 0.2)
    label = np.where(first, 1, np.where(second, 2, 0))
    found = describe(
        divergence(X, label, (Swap("a", "b"), Swap("a", "c"))),
        as_actions(["a", "b", "c"], 3),
        ("x", "y"),
        has_features=True,
    )
    told = {
        region.swap.proposed: {c.feature: (c.low, c.high) for c in region.rule.conditions} for region in found.regions
    }
    assert told["b"]["x"][1] == pytest.approx(0.3, abs=0.01)
    assert told["b"]["y"][0] == pytest.approx(0.6, abs=0.01)
    assert told["c"]["x"][0] == pytest.approx(0.7, abs=0.01)
    assert told["c"]["y"][1] == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("max_rules", [None, 1, 2])
@pytest.mark.parametrize("changed", [[1], [1, 15]])
def test_a_rare_change_in_states_that_look_like_others_is_told_where_it_is(changed, max_rules):
    X = np.repeat(np.arange(8.0), 2)[:, None]
    label = np.isin(np.arange(16), changed).astype(int)
    found = describe(
        divergence(X, label, (Swap("go", "stop"),)), (), ("x",), has_features=True, max_rules=max_rules, seed=0
    )
    looks_so = np.isin(X[:, 0], X[changed, 0])
    covered = found.region_of(X) >= 0
    assert not (covered & ~looks_so).any()
    assert covered.sum() == 2 * min(len(changed), max_rules or 2)


def test_swaps_that_move_one_component_alike_are_one_direction():
    actions = as_actions([{"fluid": f, "pressor": p} for f in range(3) for p in range(2)], 6)
    swaps = (
        Swap("fluid 0, pressor 0", "fluid 1, pressor 0"),
        Swap("fluid 0, pressor 1", "fluid 2, pressor 1"),
        Swap("fluid 2, pressor 0", "fluid 2, pressor 1"),
    )
    told = as_directions(divergence(np.zeros((4, 1)), np.array([0, 1, 2, 3]), swaps), actions)
    assert told is not None
    assert [(s.direction.component, s.direction.sign) for s in told.swaps] == [("fluid", 1), ("pressor", 1)]
    assert told.label.tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize(("second", "directions"), [(0, True), (1, False)])
def test_a_direction_is_told_for_a_whole_change_not_for_half_of_one(second, directions):
    actions = as_actions([{"fluid": f, "pressor": p} for f in range(3) for p in range(2)], 6)
    swaps = (
        Swap("fluid 0, pressor 0", f"fluid 1, pressor {second}"),
        Swap("fluid 1, pressor 0", f"fluid 2, pressor {second}"),
    )
    X = np.arange(60.0)[:, None]
    label = np.where(X[:, 0] < 20, 0, np.where(X[:, 0] < 40, 1, 2))
    told = describe(divergence(X, label, swaps), actions, ("x",), has_features=True)
    assert [region.swap.direction is not None for region in told.regions] == ([True] if directions else [False, False])


def test_actions_of_equal_levels_are_told_by_their_names():
    actions = as_actions({"rest": {"dose": 0}, "wait": {"dose": 0}, "give": {"dose": 1}}, 3)
    swaps = (Swap("rest", "wait"), Swap("rest", "give"))
    told = as_directions(divergence(np.zeros((2, 1)), np.array([1, 2]), swaps), actions)
    assert [swap.direction is None for swap in told.swaps] == [True, False]


def test_many_swaps_of_ordered_actions_are_told_as_a_direction():
    """Thirteen levels, every one goes up by one where x ≥ 0.5: one rule, "more dose"."""
    states, levels = 60, 13
    X = np.stack([np.repeat(np.linspace(0, 1, states), levels), np.tile(np.arange(levels), states)], axis=1)
    count = states * levels
    moves = np.zeros((count + 1, levels, count + 1))
    rng = np.random.default_rng(0)
    for a in range(levels):
        moves[np.arange(count), a, rng.integers(0, count, count)] = 0.5
        moves[:count, a, count] += 0.5
    dose = np.tile(np.arange(levels), (count + 1, 1)).astype(float)
    world = TabularMDP(
        moves,
        np.zeros((count + 1, levels)),
        np.append(np.full(count, 1 / count), 0),
        absorbing=[count],
        actions=[{"dose": k} for k in range(levels)],
        features=np.vstack([X, [[0, 0]]]),
        feature_names=["x", "level"],
        outcomes=[Outcome("dose given", dose)],
    )
    current = np.append(X[:, 1].astype(int), 0)
    current = np.minimum(current, levels - 2)
    proposed = np.where(np.append(X[:, 0] >= 0.5, False), current + 1, current)
    told = explain(world, current, proposed)
    assert len(told.regions) == 1
    assert told.regions[0].direction.component == "dose"
    assert "more dose" in str(told)
    assert told.quality.f1 >= 0.99


def test_the_intersection_of_rules_covers_what_both_cover():
    rng = np.random.default_rng(0)
    X = rng.random((500, 2))
    one = Rule((Condition("x", 0, low=0.2), Condition("y", 1, high=0.8)))
    two = Rule((Condition("x", 0, high=0.7),))
    assert (intersection(one, two).covers(X) == (one.covers(X) & two.covers(X))).all()


class Walk:
    """Ten places in a row; action 1 steps right, action 0 stays and pays 1 with probability one half of ending."""

    n_actions = 2
    horizon = 200

    def reset(self, count, rng):
        return np.zeros((count, 1))

    def step(self, states, actions, rng):
        luck = rng.random(len(states))
        moved = states + (actions == 1)[:, None]
        ended = np.where(actions == 1, moved[:, 0] >= 4, luck < 0.5)
        return moved, (actions == 0).astype(float), ended


def test_single_place_cells_give_the_true_table_back():
    """With every place a cell of its own the estimated table is the process itself."""
    world = Simulator(Walk(), feature_names=["place"], actions=["stay", "right"])
    regions = []
    X = np.repeat(np.arange(4.0), 50)[:, None]
    label = (X[:, 0] + 1).astype(int)
    for place in range(4):
        found = divergence(X, np.where(label == place + 1, 1, 0), (Swap("right", "stay"),))
        regions.append(describe(found, world.actions, ("place",), has_features=True))
    cells = make_cells(regions, X, ("stay", "right"))
    assert len(cells.cells) == 4
    current = as_policy(lambda s: np.ones(len(s), dtype=int), n_actions=2)
    counts = count_cells(world, current, cells, episodes=4000, seed=0)
    table = played_table(world, counts, np.ones((4, 2), dtype=bool), world.actions, [c.name for c in cells.cells])
    stays = [table.transitions[[k * 2]].toarray()[0] for k in range(4)]
    for k, row in enumerate(stays):
        assert row[k] == pytest.approx(0.5, abs=0.05)
        assert row[5] == pytest.approx(0.5, abs=0.05)
    assert table.rewards[0, 0] == pytest.approx(1.0)
    assert table.transitions[[6 * 2 + 1]].toarray()[0][0] == 1.0  # the start leads to the first place
