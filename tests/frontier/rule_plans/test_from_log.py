"""Rule plans from a log: one half chooses, the other judges, and what is promised holds."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, improve
from polidiff.errors import InvalidOptionError
from polidiff.evaluation.exact import ExactEvaluator, policy_table
from polidiff.evaluation.logged.counted_log import counted_log
from polidiff.evaluation.logged.counts import BLOCKS, count_log
from polidiff.evaluation.logged.plan import Halves, choose_and_judge, estimated_world
from polidiff.surrogates.log_states import best_strength, left_out_error, left_out_likelihood, shrunk
from polidiff.worlds.log_converters import simulated_frame

from .conftest import random_grid, some_policy


def log_of(world, table, episodes, seed=0, prefer=None):
    """A log with row and column as features; the reward is the world's, on average."""
    frame = simulated_frame(world, table, episodes, rng=np.random.default_rng(seed))
    told = pl.DataFrame(np.asarray(world.features, dtype=float), schema=["row", "column"])
    frame = frame.join(
        told.with_columns(state=pl.Series(np.arange(world.n_states))), on="state", how="left", maintain_order="left"
    )
    shared = {
        "state": "state", "action": "action", "episode": "episode", "step": "step", "terminated": "terminated",
        "truncated": "truncated", "features": ["row", "column"], "states": world.n_states, "actions": world.n_actions,
    }  # fmt: skip
    if prefer is not None:
        return Log(frame, outcomes=[Outcome("return", "return", prefer=prefer, range=(-60, 60))], **shared)
    return Log(frame, reward="return", return_range=(-60, 60), **shared)


@pytest.fixture(scope="module")
def world():
    return random_grid(3, side=4)


@pytest.fixture(scope="module")
def mixed_policy(world):
    return some_policy(world, 3, mixed=True)


def halves_of(log) -> Halves:
    return choose_and_judge(counted_log(log, ("log",), blocks=BLOCKS))


def truth(world, table):
    return float(ExactEvaluator(world, table).visits() @ (table * world.rewards).sum(axis=1))


def gain_of(world, current, plan):
    table = np.array(policy_table(world, current))
    for edit in plan.patch.changing:
        table[list(edit.states)] = np.eye(world.n_actions)[edit.proposed]
    return truth(world, table) - truth(world, current)


@pytest.mark.slow
def test_promised_gains_come_from_the_other_half_and_hold_the_truth(world, mixed_policy):
    covered, better, said, promised, true = [], [], [], [], []
    for seed in range(12):
        frontier = improve(log_of(world, mixed_policy, 400, seed), "log", max_rules=2)
        best = frontier.best
        gain = gain_of(world, mixed_policy, best)
        covered.append(best.gain.low <= gain <= best.gain.high)
        better.append(gain > 0)
        said.append(frontier.stats[f"gain said by the choosing half with {len(best.rules)} rules, raw"])
        promised.append(best.gain.estimate)
        true.append(gain)
    assert np.mean(covered) >= 0.9
    assert all(better)
    assert np.mean(promised) == pytest.approx(np.mean(true), rel=0.2)
    assert np.mean(said) > 1.1 * np.mean(true), "the rows that chose a plan flatter it"


def test_what_is_told_is_what_the_plan_is(world, mixed_policy):
    frontier = improve(log_of(world, mixed_policy, 600), "log", max_rules=2, seed=0)
    assert frontier.unit == "rules"
    assert frontier.world.kind == "log"
    assert frontier[0].gain is None
    for plan in frontier.plans[1:]:
        assert plan.gain.estimate == pytest.approx(plan.expected_return - frontier.current_return, abs=1e-6)
        assert plan.bound >= plan.expected_return
        assert not plan.proven
        states = {s for edit in plan.patch.changing for s in edit.states}
        boxes = np.any([told.rule.covers(world.features.astype(float)) for told in plan.rules], axis=0)
        assert states <= set(np.flatnonzero(boxes))
    assert "judges" in frontier.warnings[0]


