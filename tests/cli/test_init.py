"""A study for a table of the user."""

from __future__ import annotations

import tomllib

import polars as pl
import pytest

from polidiff.cli.study import read_study


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
        "terminated": "died_or_left",
        "state": ["map", "lactate"],
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
    frame = pl.read_csv(stays / "stays.csv").with_columns(cost=pl.lit(5.0))
    frame.write_csv(stays / "costs.csv")
    polidiff("init", stays / "costs.csv", "-o", stays / "s.toml")
    text = (stays / "s.toml").read_text()
    assert tomllib.loads(text)["world"]["log"]["state"] == ["map", "lactate"]
    assert "# not used: ward, cost;" in text
    assert '# column = "cost"' in text


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
    assert "which column is the action? None of u, v looks like it. Hint: --action COLUMN" in ran.err
