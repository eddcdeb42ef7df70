"""The same verbs on a log: right directions where the data speaks, "unknown" where it is silent."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, evaluate, explain, improve
from polidiff.domains import chain, navigation
from polidiff.worlds.log_simulated import simulated_log

LENGTH = Outcome("trajectory length", "trajectory length", prefer="less", range=(0, 40))
VISITS = Outcome("visits to desired states", "visits to desired states", prefer="more", range=(0, 5))


def chain_log(table, episodes=1000, slip=0.1):
    return simulated_log(chain.world(slip), table, episodes, seed=0, outcomes=[LENGTH, VISITS])


def navigation_log(episodes, exploring, seed=0):
    rng = np.random.default_rng(seed)
    model = navigation.NavigationModel()
    states, alive, rows, step = model.reset(episodes, rng), np.arange(episodes), [], 0
    while len(alive):
        actions = navigation.current(states)
        random = rng.random(len(actions)) < exploring
        actions = np.where(random, rng.integers(0, 3, len(actions)), actions)
        after, rewards, ended = model.step(states, actions, rng)
        rows.append(
            pl.DataFrame(
                {
                    "episode": alive,
                    "step": step,
                    "x": states[:, 0],
                    "y": states[:, 1],
                    "action": np.array(navigation.ACTIONS)[actions],
                    "reward": rewards,
                    "stay": navigation.in_desired_region(states),
                    "ended": ended,
                }
            )
        )
        states, alive, step = after[~ended], alive[~ended], step + 1
    return Log(
        pl.concat(rows).sort("episode", "step"),
        state=["x", "y"],
        action="action",
        episode="episode",
        step="step",
        reward="reward",
        terminated="ended",
        truncated=None,
        actions=list(navigation.ACTIONS),
        outcomes=[Outcome("stay", "stay", prefer="more", range=(0, 60))],
    )


def test_an_exploring_log_gives_regions_and_directions_whose_intervals_hold_the_truth():
    log = chain_log(np.full((12, 2), 0.5))
    told = explain(log, "log", chain.proposed())
    world = chain.world(0.1)
    truth = {
        name: evaluate(world, chain.proposed()).outcomes[name].estimate
        - evaluate(world, np.full((12, 2), 0.5)).outcomes[name].estimate
        for name in (LENGTH.name, VISITS.name)
    }
    assert {"s1", "s5"} <= {region.id for region in told.regions}
    for verdict in told.verdicts:
        assert verdict.direction == "more"
        assert verdict.difference.contains(truth[verdict.outcome])


def test_a_log_that_never_tried_the_change_says_unknown_and_names_the_gap():
    told = explain(chain_log(np.eye(2)[chain.current()], slip=0.0), chain.current(), chain.proposed())
    overall = {v.outcome: v for v in told.verdicts}
    assert overall[LENGTH.name].direction == "unknown"
    assert "nobody has tried 'action 1'" in overall[LENGTH.name].note
    assert all(region.support.unsupported == 1.0 for region in told.regions)
    same = next(s for s in told.sentences if "s8" in s.starts)
    assert {v.direction for v in same.verdicts} == {"same"}


def test_feature_rows_give_the_regions_of_the_task():
    told = explain(navigation_log(8000, 0.1), navigation.current, navigation.proposed_2)
    assert {(r.current, r.proposed) for r in told.regions} == {("east", "north"), ("south", "east")}
    assert told.quality.f1 >= 0.95
    assert {v.outcome: v.direction for v in told.verdicts}["stay"] == "less"
    assert {v.outcome: v.direction for v in told.verdicts}["return"] == "more"


def test_a_result_of_a_log_carries_no_row_and_no_trajectory():
    told = explain(navigation_log(500, 0.1), navigation.current, navigation.proposed_2)
    assert told.sample == ()
    assert all(picture.trajectories == () and picture.proposed_trajectories == () for picture in told.pictures)


def test_plans_from_a_log_are_judged_on_the_other_half():
    log = simulated_log(chain.world(0.1), np.full((12, 2), 0.5), 4000, seed=1, outcomes=[VISITS])
    plans = improve(log, np.zeros(12, dtype=int))
    assert plans.best.expected_return > plans[0].expected_return
    assert all(plan.model_gap is not None for plan in plans)
    best = plans.best.outcomes[VISITS.name]
    truth = evaluate(chain.world(0.1), plans.best.policy).outcomes[VISITS.name].estimate
    assert best.contains(truth)


def test_a_plan_never_uses_a_decision_that_nobody_tried():
    log = chain_log(np.eye(2)[chain.current()], slip=0.0)
    assert len(improve(log, chain.current())) == 1


def test_planning_needs_states_that_can_be_counted():
    with pytest.raises(ValueError, match="discrete states"):
        improve(navigation_log(100, 0.1), navigation.current)
