"""Bisection of the price on sparse rows, against the dense methods and enumeration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from polidiff import improve
from polidiff.errors import InvalidOptionError, UnboundedReturnError
from polidiff.evaluation.exact import ExactEvaluator
from polidiff.frontier import setting as settings
from polidiff.frontier.hull import parametric_hull
from polidiff.frontier.large import solve_large
from polidiff.frontier.problem import build_problem
from polidiff.frontier.solve import Effort
from polidiff.frontier.sparse_solver import SparseSolver
from polidiff.progress import Clock
from polidiff.worlds.tabular import TabularMDP


def sparse_arrays(n_states, n_actions, seed):
    rng = np.random.default_rng(seed)
    count = n_states * n_actions
    share = rng.exponential(size=(count, 5))
    share *= (1.0 - rng.uniform(0.02, 0.2, size=count))[:, None] / share.sum(axis=1, keepdims=True)
    columns = rng.integers(0, n_states, size=(count, 5))
    moves = sparse.csr_matrix((share.ravel(), (np.repeat(np.arange(count), 5), columns.ravel())), (count, n_states))
    rewards = rng.normal(size=(n_states, n_actions))
    base = np.where(rng.random(n_states) < 0.5, rewards.argmax(axis=1), rng.integers(0, n_actions, n_states))
    return moves, rewards, base, rng.dirichlet(np.ones(n_states))


def sparse_problem(n_states, n_actions, seed):
    moves, rewards, base, initial = sparse_arrays(n_states, n_actions, seed)
    cost = (np.arange(n_actions)[None, :] != base[:, None]).astype(float)
    return build_problem(moves, rewards, cost, initial, np.ones_like(cost, dtype=bool), base)


def test_every_vertex_found_by_bisection_is_one_of_the_parametric_hull():
    problem = sparse_problem(120, 3, 0)
    hull = parametric_hull(problem)
    found = solve_large(problem, Effort(gap=0.0), Clock()).hull
    assert len(found.changes) == len(hull.changes)
    assert np.allclose(found.changes, hull.changes, atol=1e-7)
    assert np.allclose(found.returns, hull.returns, atol=1e-7)


@pytest.mark.parametrize(("gap", "part"), [(0.0, slice(60)), (0.2, slice(60, 120))])
def test_the_gap_and_the_bounds_hold_on_tables_with_loops(tables, gap, part):
    inside = 0
    for table, found in tables[part]:
        solved = solve_large(table.problem(), Effort(gap=gap), Clock())
        beaten = solved.returns[np.searchsorted(solved.changes, found.changes + 1e-6, side="right") - 1]
        assert (found.returns - beaten).max() <= solved.gap * solved.span + 1e-6
        for changes, value, bound in zip(solved.changes, solved.returns, solved.bounds, strict=True):
            best = found.returns[found.changes <= changes + 1e-6].max()
            assert value <= best + 1e-6
            assert best <= bound + 1e-6
        points = np.column_stack([found.changes, found.returns])
        for point in zip(solved.changes, solved.returns, strict=True):
            assert np.abs(points - point).max(axis=1).min() < 1e-6
        inside += len(solved.changes) - len(solved.hull.changes)
    assert inside > 0


@pytest.mark.parametrize("gap", [0.0, 0.3])
def test_the_bound_of_a_budget_holds_on_sparse_rows(tables, gap):
    for table, found in tables[120:180]:
        for share in (0.3, 0.7):
            budget = share * float(found.changes.max())
            solved = solve_large(table.problem(), Effort(gap=gap), Clock(), budget)
            best = found.returns[found.changes <= budget + 1e-9].max()
            assert solved.returns[-1] <= best + 1e-6
            assert best <= solved.bounds[-1] + 1e-6


def test_plans_inside_long_edges_bring_the_gap_below_that_of_the_hull():
    problem = sparse_problem(300, 4, 2)
    hull = parametric_hull(problem)
    longest = np.diff(hull.returns).max() / (hull.returns[-1] - hull.returns[0])
    solved = solve_large(problem, Effort(gap=longest / 2), Clock())
    assert len(solved.changes) > len(solved.hull.changes)
    assert solved.gap < 0.9 * longest


def test_a_loop_that_pays_for_ever_is_named_on_sparse_rows_too(unbounded_tables):
    for table in unbounded_tables:
        with pytest.raises(UnboundedReturnError, match="loop state"):
            solve_large(table.problem(), Effort(), Clock())


def test_a_large_table_is_certified_to_the_gap_asked_for():
    n_states, n_actions = 2000, 3
    moves, rewards, base, initial = sparse_arrays(n_states, n_actions, 1)
    ends = 1.0 - np.asarray(moves.sum(axis=1))
    wide = sparse.csr_array(sparse.hstack([moves, sparse.csr_matrix(ends)]))
    blank = sparse.csr_array((1, n_states + 1))
    stacked = [sparse.csr_array(sparse.vstack([wide[a::n_actions], blank])) for a in range(n_actions)]
    world = TabularMDP(
        stacked, np.vstack([rewards, np.zeros(n_actions)]), np.append(initial, 0.0), absorbing=[n_states]
    )
    frontier = improve(world, np.append(base, 0), gap=0.05)
    assert frontier.gap <= 0.05
    assert all(plan.proven for plan in frontier)
    heights = np.diff([plan.expected_return for plan in frontier])
    assert heights.max() <= 0.05 * (frontier.optimum - frontier[0].expected_return) + 1e-9
    one = improve(world, np.append(base, 0), budget=float(frontier.best.changes) / 3)
    assert one.best.expected_return >= frontier.at(float(frontier.best.changes) / 3).expected_return - 1e-9


@pytest.mark.parametrize(("option", "value"), [("max_states", 3), ("keep", "return>=current")])
def test_what_needs_dense_algebra_is_refused_on_a_large_table_in_one_line(option, value):
    count = 1600
    world = TabularMDP(
        [sparse.csr_array((np.ones(count), (np.arange(count), np.arange(1, count + 1))), (count + 1, count + 1))] * 2,
        np.zeros((count + 1, 2)),
        np.eye(count + 1)[0],
        absorbing=[count],
    )
    with pytest.raises(
        InvalidOptionError, match=rf"^{option}= works on tables of at most 1,500 .* has 1,600\. Hint: .*$"
    ):
        improve(world, np.zeros(count + 1, dtype=int), **{option: value})


@pytest.mark.parametrize("discount", [0.95, 1.0])
def test_the_optimum_without_a_price_is_that_of_policy_iteration_on_dense_rows(discount):
    problem = sparse_problem(300, 4, 7)
    scaled = replace(problem, transitions=discount * problem.transitions)
    choice, values = SparseSolver(scaled).optimum()
    dense = scaled.transitions.toarray()[choice]
    exact = np.linalg.solve(np.eye(scaled.n_states) - dense, scaled.reward[choice])
    np.testing.assert_allclose(values, exact, rtol=1e-8)
    ahead = scaled.reward + scaled.transitions @ exact
    best = np.maximum.reduceat(ahead, scaled.first[:-1])
    np.testing.assert_allclose(best, exact, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("discount", [0.9, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_plans_swept_one_after_the_other_are_those_of_direct_solves(seed, discount):
    """Half of the states are never reached, and plans may circle there for ever."""
    half, rng = 12, np.random.default_rng(seed)
    moves = np.zeros((2 * half + 1, 3, 2 * half + 1))
    moves[:half, :, :half] = 0.8 * rng.dirichlet(np.full(half, 0.3), (half, 3))
    moves[:half, :, -1] = 0.2
    moves[half:-1, 1:, half:-1] = rng.dirichlet(np.ones(half), (half, 2))
    moves[half:-1, 0, -1] = moves[-1, :, -1] = 1.0
    rewards, initial = rng.normal(size=moves.shape[:2]), np.arange(2 * half + 1) == 0
    world = TabularMDP(moves, rewards, initial, absorbing=[2 * half], discount=discount)
    setting = settings.prepare(world, np.zeros(2 * half + 1, dtype=int), None)
    plans = rng.integers(0, 3, size=(20, 2 * half + 1))
    swept = settings.evaluate_plans(setting, plans)
    for i, plan in enumerate(plans):
        visits = ExactEvaluator(world, np.eye(3)[plan]).visits()
        assert swept.returns[i] == pytest.approx(visits @ rewards[np.arange(2 * half + 1), plan], abs=1e-10)
        assert swept.changes[i] == pytest.approx(visits @ (plan != 0), abs=1e-10)
        np.testing.assert_array_equal(swept.actions[i, visits > 0], plan[visits > 0])
        assert not swept.actions[i, half:].any(), "what is not reached keeps the current action"
