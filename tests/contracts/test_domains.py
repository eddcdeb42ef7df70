"""What every domain must offer; a new one joins by a line."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff import evaluate
from polidiff.domains import chain, frozen_lake, icu_sepsis, inventory, navigation, queues
from polidiff.evaluation.exact import best_policy
from polidiff.policies import as_policy, top_actions
from polidiff.worlds.rollouts import roll_out


def on_table(policy):
    return policy(navigation.table().features)


def best(world):
    return best_policy(world).actions


DOMAINS = {
    "chain": (chain.world, chain.current, chain.proposed),
    "chain that slips": (lambda: chain.world(slip=0.2), chain.current, chain.proposed),
    "navigation, first": (navigation.world, lambda: navigation.current, lambda: navigation.proposed_1),
    "navigation, second": (navigation.world, lambda: navigation.current, lambda: navigation.proposed_2),
    "navigation, exactly": (
        navigation.table,
        lambda: on_table(navigation.current),
        lambda: on_table(navigation.proposed_2),
    ),
    "intensive care": (icu_sepsis.world, icu_sepsis.current, icu_sepsis.proposed),
    "queues": (lambda: queues.world(4), lambda: queues.current(4), lambda: best(queues.world(4))),
    "stock": (
        lambda: inventory.world(8, 4),
        lambda: inventory.current(8, 4),
        lambda: best(inventory.world(8, 4)),
    ),
    "frozen lake": (
        lambda: frozen_lake.world(4),
        lambda: frozen_lake.current(4),
        lambda: best(frozen_lake.world(4)),
    ),
}


@pytest.fixture(params=DOMAINS)
def domain(request):
    world, current, proposed = DOMAINS[request.param]
    return world(), current(), proposed()


def test_it_tells_about_an_outcome_with_a_preference_and_has_named_actions(domain):
    world = domain[0]
    assert any(outcome.prefer is not None for outcome in world.outcomes)
    assert len({action.name for action in world.actions}) == world.n_actions


def test_both_policies_are_evaluated_and_end(domain):
    world, *policies = domain
    for policy in policies:
        told = evaluate(world, policy)
        assert list(told.outcomes) == [outcome.name for outcome in world.outcomes]
        assert all(np.isfinite(interval.estimate) for interval in told.outcomes.values())
        assert told.truncated == 0.0


def test_the_proposed_policy_returns_more_than_the_current_one(domain):
    world, current, proposed = domain
    returns = [world.return_outcome]
    old, new = (evaluate(world, policy, outcomes=returns).outcomes for policy in (current, proposed))
    assert new[returns[0].name].low > old[returns[0].name].high


def test_the_policies_differ_where_episodes_come_by(domain):
    world, current, proposed = domain
    old, new = (as_policy(policy, n_actions=world.n_actions) for policy in (current, proposed))
    visits = roll_out(world, new, episodes=200, seed=(0,), record=True).visits
    tops = top_actions(old.probabilities(visits.states))
    differ = tops != top_actions(new.probabilities(visits.states), tops)
    assert 0 < differ.mean() < 1


def test_two_worlds_of_a_domain_are_the_same(domain, request):
    make = DOMAINS[request.node.callspec.params["domain"]][0]
    policy = domain[1]
    assert evaluate(make(), policy) == evaluate(domain[0], policy)
