"""Plans over the states of a log whose decisions were drawn: what a plan counts is what its patch does."""

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, evaluate, explain, improve
from polidiff.policies import as_policy

WARD = {  # chances of going home, dying and staying, by state and action
    ("calm", "wait"): (0.3, 0.05), ("calm", "drug"): (0.35, 0.04),
    ("bad", "wait"): (0.05, 0.3), ("bad", "drug"): (0.25, 0.1),
}  # fmt: skip
CHANCES = {"calm": 0.4, "bad": 0.3}  # of the drug, as it is given


def ward(episodes: int, drug: dict[str, float], seed: int = 0) -> pl.DataFrame:
    rng, rows = np.random.default_rng(seed), []
    for stay in range(episodes):
        ended, day = False, 0
        while not ended:
            state = "bad" if rng.random() < 0.4 else "calm"
            action = "drug" if rng.random() < drug[state] else "wait"
            home, dead = WARD[state, action]
            luck = rng.random()
            ended = luck < home + dead
            rows.append((stay, day, state, action, float(home <= luck < home + dead), ended))
            day += 1
    return pl.DataFrame(rows, schema=["stay", "day", "state", "action", "died", "ended"], orient="row")


@pytest.fixture(scope="module")
def log():
    columns = {"episode": "stay", "step": "day", "state": "state", "action": "action", "terminated": "ended"}
    return Log(ward(600, CHANCES), outcomes=[Outcome("died", "died", prefer="less")], **columns)


@pytest.fixture(scope="module")
def plan(log):
    frontier = improve(log, "log", max_states=1)
    return max(frontier, key=lambda plan: plan.changes)


def chances(log):
    return as_policy(np.array([[CHANCES[s] if a.name == "drug" else 1 - CHANCES[s] for a in log.actions]
                               for s in log.states]))  # fmt: skip


def test_the_patch_of_a_plan_does_what_the_plan_counts(log, plan):
    patched = plan.patch.apply(chances(log))
    assert explain(log, "log", patched).changes == pytest.approx(plan.changes, rel=0.15)


def test_the_patch_moves_all_that_was_drawn_and_nothing_else(log, plan):
    table = plan.patch.apply(chances(log)).probabilities(np.arange(len(log.states)))
    (edit,) = plan.patch.edits
    for s in range(len(log.states)):
        now = chances(log).probabilities(np.array([s]))[0]
        expected = np.eye(len(log.actions))[edit.proposed] if s in edit.states else now
        assert table[s] == pytest.approx(expected)


def test_the_patch_says_how_often_its_action_is_taken_now(log, plan):
    (edit,) = plan.patch.edits
    (state,) = edit.states
    name = log.actions[edit.proposed].name
    drug = CHANCES[log.states[state]]
    assert edit.shift.current == pytest.approx(drug if name == "drug" else 1 - drug, abs=0.05)
    assert edit.shift.proposed == 1.0


def test_a_plan_that_changes_nothing_is_the_log_as_it_is(log):
    frontier = improve(log, "log", budget=0.0)
    mean = evaluate(log, "log").outcomes["died"].estimate
    assert -frontier.plans[0].expected_return == pytest.approx(mean, rel=0.2)
    assert len(frontier) == 1


def test_what_was_hardly_tried_is_part_of_now_and_of_no_plan():
    odd = pl.when(pl.int_range(pl.len()) % 400 == 0).then(pl.lit("odd")).otherwise(pl.col("action"))
    frame = ward(300, CHANCES).with_columns(action=odd)
    columns = {"episode": "stay", "step": "day", "state": "state", "action": "action", "terminated": "ended"}
    frontier = improve(Log(frame, outcomes=[Outcome("died", "died", prefer="less")], **columns), "log", max_states=1)
    assert len(frontier) > 1
    assert not any(plan.patch.swap(edit)[1] == "odd" for plan in frontier for edit in plan.patch.edits)
