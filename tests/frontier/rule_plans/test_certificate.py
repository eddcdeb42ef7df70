"""Bounds hold for every list, and the branch and bound finds what it proves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from polidiff import Outcome, TabularMDP, improve
from polidiff.evaluation.exact import ExactEvaluator, policy_table
from polidiff.frontier.rule_plans.certificate import (
    any_states,
    branch_and_bound,
)
from polidiff.frontier.rule_plans.every_list import best_lists
from polidiff.frontier.rule_plans.lists import Problem
from polidiff.frontier.rule_plans.model import choice_model
from polidiff.frontier.rule_plans.moves import resolve_moves
from polidiff.frontier.rule_plans.search import landmarks
from polidiff.frontier.setting import Limit
from polidiff.progress import Clock
from polidiff.rules.cell_grid import grid_of_states

from .conftest import planned_with_rules, random_grid, some_policy


def problem_of(seed, side=4, **options):
    world = random_grid(seed, side=side, allow=0.8)
    moves = resolve_moves(world, policy_table(world, some_policy(world, seed)), "actions")
    cells = grid_of_states(world.features, world.feature_names, ~world.absorbing, np.ones(world.n_states))
    return Problem.of(moves, cells, choice_model(world, moves), options.get("conditions", 2), options.get("literals"))


def random_rule(problem, rng):
    box = []
    for column, size in enumerate(problem.cells.sizes):
        first, last = sorted(rng.integers(0, size, size=2))
        if (first, last) != (0, size - 1):
            box.append((column, int(first), int(last)))
    return int(rng.integers(len(problem.row))), tuple(box)


@pytest.mark.parametrize("seed", range(4))
def test_no_list_exceeds_its_bounds(seed):
    problem = problem_of(seed)
    marks = landmarks(problem)
    rng = np.random.default_rng(seed)
    free = [any_states(problem, marks, k, most=100, clock=Clock())[0] for k in (1, 2)]
    assert free[0] <= free[1] <= marks.ceiling + 1e-9
    for _ in range(200):
        one, two = random_rule(problem, rng), random_rule(problem, rng)
        assert problem.value((one,))[0] <= free[0] + 1e-9
        assert problem.value((one, two))[0] <= free[1] + 1e-9


@pytest.mark.parametrize("rules", [1, 2])
def test_a_cut_off_proof_still_bounds_what_a_full_one_finds(rules):
    problem = problem_of(1, side=3)
    marks = landmarks(problem)
    full = branch_and_bound(problem, marks, marks.current, rules, gap=0.0, nodes=50_000, clock=Clock())
    assert full.value == pytest.approx(full.best.expected_return, abs=1e-8 * marks.span)
    cut = branch_and_bound(problem, marks, marks.current, rules, gap=0.0, nodes=5, clock=Clock())
    assert cut.value >= full.best.expected_return - 1e-9
    assert cut.nodes < full.nodes


def test_a_bound_on_cuts_is_told_apart_where_a_feature_has_more_values():
    world, limits = random_grid(3, side=5), {"max_rules": 1, "max_conditions": 2, "gap": 0.0}
    tenths = np.random.default_rng(0).random(world.features.shape) / 10 + world.features
    from .test_improve_with_rules import rebuilt

    uneven = rebuilt(world, features=tenths)
    current = some_policy(world, 3)
    weight = np.ones(uneven.n_states)
    coarse = grid_of_states(tenths, uneven.feature_names, ~uneven.absorbing, weight, cuts=2)
    plan = planned_with_rules(uneven, current, grid=coarse, **limits).best
    finer = planned_with_rules(uneven, current, **limits).best
    assert finer.expected_return > plan.expected_return, "a rule off the three cuts does better"
    assert plan.bound >= finer.expected_return, "and the bound of the coarse plan says so"


@pytest.mark.parametrize(
    ("seed", "limits"),
    [*((seed, {}) for seed in range(3)), (3, {"literals": 1}), (4, {"literals": 2}), (5, {"literals": 3}),
     (6, {"conditions": 1}), (7, {"literals": 3, "conditions": 1})],
)  # fmt: skip
def test_the_best_of_all_lists_is_what_branch_and_bound_proves(seed, limits):
    problem = problem_of(seed, side=3, **limits)
    marks = landmarks(problem)
    every = best_lists(problem, 2, Clock())
    assert every[0].rules == ()
    for rules in (1, 2):
        proven = branch_and_bound(problem, marks, marks.current, rules, gap=0.0, nodes=50_000, clock=Clock())
        assert every[rules].expected_return == pytest.approx(proven.best.expected_return, abs=1e-8)
        assert proven.value == pytest.approx(every[rules].expected_return, abs=1e-8 * max(1.0, marks.span))
        assert problem.value(every[rules].rules)[0] == pytest.approx(every[rules].expected_return, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_guarded_list_is_that_of_trying_all(seed):
    world = random_grid(seed, side=3, allow=0.8)
    current = policy_table(world, some_policy(world, seed))
    gains = np.random.default_rng(seed).random((world.n_states, world.n_actions))
    moves = resolve_moves(world, current, "actions")
    cells = grid_of_states(world.features, world.feature_names, ~world.absorbing, np.ones(world.n_states))
    visits = ExactEvaluator(world, current).visits()
    limit = Limit("g<=current", gains, float(visits @ (current * gains).sum(axis=1)))
    problem = Problem.of(moves, cells, choice_model(world, moves, [gains]), 2, 3, [limit.most])
    ranges = [
        [None, *((c, a, b) for a in range(s) for b in range(a, s) if b - a < s - 1)] for c, s in enumerate(cells.sizes)
    ]
    boxes = [tuple(part for part in box if part) for box in itertools.product(*ranges)]
    rules = [(move, box) for move in range(len(problem.row)) for box in boxes if len(box) <= 2]
    lists = [(), *((one,) for one in rules), *itertools.product(rules[::3], rules)]
    scores = [problem.score(one).expected_return for one in lists if problem.admits(one)]
    every = best_lists(problem, 2, Clock())
    single = [problem.score((one,)).expected_return for one in rules if problem.admits((one,))]
    assert every[1].expected_return == pytest.approx(max([*single, every[0].expected_return]), abs=1e-9)
    assert every[2].expected_return >= max(scores) - 1e-9
    assert problem.admits(every[2].rules)
    assert problem.keeps(problem.value(every[2].rules))


def test_a_rule_may_cut_between_any_two_of_a_hundred_whole_numbers():
    seldom = np.where(np.arange(102) < 50, 1e-9, 1.0)
    cells = grid_of_states(np.arange(102.0)[:, None], ("stock",), np.arange(102) < 101, seldom)
    assert cells.complete
    assert cells.covers(((0, 3, 3),))[:101].nonzero()[0].tolist() == [3]


def test_all_guarded_lists_of_three_rules_over_four_measurements_are_tried():
    """Six states that differ in everything: their boxes are few as sets of states, however many they are as ranges."""
    rng = np.random.default_rng(1)
    moves, features = rng.dirichlet(np.ones(7), size=(7, 2)), rng.normal(size=(7, 4))
    rewards, units, base = rng.normal(size=(7, 2)), rng.normal(size=(7, 2)), rng.integers(0, 2, 7)
    starts = np.append(np.full(6, 1 / 6), 0.0)
    world = TabularMDP(
        moves, rewards, starts, absorbing=[6], features=features, outcomes=[Outcome("units", units)], discount=0.9
    )
    best = improve(world, base, max_rules=3, keep="units<=current").best
    order = np.sort(features[:6], axis=0)
    sides = {
        tuple((low <= column) & (column <= high))
        for column, sorted_ in zip(features[:6].T, order.T, strict=True)
        for low, high in itertools.combinations_with_replacement(sorted_, 2)
    }
    boxes = sides
    for _ in range(2):
        boxes = {tuple(np.logical_and(*pair)) for pair in itertools.product(boxes, sides)}
    plans = {tuple(base[:6])}
    for _ in range(3):
        plans |= {
            tuple(np.where(box, action, plan))
            for plan, box in itertools.product(plans, boxes)
            for action in (base[:6], 0, 1)
        }
    sums = []
    for plan in (base[:6], *plans):
        at = np.arange(6), np.array(plan)
        visits = np.linalg.solve(np.eye(6) - 0.9 * moves[at][:, :6].T, starts[:6])
        sums.append((visits @ rewards[at], visits @ units[at]))
    returns, kept = np.array(sums).T
    assert best.proven
    assert best.expected_return == pytest.approx(returns[kept <= kept[0] + 1e-9].max(), abs=1e-9)
