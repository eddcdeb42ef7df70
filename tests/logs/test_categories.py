"""Text columns of many levels: compared by, as far as rows allow, and what is lost is said."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, explain
from polidiff.evaluation.assumptions.confounded_levels import _covariance
from polidiff.evaluation.scores.decisions import fit_encoder, shared_levels


def wards(levels: int, rows: int, seed: int) -> Log:
    """A drug that does nothing, given more often in good wards."""
    rng = np.random.default_rng(seed)
    ward, good = rng.integers(0, levels, rows), rng.random(levels) < 0.5
    drug = rng.random(rows) < np.where(good, 0.7, 0.3)[ward]
    well = (rng.random(rows) < 0.3 + 0.4 * good[ward]).astype(float)
    columns = {"age": rng.integers(20, 90, rows), "ward": [f"w{k:04d}" for k in ward], "drug": drug.astype(int)}
    table = pl.DataFrame({**columns, "well": well})
    return Log(table, state=["age", "ward"], action="drug", reward="well", return_range=(0, 1))


def test_people_of_sixty_wards_are_compared_within_their_wards():
    told = explain(wards(60, 3000, 1), "log", "always:1")
    difference = told.verdicts[0].difference
    assert difference.low <= 0 <= difference.high
    assert difference.high - difference.low < 0.1


def test_wards_too_small_to_be_compared_leave_the_effect_unknown():
    told = explain(wards(1000, 3000, 1), "log", "always:1")
    assert told.verdicts[0].direction == "unknown"
    assert "'ward' that are too rare to be told apart" in str(told.verdicts[0].note)
    assert any("of 951 levels of 'ward' apart" in note for note in told.warnings)


def test_levels_share_one_only_where_they_are_many():
    few = np.array([["a"], ["b"], ["c"]] * 30, dtype=object)
    assert shared_levels(few, ("x",), fit_encoder(few)) == []
    many = np.array([[f"w{k // 2}"] for k in range(100)], dtype=object)
    (shared,) = shared_levels(many, ("x",), fit_encoder(many))
    assert (shared.levels, shared.apart, len(shared.rows)) == (50, 12, 76)


def test_the_covariance_within_levels_is_that_of_all_pairs():
    rng = np.random.default_rng(2)
    level, r, u = rng.integers(0, 5, 30), rng.normal(size=30), rng.normal(size=30)
    pairs = [(i, j) for i in range(30) for j in range(30) if i != j and level[i] == level[j]]
    total = sum(r[i] * u[j] for i, j in pairs)
    squares = max(sum(r[i] ** 2 * u[j] ** 2 for i, j in pairs), len(pairs) * np.mean(r**2) * np.mean(u**2))
    spread = squares + sum(r[i] * u[i] * r[j] * u[j] for i, j in pairs)
    assert _covariance(level, r, u, once=False) == pytest.approx(total / np.sqrt(spread))
