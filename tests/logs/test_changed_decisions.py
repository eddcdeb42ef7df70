"""Expected changed decisions: as a plain loop counts them, whoever wrote the log and whatever tells the change."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, check, explain, improve
from polidiff.policies import TablePolicy, changed_decisions

EPISODES = 300


def walks(seed, *, features=False):
    """Episodes of a random policy in a random chain of three states that ends anywhere."""
    rng = np.random.default_rng(seed)
    policy, moves = rng.dirichlet(np.ones(3) * 3, 3), rng.dirichlet(np.ones(4), (3, 3))
    rows = []
    for episode in range(EPISODES):
        state = int(rng.integers(3))
        for step in range(50):
            action = int(rng.choice(3, p=policy[state]))
            after = int(rng.choice(4, p=moves[state, action]))
            x = state + float(rng.random())
            rows.append(
                (episode, step, x if features else f"s{state}", f"a{action}", float(action == state), after == 3)
            )
            if after == 3:
                break
            state = after
    named = ["episode", "step", "state", "action", "gain", "ended"]
    return pl.DataFrame(rows, schema=named, orient="row")


def log_of(frame, *, features=False):
    return Log(
        frame, episode="episode", step="step", action="action", terminated="ended", reward="gain",
        state=["state"] if features else "state", return_range=(0, 50),
    )  # fmt: skip


def counted_in_the_model(log, policy):
    """Visits of a policy in the counted moves, each times how far its decision lies from the log's shares."""
    rows = log.rows
    n, k = log.n_states, log.n_actions
    taken, moved, begun = np.zeros((n, k)), np.zeros((n, k, n)), np.zeros(n)
    for i in range(len(rows.states)):
        taken[rows.states[i], rows.actions[i]] += 1
        if i + 1 < len(rows.states) and not rows.first[i + 1]:
            moved[rows.states[i], rows.actions[i], rows.states[i + 1]] += 1
        begun[rows.states[i]] += rows.first[i]
    shares = taken / taken.sum(axis=1, keepdims=True)
    after = np.einsum("sa,sat->st", policy(shares), moved / np.maximum(taken, 1)[:, :, None])
    visits = np.linalg.solve((np.eye(n) - after).T, begun / begun.sum())
    return sum(
        visits[s] * sum(max(0.0, shares[s, a] - policy(shares)[s, a]) for a in range(k)) for s in range(n)
    ), shares  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_a_discrete_log_counts_what_a_plain_loop_counts(seed):
    log = log_of(walks(seed))

    def edited(shares):
        table = np.array(shares)
        table[1] = np.eye(log.n_actions)[2]
        return table

    expected, shares = counted_in_the_model(log, edited)
    told = explain(log, "log", TablePolicy(edited(shares)))
    assert told.changes == pytest.approx(expected, rel=1e-9)
    for most, too_many in ((expected + 1e-6, False), (expected - 1e-3, True)):
        reasons = check(told, max_changes=most).reasons
        assert any("changed decisions" in reason for reason in reasons) == too_many


def test_a_mixed_policy_that_stays_as_it_is_changes_nothing():
    log = log_of(walks(7))
    _, shares = counted_in_the_model(log, np.array)
    assert shares.max() < 1
    assert explain(log, "log", TablePolicy(shares)).changes == pytest.approx(0.0, abs=1e-12)
    assert explain(log, "log", "log").changes == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_a_feature_log_counts_what_a_plain_loop_counts(seed):
    log = log_of(walks(seed, features=True), features=True)

    def proposed(states):
        return np.where(np.asarray(states)[:, 0].astype(float) < 1.5, 0, 2)

    rows, differ = log.rows, 0
    for state, action in zip(rows.states, rows.actions, strict=True):
        differ += int(action != proposed(state[None])[0])
    assert explain(log, "log", proposed).changes == pytest.approx(differ / EPISODES)


def test_explain_counts_the_changes_of_a_plan_as_improve_does():
    log = log_of(walks(1, features=True), features=True)
    plans = improve(log, "log", max_rules=1)
    assert len(plans) > 1
    for plan in plans:
        assert explain(log, "log", plan.policy).changes == pytest.approx(plan.changes, abs=1e-9)


def test_certain_policies_differ_in_whole_decisions():
    rng = np.random.default_rng(0)
    one, other = rng.integers(3, size=50), rng.integers(3, size=50)
    assert np.array_equal(changed_decisions(np.eye(3)[one], np.eye(3)[other]), one != other)


def test_which_of_two_equal_shares_is_larger_is_no_swap():
    rng = np.random.default_rng(0)
    arms = rng.integers(0, 2, 4000)
    frame = pl.DataFrame({"ward": rng.integers(0, 20, 4000).astype(str), "arm": arms.astype(str), "gain": arms / 2})
    explanation = explain(Log(frame, state="ward", action="arm", reward="gain", return_range=(0, 1)), "log", "always:1")
    shares = frame.group_by("ward").agg(pl.col("arm").cast(pl.Int64).mean())["arm"]
    assert (shares < 0.5).any()  # by chance
    assert explanation.regions
    assert all(region.shift is not None for region in explanation.regions)
