"""FrozenLake, queues and inventory: the tables say what their rules say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.rule_plans.orders import order_up_to
from polidiff.domains import frozen_lake, inventory, queues
from polidiff.evaluation.exact import ExactEvaluator, best_policy, policy_table
from polidiff.worlds.tabular import TabularMDP


def returned(world, policy):
    table = policy_table(world, policy)
    return float(ExactEvaluator(world, table).visits() @ (table * world.rewards).sum(axis=1))


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("slippery", [True, False])
def test_the_lake_is_gymnasiums(size, slippery):
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("FrozenLake-v1", map_name=f"{size}x{size}", is_slippery=slippery)
    ours, theirs = frozen_lake.world(size, slippery=slippery), TabularMDP.from_gymnasium(env)
    decides = np.repeat(~ours.absorbing, ours.n_actions)
    np.testing.assert_allclose(
        ours.transitions.toarray()[decides], theirs.transitions.toarray()[decides][:, : ours.n_states], atol=1e-12
    )
    np.testing.assert_allclose(ours.rewards[~ours.absorbing], theirs.rewards[: ours.n_states][~ours.absorbing])


def test_both_naive_policies_leave_room_to_improve():
    for domain in (queues, inventory):
        world = domain.world()
        assert returned(world, domain.current()) < best_policy(world).expected_return - 100


def test_a_queue_loses_at_most_one_customer_a_slot_and_gains_only_who_is_admitted():
    world = queues.world(4)
    rows, targets = world.transitions.nonzero()
    states, actions = np.divmod(rows, 3)
    inside = targets < world.n_states - 1
    before, after = (world.features[index[inside]][:, :2] for index in (states, targets))
    sent = np.stack([actions[inside] == 0, actions[inside] == 1], axis=1)
    change = after - before - sent
    assert set(np.unique(change)) <= {-1, 0}


def test_stock_after_a_period_is_what_was_not_sold_and_what_arrived():
    sales, left = inventory._period(3, 2, 10, inventory._poisson(2.0, 30))
    chances = inventory._poisson(2.0, 30)
    assert sum(left.values()) == pytest.approx(1.0)
    assert left[5] == pytest.approx(chances[0])  # nobody asked: 3 + 2
    assert left[2] == pytest.approx(chances[3:].sum())  # all three sold, two arrive
    sold = sum(min(k, 3) * p for k, p in enumerate(chances))
    lost = sum(max(k - 3, 0) * p for k, p in enumerate(chances))
    assert sales == pytest.approx(10 * sold - 4 * lost - 0.5 * (3 - sold))


def test_order_up_to_fills_the_position_to_its_target():
    world, current = inventory.world(10, 5), inventory.current(10, 5)
    from polidiff.frontier.rule_plans.moves import resolve_moves

    moves = resolve_moves(world, policy_table(world, current), order_up_to([7], largest=5), fallback="nearest")
    position = world.features[:, 3]
    action = np.where(moves.choice[0] == world.n_actions, current, moves.choice[0])
    alive = ~world.absorbing
    np.testing.assert_array_equal(action[alive], np.clip(7 - position[alive], 0, 5))
