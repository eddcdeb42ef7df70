"""Small trials: features that never vary, where the effect is two means, and intervals within the declared range."""

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


def test_no_interval_leaves_what_the_declared_range_allows():
    rng = np.random.default_rng(1)
    n, age = 160, rng.integers(20, 90, 160)
    new = rng.random(n) < 0.1
    columns = {"age": age, "drug": np.where(new, "new", "old"), "well": (rng.random(n) < 0.5).astype(float)}
    table = pl.DataFrame({**columns, "chance": np.where(new, 0.1, 0.9)})
    names = {"state": ["age"], "action": "drug", "reward": "well", "probability": "chance"}
    logs = [Log(table, **names, **more) for more in ({}, {"return_range": (0, 1)})]
    widest = []
    for log in logs:
        told = explain(
            log, "always:old", lambda x: np.where((x[:, :1] >= 80) | (x[:, :1] < 40), [1.0, 0.0], [0.0, 1.0])
        )
        verdicts = [*told.verdicts, *(v for sentence in told.sentences for v in sentence.verdicts)]
        found = [i for v in verdicts for i in (v.difference, v.pointwise)]
        found += [i for region in told.regions if region.effect for i in region.effect.alone.values()]
        found += [plan.gain for plan in improve(log, "always:old", max_rules=1).plans if plan.gain]
        widest.append(max(max(abs(i.low), abs(i.high)) for i in found))
    assert widest[0] > 1, "the rows are few enough to ask"
    assert widest[1] == 1
