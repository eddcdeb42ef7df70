"""A study for a table of the user: what is written, asked and said."""

from __future__ import annotations

import json
import tomllib

import click
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from polidiff import Log
from polidiff.cli.column_roles import propose
from polidiff.cli.init import _confirmed, draft
from polidiff.cli.loading import load_world
from polidiff.cli.study import read_study
from tests.cli.tables import campaign, lots, two_arms, ward_rows


@pytest.fixture
def stays(tmp_path):
    frame = pl.DataFrame(
        {
            "stay_id": [1, 1, 2, 2],
            "hour": [0, 1, 0, 1],
            "dose": ["low", "high", "low", "low"],
            "survived": [0, 1, 0, 0],
            "died_or_left": [False, True, False, True],
            "map": [60.0, 70.0, 55.0, 50.0],
            "lactate": [1.0, 2.0, 3.0, 4.0],
            "ward": ["a", "a", "b", "b"],
        }
    )
    frame.write_csv(tmp_path / "stays.csv")
    frame.write_parquet(tmp_path / "stays.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["stays.csv", "stays.parquet"])
def test_columns_are_guessed_by_their_names(polidiff, stays, name):
    ran = polidiff("init", stays / name, "-o", stays / "study.toml")
    assert ran.code == 0, ran.err
    log = tomllib.loads((stays / "study.toml").read_text())["world"]["log"]
    assert log == {
        "path": name,
        "episode": "stay_id",
        "step": "hour",
        "action": "dose",
        "reward": "survived",
        "return_name": "survived",
        "terminated": "died_or_left",
        "state": ["map", "lactate", "ward"],
    }


def test_the_written_study_is_a_study_and_its_comments_are_keys(polidiff, stays):
    polidiff("init", stays / "stays.csv", "-o", stays / "study.toml")
    read_study(stays / "study.toml", {})
    text = (stays / "study.toml").read_text()
    keys = ("# [", "# name", "# column", "# prefer", "# range", "# max", "# keep")
    opened = "\n".join(line[2:] if line.startswith(keys) else line for line in text.splitlines())
    read_study_text = stays / "opened.toml"
    read_study_text.write_text(opened)
    read_study(read_study_text, {})


def test_what_a_decision_causes_is_no_state_and_what_is_left_out_is_named(polidiff, stays):
    frame = pl.read_csv(stays / "stays.csv").with_columns(cost_after=pl.col("map") * 2, cost=pl.lit(5.0))
    frame.write_csv(stays / "costs.csv")
    polidiff("init", stays / "costs.csv", "-o", stays / "s.toml")
    text = (stays / "s.toml").read_text()
    assert tomllib.loads(text)["world"]["log"]["state"] == ["map", "lactate", "ward"]
    assert "# not used: cost, which has one value" in text
    assert "# not used: cost_after, which looks as if it came after the decision" in text


def test_flags_win_over_guesses(polidiff, stays):
    polidiff("init", stays / "stays.csv", "-o", stays / "s.toml", "--action", "ward", "--state", "lactate")
    log = tomllib.loads((stays / "s.toml").read_text())["world"]["log"]
    assert log["action"] == "ward"
    assert log["state"] == ["lactate"]


def test_one_column_of_whole_numbers_or_text_names_states(polidiff, stays):
    for column, written in (("hour", "hour"), ("ward", "ward"), ("map", ["map"])):
        polidiff("init", stays / "stays.csv", "-o", stays / "s.toml", "--state", column, "--force")
        assert tomllib.loads((stays / "s.toml").read_text())["world"]["log"]["state"] == written


def test_a_column_that_is_not_there_is_named(polidiff, stays):
    ran = polidiff("init", stays / "stays.csv", "-o", stays / "s.toml", "--action", "dosis")
    assert ran.code == 2
    assert "there is no column 'dosis'; did you mean dose?" in ran.err
    assert not (stays / "s.toml").exists()


def test_a_study_that_is_there_is_not_written_over(polidiff, stays):
    (stays / "s.toml").write_text("mine")
    ran = polidiff("init", stays / "stays.csv", "-o", stays / "s.toml")
    assert ran.code == 2
    assert (stays / "s.toml").read_text() == "mine"
    assert polidiff("init", stays / "stays.csv", "-o", stays / "s.toml", "--force").code == 0


def test_without_an_action_the_question_is_asked(polidiff, tmp_path):
    pl.DataFrame({"u": [1.0], "v": [2.0]}).write_csv(tmp_path / "d.csv")
    ran = polidiff("init", tmp_path / "d.csv", "-o", tmp_path / "s.toml")
    assert ran.code == 2
    assert "which column is the action? None has a name that tells; no column has a few values that repeat" in ran.err
    frame = pl.DataFrame({"age": range(40), "horTh": ["no", "yes"] * 20, "sex": ["f", "m"] * 20})
    frame.write_csv(tmp_path / "d.csv")
    ran = polidiff("init", tmp_path / "d.csv", "-o", tmp_path / "s.toml")
    assert "by its values it could be horTh (no, yes). Hint: --action COLUMN" in ran.err


def trial(rows: int = 200) -> pl.DataFrame:
    """A trial as people have it: one row per person, an identifier, a copy of the arm, an outcome in words."""
    numbers = range(rows)
    return pl.DataFrame(
        {
            "rownames": list(numbers),
            "patient": [f"p{k:04d}" for k in numbers],
            "age": [20 + 7 * k % 50 for k in numbers],
            "sex": ["f" if k % 3 else "m" for k in numbers],
            "rx": ["placebo" if k % 2 else "drug" for k in numbers],
            "arm_code": [k % 2 for k in numbers],
            "mg": [0.0 if k % 2 else 10.0 + k % 5 for k in numbers],
            "died": [int(k % 11 == 0) for k in numbers],
        }
    )


def test_a_trial_is_a_log_of_single_decisions_and_says_what_it_leaves_out(polidiff, tmp_path):
    trial().write_csv(tmp_path / "trial.csv")
    assert polidiff("init", tmp_path / "trial.csv", "-o", tmp_path / "s.toml", "--yes").code == 0
    text = (tmp_path / "s.toml").read_text()
    study = tomllib.loads(text)
    assert study["world"]["log"] == {"path": "trial.csv", "action": "rx", "state": ["age", "sex"]}
    assert study["outcomes"] == [{"name": "died", "column": "died", "prefer": "less", "range": [0.0, 1.0]}]
    assert study["policies"] == {"current": "log", "proposed": "always:drug"}
    assert "# not used: rownames, patient, which names the row" in text
    assert "# not used: arm_code, mg, which follows from the action" in text


def test_the_direction_of_an_outcome_is_asked_for_where_its_name_does_not_tell(polidiff, tmp_path):
    trial().rename({"died": "outcome"}).write_csv(tmp_path / "trial.csv")
    ran = polidiff("init", tmp_path / "trial.csv", "-o", tmp_path / "s.toml", "--yes")
    assert "Is more or less outcome better?" in ran.err
    assert "prefer" not in tomllib.loads((tmp_path / "s.toml").read_text())["outcomes"][0]


def test_a_column_by_which_the_policy_decided_is_a_state_though_it_tells_the_action(polidiff, tmp_path):
    frame = trial().with_columns(rx=pl.when(pl.col("age") > 40).then(pl.lit("drug")).otherwise(pl.lit("placebo")))
    frame.write_csv(tmp_path / "trial.csv")
    polidiff("init", tmp_path / "trial.csv", "-o", tmp_path / "s.toml", "--yes")
    assert "age" in tomllib.loads((tmp_path / "s.toml").read_text())["world"]["log"]["state"]


def test_the_summary_shows_ranges_missing_values_and_how_often_each_action_was_taken(polidiff, tmp_path):
    frame = trial().with_columns(age=pl.when(pl.col("rownames") % 4 == 0).then(None).otherwise(pl.col("age")))
    frame.write_csv(tmp_path / "trial.csv")
    err = polidiff("init", tmp_path / "trial.csv", "-o", tmp_path / "s.toml", "--yes").err
    assert "200 rows, 8 columns" in err
    assert "25 % empty" in err
    assert "drug 50 %, placebo 50 %" in err


def test_the_first_explain_after_init_runs_without_an_edit(polidiff, tmp_path):
    """A trial with levels as statistics packages write them, rows without an outcome, and arms 0.0 and 1.0."""
    frame = trial(400).with_columns(
        rx=pl.col("arm_code").cast(pl.Float64),
        outcome=pl.when(pl.col("rownames") % 9 == 0).then(None).when(pl.col("died") == 1).then(pl.lit("1_yes"))
        .otherwise(pl.lit("0_no")),
    ).drop("died", "arm_code", "mg")  # fmt: skip
    frame.write_csv(tmp_path / "trial.csv")
    polidiff("init", tmp_path / "trial.csv", "-o", tmp_path / "s.toml", "--yes")
    study = tomllib.loads((tmp_path / "s.toml").read_text())
    assert study["world"]["log"]["missing"] == "drop"
    assert study["policies"]["proposed"] == "always:1"
    ran = polidiff("explain", tmp_path / "s.toml", "--json")
    assert ran.code == 0, ran.err
    facts = json.loads(ran.out)["world"]["facts"]
    assert facts["rows"] == frame.drop_nulls("outcome").height


def test_flags_as_actions_and_a_single_measurement_run_without_an_edit(polidiff, tmp_path):
    frame = pl.DataFrame({"treat": [k % 2 == 0 for k in range(60)], "age": [20 + k for k in range(60)]})
    frame.with_columns(y=pl.col("age") % 3).write_csv(tmp_path / "d.csv")
    polidiff("init", tmp_path / "d.csv", "-o", tmp_path / "s.toml", "--yes")
    study = tomllib.loads((tmp_path / "s.toml").read_text())
    assert (study["world"]["log"]["state"], study["policies"]["proposed"]) == (["age"], "always:1")
    assert polidiff("explain", tmp_path / "s.toml", "-q").code == 0


def test_on_a_terminal_the_table_is_shown_and_roles_reasons_direction_and_range_are_asked(tmp_path, monkeypatch):
    columns = lots()
    columns |= {"after_care": columns["age"] % 5, "score": columns["age"] % 11}
    frame = pl.DataFrame(columns)
    answers = ["arms", "score", "-", "y", "less", "0", "20"]
    runner = CliRunner()
    shown = click.Command("init", callback=lambda: print(draft(tmp_path / "d.csv", tmp_path / "s.toml",
                                                               _confirmed(frame, propose(frame)))))  # fmt: skip
    ran = runner.invoke(shown, input="\n".join(answers))
    assert ran.exit_code == 0, ran.output
    assert "after_care looks as if it came after the decision. Was it known before?" in ran.output
    study = tomllib.loads(ran.stdout[ran.stdout.index("# A polidiff study") :])
    assert study["world"]["log"]["state"] == ["age", "weight", "smoker", "lab0", "after_care"]
    assert study["outcomes"] == [{"name": "score", "column": "score", "prefer": "less", "range": [0.0, 20.0]}]


def test_a_log_without_a_column_of_ends_makes_a_study_that_runs(tmp_path, polidiff):
    ward_rows(ended=False).write_csv(tmp_path / "stays.csv")
    study = tmp_path / "s.toml"
    polidiff("init", tmp_path / "stays.csv", "--yes", "--action", "drug", "--reward", "score", "-o", study)
    log = tomllib.loads(study.read_text(encoding="utf-8"))["world"]["log"]
    assert (log["episode"], log["truncated"]) == ("stay_id", False)
    frame = pl.read_csv(tmp_path / "stays.csv")
    read = Log(frame, **{key: log[key] for key in ("state", "action", "episode", "step", "truncated")}, reward="score")
    assert (read.check.terminated, read.check.cut) == (40, 0)


def test_a_table_in_place_of_a_study_is_pointed_to_init(polidiff, stays):
    ran = polidiff("explain", stays / "stays.csv")
    assert ran.code == 2
    assert f"polidiff init {stays / 'stays.csv'} -o study.toml" in ran.err


def test_the_range_that_is_suggested_is_that_of_whole_episodes(polidiff, tmp_path):
    frame = pl.DataFrame({"stay": [1, 1, 1, 2, 2], "hour": [0, 1, 2, 0, 1], "dose": list("ababa"),
                          "relapse": [1, 1, 0, 0, 1], "end": [0, 0, 1, 0, 1], "map": [1.5, 2, 3, 4, 5]})  # fmt: skip
    frame.write_csv(tmp_path / "stays.csv")
    assert polidiff("init", tmp_path / "stays.csv", "-o", tmp_path / "s.toml").code == 0
    assert "# range = [1.0, 2.0]  # per episode" in (tmp_path / "s.toml").read_text()


def test_texts_call_the_return_by_the_column_that_makes_it(polidiff, tmp_path):
    rng = np.random.default_rng(2)
    offer, spend = rng.choice(["A", "B"], 300), rng.normal(20, 5, 300).round(2)
    pl.DataFrame(
        {"age": rng.integers(20, 80, 300), "offer": offer, "revenue_eur": spend + 9 * (offer == "B")}
    ).write_csv(tmp_path / "sales.csv")
    assert polidiff("init", tmp_path / "sales.csv", "-o", tmp_path / "s.toml", "--yes").code == 0
    told = polidiff("explain", tmp_path / "s.toml").out
    assert "more revenue_eur" in told
    assert "return" not in told


def test_advice_in_the_table_is_what_is_proposed(polidiff, tmp_path):
    frame = two_arms(cured=np.arange(200) % 3 // 2).with_columns(recommended=pl.when(pl.col("age") < 50).then("arm"))
    frame = frame.with_columns(recommended=pl.col("recommended").fill_null("old"), model_year=pl.lit("old"))
    frame.write_csv(tmp_path / "a.csv")
    assert polidiff("init", tmp_path / "a.csv", "-o", tmp_path / "study.toml", "--yes").code == 0
    assert read_study(tmp_path / "study.toml", {}).section("policies")["proposed"] == "column:recommended"


def test_what_is_missing_for_a_comparison_is_said(polidiff, tmp_path):
    two_arms(cured=np.arange(200) % 2).with_columns(arm=pl.lit("old")).write_csv(tmp_path / "a.csv")
    told = polidiff("init", tmp_path / "a.csv", "-o", tmp_path / "study.toml", "--yes")
    assert told.code == 2
    assert "'arm' has one value, so there is nothing to compare" in told.err
    two_arms(cured=np.ones(200, int)).write_csv(tmp_path / "a.csv")
    told = polidiff("init", tmp_path / "a.csv", "-o", tmp_path / "study.toml", "--yes")
    assert "No column could be the outcome" in told.err
    told = polidiff("explain", tmp_path / "study.toml")
    assert (told.code, "a log needs an outcome. Hint:" in told.err) == (2, True)


def test_a_dose_in_real_numbers_is_an_action_at_levels(polidiff, tmp_path):
    rng = np.random.default_rng(0)
    dose = rng.gamma(2, 10, 300)
    frame = pl.DataFrame({"age": rng.integers(20, 90, 300), "dose": dose, "cured": rng.integers(0, 2, 300)})
    frame.write_csv(tmp_path / "a.csv")
    assert polidiff("init", tmp_path / "a.csv", "-o", tmp_path / "study.toml", "--yes").code == 0
    study = read_study(tmp_path / "study.toml", {})
    assert (study.world["action"], study.world["state"]) == ("dose", ["age"])
    level = float(study.section("policies")["proposed"].removeprefix("always:dose "))
    assert level == pytest.approx(np.quantile(dose, 0.9), rel=0.02)
    assert f"dose {level:g}" in [action.name for action in load_world(study).actions]


@pytest.mark.parametrize("known", [True, False])
def test_on_a_terminal_a_doubtful_column_is_asked_about(known):
    frame, found = campaign(), []
    asked = click.Command(
        "init", callback=lambda: found.append(_confirmed(frame, propose(frame, {"action": "channel"})))
    )
    answers = ["channel", "profit", "-", "y" if known else "n", "more", "0", "20"]
    ran = CliRunner().invoke(asked, input="\n".join(answers))
    assert ran.exit_code == 0, ran.output
    assert "goes with the outcome. Was it known before? [Y/n]" in ran.output
    assert ("basket" in found[0].state) == known
