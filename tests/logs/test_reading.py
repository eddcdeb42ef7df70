"""Tables of past decisions: every form in, every bad one refused in a line that says what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from polidiff import Log, Outcome
from polidiff.errors import InvalidLogError, InvalidOutcomeError
from polidiff.evaluation.logged.counts import count_log

ROWS = {
    "stay": [1, 1, 1, 2, 2],
    "hour": [0, 1, 2, 0, 1],
    "s": [0, 1, 0, 0, 1],
    "a": [0, 1, 1, 0, 0],
    "r": [0.0, 0.0, 1.0, 0.5, 0.5],
    "over": [False, False, True, False, False],
}
NAMES = {"state": "s", "action": "a", "episode": "stay", "step": "hour", "reward": "r", "terminated": "over"}


def table(**changes):
    return pl.DataFrame({**ROWS, **changes})


def counted(log):
    counts = count_log(log, blocks=1)
    return sorted(zip(*(part.tolist() for part in (counts.state, counts.action, counts.to, counts.count)), strict=True))


EXPECTED = [(0, 0, 1, 2.0), (0, 1, 2, 1.0), (1, 0, 3, 1.0), (1, 1, 0, 1.0)]


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, pa.table, lambda rows: pl.DataFrame(rows).lazy()])
def test_tables_of_every_library_give_the_same_counts(make):
    log = Log(make(ROWS), **NAMES)
    assert counted(log) == EXPECTED
    assert (log.check.rows, log.check.episodes, log.check.terminated, log.check.cut) == (5, 2, 1, 1)


def test_files_folders_and_globs_give_the_same_counts(tmp_path):
    first, second = table().filter(pl.col("stay") == 1), table().filter(pl.col("stay") == 2)
    table().write_csv(tmp_path / "all.csv")
    (tmp_path / "parts").mkdir()
    first.write_parquet(tmp_path / "parts" / "1.parquet")
    second.write_parquet(tmp_path / "parts" / "2.parquet")
    for source in (tmp_path / "all.csv", tmp_path / "parts", str(tmp_path / "parts" / "*.parquet")):
        assert counted(Log(source, **NAMES)) == EXPECTED


def test_a_cut_episode_is_not_an_end_and_a_gap_is_not_a_move():
    gap = table(hour=[0, 1, 3, 0, 1])
    log = Log(gap, **NAMES)
    assert log.check.gaps == 1
    assert counted(log) == [(0, 0, 1, 2.0), (0, 1, 2, 1.0), (1, 0, 3, 1.0), (1, 1, 3, 1.0)]
    assert count_log(log, blocks=1).cut == 2


def test_decisions_without_episodes_end_at_once():
    log = Log(table(), state="s", action="a", reward="r")
    assert log.check.episodes == 5
    assert {to for _, _, to, _ in counted(log)} == {2}


def test_text_states_and_actions_are_numbered_in_sorted_order():
    log = Log(table(s=list("bcbbc"), a=["up", "down", "down", "up", "up"]), **NAMES)
    assert log.states == ("b", "c")
    assert [action.name for action in log.actions] == ["down", "up"]
    assert counted(log) == [(0, 0, 2, 1.0), (0, 1, 1, 2.0), (1, 0, 0, 1.0), (1, 1, 3, 1.0)]


def test_whole_numbers_are_their_own_number_even_if_some_are_never_met():
    log = Log(table(s=[0, 7, 0, 0, 7]), **NAMES, actions=4)
    assert log.n_states == 8
    assert log.check.never_taken == ("2", "3")


def test_missing_features_are_kept_and_counted():
    frame = table(lactate=[1.0, None, 2.0, float("nan"), 3.0], site=["x"] * 5)
    names = {**NAMES, "state": ["lactate", "hour"], "features": ["lactate", "hour", "site"]}
    log = Log(frame, **names)
    assert log.check.missing == {"lactate": 1}
    np.testing.assert_array_equal(np.isnan(log.rows.states[:, 0]), [False, True, False, True, False])


def test_features_of_discrete_states_must_be_constant():
    log = Log(table(f=[1.0, 5.0, 1.0, 1.0, 5.0]), **NAMES, features=["f"])
    np.testing.assert_array_equal(log.features_of([1, 0]), [[5.0], [1.0]])
    varied = Log(table(f=[1.0, 5.0, 2.0, 1.0, 5.0]), **NAMES, features=["f"])
    with pytest.raises(InvalidLogError, match="'f' must be constant within a state; in state '0' it has 2 values"):
        varied.features_of([0])


def test_outcomes_are_columns_or_numbers():
    log = Log(table(), **NAMES, outcomes=[Outcome("steps", 1.0)])
    assert [outcome.name for outcome in log.outcomes] == ["return", "steps"]
    np.testing.assert_array_equal(log.rows.gains, np.column_stack([ROWS["r"], np.ones(5)]))
    with pytest.raises(InvalidOutcomeError, match="column name, or a number"):
        Log(table(), **NAMES, outcomes=[Outcome("odd", lambda s, a, n: s)])


REFUSED = {
    "missing column": (table().drop("a"), {}, "must have column 'a'"),
    "steps out of order": (
        table(hour=[0, 2, 1, 0, 1]),
        {"sort": False},
        r"they fall in row 3 below the names",
    ),
    "steps repeated": (table(hour=[0, 1, 1, 0, 1]), {}, r"they repeat in row 3 below the names"),
    "two ends": (
        table(over=[True, False, True, False, False]),
        {},
        r"goes on in row 1 below the names",
    ),
    "scattered": (
        table(stay=[1, 2, 1, 2, 2], hour=[0, 0, 1, 1, 2], over=[False] * 5),
        {"sort": False},
        "row 3 below the names goes on with an earlier one",
    ),
    "probability 0": (
        table(p=[0.5, 0.0, 0.5, 1.0, 1.0]),
        {"probability": "p"},
        "above 0 and at most 1; it is not in row 2 below the names",
    ),
    "NaN reward": (
        table(r=[0.0, float("nan"), 1.0, 0.0, 0.0]),
        {},
        "finite numbers; it is missing, NaN or beyond ±1e.100 in row 2 below the names",
    ),
    "missing action": (
        table(a=[0, None, 1, 0, 0]),
        {},
        "'a' must have a value in every row; it is missing in row 2 below the names",
    ),
    "text reward": (table(r=list("abcde")), {}, "'r' must hold numbers"),
    "one dose": (table(a=[0.5] * 5), {}, "'a' holds real numbers, .* at least two different numbers are needed"),
    "named doses": (table(a=[0.5, 1, 0.2, 0, 0]), {"actions": ["low", "high"]}, "at least two different numbers"),
    "no rows": (table().clear(), {}, "it has no rows"),
    "undeclared action": (table(), {"actions": 1}, "holds numbers above 0; actions 0 to 0 were given"),
    "undeclared state": (table(s=list("bcbbc")), {"states": ["b"]}, "holds 1 value that is not among the 1 states"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_rows_are_refused_with_the_first_place(case):
    frame, options, message = REFUSED[case]
    with pytest.raises(InvalidLogError, match=message) as caught:
        Log(frame, **{**NAMES, **options})
    assert "\n" not in str(caught.value)


def test_columns_of_mixed_types_are_named():
    frame = pd.DataFrame({**ROWS, "a": [0, 1, "up", 0, 0]})
    with pytest.raises(InvalidLogError, match="column 'a' has int and, in row 3 below the names, str"):
        Log(frame, **NAMES)


def test_a_csv_whose_type_changes_late_is_refused(tmp_path):
    lines = ["s,a,r"] + ["0,0,1"] * 20_000 + ["0,up,1"]
    (tmp_path / "late.csv").write_text("\n".join(lines))
    with pytest.raises(InvalidLogError, match="cannot be read") as caught:
        Log(tmp_path / "late.csv", state="s", action="a", reward="r")
    assert "\n" not in str(caught.value)


def test_empty_and_cut_files_are_refused(tmp_path):
    empty, cut = tmp_path / "empty.csv", tmp_path / "cut.parquet"
    empty.write_text("")
    table().write_parquet(cut)
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    with pytest.raises(InvalidLogError, match="is empty"):
        Log(empty, **NAMES)
    with pytest.raises(InvalidLogError, match="cannot be read"):
        Log(cut, **NAMES)
    with pytest.raises(InvalidLogError, match="does not exist"):
        Log(tmp_path / "nowhere.csv", **NAMES)
    with pytest.raises(InvalidLogError, match="found none"):
        Log(str(tmp_path / "*.pq"), **NAMES)


@pytest.mark.parametrize("where", ["", "*.csv", "b.csv"])
@pytest.mark.parametrize("target", ["gone", "b.csv"])  # a link to nothing, and one to itself
def test_a_link_that_leads_nowhere_is_named(tmp_path, where, target):
    (tmp_path / "a.csv").write_text("s,a,r\nx,left,1\ny,right,2\n")
    (tmp_path / "b.csv").symlink_to(tmp_path / target)
    with pytest.raises(InvalidLogError, match=r"b\.csv' is a link that leads nowhere"):
        Log(tmp_path / where, state="s", action="a", reward="r")


def test_a_name_that_is_no_text_and_a_folder_that_may_not_be_searched_are_named(tmp_path, monkeypatch):
    (tmp_path / "a\udcff.csv").write_text("s,a,r\nx,left,1\ny,right,2\n")
    with pytest.raises(InvalidLogError, match=r"expected names in UTF-8; got .*a\\udcff.csv'"):
        Log(tmp_path, state="s", action="a", reward="r")

    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(InvalidLogError, match=r"cannot be searched: .*Permission denied"):
        Log(tmp_path, state="s", action="a", reward="r")


def test_a_lone_done_is_a_question():
    names = {key: value for key, value in NAMES.items() if key != "terminated"}
    frame = table().rename({"over": "done"})
    with pytest.raises(
        InvalidLogError, match=r"'done' does not say how episodes end: .*\(terminated\) or .*\(truncated\)\?"
    ):
        Log(frame, **names)
    with pytest.raises(InvalidLogError, match="may mean either"):
        Log(frame, **names, terminated="done")
    assert Log(frame, **names, terminated="done", truncated=False).check.terminated == 1
    with pytest.raises(InvalidLogError, match="must say how they end"):
        Log(table().drop("over"), **names)


def test_a_range_that_an_episode_leaves_is_refused():
    with pytest.raises(
        InvalidOutcomeError,
        match=r"'return' must hold for every episode; the one of row 1 .*, column 'r', lies above it\. Hint",
    ):
        Log(table(), **NAMES, return_range=(0.0, 0.9))
    assert Log(table(), **NAMES, return_range=(0.0, 1.0)).outcomes[0].range == (0.0, 1.0)
    with pytest.raises(InvalidOutcomeError, match="row 3 below the names, column 'r', lies above it"):
        Log(table(), state="s", action="a", reward="r", return_range=(0.0, 0.9))
