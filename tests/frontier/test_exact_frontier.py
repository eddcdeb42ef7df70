"""Hull, local search and branch and bound against enumeration."""

from __future__ import annotations

import itertools
import time

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from polidiff.errors import UnboundedReturnError
from polidiff.frontier import solve
from polidiff.frontier.branch import Proof
from polidiff.frontier.local_search import changed_states
from polidiff.frontier.problem import build_problem
from polidiff.frontier.solve import Effort, solve_budgets, solve_frontier
from polidiff.frontier.staircase import Growing, empty_archive, new_archive
from polidiff.frontier.states import solve_states
from polidiff.frontier.visits import PolicyWalk, points_of
from polidiff.frontier.walk_kernels import rule_out
from polidiff.progress import Clock, listening

from .conftest import drawn_tables


def distinct(points):
    """Points (n, 2) without those that the next one equals but for rounding, which no tolerance orders for sure."""
    changes = points[:, 0]
    return points[np.append(np.diff(changes) > 1e-8 * (1.0 + changes[:-1]), True)]


def assert_same_points(solved, expected):
    found, every = distinct(np.column_stack([solved.changes, solved.returns])), distinct(np.array(expected))
    assert found.shape == every.shape
    assert np.allclose(found, every, atol=1e-7)


def test_the_frontier_of_500_random_tables_is_that_of_enumeration(tables):
    looping = 0
    for table, found in tables:
        problem = table.problem()
        solved = solve_frontier(problem, Effort(), Clock())
        expected = np.array(found.frontier())
        assert_same_points(solved, expected)
        assert all(solved.proven)
        assert solved.gap == 0
        looping += not problem.always_ends
    assert looping > 100


@pytest.mark.slow
def test_the_frontier_of_2000_more_tables_is_that_of_enumeration():
    """Whole frontiers, one budget each, and at most two changed states."""
    bounded = (pair for pair in drawn_tables(100_000) if not pair[1].unbounded)
    for table, policies in itertools.islice(bounded, 2_000):
        problem, points = table.problem(), np.array(policies.frontier())
        solved = solve_frontier(problem, Effort(), Clock())
        assert_same_points(solved, points)
        assert all(solved.proven)
        budget = float(points[-1, 0]) * 0.7
        within = points[points[:, 0] <= budget + 1e-9][-1]
        assert solve_frontier(problem, Effort(), Clock(), budget).returns[-1] == pytest.approx(within[1], abs=1e-7)
        few = (policies.policies != table.base).sum(axis=1) <= 2
        assert_same_points(solve_states(problem, 2, Effort(), Clock(), None), np.array(policies.frontier(few)))


def test_without_local_search_the_proof_still_finds_every_point(tables):
    for table, found in tables[:300]:
        solved = solve_frontier(table.problem(), Effort(expansions=0), Clock())
        assert_same_points(solved, found.frontier())
        assert all(solved.proven)


@pytest.mark.parametrize("expansions", [0, 100_000])
def test_every_single_budget_gives_the_best_affordable_plan(tables, expansions):
    for table, found in tables[:150]:
        points = np.array(found.frontier())
        problem = table.problem()
        for budget in (0.0, points[:, 0].mean(), points[-1, 0] * 0.37, points[-1, 0] * 0.8, points[-1, 0] + 1.0):
            solved = solve_frontier(problem, Effort(expansions=expansions), Clock(), budget)
            best = points[points[:, 0] <= budget + 1e-9][-1]
            assert solved.returns[-1] == pytest.approx(best[1], abs=1e-7)
            assert solved.changes[-1] == pytest.approx(best[0], abs=1e-7)
            assert all(solved.proven)


def test_no_plan_lies_above_the_hull_and_the_frontier_rises(tables):
    for table, found in tables[:100]:
        solved = solve_frontier(table.problem(), Effort(), Clock())
        assert (found.returns <= solved.hull.bound(found.changes) + 1e-7).all()
        assert (np.diff(solved.changes) > 0).all()
        assert (np.diff(solved.returns) > 0).all()


@pytest.mark.parametrize("nodes", [0, 1, 3])
def test_a_search_cut_short_gives_bounds_that_hold(tables, nodes):
    cut = 0
    for table, found in tables:
        solved = solve_frontier(table.problem(), Effort(nodes=nodes, expansions=0), Clock())
        for changes, bound in zip(solved.changes, solved.bounds, strict=True):
            assert found.returns[found.changes <= changes + 1e-9].max() <= bound + 1e-7
        beaten = solved.returns[np.searchsorted(solved.changes, found.changes + 1e-9, side="right") - 1]
        assert (found.returns - beaten).max() <= solved.gap * solved.span + 1e-7
        cut += solved.stopped
    assert cut > (100 if nodes == 0 else 20)


def test_a_loop_that_pays_for_ever_is_named(unbounded_tables):
    for table in unbounded_tables:
        with pytest.raises(UnboundedReturnError, match=r"loop state \d+ \(action \d\)"):
            solve_frontier(table.problem(), Effort(), Clock())


def test_among_equal_plans_the_one_with_fewest_changed_states_is_kept(tables):
    """No neighbour of a plan ties with it on fewer changed states; on most tables no policy at all does."""
    fewest = plans = 0
    for table, found in tables[:150]:
        problem = table.problem()
        solved = solve_frontier(problem, Effort(), Clock())
        sizes = (found.policies != table.base).sum(axis=1)
        for changes, value, choice in zip(solved.changes, solved.returns, solved.choices, strict=True):
            tied = (np.abs(found.changes - changes) < 1e-8) & (np.abs(found.returns - value) < 1e-8)
            plans += 1
            fewest += changed_states(problem, choice) == sizes[tied].min()
    assert fewest >= 0.97 * plans


