"""Sweeps, margins and policy iteration on compiled rows, against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from polidiff.frontier import sparse_solver
from polidiff.frontier.problem import build_problem
from polidiff.frontier.sparse_solver import Margins, SparseRows, SparseSolver, SweptVisits


def ragged_problem(seed, n_states=60):
    """Rows of one to six moves; one to four pairs per state."""
    rng = np.random.default_rng(seed)
    moves = np.zeros((n_states * 4, n_states))
    for row in moves:
        targets = rng.choice(n_states, size=int(rng.integers(1, 7)), replace=False)
        row[targets] = rng.dirichlet(np.ones(len(targets))) * 0.95
    base = rng.integers(0, 4, n_states)
    allowed = rng.random((n_states, 4)) < 0.6
    allowed[np.arange(n_states), base] = True
    rewards = rng.normal(size=(n_states, 4))
    cost = (np.arange(4)[None, :] != base[:, None]).astype(float)
    return build_problem(sparse.csr_matrix(moves), rewards, cost, np.full(n_states, 1 / n_states), allowed, base)


def exact(problem, choice):
    return np.linalg.solve(np.eye(problem.n_states) - problem.dense[choice], problem.reward[choice])


@pytest.mark.parametrize("pairs", [sparse_solver.PAIRS_OF_SWEEPS, 0])
@pytest.mark.parametrize("seed", range(5))
def test_values_of_policies_followed_one_after_the_other_are_those_of_a_dense_solve(seed, pairs, monkeypatch):
    monkeypatch.setattr(sparse_solver, "PAIRS_OF_SWEEPS", pairs)
    problem, rng = ragged_problem(seed), np.random.default_rng(seed)
    rows, values = SparseRows(problem.transitions, problem.first), np.zeros(problem.n_states)
    for _ in range(4):
        choice = rng.integers(problem.first[:-1], problem.first[1:])
        rows.follow(choice)
        rows.settle(problem.reward[choice], values, 1e-12)
        np.testing.assert_allclose(values, exact(problem, choice), atol=1e-9)
        np.testing.assert_array_equal(rows.moves().toarray(), problem.dense[choice])


@pytest.mark.parametrize("pairs", [sparse_solver.PAIRS_OF_SWEEPS, 0])
@pytest.mark.parametrize("seed", range(5))
def test_visits_are_those_of_a_dense_solve_from_whatever_they_are_swept(seed, pairs, monkeypatch):
    monkeypatch.setattr(sparse_solver, "PAIRS_OF_SWEEPS", pairs)
    problem, rng = ragged_problem(seed), np.random.default_rng(seed)
    initial = np.where(np.arange(60) < 2, 0.5, 0.0)
    swept = SweptVisits(problem.transitions, initial)
    for size in (0.0, 1.0, 1e9):
        choice = rng.integers(problem.first[:-1], problem.first[1:])
        expected = np.linalg.solve(np.eye(60) - problem.dense[choice].T, initial)
        reached, visits = swept.of(choice, size * rng.normal(size=60))
        np.testing.assert_array_equal(reached, expected > 1e-12)
        np.testing.assert_allclose(visits, expected, atol=1e-10)


def test_visits_of_episodes_of_100_000_steps_miss_no_digit_that_a_gain_needs():
    """States 0 and 1 lead to each other and end once in 100,000 steps: half of the visits each."""
    leak, rows = 1e-5, sparse.csr_array(np.array([[0.0, 1 - 1e-5], [1 - 1e-5, 0.0]]))
    _, visits = SweptVisits(rows, np.array([0.5, 0.5])).of(np.arange(2), np.array([0.5 / leak, 0.5 / leak]) + 1e-3)
    np.testing.assert_allclose(visits, 0.5 / leak, rtol=2e-11)


def test_a_chain_that_is_slow_to_sweep_forwards_is_swept_back_as_well():
    count = 400
    chain = sparse.csr_matrix((np.ones(count - 1), (np.arange(count - 1), np.arange(1, count))), (count, count))
    rows, values = SparseRows(chain, np.arange(count + 1)), np.zeros(count)
    rows.follow(np.arange(count))
    rows.settle(np.ones(count), values, 1e-12)
    assert rows.back
    np.testing.assert_allclose(values, np.arange(count, 0, -1), atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_a_state_whose_margin_lasts_has_no_better_pair(seed):
    problem, rng = ragged_problem(seed), np.random.default_rng(seed)
    rows, margins = SparseRows(problem.transitions, problem.first), Margins(problem.n_states)
    values, lasting = rng.normal(size=problem.n_states), 0
    rows.follow(problem.base)
    for size in (0.3, 0.1, 0.03, 0.01):
        better, _ = rows.improve(problem.reward, values, margins, 1e-9, sweeping=False)
        rows.follow(rows.choice if better is None else better)
        before = values.copy()
        values += size * rng.normal(size=problem.n_states)
        margins.moved(before, values, rows.mass)
        quality = problem.reward + problem.dense @ values
        best = np.maximum.reduceat(quality, problem.first[:-1])
        lasts = margins.expiry > margins.drift
        assert (quality[rows.choice][lasts] >= best[lasts] - 1e-9).all()
        lasting += int((lasts & (np.diff(problem.first) > 1)).sum())
    assert lasting > 0


def test_the_optimum_of_ragged_rows_leaves_no_gain():
    for seed in range(5):
        problem = ragged_problem(seed)
        choice, values = SparseSolver(problem).optimum()
        np.testing.assert_allclose(values, exact(problem, choice), atol=1e-8)
        best = np.maximum.reduceat(problem.reward + problem.dense @ values, problem.first[:-1])
        np.testing.assert_allclose(best, values, atol=1e-6)


def test_vertices_take_a_byte_per_state():
    problem = ragged_problem(1)
    vertex = SparseSolver(problem).cheapest()
    assert vertex.ranks.dtype == np.uint8
    np.testing.assert_array_equal(SparseSolver(problem).choice(vertex), problem.base)
