"""RuleClassifier as users meet it."""

from __future__ import annotations

import math
import pickle
import time
import warnings
from itertools import pairwise

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.utils.estimator_checks import check_estimator

from polidiff.errors import InvalidOptionError
from polidiff.progress import Clock
from polidiff.records.rule import Condition, Rule
from polidiff.rules import RuleClassifier, RuleWarning


def bounds(rule: Rule) -> dict[str, tuple[float, float]]:
    return {condition.feature: (condition.low, condition.high) for condition in rule.conditions}


def test_it_keeps_the_contract_of_scikit_learn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(RuleClassifier(), on_fail=None)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] not in ("passed", "skipped")]
    assert failed == []
    assert sum(r["status"] == "passed" for r in results) > 50


def test_categories_numbers_and_missing_values_in_any_frame_give_the_same_rules() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"drug": rng.choice(["a", "b", "c"], 400), "dose": rng.random(400)})
    frame.loc[::7, "dose"] = np.nan
    y = np.where((frame["drug"] != "b") & (frame["dose"] < 0.4), "stop", "go")
    models = [RuleClassifier().fit(data, y) for data in (frame, pl.from_pandas(frame))]
    expected = Rule((Condition("drug", 0, values=("a", "c")), Condition("dose", 1, high=0.4)))
    assert [model.decision_list_ for model in models] == [((expected, "stop"),)] * 2
    assert models[0].score(frame, y) == models[1].score(pl.from_pandas(frame), y) == 1.0


def test_a_missing_value_can_be_what_the_rule_says() -> None:
    rng = np.random.default_rng(1)
    X = rng.random((200, 2))
    X[rng.random(200) < 0.3, 1] = np.nan
    y = np.isnan(X[:, 1]).astype(int)
    model = RuleClassifier().fit(X, y)
    assert model.decision_list_ == ((Rule((Condition("x1", 1, values=(), missing=True),)), 1),)
    assert RuleClassifier(default_class=1).fit(X, y).score(X, y) == 1.0


def test_a_rule_covers_the_raw_matrix_as_the_model_predicts_it() -> None:
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.choice(["u", "v", None], 300), rng.random(300)]).astype(object)
    y = ((X[:, 0] == "u") & (X[:, 1].astype(float) > 0.5)).astype(int)
    model = RuleClassifier().fit(X, y)
    covered = np.any([rule.covers(X) for rule in model.rules_[1]], axis=0)
    np.testing.assert_array_equal(covered.astype(int), model.predict(X))


def test_weights_count_as_repeats() -> None:
    rng = np.random.default_rng(3)
    X, y = rng.random((300, 4)), rng.integers(0, 3, 300)
    y[X[:, 0] < 0.4] = 1
    weight = rng.integers(0, 4, 300)
    weighted = RuleClassifier().fit(X, y, sample_weight=weight)
    repeated = RuleClassifier().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.decision_list_ == repeated.decision_list_
    assert weighted.objective_ == pytest.approx(repeated.objective_)


def test_the_scale_of_the_weights_does_not_matter() -> None:
    rng = np.random.default_rng(4)
    X = rng.random((300, 3))
    y = ((X[:, 0] < 0.4) ^ (rng.random(300) < 0.1)).astype(int)
    small = RuleClassifier().fit(X, y, sample_weight=np.full(300, 2.0**-9))
    assert small.decision_list_ == RuleClassifier().fit(X, y).decision_list_


def test_a_bound_with_samples_on_one_side_only_stays_open_and_others_are_short() -> None:
    rng = np.random.default_rng(5)
    X = rng.uniform(0.0, 0.3, (2000, 2))
    y = (X[:, 1] >= 0.2).astype(int)
    model = RuleClassifier(default_class=0).fit(X, y)
    assert [bounds(rule) for rule, _ in model.decision_list_] == [{"x1": (0.2, math.inf)}]


