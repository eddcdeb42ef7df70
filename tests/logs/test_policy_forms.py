"""Policies as people have them beside a log: a column of advice, one action for all, and answers by name."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, as_policy, evaluate, explain
from polidiff.errors import InvalidPolicyError
from polidiff.evaluation.logged.compare import judge_log
from polidiff.evaluation.logged.judge import Question
from polidiff.evaluation.logged.policies import as_log_policy

NAMES = {"state": ["x", "sex"], "action": "arm", "reward": "well"}


def trial(rows=600, seed=0):
    """A coin toss between two arms; the drug helps where x > 0, and the advice says so."""
    rng = np.random.default_rng(seed)
    x, sex, drug = rng.normal(size=rows).round(3), rng.integers(0, 2, rows), rng.integers(0, 2, rows)
    advice = (x > 0).astype(int)
    well = rng.random(rows) < 0.3 + 0.4 * (drug == advice)
    arms = np.array(["placebo", "drug"])
    return pl.DataFrame({
        "x": x, "sex": np.array(["f", "m"])[sex], "arm": arms[drug], "well": well.astype(float),
        "recommended": arms[advice], "number": advice,
    })  # fmt: skip


def visits(seed=0):
    """Three decisions per episode, in states told by numbers."""
    rng = np.random.default_rng(seed)
    rows = 900
    state, action = rng.integers(0, 4, rows), rng.integers(0, 2, rows)
    return pl.DataFrame({
        "e": np.arange(rows) // 3, "t": np.arange(rows) % 3, "s": state, "x": state * 1.0, "a": action,
        "r": rng.random(rows) + (action == state % 2), "advice": state % 2, "end": np.arange(rows) % 3 == 2,
    })  # fmt: skip


EPISODES = {"action": "a", "episode": "e", "step": "t", "reward": "r", "terminated": "end"}


def test_a_column_of_advice_is_the_policy_that_gave_it():
    frame = trial()
    log = Log(frame, **NAMES)
    told = explain(log, "log", "column:recommended")
    assert told.verdicts[0].direction == "more"
    assert told.verdicts[0].difference.low < 0.2 < told.verdicts[0].difference.high  # 0.7 against 0.5
    table = as_log_policy(log, "column:recommended").probabilities(log.rows.states)
    drug = [action.name for action in log.actions].index("drug")
    np.testing.assert_array_equal(table[:, drug], frame["number"])


@pytest.mark.parametrize("state", ["s", ["x"]])
def test_advice_over_several_steps_is_followed_in_discrete_states_and_in_features(state):
    log = Log(visits(), state=state, **EPISODES)
    by_column = judge_log(log, Question("log", "column:advice"))
    follow = np.array([0, 1, 0, 1]) if state == "s" else (lambda x: (x[:, 0] % 2).astype(int))
    by_rule = judge_log(log, Question("log", follow))
    assert [v.difference for v in by_column.verdicts[0]] == [v.difference for v in by_rule.verdicts[0]]


def test_advice_that_differs_in_one_state_is_followed_as_often_as_it_was_given():
    frame = pl.DataFrame({"s": [0, 0, 0, 0, 1, 1], "a": [0, 1, 0, 1, 0, 1], "r": [1.0] * 6, "b": [1, 1, 1, 0, 0, 0]})
    discrete = as_log_policy(Log(frame, state="s", action="a", reward="r"), "column:b").probabilities(np.arange(2))
    features = as_log_policy(Log(frame, state=["s"], action="a", reward="r"), "column:b")
    expected = [[0.25, 0.75], [1.0, 0.0]]
    np.testing.assert_array_equal(discrete, expected)
    np.testing.assert_array_equal(features.probabilities(np.array([[0.0], [1.0]])), expected)


def test_one_action_for_all_is_named():
    frame = trial()
    log = Log(frame, **NAMES)
    difference = explain(log, "always:placebo", "always:drug").verdicts[0].difference.estimate
    means = frame.group_by("arm").agg(pl.col("well").mean()).sort("arm")["well"]
    assert difference == pytest.approx(means[0] - means[1], abs=0.03)
    assert evaluate(Log(visits(), state="s", **EPISODES), "always:1").outcomes["return"].estimate > 0


def test_a_classifier_of_names_and_a_table_of_names_are_policies():
    from sklearn.tree import DecisionTreeClassifier

    frame = trial()
    log = Log(frame, state=["x"], action="arm", reward="well")
    tree = DecisionTreeClassifier(max_depth=1).fit(frame.select("x").to_numpy(), frame["recommended"].to_numpy())
    assert [action.name for action in log.actions] == ["drug", "placebo"]
    chosen = as_log_policy(log, tree).probabilities(np.array([[-1.0], [1.0]]))
    np.testing.assert_array_equal(chosen, [[0.0, 1.0], [1.0, 0.0]])
    named = Log(visits(), state="s", **EPISODES, actions=["wait", "treat"])
    table = as_log_policy(named, ["wait", "treat", "wait", "treat"]).probabilities(np.arange(4))
    np.testing.assert_array_equal(table.argmax(axis=1), [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("column:advised", r"must have column 'advised'; it has \['x', "),
        (
            "column:sex",
            r"must name one of the 2 actions \('drug', 'placebo'\) in every row; row 1 .* holds none of them\. Hint",
        ),
        ("always:drag", r"names action 'drag'; the 2 actions are 'drug', 'placebo'\. Hint: did you mean 'drug'\?"),
        ("always:7", r"names action '7'; the 2 actions are"),
        (lambda states: ["pill"] * len(states), r"the policy names action 'pill'; the 2 actions are"),
    ],
)
def test_what_names_no_action_is_refused_in_one_line(policy, said):
    with pytest.raises(InvalidPolicyError, match=said) as caught:
        evaluate(Log(trial(), **NAMES), policy)
    assert "\n" not in str(caught.value)


def test_advice_that_is_missing_is_named_by_its_row():
    frame = trial().with_columns(pl.when(pl.int_range(pl.len()) != 17).then(pl.col("recommended")).alias("recommended"))
    with pytest.raises(InvalidPolicyError, match="row 18 below the names holds nothing"):
        evaluate(Log(frame, **NAMES), "column:recommended")


def test_a_classifier_of_yes_and_no_chooses_actions_1_and_0():
    from sklearn.tree import DecisionTreeClassifier

    states = np.array([[0.0], [1.0], [2.0], [3.0]])
    policy = as_policy(DecisionTreeClassifier().fit(states, states[:, 0] > 1.5))
    assert policy.probabilities(states).tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
