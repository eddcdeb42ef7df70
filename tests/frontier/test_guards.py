"""Plans that keep other outcomes within limits, against enumeration."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from polidiff import Outcome, TabularMDP, improve
from polidiff.domains import chain
from polidiff.errors import InfeasibleError
from polidiff.frontier.guarded import solve_guarded
from polidiff.frontier.problem import FrontierProblem, build_problem
from polidiff.frontier.solve import Effort
from polidiff.progress import Clock


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


def test_guarded_frontiers_of_random_tables_are_those_of_enumeration(tables):
    for seed, (table, found) in enumerate(tables[:80]):
        problem, keeps = guarded(table, found, seed)
        solved = solve_guarded(problem, ("g<=1",), Effort(), Clock(), None)
        expected = np.array(found.frontier(keeps))
        assert_same_points(solved, expected)
        assert all(solved.proven)


def test_guarded_budgets_of_random_tables_are_those_of_enumeration(tables):
    for seed, (table, found) in enumerate(tables[120:180]):
        problem, keeps = guarded(table, found, seed)
        points = np.array(found.frontier(keeps))
        budget = float(points[:, 0].mean())
        solved = solve_guarded(problem, ("g<=1",), Effort(), Clock(), budget)
        best = points[points[:, 0] <= budget + 1e-9][-1]
        assert (solved.changes[-1], solved.returns[-1]) == pytest.approx(tuple(best), abs=1e-7)


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("within", [False, True])
def test_a_guarded_search_cut_short_gives_bounds_that_hold(tables, nodes, within):
    cut = 0
    for seed, (table, found) in enumerate(tables[:120]):
        problem, keeps = guarded(table, found, seed)
        points = np.array(found.frontier(keeps))
        budget = float(points[:, 0].mean()) if within else None
        with suppress(InfeasibleError):  # none was found so soon
            solved = solve_guarded(problem, ("g<=1",), Effort(nodes=nodes, expansions=0), Clock(), budget)
            reach = solved.changes if budget is None else [*solved.changes[:-1], budget]
            for changes, bound in zip(reach, solved.bounds, strict=True):
                kept = found.returns[keeps & (found.changes <= changes + 1e-9)]
                assert kept.max(initial=-np.inf) <= bound + 1e-7
            cut += solved.stopped
    assert cut > 20


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


def test_a_pair_that_is_ruled_out_and_taken_by_a_rounding_error_is_not_split_for_ever():
    """The linear program took it 1e-9 times, and its state, with one pair left, was split into itself."""
    moves = np.array([[[0.0, 0.5], [0.125, 0.25]], [[0.0, 0.5], [0.125, 0.25]]])
    rewards, gains = np.array([[-10.0 / 7.0, 0.0], [0.0, 10.0 / 7.0]]), np.array([[0.0, 0.0], [0.0, 1.0]])
    problem = build_problem(
        sparse.csr_matrix(moves.reshape(4, 2)), rewards, np.array([[1.0, 0.0], [0.0, 0.5]]),
        np.array([0.4, 0.6]), np.ones((2, 2), dtype=bool), np.array([1, 0]),
        guards=gains[None], limits=np.zeros(1),
    )  # fmt: skip
    solved = solve_guarded(problem, ("g<=0",), Effort(nodes=100), Clock(), 0.1)
    assert solved.returns.tolist() == [0.0]
    assert all(solved.proven)
    assert solved.nodes < 20