def test_neighbouring_boxes_of_two_classes_name_their_common_bound() -> None:
    X = np.column_stack([np.random.default_rng(6).random(3000), np.linspace(0, 1, 3000)])
    y = np.select([X[:, 1] < 0.1, X[:, 1] < 0.3], [1, 2], 0)
    model = RuleClassifier(default_class=0).fit(X, y)
    assert bounds(model.rules_[1][0]) == {"x1": (-math.inf, pytest.approx(0.1, abs=1e-3))}
    assert bounds(model.rules_[2][0]) == {"x1": (pytest.approx(0.1, abs=1e-3), pytest.approx(0.3, abs=1e-3))}


def test_an_empty_answer_says_why_and_its_hint_helps() -> None:
    rng = np.random.default_rng(7)
    X = rng.random((500, 2))
    y = ((X[:, 0] < 0.2) & (X[:, 1] < 0.3)).astype(int)
    with pytest.warns(RuleWarning, match="best single rule found explains") as caught:
        empty = RuleClassifier(clause_cost=0.5).fit(X, y)
    assert empty.decision_list_ == ()
    assert empty.messages_ == (str(caught[0].message),)
    hint = {part.split("=")[0]: float(part.split("=")[1]) for part in empty.messages_[0].split() if "_cost=" in part}
    assert len(RuleClassifier(**hint).fit(X, y).decision_list_) == 1


def test_features_that_tell_nothing_are_named_as_the_reason() -> None:
    X, y = np.zeros((20, 1)), np.r_[np.ones(5), np.zeros(15)]
    with pytest.warns(RuleWarning, match="features that tell it apart"):
        model = RuleClassifier().fit(X, y)
    assert set(model.predict(X)) == {0.0}


def test_a_class_whose_rows_are_all_covered_by_earlier_rules_is_told_so() -> None:
    X = np.repeat([0.0, 1.0, 2.0], [10, 11, 40])[:, None]
    y = np.repeat([1, 3, 2, 3, 0], [6, 4, 7, 4, 40])
    with pytest.warns(RuleWarning, match="class 3: rules of earlier classes cover all of its rows"):
        model = RuleClassifier().fit(X, y)
    assert [label for _, label in model.decision_list_] == [1, 2]
    assert model.bound_ == pytest.approx(model.objective_)


def test_a_default_class_that_is_absent_leaves_rules_for_every_class() -> None:
    X = np.linspace(0, 1, 100)[:, None]
    y = np.where(X[:, 0] < 0.4, "low", "high")
    model = RuleClassifier(default_class="same").fit(X, y)
    assert {label for _, label in model.decision_list_} == {"low", "high"}
    np.testing.assert_array_equal(model.predict(X), y)


def test_max_rules_is_kept_over_all_classes_and_the_objective_is_counted_again() -> None:
    rng = np.random.default_rng(8)
    X = rng.random((600, 2))
    y = np.select([X[:, 0] < 0.2, X[:, 1] < 0.2, X[:, 0] > 0.8], [1, 2, 3], 0)
    values = []
    for most in range(4):
        model = RuleClassifier(max_rules=most, default_class=0).fit(X, y)
        assert len(model.decision_list_) == most
        values.append(model.objective_)
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx((y != 0).mean())


def test_the_path_is_nested_and_its_errors_fall() -> None:
    rng = np.random.default_rng(9)
    X = rng.random((600, 2))
    y = np.select([X[:, 0] < 0.2, X[:, 1] < 0.2, X[:, 0] > 0.8], [1, 2, 3], 0)
    model = RuleClassifier(default_class=0).fit(X, y)
    path = model.rule_path(X, y)
    assert [len(each) for each in path] == list(range(len(model.decision_list_) + 1))
    assert all(set(a.rules) < set(b.rules) for a, b in pairwise(path))
    assert path[-1].rules == model.decision_list_
    assert len(model.rule_path(X, y, max_rules=1)) == 2


def test_costs_chosen_by_cross_validation_keep_noise_out_of_the_rules() -> None:
    rng = np.random.default_rng(12)
    X = rng.random((300, 3))
    y = ((X[:, 0] < 0.4) ^ (rng.random(300) < 0.15)).astype(int)
    tuned = RuleClassifier(clause_cost="auto", random_state=0).fit(X, y)
    assert [rule.features for rule, _ in tuned.decision_list_] == [("x0",)]
    assert tuned.clause_cost_ > 1e-3
    assert len(RuleClassifier().fit(X, y).decision_list_) > 3


