"""Units do not matter: rewards in cents or millions, and what every policy gets anyway, change no plan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff import Outcome, TabularMDP, improve

SEEDS = st.integers(0, 10_000)
FACTORS = (1e-13, 1e-9, 1e-4, 7.0, 1e5, 1e9)
WAYS = {
    "whole frontier": {},
    "budget": {"budget": 0.7},
    "states": {"max_states": 2},
    "guard": {"keep": "units<=current+0.2"},
    "guarded budget": {"keep": "units<=current+0.2", "budget": 1.0},
    "rules": {"max_rules": 2},
}


def table(seed, *, factor=1.0, gift=0.0, price=None):
    """Six states after one in which nothing can be decided; `gift` is paid there, the outcome `units` adds it too."""
    rng = np.random.default_rng(seed)
    moves, n_actions = np.zeros((8, 2, 8)), 2
    for s in range(1, 7):
        for a in range(n_actions):
            targets = rng.choice(np.arange(1, 8), 3, replace=False)
            moves[s, a, targets] = 0.85 * rng.dirichlet(np.ones(3))
            moves[s, a, 7] += 0.15
    moves[0, :, 1:7] = rng.dirichlet(np.ones(6))
    moves[7, :, 7] = 1.0
    rewards, units = rng.normal(size=(8, 2)), rng.random((8, 2))
    rewards[[0, 7]], units[[0, 7]] = 0.0, 0.0
    rewards = price * units if price is not None else rewards
    rewards[0] = gift
    units[0] = gift
    features = rng.integers(0, 3, (8, 2)).astype(float)
    return TabularMDP(
        moves,
        factor * rewards,
        np.eye(8)[0],
        absorbing=np.arange(8) == 7,
        outcomes=[Outcome("units", units)],
        features=features,
        feature_names=["x", "y"],
    )


def shape(frontier):
    """What plans do, how much is proven about them, which other budgets they answer, and what is said of changes."""
    plans = [
        (plan.patch.to_dict()["edits"], plan.proven, round(plan.changes, 6), len(plan.warnings)) for plan in frontier
    ]
    entries = frontier.ledger.entries if frontier.ledger else ()
    said = [(entry.needs, entry.conflicts) for entry in entries], [len(one.points) for one in frontier.baselines]
    return plans, frontier._sought(0.9), said, frontier.ledger and frontier.ledger.order


CURRENT = np.zeros(8, dtype=int)


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=5, deadline=None)
@given(seed=SEEDS, factor=st.sampled_from(FACTORS))
def test_the_size_of_rewards_changes_no_plan(way, seed, factor):
    plain = improve(table(seed), CURRENT, **WAYS[way])
    large = improve(table(seed, factor=factor), CURRENT, **WAYS[way])
    assert shape(large) == shape(plain)
    returns = [plan.expected_return for plan in plain]
    assert [plan.expected_return / factor for plan in large] == pytest.approx(returns, rel=1e-9, abs=1e-12)
    assert [plan.bound / factor for plan in large] == pytest.approx([plan.bound for plan in plain], rel=1e-7)


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=5, deadline=None)
@given(seed=SEEDS, gift=st.sampled_from([-1e6, 3.0, 1e4]))
def test_what_every_policy_gets_anyway_changes_no_plan(way, seed, gift):
    plain = improve(table(seed), CURRENT, **WAYS[way])
    richer = improve(table(seed, gift=gift), CURRENT, **WAYS[way])
    assert shape(richer) == shape(plain)


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS, price=st.sampled_from([1e3, 1e5, 1e7, 1e9]))
def test_a_guard_on_what_the_return_is_made_of_ends_at_every_price(seed, price):
    plain = improve(table(seed, price=1.0), CURRENT, keep="units<=current+0.3")
    dear = improve(table(seed, price=price), CURRENT, keep="units<=current+0.3")
    assert shape(dear) == shape(plain)
    assert dear.best.expected_return <= dear.current_return + 0.3 * price * (1 + 1e-9)
