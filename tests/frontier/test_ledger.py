"""What changes are worth, alone and together, against the evaluation of every subset."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from polidiff import TabularMDP, improve, load
from polidiff.domains import chain
from polidiff.errors import ImproperPolicyError
from polidiff.evaluation.exact import ExactEvaluator
from polidiff.frontier.ledger import Naming, between, make_ledger
from polidiff.frontier.setting import prepare
from polidiff.policies import one_hot
from polidiff.progress import Clock
from polidiff.records.outcome import Interval


def looping_table(seed):
    """Seven states, three actions of which the first leads on to the end; the others may go round for ever."""
    rng = np.random.default_rng(seed)
    moves = np.zeros((8, 3, 8))
    for s in range(7):
        moves[s, 0, s + 1] = 1.0
        for a in (1, 2):
            targets = rng.choice(8, 2, replace=False)
            moves[s, a, targets] = (0.5, 0.5) if rng.random() < 0.4 else (1.0, 0.0)
    moves[7, :, 7] = 1.0
    rewards = -rng.random((8, 3))
    rewards[7] = 0.0
    return TabularMDP(moves, rewards, np.eye(8)[int(rng.integers(0, 3))], absorbing=np.arange(8) == 7)


def evaluated(world, actions):
    try:
        table = one_hot(actions, world.n_actions)
        return float(ExactEvaluator(world, table).visits() @ (table * world.rewards).sum(axis=1))
    except ImproperPolicyError:
        return -math.inf


def current_of(world, rng):
    """A policy that ends from the start and may go round for ever elsewhere."""
    while True:
        actions = rng.integers(0, 3, 8)
        if math.isfinite(evaluated(world, actions)):
            return actions


@pytest.mark.parametrize("leads_on", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_every_subset_is_worth_what_its_policy_returns_and_nothing_where_that_never_ends(seed, leads_on):
    world = looping_table(seed)
    rng = np.random.default_rng(seed)
    current = np.zeros(8, dtype=int) if leads_on else current_of(world, rng)
    problem = prepare(world, current, None).problem
    offered = np.flatnonzero(problem.action != current[problem.names[problem.state]])
    pairs = np.sort(rng.choice(offered, min(6, len(offered)), replace=False))
    worth = between(problem, pairs).value
    endless = 0
    for size in range(len(pairs) + 1):
        for subset in itertools.combinations(range(len(pairs)), size):
            chosen = pairs[list(subset)]
            if len(set(problem.state[chosen])) < size:
                continue
            actions = current.copy()
            actions[problem.names[problem.state[chosen]]] = problem.action[chosen]
            expected = evaluated(world, actions)
            endless += math.isinf(expected)
            assert worth(subset) == pytest.approx(expected, abs=1e-9)
    assert endless or problem.always_ends or seed > 3 or not leads_on


def test_half_a_plan_is_followed_into_a_loop_that_neither_it_nor_the_current_policy_meets():
    """Right in s0 and s1 ends with a gain; right in s0 alone leads to s2 and s3, which go round for ever."""
    moves = np.zeros((5, 2, 5))
    for state, (left, right) in enumerate([(4, 1), (2, 4), (3, 4), (2, 4), (4, 4)]):
        moves[state, 0, left] = moves[state, 1, right] = 1.0
    rewards = np.zeros((5, 2))
    rewards[1, 1] = 5.0
    plan = improve(TabularMDP(moves, rewards, np.eye(5)[0], absorbing=[4]), np.zeros(5, dtype=int)).best
    assert [(point.share, point.expected_return) for point in plan.adoption] == [(0.0, 0.0), (1.0, 5.0)]
    assert plan.warnings == tuple(f"followed with probability {p}, the plan may never end" for p in (0.25, 0.5, 0.75))


def two_way_street():
    """Going right in s0 pays with right in s1 only; alone it comes back for ever."""
    moves = np.zeros((3, 2, 3))
    moves[0, 0, 2] = moves[0, 1, 1] = 1.0  # left ends, right leads to s1
    moves[1, 0, 0] = moves[1, 1, 2] = 1.0  # left leads back, right ends
    moves[2, :, 2] = 1.0
    rewards = np.array([[0.0, -1.0], [0.0, 5.0], [0.0, 0.0]])
    return TabularMDP(moves, rewards, np.eye(3)[0], absorbing=[False, False, True], actions=["left", "right"])


def test_a_change_that_alone_goes_round_for_ever_is_named_and_comes_after_what_it_needs(tmp_path):
    frontier = improve(two_way_street(), np.array([0, 0, 0]))
    first, second = frontier.ledger.entries
    assert (first.alone, second.alone) == (None, 0.0)
    assert first.needs == (second.change,)
    assert frontier.ledger.order == (second.change, first.change)
    assert frontier.ledger.running == pytest.approx((0.0, 4.0))
    assert second.removed is None
    text = str(frontier)
    assert "never ends" in text
    assert "∞" not in text
    assert load(frontier.save(tmp_path / "plans.json")).ledger == frontier.ledger
    frontier.save(tmp_path / "plans.html")


def test_a_frontier_of_many_plans_is_read_back(tmp_path):
    rng = np.random.default_rng(5)
    moves = np.zeros((31, 3, 31))
    for s, a in itertools.product(range(30), range(3)):
        moves[s, a, rng.choice(30, 3, replace=False)] = 0.9 * rng.dirichlet(np.ones(3))
        moves[s, a, 30] = 0.1
    moves[30, :, 30] = 1.0
    rewards = rng.normal(size=(31, 3))
    rewards[30] = 0.0
    world = TabularMDP(moves, rewards, np.append(np.full(30, 1 / 30), 0.0), absorbing=np.arange(31) == 30)
    frontier = improve(world, np.zeros(31, dtype=int))
    assert len(frontier) > 60
    again = load(frontier.save(tmp_path / "plans.json"))
    assert [plan.patch for plan in again] == [plan.patch for plan in frontier]


def test_where_time_is_up_fewer_orders_stand_behind_a_wider_interval():
    rng = np.random.default_rng(2)
    moves = rng.dirichlet(np.ones(17), (16, 2))[:, :, :16]
    world = TabularMDP(
        np.concatenate([np.dstack([moves, 1 - moves.sum(axis=2)]), np.eye(17)[[16, 16]][None]]),
        np.vstack([np.column_stack([np.zeros(16), rng.uniform(1, 2, 16)]), [0, 0]]),
        np.append(np.full(16, 1 / 16), 0.0),
        absorbing=[16],
    )
    problem = prepare(world, np.zeros(17, dtype=int), None).problem
    worth = between(problem, np.flatnonzero(problem.action == 1)).value
    names = tuple(str(i) for i in range(16))
    naming = Naming(names, names, names, {})
    widths = []
    for clock in (Clock(0.0), Clock()):
        ledger = make_ledger(worth, np.arange(16), naming, level=0.95, rng=np.random.default_rng(0), clock=clock)
        assert sum(entry.shapley.estimate for entry in ledger.entries) == pytest.approx(
            worth(tuple(range(16))) - worth(())
        )
        widths.append(sum(entry.shapley.high - entry.shapley.low for entry in ledger.entries))
    assert widths[0] > 2 * widths[1]


def test_the_text_says_which_plan_the_ledger_values() -> None:
    frontier = improve(chain.world(), chain.current(), [chain.proposed()])
    assert "added last to the best plan;" in str(frontier)
    gains = [Interval(1.0, low, 2.0, 0.95) for low in np.linspace(0.9, 0.1, len(frontier) - 1)]
    plans = [replace(plan, gain=gain) for plan, gain in zip(frontier.plans[1:], gains, strict=True)]
    judged = replace(frontier, plans=(frontier.plans[0], *plans))
    assert judged.best is judged.plans[1]
    assert "added last to the largest plan, which is not the best;" in str(judged)


def test_a_change_conflicts_with_another_only_where_each_is_worth_less_beside_it():
    apart, onward = np.zeros((2, 3, 2, 3))
    apart[:, :, 2] = onward[:, :, 2] = 1.0
    onward[0, 1] = [0, 1, 0]
    cases = [
        (apart, [[0, -0.1], [0, 1.0], [0, 0]], False),  # a loss beside a gain: each is worth what it is alone
        (onward, [[0, 0.1], [0, 1.0], [0, 0]], False),
        (onward, [[0, 2.0], [0, -3.0], [0, 0]], True),  # the first leads to where the second costs
    ]
    for moves, rewards, meet in cases:
        world = TabularMDP(moves, rewards, [0.5, 0.5, 0], absorbing=[2])
        problem = prepare(world, np.zeros(3, dtype=int), None).problem
        worth = between(problem, np.flatnonzero((problem.action == 1) & (problem.state < 2))).value
        naming = Naming(("s0", "s1"), ("a", "a"), ("b", "b"), {})
        ledger = make_ledger(worth, np.arange(2), naming, level=0.95, rng=np.random.default_rng(0), clock=Clock())
        assert [bool(entry.conflicts) for entry in ledger.entries] == [meet, meet]
        assert all(entry.removed < entry.alone for entry in ledger.entries if entry.conflicts)


@pytest.mark.parametrize("states", [10, 11, 13])
def test_a_ledger_that_is_not_listed_whole_says_how_much_is_left(states):
    moves = np.zeros((states + 1, 2, states + 1))
    moves[:, :, -1] = 1.0
    rewards = np.outer(np.append(np.ones(states), 0), [0, 1])
    world = TabularMDP(moves, rewards, np.append(np.full(states, 1 / states), 0), absorbing=[states])
    text = str(improve(world, np.zeros(states + 1, dtype=int)))
    left = {10: None, 11: "and 1 more change", 13: "and 3 more changes"}[states]
    assert left in text if left else "more change" not in text