@pytest.mark.parametrize(
    "engine", [{"backend": "threading"}, pytest.param({"backend": "loky"}, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("max_samples", [16_000, 120])  # the inner fits of the second draw rows of their own
def test_costs_chosen_on_two_workers_are_those_of_a_plain_loop(engine: dict[str, str], max_samples: int) -> None:
    rng = np.random.default_rng(13)
    X = rng.random((300, 3))
    y = ((X[:, 0] < 0.4) ^ (rng.random(300) < 0.15)).astype(int) + 2 * (X[:, 1] > 0.9)
    model = RuleClassifier(clause_cost="auto", max_samples=max_samples, random_state=0)
    alone = pickle.dumps(vars(model.fit(X, y)))
    with joblib.parallel_config(n_jobs=2, **engine):
        assert pickle.dumps(vars(model.fit(X, y))) == alone


def test_a_clock_is_sent_as_the_seconds_that_are_left() -> None:
    assert pickle.loads(pickle.dumps(Clock())).limit() is None
    sent = pickle.loads(pickle.dumps(Clock(50.0)))
    assert 49.0 < sent.left() <= 50.0
    assert pickle.loads(pickle.dumps(Clock(-1.0))).over()


def test_the_same_seed_gives_the_same_rules_above_the_sample_size() -> None:
    rng = np.random.default_rng(10)
    X = rng.random((4000, 3))
    y = ((X[:, 0] < 0.3) & (X[:, 1] > 0.4)).astype(int)
    models = [RuleClassifier(max_samples=1000, random_state=4).fit(X, y) for _ in range(2)]
    assert models[0].decision_list_ == models[1].decision_list_
    assert models[0].score(X, y) > 0.999


def test_the_time_limit_ends_the_search_with_rules_in_hand() -> None:
    rng = np.random.default_rng(11)
    X = rng.random((3000, 20))
    y = (rng.random(3000) < 0.2 + 0.5 * (X[:, 0] < 0.3)).astype(int)
    options = {"clause_cost": 1e-5, "literal_cost": 1e-5}
    start = time.process_time()
    model = RuleClassifier(time_limit=0.5, **options).fit(X, y)
    assert time.process_time() - start < 30
    assert model.decision_list_


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("clause_cost", -1.0),
        ("literal_cost", math.nan),
        ("overlap_cost", "much"),
        ("max_rules", -1),
        ("max_bins", 1),
        ("max_samples", 0),
        ("time_limit", -1.0),
    ],
)
def test_an_option_out_of_range_is_named(option: str, value: object) -> None:
    with pytest.raises(InvalidOptionError, match=option):
        RuleClassifier(**{option: value}).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("upwards", [True, False])
def test_boxes_that_overlap_are_peeled_from_the_top(noise: float, upwards: bool) -> None:
    """Nearly as right as with features and order known: what is left are bounds between 1,500 rows."""
    rng = np.random.default_rng(11 + upwards)
    X, clean = rng.random((3000, 12)), np.zeros(3000, dtype=int)
    boxes = [(rng.choice(12, 2, replace=False), rng.uniform(0, 0.5, 2), rng.uniform(0.35, 0.5, 2)) for _ in range(6)]
    for label, (columns, low, width) in sorted(enumerate(boxes, start=1), reverse=not upwards):
        clean[((X[:, columns] >= low) & (X[:, columns] < low + width)).all(axis=1)] = label
    y = np.where(rng.random(3000) < noise, rng.integers(0, 7, 3000), clean)
    model = RuleClassifier(random_state=0, default_class=0).fit(X[:1500], y[:1500])
    assert (model.predict(X[1500:]) == clean[1500:]).mean() > 0.97
    assert len(model.decision_list_) <= 7
    told = {(label, rule.features) for rule, label in model.decision_list_}
    assert {(k, tuple(f"x{j}" for j in sorted(columns))) for k, (columns, *_) in enumerate(boxes, start=1)} <= told
