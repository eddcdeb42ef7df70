"""Rules that a log chose are not confirmed by that log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from polidiff import Log, check, evaluate, explain, improve, load
from polidiff.errors import InvalidPolicyError
from polidiff.evaluation.comparison import CHOSEN
from polidiff.policies.functions import ConstantPolicy
from polidiff.records.plan import Plan

OLD = ConstantPolicy(1, 2)


def table(seed: int, rows: int = 400) -> pl.DataFrame:
    """Decisions by lot; the new drug helps where x is below 5, by 60 points."""
    rng = np.random.default_rng(seed)
    x, new = rng.integers(0, 10, rows), rng.random(rows) < 0.5
    well = rng.random(rows) < np.where(new & (x < 5), 0.9, 0.3)
    return pl.DataFrame({"x": x, "drug": np.where(new, "new", "old"), "well": well.astype(int)})


def log_of(frame: pl.DataFrame, state: str | list[str]) -> Log:
    return Log(frame, state=state, action="drug", reward="well", return_range=(0, 1), probability=0.5)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return improve(log_of(table(0), ["x"]), OLD, max_rules=1)[-1]


def test_the_log_that_chose_rules_decides_nothing_about_them(plan: Plan) -> None:
    shuffled = table(0).sample(fraction=1.0, shuffle=True, seed=1)
    for told in (explain(log_of(shuffled, ["x"]), OLD, plan.policy), plan.explanation):
        assert {verdict.direction for verdict in told.verdicts} == {"unknown"}
        assert {v.direction for sentence in told.sentences for v in sentence.verdicts} == {"unknown"}
        assert [a.status for a in told.assumptions if a.name == CHOSEN] == ["failed"]
        assert plan.patch.judged in str(told)
        assert "Adopt" not in str(told)
        assert not check(told).passed
        assert not check(told, keep="return>=current-1", allow_unknown=True).passed
    assert CHOSEN in [a.name for a in evaluate(log_of(shuffled, ["x"]), plan.policy).assumptions]


def test_another_log_judges_them_as_usual(plan: Plan, tmp_path: Path) -> None:
    other = log_of(table(1), ["x"])
    told = explain(other, OLD, load(plan.patch.save(tmp_path / "plan.json")).apply(OLD))
    assert told.verdicts[0].direction == "more"
    assert CHOSEN not in [a.name for a in told.assumptions]
    assert check(told).passed


def test_the_mark_outlives_the_file_and_a_second_explanation(plan: Plan, tmp_path: Path) -> None:
    log = log_of(table(0), ["x"])
    patch = load(plan.patch.save(tmp_path / "plan.json"))
    for _ in range(2):
        told = explain(log, OLD, patch.apply(OLD))
        assert told.verdicts[0].direction == "unknown"
        patch = load(told.patch.save(tmp_path / "again.json"))


def test_plans_over_named_states_are_marked_too() -> None:
    low = pl.when(pl.col("x") < 5).then(pl.lit("low"))
    frame = table(0, 2000).with_columns(low.otherwise(pl.lit("high")).alias("s"))
    log = log_of(frame, "s")
    plan = improve(log, OLD)[-1]
    assert plan.gain.low > 0
    assert plan.explanation.verdicts[0].direction == "unknown"
    assert explain(log, OLD, plan.patch.apply(OLD)).verdicts[0].direction == "unknown"
    assert explain(log, OLD, ConstantPolicy(0, 2)).verdicts[0].direction == "more"  # nobody searched for this one


def test_a_patch_is_a_proposed_policy_and_says_what_it_changes(plan: Plan, tmp_path: Path) -> None:
    log = log_of(table(2), ["x"])
    patch = load(plan.patch.save(tmp_path / "rules.json"))
    assert str(patch).startswith("1. ")
    given, made = explain(log, OLD, patch), explain(log, OLD, plan.policy)
    assert given.regions == made.regions
    assert given.verdicts == made.verdicts
    with pytest.raises(InvalidPolicyError, match=r"explain\(world, current, patch\)"):
        evaluate(log, patch)
