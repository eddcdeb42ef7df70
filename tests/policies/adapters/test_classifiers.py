"""Classifiers with scikit-learn's interface against their own predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from polidiff import as_policy
from polidiff.errors import InvalidPolicyError
from polidiff.policies import top_actions

RNG = np.random.default_rng(0)
STATES = RNG.normal(size=(1000, 4))
ACTIONS = (STATES @ RNG.normal(size=(4, 3))).argmax(axis=1)


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        RandomForestClassifier(5, random_state=0),
        make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=4, random_state=0)),
    ],
)
def test_probabilities_are_those_of_the_classifier_single_and_batched(model):
    model.fit(STATES, ACTIONS)
    policy = as_policy(model)
    assert policy.n_actions == 3
    assert policy.probabilities(STATES) == pytest.approx(model.predict_proba(STATES))
    singly = np.concatenate([policy.probabilities(STATES[i : i + 1]) for i in range(1000)])
    assert singly == pytest.approx(model.predict_proba(STATES))


def test_an_action_never_seen_in_training_has_probability_zero():
    model = LogisticRegression().fit(STATES, np.array([1, 3, 4])[ACTIONS])
    table = as_policy(model, n_actions=6).probabilities(STATES)
    assert table[:, [0, 2, 5]].max() == 0
    assert np.array_equal(top_actions(table), model.predict(STATES))


def test_a_classifier_without_probabilities_takes_its_prediction():
    model = LinearSVC().fit(STATES, ACTIONS)
    assert np.array_equal(top_actions(as_policy(model).probabilities(STATES)), model.predict(STATES))


def test_a_classifier_fitted_on_a_data_frame_takes_rows():
    model = LogisticRegression().fit(pd.DataFrame(STATES, columns=list("abcd")), ACTIONS)
    assert as_policy(model).probabilities(STATES).shape == (1000, 3)


def test_state_indices_are_one_column():
    model = DecisionTreeClassifier().fit(np.arange(10)[:, None], np.arange(10) % 2)
    assert top_actions(as_policy(model).probabilities(np.arange(10))).tolist() == [0, 1] * 5


def test_bad_classifiers_are_refused():
    with pytest.raises(InvalidPolicyError, match="not fitted"):
        as_policy(LogisticRegression())
    with pytest.raises(InvalidPolicyError, match="must be action indices"):
        as_policy(LogisticRegression().fit(STATES, np.array(["a", "b", "c"])[ACTIONS]))
    with pytest.raises(InvalidPolicyError, match="predicts 2 labels per state"):
        as_policy(DecisionTreeClassifier().fit(STATES, np.stack([ACTIONS, ACTIONS], axis=1)))
    with pytest.raises(InvalidPolicyError, match=r"knows action 2; the world has 2 actions"):
        as_policy(LogisticRegression().fit(STATES, ACTIONS), n_actions=2)
    with pytest.raises(InvalidPolicyError, match="expects observations of 4 numbers; the world's have 3"):
        as_policy(LogisticRegression().fit(STATES, ACTIONS)).probabilities(STATES[:, :3])
    with pytest.raises(InvalidPolicyError, match=r"not clear how LinearRegression is a policy.*Discretised"):
        as_policy(LinearRegression().fit(STATES, ACTIONS))


def test_a_network_that_was_shown_one_action_takes_it_everywhere():
    from sklearn.neural_network import MLPClassifier

    X = np.random.default_rng(0).normal(size=(40, 3))
    network = MLPClassifier((4,), max_iter=500, tol=0.1, random_state=0).fit(X, np.full(40, 2))
    assert as_policy(network, n_actions=3).probabilities(X).tolist() == [[0.0, 0.0, 1.0]] * 40
