"""Logs whose features never vary: every state is the same one, and a trial without covariates is two means."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, explain, improve
from polidiff.errors import InvalidInputError


def trial(**more: object) -> tuple[Log, float]:
    rng = np.random.default_rng(5)
    treated, n = rng.integers(0, 2, 600), 600
    well = (rng.random(n) < 0.3 + 0.2 * treated).astype(float)
    table = pl.DataFrame({"ward": ["only"] * n, "drug": np.where(treated == 1, "new", "old"), "well": well})
    log = Log(table, state=["ward"], action="drug", reward="well", return_range=(0, 1), **more)
    return log, float(well[treated == 1].mean() - well[treated == 0].mean())


@pytest.mark.parametrize("known", [{}, {"probability": 0.5}])
def test_without_covariates_the_effect_is_the_difference_in_means(known):
    log, means = trial(**known)
    (verdict,) = explain(log, "always:old", "always:new").verdicts
    assert verdict.difference.estimate == pytest.approx(means, abs=1e-9)
    assert verdict.difference.low < means < verdict.difference.high


def test_rules_on_features_that_never_vary_are_refused():
    log, _ = trial(probability=0.5)
    with pytest.raises(InvalidInputError, match="ward"):
        improve(log, "always:old", max_rules=1)


def test_a_change_for_everybody_is_told_as_one():
    log, _ = trial(probability=0.5)
    text = str(explain(log, "always:old", "always:new"))
    assert "• Everywhere (100 % of decisions), do new instead of old." in text
