"""Classifiers with scikit-learn's interface against their own predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from polidiff import as_policy, evaluate
from polidiff.domains import inventory
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
    singly = np.concatenate([policy.probabilities(STATES[i : i + 1]) for i in range(100)])
    assert singly == pytest.approx(model.predict_proba(STATES[:100]))


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


def test_columns_are_found_by_name_in_any_order_and_text_stays_text():
    table = pd.DataFrame({"sex": RNG.choice(["f", "m"], 200), "age": RNG.integers(20, 80, 200)})
    encode = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    model = make_pipeline(encode, DecisionTreeClassifier(max_depth=3, random_state=0))
    model.fit(table, np.where((table.age < 50) & (table.sex == "f"), "new", "old"))
    features = ["age", "visits", "sex"]  # another order, and one column more
    rows = table.assign(visits=0)[features].to_numpy(dtype=object)
    policy = as_policy(model, actions=["old", "new"], features=features)
    assert np.array_equal(top_actions(policy.probabilities(rows)) == 1, model.predict(table) == "new")


def test_a_table_with_features_asks_a_classifier_of_features():
    world = inventory.world()
    current = as_policy(inventory.current()).probabilities(np.arange(world.n_states)).argmax(axis=1)
    model = DecisionTreeClassifier(random_state=0).fit(world.features, current)
    table = np.zeros((world.n_states, world.n_actions))
    table[:, model.classes_] = model.predict_proba(world.features)
    assert evaluate(world, model).outcomes == evaluate(world, table).outcomes


def test_what_a_classifier_cannot_read_is_one_line_with_a_way_out():
    model = LogisticRegression().fit(STATES[:, :2], ACTIONS)
    with pytest.raises(InvalidPolicyError, match=r"cannot read the states .*could not convert.* Hint: fit it on"):
        as_policy(model).probabilities(np.array([[1, "f"], [2, "m"]], dtype=object))


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
