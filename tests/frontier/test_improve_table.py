"""`improve` on a table: golden values, the records it hands out, and what it refuses."""

from __future__ import annotations

import contextlib
import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polidiff import Outcome, improve
from polidiff.domains import chain
from polidiff.errors import (
    ImproperPolicyError,
    InvalidOptionError,
    InvalidPolicyError,
    ParseError,
    UnboundedReturnError,
)
from polidiff.evaluation.exact import exact_evaluator
from polidiff.frontier import prepare
from polidiff.frontier.hull import OutOfTimeError
from polidiff.frontier.problem import contracted
from polidiff.records.codec import dumps, from_dict
from polidiff.records.numbers import number
from polidiff.worlds.tabular import TabularMDP


@pytest.fixture(scope="module")
def chain_frontier():
    return improve(chain.world(), chain.current(), unit="total")


@pytest.fixture(scope="module")
def navigation_frontier(navigation_table):
    world, current, first, second = navigation_table
    return improve(world, current, [first, second])


def test_the_chain_has_exactly_the_published_frontier(chain_frontier):
    assert [plan.changes for plan in chain_frontier] == pytest.approx([0, 2, 6, 8])
    means = [4.996636, 5.178455, 6.633000, 6.814818]
    assert [plan.expected_return for plan in chain_frontier] == pytest.approx(means, abs=1e-6)
    assert all(plan.proven for plan in chain_frontier)
    assert [[edit.states for edit in plan.patch.edits] for plan in chain_frontier] == [
        [],
        [(1,)],
        [(5,)],
        [(1,), (5,)],
    ]


def test_the_chain_in_expected_changes_is_the_same_frontier_over_eleven_starts(chain_frontier):
    expected = improve(chain.world(), chain.current())
    assert [11 * plan.changes for plan in expected] == pytest.approx([plan.changes for plan in chain_frontier])


@pytest.mark.parametrize(("budget", "refused"), [(0, 9), (3, 7), (7, 7), (100, 7)])
def test_another_budget_than_the_one_sought_is_answered_rightly_or_refused(chain_frontier, budget, refused):
    """Plans of the chain cost 0, 2, 6 and 8."""
    frontier, asked = improve(chain.world(), chain.current(), unit="total", budget=budget), list(range(10))
    again = from_dict(json.loads(dumps(frontier)))
    expected = "Plans with fewer changes were not sought." if budget else "No plan within the budget of 0 but the"
    assert expected in str(frontier)
    answered = 0
    for other in asked:
        with contextlib.suppress(InvalidOptionError):
            assert again.at(other).expected_return == pytest.approx(chain_frontier.at(other).expected_return)
            answered += 1
    assert answered == len(asked) - refused


def test_navigation_has_the_published_frontier(navigation_frontier):
    assert [plan.changes for plan in navigation_frontier] == pytest.approx([0, 1, 2, 3])
    means = [9.9895, 14.9885, 21.9895, 21.9905]
    assert [plan.expected_return for plan in navigation_frontier] == pytest.approx(means, abs=1e-9)
    stay = [plan.outcomes["stay"].estimate for plan in navigation_frontier]
    assert stay == pytest.approx([9.5, 9.5, 5.5, 1.0])


def test_three_readings_of_policy_iteration_miss_what_the_paper_page_says(chain_frontier, navigation_frontier):
    def counts(frontier):
        return {b.name.split(", ")[-1]: [round(c, 6) for c, _ in b.points] for b in frontier.baselines}

    assert counts(chain_frontier)["all states"] == [0, 8]
    assert counts(chain_frontier)["largest advantage"] == [0, 6, 8]
    assert counts(chain_frontier)["largest gain"] == [0, 6, 8]
    assert counts(navigation_frontier)["all states"] == [0, 2, 3]
    assert counts(navigation_frontier)["largest advantage"] == [0, 2, 3]
    assert counts(navigation_frontier)["largest gain"] == [0, 1, 2, 3]
    everywhere = next(b for b in navigation_frontier.baselines if b.name.endswith("all states"))
    assert everywhere.points[1] == pytest.approx((2, 16.9915))


def test_no_baseline_lies_above_the_frontier(chain_frontier, navigation_frontier):
    for frontier in (chain_frontier, navigation_frontier):
        for baseline in frontier.baselines:
            for changes, value in baseline.points:
                assert value <= frontier.at(changes + 1e-9).expected_return + 1e-9


