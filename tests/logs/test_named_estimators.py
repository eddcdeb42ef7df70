"""Estimators asked for by name: against exact values, against each other, and where each of them has no footing."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, evaluate, explain
from polidiff.domains import chain, navigation
from polidiff.errors import InvalidOptionError
from polidiff.evaluation.exact import policy_table
from polidiff.options import ESTIMATORS
from polidiff.worlds.log_converters import simulated_log

WORLD = chain.world(slip=0.1)
MIXED = 0.6 * policy_table(WORLD, chain.proposed()) + 0.2  # four of five decisions are the proposed ones


@pytest.fixture(scope="module")
def log():
    return simulated_log(WORLD, MIXED, 1500, seed=1)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_with_support_the_exact_value_lies_within_four_standard_errors(log, name):
    truth, found = evaluate(WORLD, chain.proposed()), evaluate(log, chain.proposed(), evaluation=name)
    for outcome, interval in found.outcomes.items():
        half = (interval.high - interval.low) / 2
        assert 0 < half < 1
        assert abs(interval.estimate - truth.outcomes[outcome].estimate) <= 2.05 * half
    assert found.method.startswith(name)
    assert set(found.per_start["trajectory length"]) == {f"s{s}" for s in range(11)}


@pytest.mark.parametrize("seed", range(3))
def test_fitted_q_over_features_settles_where_states_do_not_tell_how_many_decisions_are_left(seed):
    """Two decisions, each in a fresh state: the policy gains .9 in half of the states, so .9 in all."""
    rng = np.random.default_rng(seed)
    level, action = rng.random(1200), rng.integers(0, 2, 1200)
    columns = {"episode": np.arange(1200) // 2, "level": level, "action": action, "ended": np.arange(1200) % 2 == 1,
               "paid": action * ((level > 0.5) - 0.1)}  # fmt: skip
    log = Log(pl.DataFrame(columns), state=["level"], action="action", episode="episode", reward="paid",
              terminated="ended", actions=2, probability=0.5, return_range=(-1, 2))  # fmt: skip
    found = evaluate(log, lambda x: (x[:, 0] > 0.5).astype(int), evaluation="fitted q").outcomes["return"]
    assert found.contains(0.9)


def test_fitted_q_over_labels_is_the_value_in_the_estimated_model(log):
    model = evaluate(log, chain.proposed(), evaluation="model bootstrap")
    fitted = evaluate(log, chain.proposed(), evaluation="fitted q")
    for outcome, interval in model.outcomes.items():
        assert fitted.outcomes[outcome].estimate == pytest.approx(interval.estimate, abs=1e-9)


@pytest.mark.parametrize("name", ["importance sampling", "fitted q"])
def test_the_policy_that_wrote_the_log_is_judged_by_its_own_returns(log, name):
    found = evaluate(log, "log", evaluation=name)
    rows = log.rows
    returns = np.array([np.bincount(rows.episode, column) for column in rows.gains.T])
    assert [i.estimate for i in found.outcomes.values()] == pytest.approx(returns.mean(axis=1).tolist())


@pytest.mark.parametrize("name", ESTIMATORS)
def test_explain_says_who_judged_and_decides_what_is_clear(log, name):
    found = explain(log, "log", chain.proposed(), evaluation=name)
    assert found.methods.evaluation.startswith(name)
    assert {v.outcome: v.direction for v in found.verdicts}["visits to desired states"] == "more"
    assert any(f"Judged by {name}, as asked" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("model bootstrap", "meet what nobody has tried"),
        ("importance sampling", "the weights come to"),
        ("fitted q", "were hardly ever tried"),
    ],
)
def test_without_support_no_interval_is_bounded_and_the_reason_is_given(name, words):
    alone = simulated_log(WORLD, policy_table(WORLD, chain.current()), 500, seed=2)
    found = evaluate(alone, chain.proposed(), evaluation=name)
    assert words in found.method
    assert all(math.isinf(interval.high) for interval in found.outcomes.values())
    told = explain(alone, "log", chain.proposed(), evaluation=name)
    assert {v.direction for v in told.verdicts} == {"unknown"}
    assert words in str(told.verdicts[0].note)


def test_weighted_episodes_agree_with_a_hand_computed_mean():
    # the second action always; episode 0: chances .5 and .25, pays 1 + 2; episode 1: chance .5, pays 4
    table = pl.DataFrame({"s": [0, 1, 0], "a": [1, 1, 1], "e": [0, 0, 1], "t": [0, 1, 0], "r": [1.0, 2.0, 4.0],
                          "p": [0.5, 0.25, 0.5], "end": [False, True, True]})  # fmt: skip
    log = Log(table, state="s", action="a", episode="e", step="t", reward="r", terminated="end", truncated=None,
              probability="p", actions=2)  # fmt: skip
    found = evaluate(log, np.array([1, 1]), evaluation="importance sampling").outcomes["return"]
    assert found.estimate == pytest.approx((8 * 3 + 2 * 4) / 10)
    assert math.isinf(found.high)


def test_cut_episodes_cannot_be_weighted():
    cut = simulated_log(WORLD, MIXED, 800, seed=3, horizon=4)
    assert "episodes were cut" in evaluate(cut, chain.proposed(), evaluation="importance sampling").method


@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_decision_per_row_with_features_agrees_with_the_difference_in_means(name):
    rng = np.random.default_rng(0)
    x, a = rng.random(4000), rng.integers(0, 2, 4000)
    table = pl.DataFrame({"x": x, "a": a, "y": x + 0.5 * a + rng.normal(0, 0.1, 4000)})
    log = Log(table, state=["x"], action="a", probability=0.5, outcomes=[Outcome("y", "y")], include_return=False)
    found = explain(log, "log", lambda states: np.ones(len(states), dtype=int), evaluation=name)
    (verdict,) = found.verdicts
    assert verdict.difference.low < 0.25 < verdict.difference.high
    assert verdict.difference.high - verdict.difference.low < 0.05


NOT_LOGS = {
    "table": (chain.world, chain.current(), chain.proposed()),
    "simulator": (navigation.world, navigation.current, navigation.proposed_2),
}


@pytest.mark.parametrize("kind", NOT_LOGS)
def test_where_nothing_is_estimated_no_estimator_is_taken(kind):
    make, current, proposed = NOT_LOGS[kind]
    with pytest.raises(InvalidOptionError, match="here outcomes are exact or played"):
        evaluate(make(), current, evaluation="fitted q")
    with pytest.raises(InvalidOptionError, match="here outcomes are exact or played"):
        explain(make(), current, proposed, evaluation="fitted q")


def test_an_unknown_estimator_is_refused(log):
    with pytest.raises(InvalidOptionError, match="evaluation must be one of 'model bootstrap', 'importance sampling'"):
        evaluate(log, "log", evaluation="magic")


def test_in_paper_style_a_log_is_judged_by_the_papers_rule(log):
    found = explain(log, "log", chain.proposed(), style="paper", evaluation="model bootstrap")
    for verdicts in (found.verdicts, *(sentence.verdicts for sentence in found.sentences)):
        for verdict in verdicts:
            above, below = (
                verdict.current.estimate < verdict.proposed.low,
                verdict.current.estimate > verdict.proposed.high,
            )
            assert verdict.direction == ("more" if above else "less" if below else verdict.direction)
            assert above or below or verdict.direction in ("unknown", "same")


@pytest.fixture(scope="module")
def drifting():
    """A log of the chain whose detours close in its second half."""
    rng, rows = np.random.default_rng(0), []
    for episode in range(1500):
        state, step = int(rng.integers(11)), 0
        while state != 11:
            action = int(rng.random() < 0.3)
            closed = episode >= 750 and state in (1, 5)
            ahead = (chain.AFTER_1 if action and not closed else chain.AFTER_0)[state]
            rows.append((episode, step, f"s{state}", f"action {action}", float(state in chain.DESIRED), ahead == 11))
            state, step = ahead, step + 1
    table = pl.DataFrame(rows, schema=["episode", "step", "state", "action", "visit", "end"], orient="row")
    names = {"states": [f"s{s}" for s in range(12)], "actions": ["action 0", "action 1"]}
    visits = Outcome("visits", "visit", prefer="more", range=(0, 2))
    return Log(table, state="state", action="action", episode="episode", step="step", terminated="end",
               outcomes=[visits], **names)  # fmt: skip


def test_in_paper_style_too_a_failed_assumption_wins_and_the_text_says_so(drifting):
    default, paper = (explain(drifting, chain.current(), chain.proposed(), style=s) for s in ("plain", "paper"))
    assert default.verdicts[0].direction == "unknown"
    (verdict,) = paper.verdicts
    assert (verdict.direction, verdict.valence, verdict.note) == ("unknown", None, default.verdicts[0].note)
    assert (
        "Verdicts are the paper's, whose rule tests no assumption; here drift, independence failed, "
        "so the effect on visits stays unknown; its rule alone would say: visits more."
    ) in paper.warnings
    assert not any("the paper's" in warning for warning in default.warnings)
