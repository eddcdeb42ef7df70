"""`improve` on small tables, all options mixed, against every deterministic policy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from polidiff import Outcome, TabularMDP, improve
from polidiff.errors import PolidiffError

from .conftest import closure, forward


def drawn(seed):
    """A table of 2 to 5 deciding states, the chances of a current policy (S, A), and options."""
    rng = np.random.default_rng(seed)
    n_states, n_actions = int(rng.integers(3, 7)), int(rng.integers(2, 4))
    moves = np.zeros((n_states, n_actions, n_states))
    for row in moves.reshape(-1, n_states):
        into = rng.choice(n_states, size=int(rng.integers(1, 4)), replace=False)
        row[into] = rng.dirichlet(np.ones(len(into)))
    base, starts = rng.integers(0, n_actions, n_states), np.append(rng.random(n_states - 1) + 0.1, 0.0)
    allowed = rng.random((n_states, n_actions)) < rng.choice([0.8, 1.0])
    allowed[np.arange(n_states), base] = True
    current = np.eye(n_actions)[base]
    if rng.random() < 0.4:
        current = rng.random(allowed.shape) * allowed * rng.integers(0, 2, (n_states, 1)) + 1e-3 * current
        current /= current.sum(axis=1, keepdims=True)
    rewards = -rng.random(allowed.shape) * 10.0 ** rng.integers(-9, 10)
    units = rng.integers(-2, 3, allowed.shape).astype(float)
    world = TabularMDP(
        moves,
        rewards,
        starts / starts.sum(),
        absorbing=[n_states - 1],
        allowed=allowed,
        discount=float(rng.choice([1.0, 0.9])),
        outcomes=[Outcome("units", units)],
    )
    options = {
        "freeze": rng.random(n_states) < 0.2,
        "change_cost": rng.choice([0.0, 0.5, 1.0, 2.5], allowed.shape),
        "keep": "units<=current+0.3",
        "max_states": int(rng.integers(0, 4)),
        "budget": float(rng.choice([0.0, 0.3, 1.0, 4.0])),
    }
    chosen = {name: value for name, value in options.items() if rng.random() < 0.4}
    return world, current, units, chosen


def enumerated(world, current, units, options):
    """(4, n) changes, return, units and changed states that are met, of every policy that ends; the current one first.

    A state may go on as now, for nothing, or take one action, which counts the chance of another one until now.
    """
    count, n_actions = current.shape
    cost = np.broadcast_to(options.get("change_cost", 1.0), current.shape) * (1 - current)
    moves = world.transitions.toarray().reshape(count, n_actions, count)
    may = world.allowed & (current < 1) & ~options.get("freeze", np.zeros(count, dtype=bool))[:, None]
    may[world.absorbing] = False
    picks = np.array(list(itertools.product(*([-1, *np.flatnonzero(row)] for row in may))))
    chances = np.where((picks < 0)[:, :, None], current, np.eye(n_actions)[picks])
    rows = np.einsum("psa,sat->pst", chances, moves)
    met = forward(rows > 0, np.broadcast_to(world.initial > 0, picks.shape))
    ends = closure(rows > 0, np.broadcast_to(world.absorbing, picks.shape)) | (world.discount < 1)
    proper = ~(met & ~ends).any(axis=1)
    if not proper[0]:
        return None
    picks, chances, met = picks[proper], chances[proper], met[proper]
    system = np.eye(count) - world.discount * (rows[proper] * met[:, :, None]).transpose(0, 2, 1)
    visits = np.linalg.solve(system, np.broadcast_to(world.initial[:, None], (len(picks), count, 1)))[:, :, 0]
    visits[:, world.absorbing] = 0.0
    changed = np.where((picks < 0)[:, :, None], 0.0, chances) * cost
    sums = [
        (visits * (part * of).sum(axis=2)).sum(axis=1)
        for part, of in ((changed, 1.0), (chances, world.rewards), (chances, units))
    ]
    return np.array([*sums, (met & (picks >= 0)).sum(axis=1)])


def check(seed):
    """Whether plans, bounds and proofs are those of enumeration; None where there is nothing to compare."""
    world, current, units, options = drawn(seed)
    every = enumerated(world, current, units, options)
    if every is None:
        with pytest.raises(PolidiffError, match="end"):
            improve(world, current, **options)
        return None
    changes, returns, kept, states = every
    able = (states <= options.get("max_states", 99)) & (kept <= kept[0] + 0.3 + 1e-9 if "keep" in options else True)
    near = 1e-7 * (returns[able].max() - returns[0]) + 1e-9 * np.abs(returns).max()
    frontier = improve(world, current, **options)
    for plan in frontier:
        fewer, as_many = (able & (changes <= plan.changes + by * (1 + plan.changes)) for by in (-1e-7, 1e-7))
        best = returns[fewer].max(initial=-np.inf)
        assert best - near <= plan.bound
        assert plan.expected_return <= returns[as_many].max() + near
        assert plan.expected_return >= best - near or not plan.proven
        frozen = options.get("freeze", np.zeros(len(current), dtype=bool)) & ~world.absorbing
        acts = plan.policy.probabilities(np.arange(world.n_states))
        np.testing.assert_allclose(acts[frozen], current[frozen])
    within = able & (changes <= options.get("budget", np.inf))
    steps = changes[within] if frontier.budget is None else np.array([frontier.budget])
    for step in steps:
        has = max(plan.expected_return for plan in frontier if plan.changes <= step + 1e-7 * (1 + step))
        best = returns[within & (changes <= step)].max()
        assert has >= best - near - frontier.gap * (frontier.optimum - returns[0])
    return frontier


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_plans_under_any_options_are_those_of_enumeration(seed):
    assume(check(seed) is not None)


@pytest.mark.slow
def test_plans_of_2000_tables_under_any_options_are_those_of_enumeration():
    frontiers = [check(seed) for seed in range(2000)]
    assert sum(frontier is not None and len(frontier) > 1 for frontier in frontiers) > 1000
