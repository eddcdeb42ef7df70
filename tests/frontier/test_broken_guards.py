"""Where the current policy breaks a guard, plans are compared with it all the same, as brute force evaluates it."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from polidiff import Outcome, TabularMDP, improve
from polidiff.errors import InfeasibleError
from polidiff.evaluation.exact import policy_table
from polidiff.explanation.plan_text import frontier_headline, plan_answers, plan_verdicts
from polidiff.explanation.words import bare_bounds
from polidiff.records.numbers import number, signed
from polidiff.records.outcome import Interval
from polidiff.report.plans import outcome_rows_table, plan_cards

STATES, ACTIONS = 4, 2
WAYS = ("states", "by chance", "rules")


def world_of(rng):
    """Three states that decide, in any order, and one that ends."""
    moves = rng.dirichlet(np.ones(STATES), size=(STATES, ACTIONS))
    cost = rng.normal(size=(STATES, ACTIONS)).round(2)
    rewards = rng.normal(size=(STATES, ACTIONS)).round(2)
    cost[-1], rewards[-1] = 0.0, 0.0
    return TabularMDP(
        moves, rewards, [0.5, 0.3, 0.2, 0.0], absorbing=[STATES - 1], actions=["a", "b"],
        outcomes=[Outcome("cost", cost, prefer="less")], features=np.arange(STATES)[:, None], feature_names=["u"],
    ), moves, {"return": rewards, "cost": cost}  # fmt: skip


def brought(table, moves, gains):
    """Every outcome of a policy (S, A), by the linear equations of its visits."""
    inside = STATES - 1
    kernel = np.einsum("sa,sat->st", table, moves)[:inside, :inside]
    visits = np.linalg.solve(np.eye(inside) - kernel.T, [0.5, 0.3, 0.2])
    return {name: float(visits @ (table * gain)[:inside].sum(axis=1)) for name, gain in gains.items()}


def policies(now):
    """Every policy that does one action, or as now, in each state."""
    for choice in itertools.product(range(ACTIONS + 1), repeat=STATES - 1):
        yield np.array([*(now[s] if a == ACTIONS else np.eye(ACTIONS)[a] for s, a in enumerate(choice)), now[-1]])


def cases(way):
    rng = np.random.default_rng(WAYS.index(way))
    for _ in range(25):
        world, moves, gains = world_of(rng)
        now = np.eye(ACTIONS)[rng.integers(0, ACTIONS, STATES)]
        if way == "by chance":
            now = rng.dirichlet(np.ones(ACTIONS), size=STATES)
        name, room = rng.choice(["return", "cost"]), float(rng.choice([-0.2, 0.1, 0.3]))
        keep = f"return>=current+{room}" if name == "return" else f"cost<=current{-room:+g}"
        try:
            frontier = improve(world, now, keep=keep.replace("+-", "-"), max_rules=3 if way == "rules" else None)
        except InfeasibleError:
            continue
        sign = 1 if name == "return" else -1
        current = brought(now, moves, gains)
        yield (
            world,
            moves,
            gains,
            now,
            current,
            frontier,
            lambda got, n=name, s=sign, c=current, r=room: s * (got[n] - c[n]) >= r - 1e-9,
        )


@pytest.mark.parametrize("way", WAYS)
def test_text_page_and_verdicts_compare_with_the_current_policy_as_brute_force_evaluates_it(way):
    broken = 0
    for world, moves, gains, now, current, frontier, keeps in cases(way):
        first, best = frontier.plans[0], frontier.best
        assert (first.changes, len(first.patch.changing)) == (0.0, 0)
        assert bool(first.breaks) is not keeps(current)
        assert {name: value.estimate for name, value in first.outcomes.items()} == pytest.approx(current)
        assert frontier.current_return == pytest.approx(current["return"])
        allowed = [got for table in policies(now) if keeps(got := brought(table, moves, gains))]
        assert best.expected_return == pytest.approx(max(got["return"] for got in allowed))
        for plan in frontier:
            brings = brought(policy_table(world, plan.policy), moves, gains) if plan is not first else current
            differences = {name: brings[name] - current[name] for name in brings}
            told = {verdict.outcome: verdict.difference.estimate for verdict in plan_verdicts(frontier, plan)}
            assert told == pytest.approx(differences, abs=1e-9)
            rows = {row[0]: row[2] for row in outcome_rows_table(plan, frontier).rows}
            assert rows == {name: bare_bounds(Interval.exactly(told[name]), None, difference=True) for name in told}
            assert plan.breaks or keeps(brings)
            assert "possible" not in plan_cards(plan, frontier)[1].detail
        headline = frontier_headline(frontier)
        gain = best.expected_return - current["return"]
        several = len(frontier.plans) > 1
        now_told = re.search(r"from (\S+) \(current" if several else r"current policy, which returns (\S+)\.", headline)
        assert float(now_told[1].replace("−", "-")) == pytest.approx(current["return"], rel=5e-4, abs=1e-9)
        assert not several or f"({signed(gain)})" in headline or abs(gain) < 1e-9
        assert ("breaks what is to be kept" in headline) is bool(first.breaks)
        said = {answer.question: answer.text for answer in plan_answers(frontier)}
        assert (said["What changes?"] == "Nothing: the current policy stays.") is (frontier.knee is first)
        if first.breaks:
            broken += 1
            assert frontier.knee is not first
            assert best is not first
            assert any("it is shown to compare with" in text for text in frontier.warnings)
        if way == "by chance":
            assert f"It returns {number(current['return'], 6)};" in " ".join(frontier.warnings)
    assert broken > 5


def test_a_free_change_does_not_take_the_place_of_the_current_policy():
    moves = np.zeros((2, 2, 2))
    moves[..., 1] = 1.0
    world = TabularMDP(moves, np.array([[0.0, 1.0], [0.0, 0.0]]), [1, 0], absorbing=[1], actions=["a", "b"])
    frontier = improve(world, [0, 0], change_cost=np.zeros((2, 2)))
    assert [plan.expected_return for plan in frontier] == [0.0, 1.0]
    assert frontier.at(0) is frontier.best is frontier[1]
    assert "from 0 (current) to 1 (+1)" in frontier_headline(frontier)
