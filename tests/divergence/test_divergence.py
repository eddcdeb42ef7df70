"""Diverging states: what counts, what is met, and that the work stays bounded."""

from __future__ import annotations

import math

import joblib
import numpy as np
import pytest

from polidiff import Outcome, Simulator, TabularMDP, parallel
from polidiff.divergence import find_divergence, simulator
from polidiff.divergence.next_state_test import MOST_REPLAYED
from polidiff.domains import chain, navigation
from polidiff.options import ExplainOptions
from polidiff.policies import as_policy, one_hot
from polidiff.records.explanation import IDLE


def in_table(world, current, proposed, **options):
    return find_divergence(
        world, one_hot(current, world.n_actions), one_hot(proposed, world.n_actions), ExplainOptions(**options)
    )


def in_navigation(proposed, **options):
    policies = [as_policy(p, n_actions=3) for p in (navigation.current, proposed)]
    return find_divergence(navigation.world(), *policies, ExplainOptions(**options))


def fork(**outcomes):
    """Both actions lead to the same end; they may differ in what they pay."""
    moves = np.zeros((2, 2, 2))
    moves[0, :, 1] = 1.0
    return TabularMDP(moves, np.zeros((2, 2)), [1.0, 0.0], absorbing=[1], **outcomes)


def test_the_chain_diverges_in_s1_and_s5_only():
    found = in_table(chain.world(), chain.current(), chain.proposed())
    assert found.states[found.diverging].tolist() == [1, 5]


def test_other_actions_with_the_same_effect_do_not_diverge():
    found = in_table(fork(), np.array([0, 0]), np.array([1, 0]))
    assert not found.diverging.any()


class Alternating:
    """Four decisions; only the second and the fourth move anything."""

    n_actions = 2

    def reset(self, count, rng):
        return np.zeros((count, 2))

    def step(self, states, actions, rng):
        moved = states + np.stack([np.ones(len(states)), actions * (states[:, 0] % 2)], axis=1)
        return moved, np.zeros(len(states)), moved[:, 0] == 4


def test_played_decisions_that_change_nothing_are_a_share_of_those_that_change():
    always, never = (as_policy(f"always:{a}", actions=["0", "1"]) for a in (1, 0))
    found = find_divergence(Simulator(Alternating()), never, always, ExplainOptions())
    assert found.facts[IDLE] == pytest.approx(0.5)
    assert IDLE not in in_table(fork(), np.array([0, 0]), np.array([0, 0])).facts


def test_an_outcome_that_differs_at_once_makes_a_state_diverge_except_in_the_papers_rule():
    world = fork(outcomes=[Outcome("dose", np.array([[0.0, 1.0], [0.0, 0.0]]))])
    assert in_table(world, np.array([0, 0]), np.array([1, 0])).diverging.any()
    assert not in_table(world, np.array([0, 0]), np.array([1, 0]), style="paper").diverging.any()


def test_the_papers_rule_is_blind_where_next_states_are_equally_likely():
    """Two actions, three equally likely successors each, two in common: the most probable one ties."""
    moves = np.zeros((5, 2, 5))
    moves[0, 0, [1, 2, 3]] = 1 / 3
    moves[0, 1, [1, 2, 4]] = 1 / 3
    moves[1:4, :, 4] = 1.0
    world = TabularMDP(moves, np.zeros((5, 2)), np.eye(5)[0], absorbing=[4])
    one = np.array([1, 0, 0, 0, 0])
    assert not in_table(world, 0 * one, one, style="paper").diverging.any()
    assert in_table(world, 0 * one, one).states[in_table(world, 0 * one, one).diverging].tolist() == [0]


def test_ties_go_to_the_current_action():
    world = chain.world()
    tied = np.full((12, 2), 0.5)
    found = find_divergence(world, one_hot(chain.proposed(), 2), tied, ExplainOptions(policy_tolerance=0.6))
    assert (found.current == found.proposed).all()