def test_the_ledger_of_navigation(navigation_frontier):
    entries = {entry.state: entry for entry in navigation_frontier.ledger.entries}
    assert set(entries) == {"(0,0)", "(0,2)", "(1,1)", "(1,3)", "(5,3)"}
    first, third, fourth = entries["(0,2)"], entries["(1,3)"], entries["(5,3)"]
    assert [e.shapley.estimate for e in (first, third, fourth)] == pytest.approx([8.4998, 3.5008, 0.0003], abs=5e-5)
    assert third.needs == (first.change,)
    assert first.change in entries["(0,0)"].conflicts
    assert navigation_frontier.ledger.exact
    assert navigation_frontier.ledger.order[0] == first.change
    assert navigation_frontier.ledger.running[-1] == pytest.approx(21.9905)


def test_partial_adoption_of_the_navigation_optimum(navigation_frontier):
    curve = navigation_frontier.best.adoption
    assert [point.share for point in curve] == [0.0, 0.25, 0.5, 0.75, 1.0]
    values = [9.9895, 11.677, 14.239, 17.677, 21.9905]
    assert [point.expected_return for point in curve] == pytest.approx(values, abs=5e-4)


def test_partial_adoption_that_is_worse_than_today_is_warned_of():
    moves = np.zeros((3, 2, 3))
    moves[0, 0, 2] = moves[0, 1, 1] = moves[1, :, 2] = 1.0
    rewards = np.array([[0.0, 0.0], [-5.0, 1.0], [0.0, 0.0]])
    world = TabularMDP(moves, rewards, [1.0, 0.0, 0.0], absorbing=[2])
    best = improve(world, np.array([0, 0, 0])).best
    assert best.expected_return == pytest.approx(1.0)
    assert "worse than today" in best.warnings[0]
    assert min(point.expected_return for point in best.adoption) == pytest.approx(0.5 * (0.5 * 1 - 0.5 * 5))


def test_a_budget_gives_the_best_plan_within_it(chain_frontier):
    for budget, value in ((0, 4.996636), (1.9, 4.996636), (2, 5.178455), (5, 5.178455), (7.9, 6.633), (50, 6.814818)):
        one = improve(chain.world(), chain.current(), unit="total", budget=budget)
        assert one.best.expected_return == pytest.approx(value, abs=1e-6)
        assert one.best.proven
        assert chain_frontier.at(budget).expected_return == pytest.approx(value, abs=1e-6)


def test_plans_do_what_they_say_in_the_world(navigation_table, navigation_frontier):
    world, current, *_ = navigation_table
    for plan in navigation_frontier:
        evaluator = exact_evaluator(world, plan.policy)
        visits = evaluator.visits()[:, None] * evaluator.table
        assert (visits * world.rewards).sum() == pytest.approx(plan.expected_return, abs=1e-9)
        changed = visits * (np.arange(3)[None, :] != current[:, None])
        assert changed[~world.absorbing].sum() == pytest.approx(plan.changes, abs=1e-9)
        patched = plan.patch.apply(current)
        assert np.array_equal(patched.probabilities(np.arange(51)), plan.policy.table)


def test_a_frontier_survives_its_json_form(navigation_frontier):
    text = dumps(navigation_frontier)
    again = from_dict(json.loads(text))
    assert dumps(again) == text
    assert again.best.patch == navigation_frontier.best.patch
    assert again.to_frame().equals(navigation_frontier.to_frame())
    with pytest.raises(InvalidOptionError, match="no world to explain"):
        _ = again.best.explanation


def test_frozen_states_keep_their_action(navigation_table):
    world, current, first, second = navigation_table
    frozen = improve(world, current, [first, second], freeze="y >= 0.3")
    assert [plan.expected_return for plan in frozen] == pytest.approx([9.9895, 14.9885, 16.9915])
    assert all(edit.states[0] % 5 < 3 for plan in frozen for edit in plan.patch.edits)
    mask = np.arange(51) == 2
    masked = improve(world, current, [first, second], freeze=mask)
    assert all((2,) not in [edit.states for edit in plan.patch.edits] for plan in masked)


def test_costs_per_action_are_charged(chain_frontier):
    costs = improve(chain.world(), chain.current(), unit="total", change_cost=[1.0, 2.5])
    assert [plan.changes for plan in costs] == pytest.approx([2.5 * plan.changes for plan in chain_frontier])