def test_rules_prescribe_only_what_was_seen_often_enough(world, mixed_policy):
    log = log_of(world, mixed_policy, 400)
    visits = halves_of(log).choosing.counts.edges.visits
    least = int(np.quantile(visits[visits > 0], 0.6))
    plan = improve(log, "log", max_rules=3, min_support=least).best
    pairs = {(state, edit.proposed) for edit in plan.patch.changing for state in edit.states}
    assert pairs
    assert min(visits[pair] for pair in pairs) >= least
    assert len(improve(log, "log", max_rules=3, min_support=10**6)) == 1, "nothing was seen a million times"


def test_a_share_is_of_the_decisions_a_rule_speaks_about(world, mixed_policy):
    log = log_of(world, mixed_policy, 400)
    visits = halves_of(log).choosing.counts.edges.state_visits
    plan = improve(log, "log", max_rules=2, min_support=0.3).best
    for told in plan.rules:
        box = told.rule.covers(world.features.astype(float))
        assert visits[box].sum() / visits.sum() >= 0.29
    with pytest.raises(InvalidOptionError, match="min_support must be"):
        improve(log, "log", max_rules=2, min_support=2.5)


def test_frozen_states_and_states_nobody_met_stay_as_they_are(world, mixed_policy):
    log = log_of(world, mixed_policy, 300)
    plan = improve(log, "log", max_rules=2, freeze="row<2").best
    touched = {s for edit in plan.patch.changing for s in edit.states}
    assert touched
    assert all(world.features[s, 0] >= 2 and not world.absorbing[s] for s in touched)


def test_an_outcome_of_which_less_is_better_is_lowered(world, mixed_policy):
    plan = improve(log_of(world, mixed_policy, 400, prefer="less"), "log", max_rules=1).best
    assert plan.gain.estimate > 0
    assert gain_of(world, mixed_policy, plan) < 0, "the sum that the outcome counts goes down"


def test_shrinking_goes_from_the_rows_as_counted_to_the_mean_row(world, mixed_policy):
    log = log_of(world, mixed_policy, 300)
    half = halves_of(log).choosing
    visits, raw = half.counts.edges.visits, estimated_world(log, half)
    seen = np.argwhere(visits > 0)
    row = lambda table, s, a: table.transitions.toarray()[s * table.n_actions + a]  # noqa: E731
    for strength, expected in ((1e-9, "own"), (1e9, "mean")):
        table = shrunk(raw, visits, strength)
        for s, a in seen[:6]:
            mean = sum(visits[s, b] * row(raw, s, b) for b in range(raw.n_actions)) / visits[s].sum()
            np.testing.assert_allclose(row(table, s, a), row(raw, s, a) if expected == "own" else mean, atol=1e-6)
    assert not shrunk(raw, visits, 10.0).allowed[:-2][(visits == 0) & (visits.sum(axis=1, keepdims=True) > 0)].any()


@pytest.mark.parametrize("alike", [True, False])
def test_rows_that_are_alike_are_shrunk_more(alike):
    base = random_grid(5, side=3)
    dense = base.transitions.toarray().reshape(base.n_states, base.n_actions, base.n_states)
    if alike:
        dense = np.repeat(dense[:, :1], base.n_actions, axis=1)
    from .test_improve_with_rules import rebuilt

    world = rebuilt(base, transitions=dense)
    log = log_of(world, np.full((world.n_states, world.n_actions), 1 / world.n_actions), 600)
    edges = halves_of(log).choosing.counts.edges
    assert (best_strength(edges) >= 200) == alike
    assert left_out_likelihood(edges, 10.0) < 0


@pytest.mark.parametrize("strength", [1.0, 20.0])
def test_single_decisions_are_foretold_by_all_others_as_in_a_plain_loop(strength):
    rng = np.random.default_rng(0)
    state, action, paid = rng.integers(0, 4, 60), rng.integers(0, 3, 60), rng.normal(size=60)
    state[0] = 9  # met once: nothing foretells it
    frame = pl.DataFrame({"state": state, "action": action, "reward": paid})
    log, error = Log(frame, state="state", action="action", reward="reward", states=10, actions=3), 0.0
    for i in range(1, 60):
        others = (state == state[i]) & (np.arange(60) != i)
        same = others & (action == action[i])
        foretold = (paid[same].sum() + strength * paid[others].mean()) / (same.sum() + strength)
        error += (paid[i] - foretold) ** 2
    assert left_out_error(count_log(log).edges, strength, 0) == pytest.approx(error)