@pytest.mark.parametrize(
    ("proposed", "cells"),
    [(navigation.proposed_1, {(0, 0), (1, 1)}), (navigation.proposed_2, {(0, 2), (1, 3), (5, 3)})],
)
def test_splitting_roll_outs_follow_the_other_policy_into_all_regions(proposed, cells):
    found = in_navigation(proposed, starts=50)
    x, y = navigation.tenths(found.states[found.diverging])
    assert set(zip(x.tolist(), y.tolist(), strict=True)) == cells


def test_one_split_finds_all_regions_and_none_meets_only_those_on_the_way():
    for splits in (1, 2):
        assert len({tuple(c) for c in _cells(in_navigation(navigation.proposed_2, starts=20, max_splits=splits))}) == 3


def _cells(found):
    return np.stack(navigation.tenths(found.states[found.diverging]), axis=1).tolist()


def test_labels_name_the_current_action_first():
    found = in_navigation(navigation.proposed_2, starts=20)
    assert {(s.current, s.proposed) for s in found.swaps} == {("east", "north"), ("south", "east")}


class Endless:
    """Every step of 500 diverges: action 1 moves right, action 0 stays."""

    n_actions = 2
    horizon = 500

    def reset(self, count, rng):
        return np.zeros((count, 1))

    def step(self, states, actions, rng):
        moved = states + actions[:, None]
        return moved, np.zeros(len(states)), moved[:, 0] >= 400


def test_the_work_is_bounded_and_the_sampled_share_is_told():
    world = Simulator(Endless())
    policies = [as_policy(lambda s, a=a: np.full(len(s), a), n_actions=2) for a in (0, 1)]
    limit = 200_000
    found = find_divergence(world, *policies, ExplainOptions(max_steps=limit, starts=50))
    assert 0 < found.facts["share of splits followed"] < 1
    assert len(found.states) <= 2 * limit


def test_weights_are_shares_and_rows_of_splits_do_not_judge():
    found = in_navigation(navigation.proposed_2, starts=50)
    assert found.weight.sum() == pytest.approx(1)
    assert found.judged.sum() == pytest.approx(1)
    assert (found.judged >= 0).all()


def test_playing_episodes_again_is_bounded_and_the_share_of_comparisons_is_told():
    import gymnasium

    class Long(gymnasium.Env):
        """A counter that cannot be copied, only played again."""

        action_space = gymnasium.spaces.Discrete(2)
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
        moves = 0

        def __deepcopy__(self, memo):
            raise TypeError("a handle to a device")

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.x = 0.0
            return np.array([self.x]), {}

        def step(self, action):
            Long.moves += 1
            self.x += 1.0 + action
            return np.array([self.x]), 0.0, False, False, {}

    policies = [as_policy(lambda rows, a=a: np.full(len(rows), a), n_actions=2) for a in (0, 1)]
    found = find_divergence(Simulator(Long, horizon=400), *policies, ExplainOptions(starts=4, max_splits=0))
    assert found.facts["restore mode"] == "replay"
    assert 0 < found.facts["share of comparisons made"] < 0.5
    assert found.diverging.all()
    assert Long.moves < 2 * MOST_REPLAYED + 10_000  # the probe that prices splitting has the same limit


class Stroll(Endless):
    """The same walk with luck, which ends sooner."""

    def reset(self, count, rng):
        return rng.uniform(0, 3, size=(count, 1))

    def step(self, states, actions, rng):
        moved = states + np.where(actions == 1, 1.0, -0.25)[:, None] * rng.uniform(0.5, 1.0, size=states.shape)
        return moved, -np.ones(len(states)), moved[:, 0] >= 8


