"""The mixed-integer program: agreement where it is right, and the phantom cycle where the published one is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from benchmarks.frontier.program import best_by_program
from polidiff import improve
from polidiff.domains import navigation
from polidiff.errors import UnboundedReturnError
from polidiff.frontier.problem import build_problem
from polidiff.frontier.solve import Effort, solve_frontier
from polidiff.optimize import Program, solve
from polidiff.progress import Clock


def sparse_problem(n_states, n_actions, seed):
    """Random moves with a leak at every step; half of the current actions are random, half optimal for one step."""
    rng = np.random.default_rng(seed)
    moves = np.zeros((n_states * n_actions, n_states))
    for row in moves:
        targets = rng.choice(n_states, size=4, replace=False)
        row[targets] = rng.dirichlet(np.ones(4)) * rng.uniform(0.8, 0.95)
    rewards = rng.normal(size=(n_states, n_actions))
    base = np.where(rng.random(n_states) < 0.5, rewards.argmax(axis=1), rng.integers(0, n_actions, n_states))
    cost = (np.arange(n_actions)[None, :] != base[:, None]).astype(float)
    initial = rng.dirichlet(np.ones(n_states))
    return build_problem(sparse.csr_matrix(moves), rewards, cost, initial, np.ones_like(cost, dtype=bool), base)


@pytest.mark.parametrize("seed", range(3))
def test_branch_and_bound_and_the_program_agree_on_single_budgets(seed):
    problem = sparse_problem(12, 3, seed)
    top = solve_frontier(problem, Effort(), Clock()).changes[-1]
    for share in (0.2, 0.7):
        ours = solve_frontier(problem, Effort(), Clock(), share * top)
        theirs = best_by_program(problem, budget=share * top, start=ours.choices[0])
        assert theirs.returns == pytest.approx(ours.returns[-1], abs=1e-5)


def test_the_program_agrees_with_enumeration_where_every_policy_ends(tables):
    tried = 0
    for table, found in tables:
        problem = table.problem()
        if tried == 25 or not problem.always_ends or (problem.base < 0).any():
            continue
        tried += 1
        points = np.array(found.frontier())
        budget = float(points[:, 0].mean())
        best = points[points[:, 0] <= budget + 1e-9][-1]
        assert best_by_program(problem, budget=budget).returns == pytest.approx(best[1], abs=1e-5)
    assert tried == 25


def published_program(world, allowed, current, budget):
    """Equation by equation as published: one M for all, no word about cycles that no start feeds."""
    inside = np.flatnonzero(~world.absorbing)
    states, actions = np.nonzero(allowed[inside])
    rows = inside[states] * world.n_actions + actions
    count, size = len(rows), len(inside)
    pick = sparse.csr_array((np.ones(count), (states, np.arange(count))), shape=(size, count))
    flow = pick - sparse.csr_array(world.transitions[rows][:, inside]).T
    cost = (actions != current[inside][states]).astype(float)
    matrix = sparse.vstack(
        [
            sparse.hstack([flow, sparse.csr_array((size, count))]),
            sparse.hstack([sparse.csr_array((size, count)), pick]),
            sparse.hstack([sparse.eye_array(count), -2.0 * sparse.eye_array(count)]),
            sparse.hstack([sparse.csr_array(cost[None]), sparse.csr_array((1, count))]),
        ]
    )
    return Program.of(
        np.concatenate([world.rewards[inside[states], actions], np.zeros(count)]),
        matrix,
        row_low=np.concatenate([world.initial[inside], np.full(size + count + 1, -np.inf)]),
        row_high=np.concatenate([world.initial[inside], np.ones(size), np.zeros(count), [budget]]),
        high=np.concatenate([np.full(count, np.inf), np.ones(count)]),
        integer=np.concatenate([np.zeros(count), np.ones(count)]).astype(bool),
        maximise=True,
    )


def test_the_published_program_collects_reward_in_a_cycle_that_no_start_feeds(navigation_table):
    """With north offered in S_4 = (5,3) the walker could pace between (5,3) and (5,4), paid 7 at every return."""
    world, current, first, second = navigation_table
    allowed = np.zeros((51, 3), dtype=bool)
    for policy in (current, first, second):
        allowed[np.arange(51), policy] = True
    allowed[5 * 5 + 3, navigation.NORTH] = True
    answer = solve(published_program(world, allowed, current, 1.0))
    best = improve(world, current, [first, second], budget=1.0).best
    assert best.expected_return == pytest.approx(14.9885)
    assert answer.objective == pytest.approx(16.9885, abs=1e-6)
    visits = answer.values[: allowed[:50].sum()]
    states = np.nonzero(allowed[:50])[0]
    fed = reached_by(world, allowed, visits, states, world.initial[:50] > 0)
    assert visits[~fed[states]].sum() > 0.5


def reached_by(world, allowed, visits, states, start):
    """States that the positive visits lead to from the starts."""
    actions = np.nonzero(allowed[:50])[1]
    fed = start.copy()
    for _ in range(50):
        for s, a, x in zip(states, actions, visits, strict=True):
            if fed[s] and x > 1e-9:
                fed |= world.transitions[[s * 3 + a]].toarray()[0, :50] > 0
    return fed


def test_ours_names_the_loop_instead(navigation_table):
    world, current, first, second = navigation_table
    pacing = np.where(np.arange(51) == 28, navigation.NORTH, second)
    with pytest.raises(UnboundedReturnError, match="state 28"):
        improve(world, current, [first, second, pacing])