def test_a_current_policy_that_a_free_change_betters_is_not_proven():
    moves = np.zeros((2, 3, 2))
    moves[:, :, 1] = 1.0
    world = TabularMDP(moves, np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]]), [1.0, 0.0], absorbing=[1])
    frontier = improve(world, [0, 0], change_cost=np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]))
    told = [(plan.changes, plan.expected_return, plan.bound, plan.proven) for plan in frontier]
    assert told == [(0.0, 0.0, 1.0, False), (0.0, 1.0, 1.0, True), (1.0, 2.0, 2.0, True)]


def test_a_stochastic_policy_is_told_beside_its_most_probable_actions():
    table = np.column_stack([np.full(12, 0.6), np.full(12, 0.4)])
    frontier = improve(chain.world(), table, unit="total")
    mixed = exact_evaluator(chain.world(), table)
    own = float((mixed.visits()[:, None] * table * chain.world().rewards).sum())
    assert [frontier.current_return, frontier[0].expected_return] == pytest.approx([own, own])
    assert f"most probable actions alone would return {number(4.996636, 6)}" in frontier.warnings[0]


@given(seed=st.integers(0, 10_000), keep=st.booleans())
def test_plans_of_a_stochastic_policy_are_those_of_brute_force(seed, keep):
    """Every state goes on as now or takes an action; a change counts the chance that the policy does otherwise."""
    rng = np.random.default_rng(seed)
    moves = np.concatenate([rng.dirichlet(np.ones(4), (3, 2)) * [0.8, 0.8, 0.8, 1], np.zeros((1, 2, 4))])
    moves[..., 3] += 1 - moves.sum(axis=-1)
    cost = Outcome("cost", rng.random((4, 2)) * [[1], [1], [1], [0]])
    rewards = rng.normal(size=(4, 2)) * [[1], [1], [1], [0]]
    world = TabularMDP(moves, rewards, [*rng.dirichlet(np.ones(3)).tolist(), 0.0], absorbing=[3], outcomes=[cost])
    now = np.vstack([rng.dirichlet(np.ones(2), 2), [1.0, 0.0], [1.0, 0.0]])
    frontier = improve(world, now, keep="cost<=current" if keep else ())
    every = []
    for choice in product(range(3), repeat=3):
        policy = np.array([now[s] if a == 2 else np.eye(2)[a] for s, a in enumerate((*choice, 2))])
        visits = exact_evaluator(world, policy).visits()
        paid, price = ((policy * gains).sum(axis=1) @ visits for gains in (rewards, np.asarray(cost.of)))
        every.append((visits @ ((policy != now) * policy * (1 - now)).sum(axis=1), paid, price))
    most = every[-1][2] + 1e-9 if keep else np.inf
    assert frontier[0].expected_return == pytest.approx(every[-1][1])
    for changes, paid, price in every:
        if price <= most:
            assert frontier.at(changes + 1e-9).expected_return >= paid - 1e-7
    for plan in frontier:
        own = np.asarray(plan.policy.table)
        assert plan.expected_return == pytest.approx((own * rewards).sum(axis=1) @ exact_evaluator(world, own).visits())
        assert np.asarray(plan.patch.apply(now).probabilities(range(3))) == pytest.approx(own[:3])
        same = [e for e in every if abs(e[1] - plan.expected_return) < 1e-7 and e[2] <= most]
        assert plan.changes == pytest.approx(min(e[0] for e in same), abs=1e-7)


def test_discounted_worlds_without_an_end_are_solved():
    moves = np.zeros((2, 2, 2))
    moves[0, 0, 0] = moves[0, 1, 1] = moves[1, 0, 1] = moves[1, 1, 0] = 1.0
    world = TabularMDP(moves, [[1.0, 0.0], [3.0, 0.0]], [1.0, 0.0], absorbing=[False, False], discount=0.9)
    frontier = improve(world, np.array([0, 0]))
    assert [plan.expected_return for plan in frontier] == pytest.approx([10.0, 0.9 * 30.0])
    assert [plan.changes for plan in frontier] == pytest.approx([0.0, 1.0])


def looping_world(reward):
    moves = np.zeros((3, 2, 3))
    moves[0, 0, 2] = moves[0, 1, 1] = moves[1, 1, 0] = moves[1, 0, 2] = 1.0
    return TabularMDP(moves, [[0.0, reward], [0.0, 0.0], [0.0, 0.0]], [1.0, 0.0, 0.0], absorbing=[2])