@pytest.mark.parametrize("small", [-1.0, math.inf], ids=["sent", "here"])
def test_groups_of_starts_are_tasks_that_give_the_bytes_of_a_plain_loop(monkeypatch, small):
    monkeypatch.setattr(parallel, "SMALL_JOB", small)
    world = Simulator(Stroll(), horizon=40)
    policies = [as_policy(lambda s, k=k: (s[:, 0] > k).astype(int), n_actions=2) for k in (1.0, 2.0)]
    options = ExplainOptions(starts=2500, max_splits=2, seed=5)
    alone = find_divergence(world, *policies, options)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        apart = find_divergence(world, *policies, options)
    assert alone.facts == apart.facts
    for name in ("states", "label", "episode", "first", "weight", "judged", "current", "proposed"):
        assert getattr(alone, name).tobytes() == getattr(apart, name).tobytes()
    roots = alone.episode[(alone.judged > 0) & (alone.first == 0)]
    assert sorted(roots.tolist()) == sorted([*range(2500), *range(2500)])
    begins = alone.states[(alone.judged > 0) & (alone.first == 0), 0]
    assert len(np.unique(begins)) == 2500  # each start once per policy, and no group repeats the luck of another


def test_groups_share_the_steps_that_are_allowed(monkeypatch):
    monkeypatch.setattr(Simulator, "split_chunk", 20)
    policies = [as_policy(lambda s, a=a: np.full(len(s), a), n_actions=2) for a in (0, 1)]
    limit = 120_000
    options = ExplainOptions(max_steps=limit, starts=30)
    found = find_divergence(Simulator(Endless()), *policies, options)
    met = np.bincount(found.episode // 20)
    assert 0 < found.facts["share of splits followed"] < 1
    assert met.sum() <= 2 * limit
    assert met[0] / met[1] == pytest.approx(2, rel=0.3)


class Lanes:
    """Actions 0 and 1 go right, action 2 goes left; three steps."""

    n_actions, horizon = 3, 3

    def reset(self, count, rng):
        return np.zeros((count, 1))

    def step(self, states, actions, rng):
        moved = states + np.where(actions == 2, -1.0, 1.0)[:, None]
        return moved, np.zeros(len(states)), np.zeros(len(states), dtype=bool)


def luck(*chances):
    return lambda states: np.tile(chances, (len(states), 1))


@pytest.mark.parametrize(
    ("current", "proposed", "differs"),
    [
        ((0.9, 0.1, 0.0), (0.6, 0.4, 0.0), False),  # the same action less often, and what replaces it does the same
        ((0.4, 0.6, 0.0), (0.6, 0.4, 0.0), False),  # another top action that does the same
        ((0.9, 0.0, 0.1), (0.6, 0.0, 0.4), True),
        ((0.9, 0.0, 0.1), (0.6, 0.25, 0.15), False),  # only 0.05 of 0.3 goes elsewhere
        ((0.51, 0.0, 0.49), (0.49, 0.0, 0.51), False),  # another top action, but hardly another policy
        ((0.2, 0.2, 0.6), (0.6, 0.2, 0.2), True),
    ],
)
def test_a_probability_shift_counts_in_a_simulator_only_where_the_policies_lead_apart(current, proposed, differs):
    policies = [as_policy(luck(*chances), n_actions=3) for chances in (current, proposed)]
    found = find_divergence(Simulator(Lanes()), *policies, ExplainOptions(starts=20))
    assert found.diverging.all() if differs else not found.diverging.any()


def test_in_paper_style_splitting_roll_outs_take_the_most_probable_action():
    def mostly(states):
        return 0.8 * one_hot(navigation.current(states), 3) + 0.2 / 3

    def cells_met(**options):
        policies = [as_policy(p, n_actions=3) for p in (mostly, navigation.current)]
        met = find_divergence(navigation.world(), *policies, ExplainOptions(max_splits=0, starts=50, **options))
        return {tuple(cell) for cell in np.floor(met.states * 10 + 1e-9).astype(int).tolist()}

    walked = cells_met(style="paper")
    assert walked <= {(0, 0), (0, 1), *((x, 2) for x in range(10))}  # north to y = 0.2, then east
    assert walked < cells_met()  # luck leads elsewhere too


class Rows:
    """Places 1 … 3 are reached from 0 by the chances of each action; then the episode ends."""

    n_actions = 2

    def __init__(self, chances):
        self.chances = np.cumsum(chances, axis=1)

    def reset(self, count, rng):
        return np.zeros((count, 1))

    def step(self, states, actions, rng):
        arrived = 1.0 + (rng.random(len(states))[:, None] > self.chances[actions]).sum(axis=1)
        return arrived[:, None], np.zeros(len(states)), np.ones(len(states), dtype=bool)


@pytest.mark.parametrize(
    ("one", "other", "apart", "in_the_papers_rule"),
    [
        ((0.6, 0.3, 0.1), (0.6, 0.3, 0.1), False, False),
        ((0.8, 0.1, 0.1), (0.1, 0.1, 0.8), True, True),  # another most probable place
        ((1.0, 0.0, 0.0), (0.5, 0.25, 0.25), True, True),  # the same place, less probable
        ((0.8, 0.2, 0.0), (0.8, 0.0, 0.2), True, False),  # only what is less probable differs
        ((1.0, 0.0, 0.0), (0.995, 0.005, 0.0), False, False),
    ],
)
def test_a_simulator_compares_as_the_table_of_the_same_chances_does(one, other, apart, in_the_papers_rule):
    moves = np.zeros((4, 2, 4))
    moves[0, 0, 1:], moves[0, 1, 1:] = one, other
    moves[1:, :, 3] = 1.0
    table = TabularMDP(moves, np.zeros((4, 2)), np.eye(4)[0], absorbing=[1, 2, 3])
    policies = [as_policy(lambda states, a=a: np.full(len(states), a), n_actions=2) for a in (0, 1)]
    for rule, expected in ((False, apart), (True, in_the_papers_rule)):
        known = in_table(table, np.zeros(4, dtype=int), np.array([1, 0, 0, 0]), style="paper" if rule else "plain")
        assert known.diverging.any() == expected
        options = ExplainOptions(starts=200, style="paper" if rule else "plain")
        share = find_divergence(Simulator(Rows([one, other])), *policies, options).diverging.mean()
        assert share > 0.8 if expected else share < 0.1  # eight draws meet a difference of 0.2 in 1 - 0.8 ** 8 = 0.83


@pytest.mark.parametrize(
    ("current", "told"),
    [((0.5, 0.5), ("1", "1", 0.5)), ((0.6, 0.4), ("0", "1", None)), ((0.4, 0.6), ("1", "1", 0.6))],
)
def test_a_tie_of_the_current_policy_follows_the_proposed_action_in_a_table_and_in_roll_outs(current, told):
    chances = [(1.0, 0.0, 0.0), (0.0, 0.0, 1.0)]
    moves = np.zeros((4, 2, 4))
    moves[0, :, 1:], moves[1:, :, 3] = chances, 1.0
    names = {"actions": ["0", "1"]}
    table = TabularMDP(moves, np.zeros((4, 2)), np.eye(4)[0], absorbing=[1, 2, 3], **names)
    for world in (table, Simulator(Rows(chances), **names)):
        policies = [as_policy(luck(*pair), n_actions=2) for pair in (current, (0.0, 1.0))]
        (swap,) = find_divergence(world, *policies, ExplainOptions(starts=20)).swaps
        assert (swap.current, swap.proposed, swap.shift and swap.shift.current) == told


def test_comparisons_of_next_states_keep_to_the_steps_that_are_allowed():
    gymnasium = pytest.importorskip("gymnasium")
    steps = []

    class Same(gymnasium.Env):
        """Whatever is done, luck alone moves it, so that every comparison takes all its draws."""

        observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float64)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.np_random.random(1), {}

        def step(self, action):
            steps.append(action)
            return self.np_random.random(1), 0.0, False, False, {}

    policies = [as_policy(lambda states, a=a: np.full(len(states), a), n_actions=2) for a in (0, 1)]
    world, most = Simulator(Same, horizon=10), 2_000
    found = find_divergence(world, *policies, ExplainOptions(max_steps=most, max_splits=0))
    assert 0 < found.facts["share of comparisons made"] < 1
    episodes = 2 * 100 * 10 + simulator.PROBE * 10  # of both policies, and what is played to foresee a cost
    trials = 50  # of ways to copy the environment
    assert len(steps) <= episodes + 2 * most + trials, (
        "comparisons in the episodes, and in those that are played before"
    )
