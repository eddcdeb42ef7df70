"""Plans that keep other outcomes within limits, against enumeration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polidiff import Outcome, TabularMDP, improve
from polidiff.domains import chain
from polidiff.errors import InfeasibleError
from polidiff.frontier import guarded as guarded_plans
from polidiff.frontier.guarded import solve_guarded
from polidiff.frontier.milp import best_within
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.solve import Effort
from polidiff.optimize import Clock


def assert_same_points(solved, expected):
    assert len(solved.changes) == len(expected)
    assert np.allclose(np.column_stack([solved.changes, solved.returns]), expected, atol=1e-7)


def guarded(table, found, seed) -> tuple[FrontierProblem, np.ndarray]:
    """The problem with a random guard that some plan keeps, and which enumerated policies keep it."""
    rng = np.random.default_rng(seed)
    gains = rng.normal(size=table.rewards.shape)
    rows = np.arange(len(table.base))
    sums = (found.visits * gains[rows, found.policies]).sum(axis=1)
    limit = float(np.quantile(sums, rng.uniform(0.05, 0.6))) + 1e-7
    problem = table.problem()
    pairs = gains[problem.names[problem.state], problem.action]
    return replace(problem, guards=pairs[None], limits=np.array([limit])), sums <= limit


@pytest.fixture(params=["every policy", "branch and bound"])
def method(request, monkeypatch):
    """Small tables are enumerated; others go to branch and bound, which must find the same."""
    if request.param == "branch and bound":
        monkeypatch.setattr(guarded_plans, "EVERY_POLICY", 0)
    return request.param


@pytest.mark.usefixtures("method")
def test_guarded_frontiers_of_random_tables_are_those_of_enumeration(tables):
    for seed, (table, found) in enumerate(tables[:80]):
        problem, keeps = guarded(table, found, seed)
        solved = solve_guarded(problem, ("g<=1",), Effort(), Clock(), None)
        expected = np.array(found.frontier(keeps))
        assert_same_points(solved, expected)
        assert all(solved.proven)


@pytest.mark.usefixtures("method")
def test_guarded_budgets_of_random_tables_are_those_of_enumeration(tables):
    for seed, (table, found) in enumerate(tables[120:180]):
        problem, keeps = guarded(table, found, seed)
        points = np.array(found.frontier(keeps))
        budget = float(points[:, 0].mean())
        solved = solve_guarded(problem, ("g<=1",), Effort(), Clock(), budget)
        best = points[points[:, 0] <= budget + 1e-9][-1]
        assert (solved.changes[-1], solved.returns[-1]) == pytest.approx(tuple(best), abs=1e-7)


def test_the_relaxation_over_mixed_policies_finds_the_best_guarded_plan_within_a_budget(tables):
    proven = better = 0
    for seed, (table, found) in enumerate(tables[:120]):
        problem, keeps = guarded(table, found, seed)
        points = np.array(found.frontier(keeps))
        budget = float(points[:, 0].mean())
        best = points[points[:, 0] <= budget + 1e-9][-1]
        base = problem.ending_choice(problem.base)
        answer = best_within(problem, budget, base, -1e6, Clock())
        assert answer.bound >= best[1] - 1e-7
        assert answer.returns <= best[1] + 1e-7
        proven += answer.bound <= best[1] + 1e-6 and answer.returns == pytest.approx(best[1], abs=1e-7)
        better += len(points) > 1
    assert proven > 100
    assert better > 50


def test_a_guard_that_nobody_keeps_is_named():
    with pytest.raises(InfeasibleError, match=r"'trajectory length<=1'.*4\.36"):
        improve(chain.world(), chain.current(), keep="trajectory length<=1")


def test_guards_relative_to_the_current_policy_rule_out_longer_trajectories():
    frontier = improve(chain.world(), chain.current(), keep="trajectory length<=current+0.2", unit="total")
    assert [plan.changes for plan in frontier] == pytest.approx([0, 2])
    floor = improve(chain.world(), chain.current(), keep="return>=current+1", unit="total")
    assert [plan.changes for plan in floor] == pytest.approx([6, 8])
    assert [plan.changes for plan in floor.plans] == pytest.approx([0, 6, 8])  # the current policy to compare with


def test_a_guard_that_binds_only_within_the_budget_is_named():
    with pytest.raises(InfeasibleError, match="return>=current"):
        improve(chain.world(), chain.current(), keep="return>=current+1", unit="total", budget=3)


def test_a_long_line_with_two_decisions_is_solved_whatever_numpy_can_count():
    states, free = 80, (3, 40)
    moves, allowed = np.zeros((states, 2, states)), np.ones((states, 2), dtype=bool)
    for state in range(states - 1):
        moves[state, :, state + 1] = 1.0
        allowed[state, 1] = state in free
    rewards = np.zeros((states, 2))
    rewards[list(free), 1] = 1.0
    world = TabularMDP(
        moves, rewards, np.eye(states)[0], absorbing=np.arange(states) == states - 1, allowed=allowed,
        outcomes=[Outcome("pain", np.where(np.arange(states) == 40, 1.0, 0.0)[:, None] * np.array([0.0, 1.0]))],
    )  # fmt: skip
    frontier = improve(world, np.zeros(states, dtype=int), keep=["pain<=current"])
    assert [(plan.changes, plan.expected_return) for plan in frontier] == [(0, 0), (1, 1)]
