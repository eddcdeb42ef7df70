"""Laws of rule plans, and brute force on small grids."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchmarks.rule_plans.orders import order_up_to
from polidiff import improve, load
from polidiff.domains import frozen_lake, inventory, queues
from polidiff.errors import InfeasibleError, InvalidOptionError, InvalidWorldError
from polidiff.evaluation.exact import ExactEvaluator, policy_table
from polidiff.frontier.rule_plans import Move
from polidiff.records.outcome import Outcome
from polidiff.records.rule import first_match
from polidiff.worlds.tabular import TabularMDP

from .conftest import planned_with_rules, random_grid, some_policy


def returned(world, policy):
    table = policy_table(world, policy)
    return float(ExactEvaluator(world, table).visits() @ (table * world.rewards).sum(axis=1))


@pytest.mark.parametrize("seed", range(3))
def test_more_rules_never_lose_and_the_bound_is_never_below_the_plan(seed, mixed):
    world = random_grid(seed, allow=0.7)
    frontier = planned_with_rules(world, some_policy(world, seed, mixed=mixed), max_rules=3, node_limit=300)
    returns = [plan.expected_return for plan in frontier]
    assert returns == sorted(returns)
    assert [len(plan.rules) for plan in frontier] == sorted({len(plan.rules) for plan in frontier})
    for plan in frontier:
        assert plan.expected_return <= plan.bound <= frontier.optimum + 1e-9
        assert plan.proven == (plan.gap < 1e-9)
    assert frontier.at(2).expected_return == max(p.expected_return for p in frontier if len(p.rules) <= 2)


@pytest.mark.parametrize("seed", range(3))
def test_a_rule_list_equals_its_patched_policy(seed, mixed):
    world = random_grid(seed, allow=0.6)
    current = some_policy(world, seed, mixed=mixed)
    plan = planned_with_rules(world, current, max_rules=3, node_limit=0).best
    names = [action.name for action in world.actions]
    table, left = policy_table(world, current), ~world.absorbing
    for told in plan.rules:  # read as a person would: first rule that covers the state and can be followed there
        action = names.index(told.move) if told.move != "keep" else None
        here = left & told.rule.covers(world.features)
        here &= world.allowed[:, action] if action is not None else True
        if action is not None:
            table[here] = np.eye(world.n_actions)[action]
        left &= ~here
    np.testing.assert_allclose(policy_table(world, plan.policy), table)
    np.testing.assert_allclose(policy_table(world, plan.patch.apply(current, strict=True)), table)
    assert plan.expected_return == pytest.approx(returned(world, table))
    changed = 0.5 * np.abs(table - policy_table(world, current)).sum(axis=1)
    assert plan.changes == pytest.approx(ExactEvaluator(world, table).visits() @ changed)
    assert plan.changes == pytest.approx(sum(rule.changes for rule in plan.rules))


def policies_of_lists(world, current, rules):
    """Distinct policies of all lists of one rule, and of all lists of at most `rules` rules."""
    side = int(world.features[:, 0].max()) + 1
    ends = [(a, b) for a in range(side) for b in range(a, side)]
    row, column = world.features.T
    boxes = [(row >= a) & (row <= b) & (column >= c) & (column <= d) for (a, b), (c, d) in product(ends, ends)]
    single = {}
    for box, action in product(boxes, range(-1, world.n_actions)):
        acts = box & ~world.absorbing & (world.allowed[:, action] if action >= 0 else True)
        single[acts.tobytes(), action] = (acts, action)
    plans = np.array(current)[None]
    for _ in range(rules):  # put each rule in front of each list so far
        grown = [np.where(acts, current if action < 0 else action, plans) for acts, action in single.values()]
        plans = np.unique(np.vstack([plans, *grown]), axis=0)
    return plans


def best_by_brute_force(world, plans):
    """Largest return over the plans (n, S), by value iteration on the expected sums."""
    inner = np.flatnonzero(~world.absorbing)
    dense = world.transitions.toarray().reshape(world.n_states, world.n_actions, world.n_states)
    best = -np.inf
    for part in np.array_split(plans, max(1, len(plans) // 5000)):
        moves = dense[inner[None, :], part[:, inner]][:, :, inner]
        gains = world.rewards[inner[None, :], part[:, inner]]
        values = np.zeros(gains.shape)
        for _ in range(400 if world.discount == 1 else 200):
            values = gains + world.discount * np.einsum("nij,nj->ni", moves, values)
        best = max(best, float((values @ world.initial[inner]).max()))
    return best


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rules", [1, 2])
def test_brute_force_on_small_grids_agrees(seed, rules):
    side = 4 if rules == 1 else 3
    world = random_grid(seed, side=side, n_actions=2 if rules == 2 else 3, allow=0.8)
    current = some_policy(world, seed)
    plan = planned_with_rules(world, current, max_rules=rules, gap=0).best
    assert plan.proven
    best = best_by_brute_force(world, policies_of_lists(world, current, rules))
    assert plan.expected_return == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("rules", [1, 2])
def test_brute_force_on_the_4x4_lake_agrees(rules):
    world, current = frozen_lake.world(4), frozen_lake.current(4)
    plan = planned_with_rules(world, current, max_rules=rules, gap=0).best
    plans = policies_of_lists(world, current, rules)
    assert plan.proven
    assert plan.expected_return == pytest.approx(best_by_brute_force(world, plans), abs=1e-6)


def returns_and_changes(world, current, plans):
    """Exact return and expected changes of every plan (n, S), by one batch of linear solves."""
    inner = np.flatnonzero(~world.absorbing)
    dense = world.transitions.toarray().reshape(world.n_states, world.n_actions, world.n_states)
    found = []
    for part in np.array_split(plans, max(1, len(plans) // 5000)):
        moves = dense[inner[None, :], part[:, inner]][:, :, inner]
        system = np.eye(len(inner)) - (1 - 1e-9) * np.swapaxes(moves, 1, 2)
        visits = np.linalg.solve(system, np.broadcast_to(world.initial[inner][:, None], (len(part), len(inner), 1)))
        visits = visits[:, :, 0]
        gains = (visits * world.rewards[inner[None, :], part[:, inner]]).sum(axis=1)
        found.append(np.stack([gains, (visits * (part[:, inner] != np.asarray(current)[inner])).sum(axis=1)]))
    return np.hstack(found)


@pytest.mark.parametrize("rules", [1, 2])
def test_of_equal_plans_the_one_with_the_fewest_changes_is_told(rules):
    world, current = frozen_lake.world(4), frozen_lake.current(4)
    returns, changes = returns_and_changes(world, current, policies_of_lists(world, current, rules))
    plan = planned_with_rules(world, current, max_rules=rules, gap=0).best
    equal = returns >= returns.max() - 1e-7
    assert plan.expected_return == pytest.approx(returns.max(), abs=1e-6)
    assert plan.changes == pytest.approx(changes[equal].min(), rel=1e-5)


@pytest.mark.parametrize("seed", range(2))
def test_fewest_changes_among_equals_on_worlds_that_pay_only_at_the_end(seed):
    base = random_grid(seed, side=3, n_actions=2)
    world = rebuilt(base, rewards=np.where(base.rewards > 1.0, 1.0, 0.0))  # many plans return the same
    current = some_policy(base, seed)
    returns, changes = returns_and_changes(world, current, policies_of_lists(world, current, 2))
    plan = planned_with_rules(world, current, max_rules=2, gap=0).best
    assert plan.expected_return == pytest.approx(returns.max(), abs=1e-7)
    assert plan.changes == pytest.approx(changes[returns >= returns.max() - 1e-9].min(), rel=1e-6)


def test_two_rules_cross_the_lake_and_nothing_does_better():
    frontier = planned_with_rules(frozen_lake.world(8), frozen_lake.current(8), max_rules=2)
    assert frontier.best.proven
    assert frontier.best.expected_return == pytest.approx(
        1.0
    )  # the goal is reached almost surely by never risking a hole
    assert frontier.best.share == pytest.approx(1.0)
    assert frontier.best.changes < 168  # the figure of the first, untrimmed plans


def test_what_each_rule_adds_is_what_is_lost_without_it():
    world, current = queues.world(5), queues.current(5)
    plan = planned_with_rules(world, current, max_rules=2).best
    rules = [told.rule for told in plan.rules]
    names = [action.name for action in world.actions]
    for dropped in range(len(rules)):
        table = policy_table(world, current)
        left = ~world.absorbing
        for index, told in enumerate(plan.rules):
            action = names.index(told.move)
            here = left & told.rule.covers(world.features) & world.allowed[:, action] & (index != dropped)
            table[here] = np.eye(world.n_actions)[action]
            left &= ~here
        assert plan.without(dropped) == pytest.approx(returned(world, table))
    assert (first_match(rules, world.features) >= 0).any()


def test_order_up_to_by_season_is_found_and_beats_imitation():
    world, current = inventory.world(10, 5), inventory.current(10, 5)
    moves = order_up_to(list(range(3, 13)), largest=5)
    frontier = planned_with_rules(world, current, max_rules=3, moves=moves, fallback="nearest")
    assert all(plan.applicable == 1.0 for plan in frontier if plan.rules)
    for baseline in frontier.baselines:
        for size, value in baseline.points:
            assert frontier.at(size).expected_return >= value - 1e-9
    assert frontier.best.gap < 0.01


def test_frozen_states_are_never_changed():
    world = random_grid(5)
    current = some_policy(world, 5)
    plan = planned_with_rules(world, current, max_rules=2, freeze=["row < 2"], node_limit=0).best
    table = policy_table(world, plan.policy)
    kept = world.features[:, 0] < 2
    np.testing.assert_array_equal(table[kept], policy_table(world, current)[kept])
    assert len(plan.patch) > 0


def test_limits_on_conditions_and_literals_hold():
    world = random_grid(6)
    frontier = planned_with_rules(
        world, some_policy(world, 6), max_rules=3, max_conditions=1, max_literals=2, node_limit=0
    )
    for plan in frontier:
        assert plan.literals == sum(told.rule.literals for told in plan.rules) <= 2
        assert all(len(told.rule.conditions) <= 1 for told in plan.rules)


def test_no_rules_gives_the_current_policy_back():
    world = random_grid(7)
    current = some_policy(world, 7)
    frontier = planned_with_rules(world, current, max_rules=0)
    assert len(frontier) == 1
    assert frontier.best.expected_return == pytest.approx(returned(world, current)) == frontier.current_return
    assert frontier.best.proven
    assert frontier.best.changes == 0 == len(frontier.best.patch)


def test_a_policy_that_is_already_best_needs_no_rules():
    from polidiff.evaluation.exact import best_policy

    world = random_grid(8)
    frontier = planned_with_rules(world, best_policy(world).actions, max_rules=2)
    assert [len(plan.rules) for plan in frontier] == [0]
    assert frontier.best.proven


def test_the_same_seed_gives_the_same_plans_and_a_saved_frontier_comes_back(tmp_path):
    world = random_grid(9)
    current = some_policy(world, 9)
    one, two = (planned_with_rules(world, current, max_rules=2) for _ in range(2))
    assert one.to_dict() == two.to_dict()
    one.save(tmp_path / "plans.json")
    assert load(tmp_path / "plans.json").to_dict() == one.to_dict()


def test_a_constant_feature_is_never_spoken_about():
    world = random_grid(2)
    features = np.hstack([np.full((world.n_states, 1), 3.0), world.features])
    wide = rebuilt(world, features=features, feature_names=["always 3", "row", "column"])
    plan = planned_with_rules(wide, some_policy(world, 2), max_rules=2, node_limit=0).best
    assert {c.feature for told in plan.rules for c in told.rule.conditions} <= {"row", "column"}


def rebuilt(world, **changes):
    given = {
        "transitions": world.transitions.toarray().reshape(world.n_states, world.n_actions, world.n_states),
        "rewards": world.rewards,
        "initial": world.initial,
        "absorbing": world.absorbing,
        "features": world.features,
        "feature_names": world.feature_names,
        "allowed": world.allowed,
        **changes,
    }
    return TabularMDP(given.pop("transitions"), given.pop("rewards"), given.pop("initial"), **given)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"max_rules": -1}, InvalidOptionError, "max_rules must be a whole number of at least 0; got -1"),
        ({"max_rules": 1.5}, InvalidOptionError, "max_rules must be a whole number"),
        ({"max_rules": 1, "max_conditions": 0}, InvalidOptionError, "max_conditions must be .* at least 1"),
        ({"max_rules": 1, "max_literals": -2}, InvalidOptionError, "max_literals must be a whole number of at least 0"),
        ({"max_rules": 1, "gap": -0.1}, InvalidOptionError, "gap must be at least 0"),
        ({"max_rules": 1, "time_limit": 0}, InvalidOptionError, "time_limit must be None or seconds"),
        ({"max_rules": 1, "fallback": "guess"}, InvalidOptionError, "fallback must be 'keep' or 'nearest'"),
        ({"max_rules": 1, "moves": [Move.action("fly")]}, InvalidOptionError, "no action is called 'fly'"),
    ],
)
def test_options_out_of_range_are_named(options, error, words):
    world = random_grid(0, side=2)
    with pytest.raises(error, match=words):
        planned_with_rules(world, some_policy(world, 0), **options)


def test_a_table_in_which_one_state_decides_needs_no_rules():
    moves, rewards = np.array([[[0.0, 1.0]] * 2, [[0.0, 1.0]] * 2]), np.array([[0.0, 1.0], [0.0, 0.0]])
    world = TabularMDP(moves, rewards, np.array([1.0, 0.0]), absorbing=np.array([False, True]), features=[[1.0], [2.0]])
    with pytest.raises(InvalidWorldError, match="only one state decides anything here"):
        improve(world, [0, 0], max_rules=1)
    assert improve(world, [0, 0]).best.expected_return == 1.0


def test_a_move_that_no_state_allows_is_named():
    world = random_grid(0, side=2)
    allowed = np.array(world.allowed)
    allowed[:-1, 2] = False
    with pytest.raises(InvalidOptionError, match="'action 2' is allowed in none"):
        planned_with_rules(
            rebuilt(world, allowed=allowed), np.zeros(5, int), max_rules=1, moves=[Move.action("action 2")]
        )


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (None, "rules need states with features; this table has none"),
        (np.full((5, 1), 2.0), "rules need a feature that differs between states.*Hint: give others"),
        (np.array([[1.0], [np.nan], [2.0], [3.0], [0.0]]), "is missing in state 1"),
    ],
)
def test_features_that_cannot_be_used_are_named(features, words):
    world = rebuilt(random_grid(0, side=2), features=features, feature_names=None)
    with pytest.raises(InvalidWorldError, match=words):
        planned_with_rules(world, np.zeros(5, int), max_rules=1)


def test_a_loop_that_pays_for_ever_is_an_error_with_a_way_out():
    from polidiff.errors import UnboundedReturnError

    transitions = np.zeros((2, 2, 2))
    transitions[0, 0, 1] = transitions[0, 1, 0] = transitions[1, :, 1] = 1.0
    world = TabularMDP(
        transitions, [[0.0, 1.0], [0.0, 0.0]], [1.0, 0.0], absorbing=[1], features=[[0.0], [1.0]],
        feature_names=["x"],
    )  # fmt: skip
    with pytest.raises((UnboundedReturnError, InvalidWorldError)):
        planned_with_rules(world, [0, 0], max_rules=1)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_time_limit_is_told_and_what_no_list_was_found_for_is_open(seed):
    world = random_grid(seed, side=6)
    frontier = planned_with_rules(world, some_policy(world, seed), max_rules=3, time_limit=1e-6)
    assert len(frontier) == {1: 2, 2: 1}[seed]
    assert frontier.gap > 0.5
    assert frontier.warnings == (
        "share is of the best use of these moves: the time limit leaves out the best over all actions",
        "stopped by the time limit",
        "the time limit leaves out what earlier methods find",
    )
    assert frontier.baselines == ()
    for plan in frontier:
        assert plan.expected_return == pytest.approx(returned(world, plan.policy))
        assert plan.expected_return <= plan.bound


def test_a_gap_is_finite_where_time_is_up_and_the_current_policy_breaks_a_limit():
    base = random_grid(1, side=6)
    cost = np.random.default_rng(1).random((base.n_states, base.n_actions))
    world = rebuilt(base, outcomes=[Outcome("cost", cost, prefer="less")])
    options = {"max_rules": 2, "time_limit": 1e-6, "keep": ["cost<=current-0.05"]}
    frontier = planned_with_rules(world, some_policy(base, 1), **options)
    assert 0.5 < frontier.gap <= 1.0
    assert "stopped by the time limit" in frontier.warnings


def test_guarded_outcomes_are_kept_and_what_cannot_be_kept_is_an_error():
    base = random_grid(4)
    current = some_policy(base, 4)
    cost = np.random.default_rng(4).random((base.n_states, base.n_actions))
    world = rebuilt(base, outcomes=[Outcome("cost", cost, prefer="less")])
    free = planned_with_rules(world, current, max_rules=2, node_limit=0)
    guarded = planned_with_rules(world, current, max_rules=2, node_limit=0, keep=["cost<=current"])
    now = guarded[0].outcomes["cost"].estimate
    assert all(plan.outcomes["cost"].estimate <= now + 1e-8 for plan in guarded)
    assert guarded.best.expected_return <= free.best.expected_return + 1e-9
    with pytest.raises(InfeasibleError, match="keeps cost<=0"):
        planned_with_rules(world, current, max_rules=1, node_limit=0, keep=["cost<=0"])


@pytest.mark.parametrize(("freeze", "best"), [((), ""), ("x < 3", "; the best that any policy reaches is 0 for")])
def test_a_guard_that_nothing_keeps_is_named_where_a_loop_or_no_rule_could_better_it(freeze, best):
    """The second action comes back, and each time saves as much of the cost; without its loop cost cannot fall."""
    moves, cost = np.zeros((3, 2, 3)), np.array([[0.0, 0.0 if freeze else -1.0], [0.0, 0.0], [0.0, 0.0]])
    moves[0, 0, 1] = moves[0, 1, 0] = 1.0
    moves[1:, :, 2] = 1.0
    world = TabularMDP(
        moves, np.zeros((3, 2)), np.eye(3)[0], absorbing=[2], features=np.arange(3.0)[:, None], feature_names=["x"],
        outcomes=[Outcome("cost", cost)],
    )  # fmt: skip
    with pytest.raises(InfeasibleError, match=f"keeps cost<=current-1{best}"):
        improve(world, np.zeros(3, dtype=int), max_rules=1, keep="cost<=current-1", freeze=freeze)


def test_the_public_door_reaches_rule_plans():
    from polidiff import improve

    world, current = frozen_lake.world(4), frozen_lake.current(4)
    frontier = improve(world, current, max_rules=1)
    assert frontier.unit == "rules"
    assert frontier.best.explanation.changes == pytest.approx(frontier.best.changes)


def cube(side: int) -> TabularMDP:
    """From one corner of a cube to the other, one step along an axis at a time; only arriving pays."""
    place = np.array(list(np.ndindex(side, side, side)))
    count, last = len(place), len(place) - 1
    moves = np.zeros((count, 3, count))
    for axis in range(3):
        there = np.minimum(place + np.eye(3, dtype=int)[axis], side - 1)
        moves[np.arange(count), axis, np.ravel_multi_index(tuple(there.T), (side,) * 3)] = 1.0
    rewards = moves[:, :, last].copy()
    rewards[last] = 0.0
    start = (np.arange(count) == 0).astype(float)
    return TabularMDP(
        moves, rewards, start, absorbing=[last], discount=0.9, features=place, feature_names=["x", "y", "z"],
        actions=["along x", "along y", "along z"],
    )  # fmt: skip


def test_two_rules_are_found_of_which_neither_gains_alone():
    world = cube(5)
    frontier = planned_with_rules(world, np.zeros(world.n_states, dtype=int), max_rules=2, max_literals=2, node_limit=0)
    assert frontier.current_return == 0.0
    assert frontier[-1].literals == 2
    assert frontier[-1].expected_return == pytest.approx(0.9**11, abs=1e-9)  # twelve steps on the shortest way