def test_workers_do_not_change_the_answer():
    problem = leaking_problem(60, 2, 3)
    alone = solve_frontier(problem, Effort(), Clock())
    with joblib.parallel_config(backend="loky", n_jobs=2):
        together = solve_frontier(problem, Effort(), Clock())
    assert np.array_equal(alone.changes, together.changes)
    assert np.array_equal(alone.choices, together.choices)
    assert alone.nodes == together.nodes


def test_a_time_limit_is_kept_with_workers_and_the_bounds_hold():
    problem = leaking_problem(100, 4, 5)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        clock, began = Clock(1.0), time.process_time()
        solved = solve_frontier(problem, Effort(nodes=10**9), clock)
        assert time.process_time() - began < 60, "10⁹ nodes take hours: what ends in a minute was stopped by its clock"
    assert clock.stopped
    assert solved.stopped
    assert 0 < solved.gap < 1
    assert (solved.returns <= solved.bounds + 1e-9).all()
    assert (solved.bounds <= solved.hull.bound(solved.changes) + 1e-9).all()


def test_in_one_process_a_time_limit_shares_its_time_among_all_edges(monkeypatch):
    """One search looks at every edge: groups that follow each other would leave none of it to the last."""
    groups = []

    def prove(search, roots, clock, **limits):
        groups.append(roots)
        return Proof(search.plans.archive, [], 0)

    monkeypatch.setattr(solve, "branch_and_bound", prove)
    problem = leaking_problem(45, 3, 2)
    solved = solve_frontier(problem, Effort(), Clock(60.0))
    assert [len(roots) for roots in groups] == [len(solved.hull.changes) - 1]


@given(points=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1))
def test_points_that_join_one_by_one_leave_the_staircase_of_all(points):
    changes, returns = np.array(points, dtype=float).T
    every = np.arange(len(points))
    whole = new_archive(changes, returns, every[:, None])
    plans = Growing(empty_archive(changes, returns, every[:, None]))
    for change, value, policy in zip(changes, returns, every, strict=True):
        before = plans.archive
        assert plans.add(change, value, policy[None]) == before.improves(np.array([change]), np.array([value]))[0]
    archive = plans.archive
    assert np.array_equal(archive.changes, whole.changes)
    assert np.array_equal(archive.returns, whole.returns)
    assert np.array_equal(returns[archive.choices[:, 0]], whole.returns)


def test_many_budgets_give_what_each_gives_alone():
    problem = leaking_problem(25, 3, 1)
    budgets = [0.1, 0.4, 1.3, 50.0]
    together = solve_budgets(problem, budgets, Effort(), Clock())
    for budget, solved in zip(budgets, together, strict=True):
        alone = solve_frontier(problem, Effort(), Clock(), budget)
        assert solved.returns[-1] == pytest.approx(alone.returns[-1], abs=1e-9)
        assert solved.changes[-1] == pytest.approx(alone.changes[-1], abs=1e-9)
        assert all(solved.proven)


def test_the_gap_is_told_on_the_way_down():
    told: list[str] = []
    with listening(lambda what, share, remark: told.append(remark)):
        solve_frontier(leaking_problem(45, 3, 2), Effort(gap=1e-3), Clock())
    gaps = [float(remark.removeprefix("gap ").rstrip("%")) for remark in told if remark.startswith("gap ")]
    assert len(gaps) > 1
    assert gaps[-1] < gaps[0]


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_a_walk_keeps_visits_and_values_up_to_date(seed):
    problem = leaking_problem(30, 3, seed)
    rng = np.random.default_rng(seed)
    walk = PolicyWalk(problem, problem.base)
    for _ in range(20):
        walk.switch(int(rng.integers(problem.n_pairs)))
    fresh = PolicyWalk(problem, walk.choice)
    assert np.allclose(walk.inverse, fresh.inverse, atol=1e-9)
    assert np.allclose(walk.values, fresh.values, atol=1e-9)


@given(seed=st.integers(0, 10**6), price=st.floats(0.0, 3.0), excess=st.floats(1e-3, 1.0))
@settings(max_examples=40, deadline=None)
def test_no_policy_within_the_excess_of_the_best_takes_a_pair_that_is_ruled_out(seed, price, excess):
    problem = leaking_problem(6, 3, seed)
    rng = np.random.default_rng(seed)
    offered = rng.random(problem.n_pairs) < 0.8
    offered[problem.first[:-1] + rng.integers(0, 3, problem.n_states)] = True
    walk = PolicyWalk(problem, problem.first[:-1] + [int(row.argmax()) for row in offered.reshape(-1, 3)])
    walk.optimise(offered, price)
    active = offered.copy()
    rule_out(walk.arrays, walk.rows, problem.state, problem.first, problem.initial, active, price, excess)
    every = np.array(list(itertools.product(*(np.flatnonzero(offered & (problem.state == s)) for s in range(6)))))
    changes, returns = points_of(problem, every)[:2]
    best, worth = walk.point() @ [-price, 1.0], returns - price * changes
    assert worth.max() == pytest.approx(best)
    assert active[every[worth > best - excess + 1e-9]].all()


def leaking_problem(n_states, n_actions, seed):
    rng = np.random.default_rng(seed)
    moves = np.zeros((n_states * n_actions, n_states))
    for row in moves:
        row[rng.choice(n_states, size=4, replace=False)] = rng.dirichlet(np.ones(4)) * rng.uniform(0.7, 0.9)
    rewards = rng.normal(size=(n_states, n_actions))
    base = rng.integers(0, n_actions, n_states)
    cost = (np.arange(n_actions)[None, :] != base[:, None]).astype(float)
    initial = np.full(n_states, 1.0 / n_states)
    return build_problem(sparse.csr_matrix(moves), rewards, cost, initial, cost >= 0, base)
