"""What a plan does to outcomes that it was not chosen for is said, and what its SQL falls back to."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, improve
from polidiff.explanation.rule_code import patch_sql


@pytest.fixture(scope="module")
def log() -> Log:
    """A drug that helps the old, and makes everybody who gets it bleed more often."""
    rng = np.random.default_rng(3)
    age, new = rng.uniform(20, 80, 4000), rng.random(4000) < 0.5
    well, bleed = rng.random(4000) < 0.3 + 0.4 * new * (age > 50), rng.random(4000) < 0.1 + 0.3 * new
    columns = {"age": age, "drug": np.where(new, "new", "old"), "p": 0.5, "well": well * 1.0, "bleed": bleed * 1.0}
    outcomes = [Outcome("bleed", "bleed", prefer="less", range=(0, 1))]
    names = {"state": ["age"], "action": "drug", "reward": "well", "probability": "p"}
    return Log(pl.DataFrame(columns), **names, outcomes=outcomes, return_name="well", return_range=(0, 1))


def test_a_declared_outcome_that_gets_worse_is_in_the_text(log):
    frontier = improve(log, lambda x: np.zeros(len(x), dtype=int) + log_number(log, "old"), max_rules=1)
    told = str(frontier).split("What the best plan also changes:\n• ")[1].split("\n")[0]
    assert told.startswith("more bleed (")


def log_number(log: Log, name: str) -> int:
    return [action.name for action in log.actions].index(name)


def test_sql_falls_back_to_the_logged_action_only_where_the_current_policy_wrote_the_log(log):
    always_old = lambda x: np.zeros(len(x), dtype=int) + log_number(log, "old")  # noqa: E731
    for current, ending in (("log", 'ELSE "drug"'), (always_old, 'ELSE "action"  /* what the policy in use does */')):
        patch = improve(log, current, max_rules=1).plans[-1].patch
        assert [*patch_sql(patch)][-2].strip() == ending
