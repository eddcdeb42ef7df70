"""What must stand behind a rule."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff import improve
from polidiff.errors import InvalidOptionError
from polidiff.evaluation.exact import ExactEvaluator, policy_table

from .conftest import planned_with_rules, random_grid, some_policy


def covered(world, plan):
    """States (not absorbing) in the box of each rule."""
    return [told.rule.covers(world.features) & ~world.absorbing for told in plan.rules]


@pytest.mark.parametrize("seed", range(3))
def test_a_count_is_of_the_states_that_each_rule_speaks_about(seed):
    world = random_grid(seed, allow=0.9)
    current = some_policy(world, seed)
    free = planned_with_rules(world, current, max_rules=3, node_limit=0)
    assert any(box.sum() < 6 for plan in free for box in covered(world, plan)), "the limit bites"
    limited = planned_with_rules(world, current, max_rules=3, node_limit=0, min_support=6)
    assert len(limited) > 1
    assert all(box.sum() >= 6 for plan in limited for box in covered(world, plan))
    assert limited.best.expected_return <= free.best.expected_return + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_a_share_is_of_the_current_policys_visits(seed):
    world = random_grid(seed)
    current = some_policy(world, seed)
    visits = ExactEvaluator(world, policy_table(world, current)).visits()
    share = visits / visits.sum()
    limited = planned_with_rules(world, current, max_rules=3, node_limit=0, min_support=0.3)
    assert len(limited) > 1
    assert all(share[box].sum() >= 0.3 - 1e-6 for plan in limited for box in covered(world, plan))


def test_more_than_there_is_leaves_only_the_current_policy():
    world = random_grid(1)
    limited = planned_with_rules(world, some_policy(world, 1), max_rules=2, min_support=1000, node_limit=0)
    assert len(limited) == 1


@pytest.mark.parametrize("value", [0, -3, 2.5, 0.0, True, "many", np.nan])
def test_a_limit_that_is_neither_count_nor_share_is_named(value):
    world = random_grid(0, side=2)
    with pytest.raises(InvalidOptionError, match="min_support must be a whole number of at least 1"):
        improve(world, some_policy(world, 0), max_rules=1, min_support=value)
