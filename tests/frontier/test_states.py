"""Plans that change at most so many states, against enumeration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polidiff.domains import chain
from polidiff.errors import InfeasibleError
from polidiff.frontier import improve_table
from polidiff.frontier.clock import Clock
from polidiff.frontier.solve import Effort
from polidiff.frontier.states import solve_states


def assert_same_points(solved, expected):
    assert len(solved.changes) == len(expected)
    assert np.allclose(np.column_stack([solved.changes, solved.returns]), expected, atol=1e-7)


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_frontiers_with_few_changed_states_are_those_of_enumeration(tables, most):
    for table, found in tables[30 * most : 30 * most + 30]:
        few = (found.policies != table.base).sum(axis=1) <= most
        solved = solve_states(table.problem(), most, Effort(), Clock(), None)
        expected = np.array(found.frontier(few))
        assert_same_points(solved, expected)
        assert all(solved.proven)


def test_budgets_with_few_changed_states_are_those_of_enumeration(tables):
    for table, found in tables[200:260]:
        few = (found.policies != table.base).sum(axis=1) <= 2
        points = np.array(found.frontier(few))
        budget = float(points[:, 0].mean())
        solved = solve_states(table.problem(), 2, Effort(), Clock(), budget)
        best = points[points[:, 0] <= budget + 1e-9][-1]
        assert (solved.changes[-1], solved.returns[-1]) == pytest.approx(tuple(best), abs=1e-7)


def test_the_chain_with_one_changed_state_has_three_plans():
    frontier = improve_table(chain.world(), chain.current(), unit="total", max_states=1)
    assert [plan.changes for plan in frontier] == pytest.approx([0, 2, 6])
    assert [[edit.states for edit in plan.patch.edits] for plan in frontier] == [[], [(1,)], [(5,)]]
    assert all(plan.proven for plan in frontier)


def test_few_changed_states_under_a_guard_are_those_of_enumeration(tables):
    for seed, (table, found) in enumerate(tables[260:320]):
        gains = np.random.default_rng(seed).normal(size=table.rewards.shape)
        sums = (found.visits * gains[np.arange(len(table.base)), found.policies]).sum(axis=1)
        limit = float(np.median(sums)) + 1e-7
        problem = table.problem()
        problem = replace(
            problem, guards=gains[problem.names[problem.state], problem.action][None], limits=np.array([limit])
        )
        fits = ((found.policies != table.base).sum(axis=1) <= 2) & (sums <= limit)
        if not fits.any():
            with pytest.raises(InfeasibleError, match="at most 2 states keeps 'g<=1'"):
                solve_states(problem, 2, Effort(), Clock(), None, ("g<=1",))
            continue
        solved = solve_states(problem, 2, Effort(), Clock(), None, ("g<=1",))
        assert_same_points(solved, found.frontier(fits))


def test_a_search_cut_short_gives_a_bound_that_holds(tables):
    for table, found in tables[320:360]:
        few = (found.policies != table.base).sum(axis=1) <= 3
        solved = solve_states(table.problem(), 3, Effort(nodes=1), Clock(), None)
        for changes, bound in zip(solved.changes, solved.bounds, strict=True):
            assert found.returns[few & (found.changes <= changes + 1e-9)].max() <= bound + 1e-7
