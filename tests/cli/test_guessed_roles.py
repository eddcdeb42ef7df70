"""What columns are taken for in the study that is written: by lot, by their order, by who comes back."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import polars as pl
import pytest

from polidiff.cli.column_roles import propose
from polidiff.cli.init import draft
from tests.cli.tables import campaign, lots


def state_of(polidiff, folder, columns, *flags):
    """The state and the text of the study that is written for a table."""
    pl.DataFrame(columns).write_csv(folder / "d.csv")
    ran = polidiff("init", folder / "d.csv", "-o", folder / "s.toml", "--yes", "--force", *flags)
    assert ran.code == 0, ran.err
    text = (folder / "s.toml").read_text()
    return tomllib.loads(text)["world"]["log"]["state"], tomllib.loads(text), text


def test_what_differs_between_arms_drawn_by_lot_is_taken_to_come_after(polidiff, tmp_path):
    columns = lots()
    shift = np.where(columns["arms"] == "none", 0.0, 1.5)
    columns |= {"sodium": columns["lab0"] + shift, "survived": np.random.default_rng(1).integers(0, 2, 600)}
    state, _, text = state_of(polidiff, tmp_path, columns)
    assert state == ["age", "weight", "smoker", "lab0"]
    assert "# not used: sodium, which differs between actions that otherwise look drawn by lot" in text


def test_what_stands_before_the_action_may_be_its_reason(polidiff, tmp_path):
    columns = lots()
    sodium = columns["lab0"] + np.where(columns["arms"] == "none", 0.0, 1.5)
    columns = {"sodium": sodium, **columns, "survived": np.random.default_rng(1).integers(0, 2, 600)}
    assert "sodium" in state_of(polidiff, tmp_path, columns)[0]


def test_an_outcome_without_a_telling_name_is_what_the_lot_has_changed_and_is_called_a_guess(polidiff, tmp_path):
    columns = lots()
    columns |= {"marks": np.where(columns["arms"] == "none", 0.0, 1.5) + columns["lab0"], "shoe": columns["age"] % 7}
    assert state_of(polidiff, tmp_path, columns)[1]["outcomes"][0]["column"] == "marks"
    ran = polidiff("init", tmp_path / "d.csv", "-o", tmp_path / "t.toml", "--yes")
    assert "No name tells the outcome; marks is a guess" in ran.err


def test_arms_are_taken_rather_than_whether_there_was_any_and_later_measurements_are_left_out(polidiff, tmp_path):
    rng, columns = np.random.default_rng(2), lots()
    columns["treat"] = (columns["arms"] != "none").astype(int)
    for name in ("mood.pre", "mood.2m", "mood.8m"):
        columns[name] = rng.integers(0, 30, 600)
    columns |= {"days": rng.integers(1, 900, 600), "died": rng.integers(0, 2, 600)}
    state, study, _ = state_of(polidiff, tmp_path, columns)
    assert study["world"]["log"]["action"] == "arms"
    assert study["outcomes"][0]["column"] == "died"
    assert state == ["age", "weight", "smoker", "lab0", "mood.pre"]


def test_of_an_outcome_by_year_the_last_is_meant_and_what_follows_from_it_is_left_out(polidiff, tmp_path):
    earned, columns = np.random.default_rng(3).exponential(5.0, 600).round(2), lots()
    columns |= {"re75": np.roll(earned, 7), "re78": earned, "poor": (earned < 2).astype(int), "log": np.log1p(earned)}
    state, study, _ = state_of(polidiff, tmp_path, columns)
    assert study["world"]["log"]["reward"] == "re78"
    assert state == ["age", "weight", "smoker", "lab0", "re75"]


ORDERS = [
    (f"C{row // 4}", f"2024-03-{1 + row % 4:02d}", 20 + row * 7 % 60, ("card", "call")[row * 5 % 3 % 2], row * 11 % 9)
    for row in range(240)
]


def orders_study(polidiff, tmp_path, end=None):
    frame = pl.DataFrame(ORDERS, schema=["customer", "date", "age", "action", "revenue"], orient="row")
    if end is not None:
        frame = frame.with_columns(pl.Series(end, ["yes" if row % 4 == 3 else "no" for row in range(240)]))
    frame.write_csv(tmp_path / "orders.csv")
    ran = polidiff("init", tmp_path / "orders.csv", "-o", tmp_path / "study.toml", "--yes")
    assert ran.code == 0, ran.err
    assert polidiff("explain", tmp_path / "study.toml").code == 0
    return tomllib.loads((tmp_path / "study.toml").read_text())["world"]["log"]


def test_rows_of_people_who_come_back_without_an_end_are_single_decisions(polidiff, tmp_path):
    log = orders_study(polidiff, tmp_path)
    assert log["group"] == "customer"
    assert not {"episode", "step", "terminated", "truncated"} & set(log)


@pytest.mark.parametrize(("end", "said"), [("done", False), ("terminated", None)])
def test_an_end_that_may_be_a_cut_is_said_to_be_none(polidiff, tmp_path, end, said):
    log = orders_study(polidiff, tmp_path, end)
    assert (log["episode"], log["step"], log["terminated"]) == ("customer", "date", end)
    assert log.get("truncated") is said


def test_visits_of_a_person_with_one_arm_are_one_persons_and_no_episode(polidiff, tmp_path):
    frame = pl.DataFrame({"id": range(50), "rx": ["a", "b"] * 25, "age": [30 + k % 9 for k in range(50)]})
    visits = frame.join(pl.DataFrame({"visit": [1, 2, 3, 4]}), how="cross").with_columns(
        outcome=(pl.col("id") + pl.col("visit")) % 2
    )
    _, study, _ = state_of(polidiff, tmp_path, visits)
    assert study["world"]["log"]["group"] == "id"
    assert not {"episode", "step"} & set(study["world"]["log"])


def test_episodes_are_found_by_their_steps_where_no_name_tells(polidiff, tmp_path):
    rng, rows = np.random.default_rng(0), []
    for episode in range(60):
        state = 0
        for step in range(6):
            action = int(rng.random() < 0.5)
            state += int(rng.random() < 0.4 + 0.4 * action)
            end = state == 3 or step == 5
            rows.append((episode, step, f"s{state}", ("wait", "go")[action], float(state == 3), end))
            if end:
                break
    pl.DataFrame(rows, schema=["ep", "t", "state", "action", "reward", "end"], orient="row").write_csv(
        tmp_path / "l.csv"
    )
    polidiff("init", tmp_path / "l.csv", "--yes", "-o", tmp_path / "study.toml")
    study = tomllib.loads((tmp_path / "study.toml").read_text(encoding="utf-8"))["world"]["log"]
    assert (study["episode"], study["step"], study["terminated"], study["state"]) == ("ep", "t", "end", "state")


def test_visits_of_a_fixed_number_with_changing_actions_are_episodes(polidiff, tmp_path):
    rng = np.random.default_rng(2)
    pressure = rng.normal(140, 20, (80, 5)).round(1)
    drug = np.where(rng.random((80, 5)) < (pressure - 100) / 80, "high", "none")
    columns = {
        "patient": np.repeat([f"pt{k}" for k in range(80)], 5), "visit": np.tile(np.arange(1, 6), 80),
        "sbp": pressure.ravel(), "age": np.repeat(rng.integers(40, 85, 80), 5), "drug": drug.ravel(),
        "event": rng.integers(0, 2, 400),
    }  # fmt: skip
    _, study, _ = state_of(polidiff, tmp_path, columns)
    log = study["world"]["log"]
    assert (log["episode"], log["step"], log["state"]) == ("patient", "visit", ["sbp", "age"])


def test_what_stands_behind_the_outcome_and_goes_with_it_is_doubted(tmp_path):
    proposal = propose(campaign(), {"action": "channel"})
    assert list(proposal.doubtful) == ["basket"]  # mood goes with nothing
    assert "basket" in proposal.state
    assert "# basket stands behind action and outcome" in draft(tmp_path / "d.csv", tmp_path / "s.toml", proposal)
    before = campaign().select("cust", "basket", "age", "income", "visits", "channel", "profit")
    assert not propose(before, {"action": "channel"}).doubtful


def test_a_trial_of_which_nothing_is_known_before_has_no_state_and_runs(polidiff, tmp_path):
    columns = {"rownames": range(1, 121), "group": ["a", "b"] * 60, "recovered": [1, 0, 1, 1, 0, 0] * 20}
    state, study, _ = state_of(polidiff, tmp_path, columns)
    assert (state, study["world"]["log"]["action"]) == ([], "group")
    ran = polidiff("explain", tmp_path / "s.toml", "--json")
    a, b = np.reshape(columns["recovered"], (60, 2)).mean(axis=0)
    told = json.loads(ran.out)["verdicts"][0]["difference"]["estimate"]
    assert told == pytest.approx({"always:a": a, "always:b": b}[study["policies"]["proposed"]] - (a + b) / 2)


@pytest.mark.parametrize(("outcome", "late"), [("survived", "survtime"), ("y1", "y2"), ("relapsed", "time_to_relapse")])
def test_the_time_until_an_outcome_and_its_later_values_are_no_state(polidiff, tmp_path, outcome, late):
    columns = lots() | {"seen": ["2024-01-31"] * 300 + ["2024-02-28"] * 300}
    rng = np.random.default_rng(3)
    columns |= {late: rng.integers(1, 900, 600), outcome: rng.integers(0, 2, 600)}
    state = state_of(polidiff, tmp_path, columns, "--reward", outcome)[0]
    assert state == ["age", "weight", "smoker", "lab0"]


def test_a_rare_arm_is_what_is_proposed_and_earlier_values_of_the_outcome_stay_out(polidiff, tmp_path):
    rng = np.random.default_rng(8)
    columns = {
        "treat": ["placebo"] * 41 + ["drug"] * 9,
        "age": rng.integers(20, 80, 50),
        "bdi.pre": rng.integers(0, 30, 50),
    }
    columns |= {"bdi.2m": rng.integers(0, 30, 50), "bdi.8m": rng.integers(0, 30, 50)}
    state, study, _ = state_of(polidiff, tmp_path, columns, "--reward", "bdi.8m")
    assert (state, study["policies"]["proposed"]) == (["age", "bdi.pre"], "always:drug")
