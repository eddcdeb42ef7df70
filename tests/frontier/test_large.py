"""Bisection of the price on sparse rows, against the dense methods and enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from polidiff.errors import UnboundedReturnError
from polidiff.frontier import improve_table
from polidiff.frontier.clock import Clock
from polidiff.frontier.hull import parametric_hull
from polidiff.frontier.large import solve_large
from polidiff.frontier.problem import build_problem
from polidiff.frontier.solve import Effort
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
    found = solve_large(problem, Effort(gap=0.0), Clock())
    assert len(found.changes) == len(hull.changes)
    assert np.allclose(found.changes, hull.changes, atol=1e-7)
    assert np.allclose(found.returns, hull.returns, atol=1e-7)


def test_the_gap_holds_on_tables_with_loops(tables):
    for table, found in tables[:120]:
        solved = solve_large(table.problem(), Effort(gap=0.0), Clock())
        beaten = solved.returns[np.searchsorted(solved.changes, found.changes + 1e-6, side="right") - 1]
        assert (found.returns - beaten).max() <= solved.gap * solved.span + 1e-6
        for changes, value in zip(solved.changes, solved.returns, strict=True):
            assert found.returns[found.changes <= changes + 1e-6].max() == pytest.approx(value, abs=1e-6)


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
    frontier = improve_table(world, np.append(base, 0), gap=0.05)
    assert frontier.gap <= 0.05
    assert all(plan.proven for plan in frontier)
    heights = np.diff([plan.expected_return for plan in frontier])
    assert heights.max() <= 0.05 * (frontier.optimum - frontier[0].expected_return) + 1e-9
    one = improve_table(world, np.append(base, 0), budget=float(frontier.best.changes) / 3)
    assert one.best.expected_return >= frontier.at(float(frontier.best.changes) / 3).expected_return - 1e-9
