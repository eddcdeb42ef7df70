"""The same verbs on a log: right directions where the data speaks, "unknown" where it is silent."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, evaluate, explain, improve
from polidiff.domains import chain, navigation
from polidiff.worlds.log_converters import simulated_log

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
        return_range=(-1, 150),
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


@pytest.fixture(scope="module")
def told_from_rows():
    return explain(navigation_log(300, 0.1), navigation.current, navigation.proposed_2)


def test_feature_rows_give_the_regions_of_the_task(told_from_rows):
    told = told_from_rows
    assert {(r.current, r.proposed) for r in told.regions} == {("east", "north"), ("south", "east")}
    assert told.quality.f1 >= 0.95
    told_by = {v.outcome: v for v in told.verdicts}
    assert told_by["return"].direction in ("more", "unknown")
    assert told_by["stay"].direction in ("less", "unknown")
    assert told_by["return"].difference.contains(12.001)  # exact, from the table of the task


def test_a_result_of_a_log_carries_no_row_and_no_trajectory(told_from_rows):
    assert told_from_rows.sample == ()
    pictures = told_from_rows.pictures
    assert all(picture.trajectories == () and picture.proposed_trajectories == () for picture in pictures)


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


FIRST = ((-np.inf, 0.1), (0.2, 0.3))  # where x and y lie: the change that pays alone
SECOND = ((0.1, 0.2), (0.3, np.inf))  # and the one that pays with it


def boxes(plan):
    found = []
    for edit in plan.patch.edits:
        ends = {c.feature: (c.low, c.high) for c in edit.rule.conditions}
        found.append(tuple(ends.get(name, (-np.inf, np.inf)) for name in ("x", "y")))
    return sorted(found)


def close(found, expected):
    return len(found) == len(expected) and np.allclose(found, sorted(expected), atol=0.005)


def true_return(plan):
    return evaluate(navigation.table(), plan.policy.probabilities(navigation.table().features)).outcomes


@pytest.mark.slow
def test_plans_from_feature_rows_change_regions_that_the_log_has_tried():
    log = navigation_log(12_000, 0.3)
    plans = improve(log, navigation.current, [navigation.proposed_1, navigation.proposed_2])
    one, two = plans.at(1.02), plans.at(2.05)
    assert close(boxes(one), [FIRST])
    assert close(boxes(two), [FIRST, SECOND])
    for plan in (one, two):
        assert plan.gain.contains(true_return(plan)["collected reward"].estimate - 9.9895)
    assert one.gain.low > 0  # although three in ten decisions are random
    assert plans.best.model_gap is not None
    assert plans.ledger.entries


def test_a_log_without_random_actions_offers_no_plan_and_says_why():
    plans = improve(navigation_log(1000, 0.0), navigation.current, [navigation.proposed_1, navigation.proposed_2])
    assert len(plans) == 1
    unknown = [text for text in plans.warnings if "nobody has tried it" in text]
    assert {text.split(" ")[0] for text in unknown} == {"east", "north"}


def test_a_small_log_names_the_changes_it_cannot_judge():
    plans = improve(navigation_log(1000, 0.1), navigation.current, [navigation.proposed_1, navigation.proposed_2])
    assert any("is not offered" in text and "are needed" in text for text in plans.warnings)
    for plan in plans:
        assert len(plan.patch) == 0 or plan.gain.low > 0 or any("is not known" in text for text in plan.warnings)


@pytest.mark.slow
def test_plans_over_regions_keep_guards_freezes_and_budgets():
    log = navigation_log(2500, 0.3)
    candidates = [navigation.proposed_1, navigation.proposed_2]
    kept = improve(log, navigation.current, candidates, keep="stay>=current-1")
    assert all(plan.outcomes["stay"].estimate >= 9.4975 - 1 - 0.2 for plan in kept)
    frozen = improve(log, navigation.current, candidates, freeze="y>=0.3")
    assert all(high <= 0.301 for plan in frozen for _, (_, high) in boxes(plan))
    cheap = improve(log, navigation.current, candidates, budget=1.05)
    assert len(cheap) == 2
    assert cheap.best.changes <= 1.05
    assert max(len(plan.patch) for plan in improve(log, navigation.current, candidates, max_states=1)) == 1


def test_options_that_need_countable_states_are_refused_for_feature_rows():
    with pytest.raises(ValueError, match="discrete states"):
        improve(navigation_log(100, 0.1), navigation.current, [navigation.proposed_1], change_cost=2.0)
    with pytest.raises(ValueError, match="act like the current policy"):
        improve(navigation_log(100, 0.1), navigation.current, [navigation.current])
    with pytest.raises(ValueError, match="needs candidates"):
        improve(navigation_log(100, 0.1), navigation.current, [])


def thin_world(seed, states=12):
    """Many actions of nearly equal worth, each seen a few times: what looks best is mostly luck."""
    rng = np.random.default_rng(seed)
    chance = rng.uniform(0.4, 0.6, size=(states, 6))
    moves = np.zeros((states + 1, 6, states + 1))
    moves[:states, :, states] = 1.0
    paid = np.vstack([chance, np.zeros((1, 6))])
    frame_rng = np.random.default_rng((seed, 1))
    state = frame_rng.integers(0, states, 6000)
    action = np.minimum(frame_rng.geometric(0.45, 6000) - 1, 5)
    reward = (frame_rng.random(6000) < paid[state, action]).astype(float)
    log = Log(pl.DataFrame({"s": state, "a": action, "r": reward}), state="s", action="a", reward="r",
              return_range=(0, 1), states=states, actions=6)  # fmt: skip
    return log, chance


def test_a_lower_bound_promises_less_than_it_keeps():
    gaps, chosen = {0.0: [], 2.0: []}, {0.0: [], 2.0: []}
    for seed in range(8):
        log, chance = thin_world(seed)
        for pessimism in gaps:
            best = improve(log, np.zeros(12, dtype=int), budget=1.0, pessimism=pessimism)[-1]
            truth = float((best.policy.table * chance).sum(axis=1) @ log.start_counts / log.start_counts.sum())
            promised = best.expected_return + best.model_gap
            gaps[pessimism].append(promised - truth)
            chosen[pessimism].append(truth)
    assert np.mean(gaps[2.0]) < np.mean(gaps[0.0]) - 0.01
    assert np.mean(chosen[2.0]) > 0.5


def test_a_plan_names_no_change_that_rests_on_few_people(walk, even):
    rows = simulated_log(walk, even, 12, seed=0).rows
    frame = pl.DataFrame({
        "s": np.tile(rows.states, 1), "a": rows.actions, "e": rows.episode, "p": rows.gains[:, 0],
        "t": np.append(np.diff(rows.episode) > 0, True),
    })  # fmt: skip
    log = Log(frame, state="s", action="a", episode="e", terminated="t", truncated=False, states=5, actions=2,
              outcomes=[Outcome("paid", "p", prefer="more", range=(0, 1))])  # fmt: skip
    assert len(improve(log, np.zeros(5, dtype=int), min_support=1)) == 1


def test_pessimism_is_for_logs():
    with pytest.raises(ValueError, match="pessimism"):
        improve(chain.world(0.1), chain.current(), pessimism=1.0)


@pytest.mark.slow
def test_a_large_log_of_navigation_gives_the_published_plans():
    log = navigation_log(100_000, 0.1)
    candidates = [navigation.proposed_1, navigation.proposed_2]
    plans = improve(log, navigation.current, candidates)
    assert close(boxes(plans.at(1.01)), [FIRST])
    assert close(boxes(plans.at(2.01)), [FIRST, SECOND])
    for plan, stay in ((plans.at(1.01), 9.5), (plans.at(2.01), 5.5)):
        truth = true_return(plan)
        assert plan.outcomes["return"].contains(truth["collected reward"].estimate)
        assert plan.outcomes["stay"].contains(stay)
    for candidate, swaps in zip(candidates, ({("north", "east")}, {("east", "north"), ("south", "east")}), strict=True):
        told = explain(log, navigation.current, candidate)
        assert {(r.current, r.proposed) for r in told.regions} == swaps
        assert all(v.direction in ("unknown", right) for v, right in zip(told.verdicts, ("more", "less"), strict=True))
