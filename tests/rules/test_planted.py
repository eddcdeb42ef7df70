"""Boxes hidden in noise come back with their features and bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.rules.planted import Kind
from benchmarks.rules.planted import plant as benchmark_boxes
from polidiff.rules import RuleClassifier
from tests.rules.planted import plant


@pytest.mark.parametrize(("d", "seed"), [(8, 0), (8, 1), (16, 2)])
def test_planted_boxes_are_found_with_their_features_and_bounds(d: int, seed: int) -> None:
    data = plant(6000, d, noise=0.05, seed=seed)
    model = RuleClassifier(default_class=0).fit(data.X, data.y)
    assert len(model.decision_list_) == len(data.boxes)
    for told, box in data.boxes:
        (rule,) = model.rules_[told]
        assert {condition.column for condition in rule.conditions} == set(box)
        for condition in rule.conditions:
            low, high = box[condition.column]
            assert condition.low == pytest.approx(low, abs=0.02) or condition.low == -math.inf
            assert condition.high == pytest.approx(high, abs=0.02) or condition.high == math.inf
    fresh = np.random.default_rng(99).random((20_000, d))
    assert (model.predict(fresh) == data.truth(fresh)).mean() > 0.99


def test_a_sample_of_the_rows_finds_the_structure_and_all_rows_place_the_bounds() -> None:
    data = plant(40_000, 6, noise=0.05, seed=3)
    model = RuleClassifier(default_class=0, max_samples=6000, random_state=0).fit(data.X, data.y)
    for told, box in data.boxes:
        (rule,) = model.rules_[told]
        for condition in rule.conditions:
            low, high = box[condition.column]
            assert abs(condition.low - low) < 2e-3
            assert abs(condition.high - high) < 2e-3


def test_boxes_of_many_bounds_are_found_although_their_costs_hide_the_way_to_them() -> None:
    X, y, _, _, boxes = benchmark_boxes(10_000, 8, Kind("boxes"), 111)
    model = RuleClassifier(default_class=0, random_state=0).fit(X, y)
    for box in boxes:
        assert set(box.bounds) in [{c.column for c in rule.conditions} for rule in model.rules_[box.label]]
