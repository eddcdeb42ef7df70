"""Policies in batch form: two logs, two policies."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, evaluate, explain
from polidiff.cli.main import run
from polidiff.domains import chain
from polidiff.errors import InvalidPolicyError
from polidiff.evaluation.exact import policy_table
from polidiff.evaluation.logged.second_log import policy_behind
from polidiff.worlds.log_converters import simulated_frame, simulated_log

WORLD = chain.world(slip=0.1)


def written_by(policy, episodes=600, seed=0, **options):
    return simulated_log(WORLD, policy_table(WORLD, policy), episodes, seed=seed, **options)


@pytest.fixture(scope="module")
def logs():
    return written_by(chain.current(), seed=1), written_by(chain.proposed(), seed=2)


def test_the_policy_of_the_second_log_is_read_off_its_rows(logs):
    table = policy_behind(*logs).probabilities(np.arange(12))
    met = np.isin(np.arange(12), [0, 1, 5])
    assert (table.argmax(axis=1)[:11] == np.where(met, 1, 0)[:11]).all()


def test_regions_paths_and_sentences_are_those_of_the_two_policies(logs):
    found = explain(logs[0], "log", logs[1])
    assert {region.rule.conditions[0].values for region in found.regions} == {("s1",), ("s5",)}
    assert {(region.current, region.proposed) for region in found.regions} == {("action 0", "action 1")}


def test_each_log_is_judged_by_its_own_episodes_without_a_model(logs):
    found = explain(*(logs[0], "log", logs[1]))
    for m, verdict in enumerate(found.verdicts):
        means = [np.bincount(log.rows.episode, log.rows.gains[:, m]).mean() for log in logs]
        assert verdict.current.estimate == pytest.approx(means[0])
        assert verdict.proposed.estimate == pytest.approx(means[1])
        spread = [np.bincount(log.rows.episode, log.rows.gains[:, m]).std(ddof=1) ** 2 / 600 for log in logs]
        half = (verdict.pointwise.high - verdict.pointwise.low) / 2
        assert half == pytest.approx(np.sqrt(sum(spread)) * 1.964, rel=1e-3)  # Student's quantile at 599
    truth = [evaluate(WORLD, policy).outcomes["trajectory length"].estimate
             for policy in (chain.current(), chain.proposed())]  # fmt: skip
    assert found.verdicts[0].difference.low < truth[1] - truth[0] < found.verdicts[0].difference.high
    assert found.methods.evaluation == "means of 600 and 600 logged episodes side by side"
    assert any("begun with the same kind of cases" in warning for warning in found.warnings)


def test_two_logs_of_one_policy_differ_in_nothing():
    found = explain(written_by(chain.current(), seed=3), "log", written_by(chain.current(), seed=4))
    assert found.regions == ()
    assert {verdict.direction for verdict in found.verdicts} <= {"unknown", "same"}


def test_other_starts_are_found_out_and_nothing_is_decided(logs):
    frame = simulated_frame(WORLD, policy_table(WORLD, chain.proposed()), 600, rng=np.random.default_rng(5))
    late = frame.filter(pl.col("state").first().over("episode") >= 4)
    other = Log(late, state="state", action="action", episode="episode", step="step", terminated="terminated",
                states=list(WORLD.states), actions=list(WORLD.actions), include_return=False,
                outcomes=[Outcome(o.name, o.name, prefer=o.prefer) for o in WORLD.outcomes])  # fmt: skip
    found = explain(logs[0], "log", other)
    assert {verdict.direction for verdict in found.verdicts} == {"unknown"}
    assert "begin with different cases" in found.verdicts[0].note
    assert [(a.name, a.status) for a in found.assumptions] == [("same starts", "failed")]


def test_logs_of_features_and_single_decisions_work_too():
    rng = np.random.default_rng(0)

    def table(threshold, seed):
        x = np.random.default_rng(seed).random(3000)
        act = np.where(x > threshold, "treat", "wait")
        return pl.DataFrame({"x": x, "do": act, "y": x + (act == "treat") + rng.normal(0, 0.1, 3000)})

    first, second = (Log(table(t, s), state=["x"], action="do", outcomes=[Outcome("y", "y", prefer="more")],
                         include_return=False) for t, s in ((0.7, 1), (0.4, 2)))  # fmt: skip
    found = explain(first, "log", second)
    region, *borders = found.regions
    assert sum(border.support.share for border in borders) < 0.02  # where a border was estimated, if any is told
    assert (region.current, region.proposed) == ("wait", "treat")
    low, high = region.rule.conditions[0].low, region.rule.conditions[0].high
    assert (low, high) == pytest.approx((0.4, 0.7), abs=0.02)
    assert found.verdicts[0].direction == "more"
    assert found.verdicts[0].difference.low < 0.3 < found.verdicts[0].difference.high


def test_actions_and_outcomes_that_the_other_log_does_not_share_are_named(logs):
    strange = simulated_log(WORLD, policy_table(WORLD, chain.proposed()), 50, seed=0, actions=["go", "stay"])
    with pytest.raises(InvalidPolicyError, match="has action 'go', which the first does not know"):
        explain(logs[0], "log", strange)
    fewer = written_by(chain.proposed(), 50, outcomes=[Outcome("trajectory length", "trajectory length")])
    with pytest.raises(InvalidPolicyError, match="must have the outcome 'visits to desired states'"):
        explain(logs[0], "log", fewer)


def test_a_study_names_the_second_log_by_its_path(tmp_path, capsys):
    for name, policy in (("old", chain.current()), ("new", chain.proposed())):
        frame = simulated_frame(WORLD, policy_table(WORLD, policy), 300, rng=np.random.default_rng(len(name)))
        frame.write_csv(tmp_path / f"{name}.csv")
    study = tmp_path / "study.toml"
    study.write_text(
        '[world.log]\npath = "old.csv"\nstate = "state"\naction = "action"\nepisode = "episode"\nstep = "step"\n'
        'terminated = "terminated"\ninclude_return = false\n'
        '[policies]\ncurrent = "log"\nproposed = "log:new.csv"\n'
        '[[outcomes]]\nname = "visits"\ncolumn = "visits to desired states"\nprefer = "more"\n'
    )
    assert run(["explain", str(study)]) == 2
    assert 'actions=["action 0", "action 1"]' in capsys.readouterr().err
    study.write_text(study.read_text().replace("[policies]", 'actions = ["action 0", "action 1"]\n[policies]'))
    assert run(["explain", str(study)]) == 0
    assert "means of 300 and 300 logged episodes side by side" in capsys.readouterr().out
    assert run(["explain", str(study), "--proposed", "log:none.csv"]) == 2
    assert "none.csv" in capsys.readouterr().err
