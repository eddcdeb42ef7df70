"""Plans that change at most so many states, against enumeration."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from polidiff import improve
from polidiff.domains import chain
from polidiff.errors import InfeasibleError
from polidiff.frontier import states
from polidiff.frontier.kernels import best_pair
from polidiff.frontier.problem import build_problem
from polidiff.frontier.solve import Effort
from polidiff.frontier.states import solve_states
from polidiff.frontier.visits import fundamental, points_of
from polidiff.progress import Clock


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
    frontier = improve(chain.world(), chain.current(), unit="total", max_states=1)
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


def ending_problem(seed, n_states, n_actions):
    """A table where every policy ends and changes help each other."""
    rng = np.random.default_rng(seed)
    moves = np.zeros((n_states * n_actions, n_states))
    for row in moves:
        targets = rng.choice(n_states, size=3, replace=False)
        row[targets] = rng.dirichlet(np.ones(3)) * rng.uniform(0.8, 0.98)
    base = rng.integers(0, n_actions, n_states)
    rewards = rng.normal(size=(n_states, n_actions))
    cost = (np.arange(n_actions)[None, :] != base[:, None]).astype(float)
    initial = np.zeros(n_states)
    initial[:2] = 0.5
    allowed = np.ones((n_states, n_actions), dtype=bool)
    return build_problem(sparse.csr_matrix(moves), rewards, cost, initial, allowed, base)


def best_by_enumeration(problem, most):
    """The largest return over all sets of at most so many changes."""
    best = float(points_of(problem, problem.base[None])[1, 0])
    for size in range(1, most + 1):
        for changed in itertools.combinations(range(problem.n_states), size):
            options = [np.setdiff1d(np.arange(*problem.first[s : s + 2]), problem.base[s]) for s in changed]
            picks = np.array(list(itertools.product(*options)))
            choices = np.repeat(problem.base[None], len(picks), axis=0)
            choices[:, changed] = picks
            best = max(best, float(points_of(problem, choices)[1].max()))
    return best


@pytest.mark.parametrize("beam", [states.BEAM, 1])
@pytest.mark.parametrize("most", [1, 2, 3, 4, 5])
def test_the_largest_return_with_few_changed_states_is_that_of_trying_every_set(most, beam, monkeypatch):
    monkeypatch.setattr(states, "BEAM", beam)  # with a poor start, the search has to find it
    for seed in range(4):
        problem = ending_problem(seed, 10, 3)
        solved = solve_states(problem, most, Effort(), Clock(), 1e9)
        assert solved.returns[-1] == pytest.approx(best_by_enumeration(problem, most), abs=1e-8)
        assert solved.proven[-1]


def test_what_two_more_changes_gain_in_closed_form_is_what_solving_again_gives():
    problem = ending_problem(9, 8, 3)
    inverse = fundamental(problem, problem.base[None])[0]
    values, visits = inverse @ problem.reward[problem.base], problem.initial @ inverse
    effect = problem.dense @ inverse
    effect -= effect[problem.base[problem.state]]
    advantage = problem.reward + problem.dense @ values - values[problem.state]
    pairs = np.flatnonzero(np.arange(problem.n_pairs) != problem.base[problem.state])
    gain, one, two = best_pair(effect, advantage, visits, pairs, problem.state)
    choice = problem.base.copy()
    choice[problem.state[[one, two]]] = one, two
    start, after = (float(points_of(problem, c[None])[1, 0]) for c in (problem.base, choice))
    assert gain == pytest.approx(after - start)
    assert start + gain == pytest.approx(best_by_enumeration(problem, 2))