def test_a_world_with_a_loop_that_pays_is_refused_and_one_that_costs_is_not():
    with pytest.raises(UnboundedReturnError, match=r"state 0 \(action 1\), state 1 \(action 1\)"):
        improve(looping_world(1.0), np.array([0, 0, 0]))
    assert len(improve(looping_world(-1.0), np.array([0, 0, 0]))) == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"budget": -1}, InvalidOptionError, "budget must be a number of changes, 0 or more; got -1"),
        ({"unit": "episodes"}, InvalidOptionError, "unit must be 'expected' or 'total'"),
        ({"max_states": -2}, InvalidOptionError, "max_states"),
        ({"gap": -0.5}, InvalidOptionError, "gap"),
        ({"time_limit": 0}, InvalidOptionError, "time_limit"),
        ({"change_cost": [[1.0]]}, InvalidOptionError, "change_cost"),
        ({"change_cost": -1.0}, InvalidOptionError, "at least 0"),
        ({"freeze": "state << 3"}, ParseError, "column 8"),
        ({"keep": "length<=3"}, ParseError, "length"),
        ({"candidates": [np.zeros((12, 3))]}, InvalidPolicyError, "2 columns"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, error, message):
    candidates = options.pop("candidates", None)
    with pytest.raises(error, match=message) as caught:
        improve(chain.world(), chain.current(), candidates, **options)
    assert "\n" not in str(caught.value)


def test_a_current_policy_that_is_not_allowed_or_never_ends_is_refused():
    with pytest.raises(ImproperPolicyError, match="s0"):
        improve(looping_world(-1.0), np.array([1, 1, 0]))
    moves = np.zeros((2, 2, 2))
    moves[0, :, 1] = 1.0
    world = TabularMDP(moves, np.zeros((2, 2)), [1.0, 0.0], absorbing=[1], allowed=[[True, False], [True, True]])
    with pytest.raises(InvalidPolicyError, match="allowed"):
        improve(world, np.array([1, 0]))


def test_unequal_starts_have_no_total():
    world = chain.world()
    uneven = TabularMDP(
        world.transitions.toarray().reshape(12, 2, 12),
        world.rewards,
        np.concatenate([[0.5], np.full(10, 0.05), [0.0]]),
        absorbing=[11],
    )
    with pytest.raises(InvalidOptionError, match="equally likely"):
        improve(uneven, chain.current(), unit="total")


def test_where_the_hull_takes_too_long_prices_are_bisected(monkeypatch):
    """A walk along the hull that is not at its end bounds nothing; bisection may stop anywhere."""
    whole = improve(chain.world(), chain.current(), unit="total")
    monkeypatch.setattr("polidiff.frontier.solve.HULL", 0.0)
    cut = improve(chain.world(), chain.current(), unit="total", time_limit=30.0)
    assert cut.stats["method"] == "prices by bisection, sparse policy iteration"
    for plan in cut:
        assert plan.expected_return <= whole.at(plan.changes).expected_return + 1e-9 <= plan.bound + 2e-9


@pytest.mark.parametrize("guard", [(), ("return>=current",)])
def test_states_without_a_choice_are_left_out_of_the_search_and_change_no_answer(monkeypatch, guard):
    monkeypatch.setattr("polidiff.frontier.problem.WORTH_IT", 0)
    left_out = 0
    for seed in range(25):
        rng = np.random.default_rng([7, seed])
        moves = rng.dirichlet(np.full(12, 0.3), (12, 3))
        moves[11] = np.eye(12)[11]
        base, allowed = rng.integers(0, 3, 12), rng.random((12, 1)) < np.full((12, 3), 0.4)
        allowed[np.arange(12), base] = True
        rewards = rng.normal(size=(12, 3))
        world = TabularMDP(moves, rewards, np.eye(12)[:2].sum(axis=0) / 2, absorbing=[11], allowed=allowed)
        left_out += contracted(prepare(world, base, None).problem) is not None
        answers = []
        for rule in (contracted, lambda problem: None):
            monkeypatch.setattr("polidiff.frontier.table.contracted", rule)
            whole = improve(world, base, keep=guard)
            some = improve(world, base, keep=guard, budget=0.6 * whole[-1].changes)
            answers.append([(plan.changes, plan.expected_return, plan.proven) for plan in (*whole, *some)])
            assert [point.changes for point in whole.hull] == sorted(point.changes for point in whole.hull)
        assert np.array(answers[0]) == pytest.approx(np.array(answers[1]), abs=1e-9)
    assert left_out > 15


