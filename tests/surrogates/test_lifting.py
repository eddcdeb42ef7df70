"""A plan over cells and the policy it becomes are the same, whatever regions overlap and whatever is frozen."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff import Log, Simulator, improve
from polidiff.policies import PatchedPolicy, as_policy, one_hot, top_actions
from polidiff.records.action import Action, Swap
from polidiff.records.plan import PlanRule
from polidiff.records.rule import Condition, Rule, covers_any
from polidiff.regions.describe import Described, ToldRegion
from polidiff.surrogates import simulator_cells
from polidiff.surrogates.list_chooser import rule_cells
from polidiff.surrogates.log_scores import KEEP, ScorePlans
from polidiff.surrogates.region_cells import make_cells
from polidiff.surrogates.simulator import rules_patch

NAMES = ("a", "b", "c")
WORDS = ("red", "green", "blue")


def some_rule(rng, missing):
    """A box over two numbers, the first with values missing, and a word."""
    conditions = []
    for column, name in enumerate("xy"):
        if rng.random() < 0.7:
            low, high = np.sort(rng.choice(11, 2, replace=False)) / 10
            ends = [(low, high), (-np.inf, high), (low, np.inf)][rng.integers(0, 3)]
            absent = bool(missing and column == 0 and rng.random() < 0.5)
            conditions.append(Condition(name, column, *ends, missing=absent))
    if rng.random() < 0.4:
        conditions.append(Condition("z", 2, values=tuple(w for w in WORDS if rng.random() < 0.6) or WORDS[:1]))
    return Rule(tuple(conditions))


def some_rows(rng, count, missing):
    rows = np.empty((count, 3), dtype=object)
    rows[:, 0] = [None if missing and rng.random() < 0.15 else v for v in rng.integers(0, 20, count) / 20]
    rows[:, 1] = rng.integers(0, 20, count) / 20
    rows[:, 2] = [WORDS[k] for k in rng.integers(0, 3, count)]
    return rows


def some_candidate(rng, missing):
    regions = [
        ToldRegion(some_rule(rng, missing), Swap(NAMES[current], NAMES[(current + 1 + rng.integers(0, 2)) % 3]), 1)
        for current in rng.integers(0, 3, rng.integers(1, 5))
    ]
    return Described(tuple(regions), None, np.zeros(0, dtype=bool), ())


def check_cells(seed):
    """Plans over the cells of random overlapping regions, as simulators and logs lift them."""
    rng = np.random.default_rng(seed)
    missing = bool(rng.random() < 0.5)
    rows, fresh = (some_rows(rng, 300, missing) for _ in range(2))
    frozen = [some_rule(rng, missing) for _ in range(rng.integers(0, 3))]
    described = [some_candidate(rng, missing) for _ in range(rng.integers(1, 4))]
    cells = make_cells(described, rows, NAMES, frozen)
    cut = float(rng.random())
    current = as_policy(lambda s: np.where(np.asarray(s)[:, 1].astype(float) < cut, rng_action, other), n_actions=3)
    rng_action, other = rng.integers(0, 3, 2)
    chosen = {
        k: int(rng.choice(cell.offered)) for k, cell in enumerate(cells.cells) if cell.offered and rng.random() < 0.6
    }
    policy = PatchedPolicy(current, cells.patch(chosen, NAMES, ("x", "y", "z")))
    for states in (rows, fresh):
        top = top_actions(current.probabilities(states))
        where = cells.of(states, top)
        expected = np.array([chosen.get(k, top[i]) for i, k in enumerate(where)])
        np.testing.assert_array_equal(policy.probabilities(states), one_hot(expected, 3))
        held = covers_any(frozen, states)
        np.testing.assert_array_equal(policy.probabilities(states)[held], current.probabilities(states)[held])


def check_lists(seed):
    """Random lists of rules over random frozen places, as simulators and as logs make them edits."""
    rng = np.random.default_rng(seed)
    missing = bool(rng.random() < 0.5)
    rows, fresh = (some_rows(rng, 300, missing) for _ in range(2))
    frozen = tuple(some_rule(rng, missing) for _ in range(rng.integers(0, 3)))
    current = as_policy(lambda s: np.where(np.asarray(s)[:, 1].astype(float) < 0.4, 0, 2), n_actions=3)
    actions = tuple(Action(name) for name in NAMES)
    world = SimpleNamespace(
        actions=actions, n_actions=3, feature_names=("x", "y", "z"), features_of=lambda states: np.asarray(states)
    )
    moves = rng.integers(0, 4, rng.integers(1, 4)).tolist()  # 3 keeps what is done
    listed = [PlanRule(some_rule(rng, missing), (*NAMES, KEEP)[move], 1.0, 0.0, 0.0) for move in moves]
    played = rules_patch(SimpleNamespace(world=world, frozen=frozen), listed)
    cells = rule_cells(rows, world.feature_names)
    boxes = [some_box(rng, cells) for _ in moves]
    problem = SimpleNamespace(world=world, cells=cells, frozen=frozen)
    logged = ScorePlans._patch(problem, tuple(zip(moves, boxes, strict=True)))
    for patch, rules in ((played, [entry.rule for entry in listed]), (logged, [cells.rule(box) for box in boxes])):
        for states in (rows, fresh):
            expected, left = top_actions(current.probabilities(states)), ~covers_any(frozen, states)
            for move, rule in zip(moves, rules, strict=True):
                inside = left & rule.covers(states)
                expected = np.where(inside & (move < 3), move, expected)
                left &= ~inside
            after = PatchedPolicy(current, patch).probabilities(states)
            np.testing.assert_array_equal(after, one_hot(expected, 3))


def some_box(rng, cells):
    columns = np.sort(rng.choice(len(cells.sizes), rng.integers(1, 3), replace=False))
    ends = [np.sort(rng.integers(0, cells.sizes[column], 2)) for column in columns]
    return tuple((int(column), int(low), int(high)) for column, (low, high) in zip(columns, ends, strict=True))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_lifted_policy_is_the_one_that_was_priced_and_keeps_what_is_frozen(seed):
    check_cells(seed)
    check_lists(seed)


@pytest.mark.slow
def test_a_thousand_lifted_policies_are_those_that_were_priced():
    for seed in range(1000):
        check_cells(seed)
        check_lists(seed)


class Field:
    """Two numbers that wander; an action is worth more where a number is large, and ends the episode now and then."""

    n_actions = 3
    actions = NAMES
    feature_names = ("x", "y")
    horizon = 6

    def reset(self, count, rng):
        return rng.random((count, 2))

    def step(self, states, actions, rng):
        worth = np.choose(actions, [states[:, 0], states[:, 1], 1 - states[:, 0]])
        return rng.random(states.shape), worth, rng.random(len(states)) < 0.2


def some_policy(seed):
    """An action in each of a few overlapping boxes."""
    rng = np.random.default_rng(seed)
    boxes = [(np.sort(rng.random((2, 2)), axis=0), rng.integers(0, 3)) for _ in range(3)]

    def policy(states):
        table = np.asarray(states, dtype=float)
        actions = np.zeros(len(table), dtype=int)
        for (low, high), action in boxes:
            actions[((table >= low) & (table < high)).all(axis=1)] = action
        return actions

    return policy


@pytest.mark.parametrize("seed", range(4))
def test_region_plans_in_a_simulator_keep_what_is_frozen_and_change_what_they_say(seed, monkeypatch):
    monkeypatch.setattr(simulator_cells, "MODEL_STEPS", 400_000)
    world, current = Simulator(Field()), some_policy(seed)
    frontier = improve(world, current, [some_policy(100 + seed), some_policy(200 + seed)], freeze="x > 0.4 and y < 0.7")
    states = np.random.default_rng(seed).random((4000, 2))
    frozen = (states[:, 0] > 0.4) & (states[:, 1] < 0.7)
    before = current(states)
    for plan in frontier:
        after = plan.policy.probabilities(states).argmax(axis=1)
        assert (after[frozen] == before[frozen]).all()
        assert not plan.proven
        share = (after != before).mean()  # states of every step are uniform, so changes are a share of the steps
        length = (1 - 0.8**6) / 0.2
        assert plan.changes == pytest.approx(share * length, abs=0.12)
    assert len(frontier) > 1


def field_log(seed):
    """One decision a row, taken at random in the field."""
    rng = np.random.default_rng(seed)
    rows, actions = rng.random((4000, 2)), rng.integers(0, 3, 4000)
    worth = np.choose(actions, [rows[:, 0], rows[:, 1], 1 - rows[:, 0]])
    frame = pl.DataFrame({"x": rows[:, 0], "y": rows[:, 1], "act": actions, "r": worth})
    return Log(frame, state=["x", "y"], action="act", reward="r", return_range=(0, 1), actions=list(NAMES)), rows


@pytest.mark.slow
def test_region_plans_from_feature_rows_keep_what_is_frozen_and_change_what_they_say():
    changing = 0
    for seed in range(3):
        (log, rows), current = field_log(seed), some_policy(seed)
        candidates = [some_policy(100 + seed), some_policy(200 + seed)]
        frozen = (rows[:, 0] > 0.4) & (rows[:, 1] < 0.7)
        for plan in improve(log, current, candidates, freeze="x > 0.4 and y < 0.7"):
            after = plan.policy.probabilities(rows).argmax(axis=1)
            assert (after[frozen] == current(rows)[frozen]).all()
            assert plan.changes == pytest.approx((after != current(rows)).mean(), abs=0.02)
            assert not plan.proven
            changing += len(plan.patch.changing) > 0
    assert changing >= 3