def test_a_plan_away_from_a_loop_of_100_000_steps_and_back_loses_no_digits():
    """State 3 is left once in so many steps; taking its other action changes visits a thousandfold."""
    moves = np.zeros((5, 2, 5))
    moves[0, :, 1] = 0.9999
    moves[1, 0, 3], moves[1, 1, 2] = 0.999, 0.99
    moves[2, :, 3] = 0.9999
    moves[3, 0, 3], moves[3, 1, 0] = 0.99999, 0.999
    moves[:, :, 4] = 1.0 - moves.sum(axis=2)
    rewards = np.array([[-0.75, -0.75], [-0.3, -0.2], [-0.7, -0.7], [-0.48, -0.01], [0.0, 0.0]])
    frontier = improve(TabularMDP(moves, rewards, np.eye(5)[1], absorbing=[4]), [0, 0, 0, 0, 0])
    points = []
    for plan in ([0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 1, 0, 1]):
        at = np.arange(4), np.array(plan)
        visits = np.linalg.solve(np.eye(4) - moves[at][:, :4].T, np.eye(4)[1])
        points.append((visits @ np.array(plan), visits @ rewards[at]))
    best = [p for p in sorted(points) if all(p[1] > q[1] for q in points if q[0] < p[0])]
    np.testing.assert_allclose([(p.changes, p.expected_return) for p in frontier], best, rtol=1e-9)
    assert all(plan.proven for plan in frontier)


def test_past_the_time_limit_nothing_more_is_told_of_the_plans_and_a_sentence_says_so(monkeypatch):
    whole = improve(chain.world(), chain.current(), unit="total")
    assert whole.ledger is not None
    assert whole.baselines
    assert not whole.warnings
    monkeypatch.setattr("polidiff.frontier.improve.AT_ONCE", 0.0)
    for late in ("between", "Adoption", "all_baselines"):
        monkeypatch.setattr(f"polidiff.frontier.table.{late}", lambda *_: pytest.fail("it is past the time limit"))
    cut = improve(chain.world(), chain.current(), unit="total", time_limit=1e-6)
    assert cut.warnings[-1] == (
        "the time limit of 1e-06 s leaves out what single changes are worth, what plans return that are followed in "
        "part and what earlier methods find"
    )
    assert cut.ledger is None
    assert cut.baselines == ()
    assert not any(plan.adoption for plan in cut)
    for plan in cut:
        again = exact_evaluator(chain.world(), plan.policy).totals(chain.world().rewards)
        assert plan.expected_return == pytest.approx(float(again))
    assert str(cut)
    assert cut.best.expected_return <= whole.best.expected_return + 1e-9


@pytest.mark.parametrize("limits", [{"keep": "return>=current"}, {"max_states": 2}])
def test_past_the_time_limit_bounds_hold_within_limits_too_and_half_a_hull_is_not_shown(monkeypatch, limits):
    whole = improve(chain.world(), chain.current(), unit="total", **limits)

    def too_late(*_):
        raise OutOfTimeError

    monkeypatch.setattr("polidiff.frontier.improve.AT_ONCE", 0.0)
    monkeypatch.setattr("polidiff.frontier.large.parametric_hull", too_late)
    cut = improve(chain.world(), chain.current(), unit="total", time_limit=1e-6, **limits)
    assert cut.warnings[-2].startswith("the time limit of 1e-06 s was met")
    assert whole.hull
    assert not cut.hull
    for plan in cut:
        assert plan.expected_return <= whole.at(plan.changes).expected_return + 1e-9 <= plan.bound + 2e-9


def test_a_search_over_few_states_that_time_cut_short_claims_no_proof():
    rng = np.random.default_rng(1)
    moves, rewards = rng.dirichlet(np.full(30, 0.4), size=(30, 3)), rng.normal(size=(30, 3))
    world = TabularMDP(moves, rewards, np.full(30, 1 / 30), absorbing=np.zeros(30, dtype=bool), discount=0.9)
    current = rng.integers(0, 3, 30)
    whole = improve(world, current, max_states=2, budget=2.0)
    cut = improve(world, current, max_states=2, budget=2.0, time_limit=1e-6)
    assert whole.best.proven
    missed = whole.best.expected_return - cut.best.expected_return
    assert missed < 1e-9 or not cut.best.proven, "how far the search comes is the machine's"
    assert cut.best.bound >= whole.best.expected_return - 1e-9
    assert cut.gap * (cut.optimum - cut.current_return) >= missed - 1e-9
