"""Rows as people have them: in any order, with gaps, marks and words, the log is the one that was meant."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polidiff import Log, Outcome
from polidiff.errors import InvalidLogError, InvalidOptionError, InvalidOutcomeError
from polidiff.evaluation.logged.counts import count_log
from polidiff.evaluation.logged.policies import logging_policy, row_chances
from polidiff.worlds.shards import shard_files
from polidiff.worlds.text_tables import scan_text_tables
from tests.logs.tables import NAMES, same, stays


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), files=st.booleans())
def test_rows_in_any_order_are_the_same_log(tmp_path, seed, files):
    frame = stays(seed=seed % 5)
    mixed = frame.sample(fraction=1.0, shuffle=True, seed=seed)
    source = mixed
    if files:
        mixed.write_parquet(tmp_path / "a.parquet")
        source = tmp_path / "a.parquet"
    log = Log(source, **NAMES, terminated="ende")
    assert same(log, Log(frame, **NAMES, terminated="ende"))
    assert log.check.sorted == (not mixed.equals(frame))


def test_a_problem_is_told_by_the_row_of_the_table_that_was_given():
    frame = stays()
    mixed = frame.sample(fraction=1.0, shuffle=True, seed=1)
    holes = mixed.with_columns(wohl=pl.when(pl.int_range(pl.len()) != 7).then("wohl"))
    with pytest.raises(InvalidLogError, match=r"in row 8 below the names\."):
        Log(holes, **NAMES, terminated="ende")


def test_rows_stay_as_they_are_if_that_was_asked_for():
    with pytest.raises(InvalidLogError, match=r"stand together|must increase"):
        Log(stays().reverse(), **NAMES, terminated="ende", sort=False)


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [
        ("2024-03-01 08:00", "2024-03-01 09:30", "2024-03-02 00:15"), ("2024-03-01", "2024-03-02", "2024-11-01"),
        ("01.03.2024 08:00", "01.03.2024 09:00", "02.03.2024 08:00"), ("1/3/2024", "2/3/2024", "13/3/2024"),
        ("2/28/2024", "3/1/2024", "12/1/2024"), ("08:00", "08:05", "11:00"),
    ],
)  # fmt: skip
def test_dates_and_times_in_words_are_steps(first, second, third):
    frame = pl.DataFrame({"e": [1, 1, 1], "t": [third, first, second], "s": [3, 1, 2], "a": [0, 1, 0],
                          "r": [0.0, 1.0, 2.0], "end": [True, False, False]})  # fmt: skip
    log = Log(frame, state="s", action="a", reward="r", episode="e", step="t", terminated="end")
    np.testing.assert_array_equal(log.rows.states, [1, 2, 3])


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([0.0, 1.0, 0.0, 1.0], [0, 1, 0, 1]), (["no", "Yes", "no", "YES"], [0, 1, 0, 1]),
        (["false", "true", "f", "t"], [0, 1, 0, 1]), ([None, "x", None, "x"], None),
        ([None, "1", None, " 1 "], [0, 1, 0, 1]), ([None, True, None, True], [0, 1, 0, 1]),
        ([None, 1, None, 1], [0, 1, 0, 1]), ([0.0, 2.5, 0.0, 1.0], None),
    ],
)  # fmt: skip
def test_ends_are_told_in_words_numbers_or_marks(tmp_path, marks, expected):
    frame = pl.DataFrame({"e": [1, 1, 2, 2], "s": [0, 1, 0, 1], "a": [0, 1, 1, 0], "r": [1.0] * 4, "end": marks})
    frame.write_csv(tmp_path / "a.csv")
    names = {"state": "s", "action": "a", "reward": "r", "episode": "e", "terminated": "end"}
    if expected is None:
        with pytest.raises(InvalidLogError, match=r"'end' must hold") as caught:
            Log(tmp_path / "a.csv", **names)
        assert "\n" not in str(caught.value)
        return
    follow = Log(tmp_path / "a.csv", **names).rows.follow
    np.testing.assert_array_equal(follow == -1, np.array(expected) == 1)


def test_whole_numbers_with_a_point_are_actions_and_states():
    frame = pl.DataFrame({"s": [0.0, 2.0, 1.0], "a": [1.0, 0.0, 1.0], "r": [1.0, 0.0, 1.0]})
    log = Log(frame, state="s", action="a", reward="r")
    np.testing.assert_array_equal(log.rows.actions, [1, 0, 1])
    np.testing.assert_array_equal(log.rows.states, [0, 2, 1])
    with pytest.raises(InvalidLogError, match="must hold whole numbers or text"):
        Log(frame.with_columns(s=pl.Series([0.5, 1.0, 0.0])), state="s", action="a", reward="r")


def test_outcomes_in_words_are_counted():
    frame = pl.DataFrame({"x": [1.0, 2.0], "a": [0, 1], "r": ["yes", "no"], "harm": ["N", "Y"]})
    log = Log(frame, state=["x"], action="a", reward="r", outcomes=[Outcome("harm", "harm", prefer="less")])
    np.testing.assert_array_equal(log.rows.gains, [[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(
        InvalidLogError, match="'r' must hold numbers, or yes and no; row 2 below the names holds neither"
    ):
        Log(frame.with_columns(r=pl.Series(["yes", "perhaps"])), state=["x"], action="a", reward="r")


def test_an_outcome_may_be_whether_a_column_holds_a_value():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "a": [0, 1, 0], "status": ["cured", " ill ", "dead"]})
    died = Outcome("died", "status = dead", prefer="less")
    log = Log(frame, state=["x"], action="a", reward="status = cured", outcomes=[died])
    np.testing.assert_array_equal(log.rows.gains, [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    with pytest.raises(InvalidLogError, match=r"'status' never holds 'well'$"):
        Log(frame, state=["x"], action="a", reward="status = well")
    with pytest.raises(InvalidLogError, match="Hint: name the value that counts, as in 'status = VALUE'"):
        Log(frame, state=["x"], action="a", reward="status")


@pytest.mark.parametrize(("third", "kept"), [("unknown", False), ("N/A", False), ("none", True), ("later", True)])
def test_words_for_nothing_between_yes_and_no_are_nothing(tmp_path, third, kept):
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "a": [0, 1, 0, 1], "well": ["Yes", "no", third, "no"]})
    frame.write_csv(tmp_path / "a.csv")
    names = {"state": ["x"], "action": "a", "reward": "well", "missing": "drop"}
    if kept:
        with pytest.raises(InvalidLogError, match="row 3 below the names holds neither"):
            Log(tmp_path / "a.csv", **names)
    else:
        log = Log(tmp_path / "a.csv", **names)
        assert log.check.dropped == 1
        np.testing.assert_array_equal(log.rows.gains[:, 0], [1.0, 0.0, 0.0])


def test_a_reward_paid_at_the_end_is_nothing_before():
    frame = stays().with_columns(last=pl.col("fall") != pl.col("fall").shift(-1).fill_null(-1))
    paid = frame.with_columns(wohl=pl.when("last").then("wohl"))
    whole = frame.with_columns(wohl=pl.when("last").then("wohl").otherwise(0.0))
    log = Log(paid.sample(fraction=1.0, shuffle=True, seed=1), **NAMES, terminated="ende")
    assert same(log, Log(whole, **NAMES, terminated="ende"))
    gaps = frame.with_columns(wohl=pl.when(pl.int_range(pl.len()) != 3).then("wohl"))
    with pytest.raises(
        InvalidLogError, match=r"'wohl' must hold finite numbers; it is missing.* in row 4 below the names"
    ):
        Log(gaps, **NAMES, terminated="ende")


@pytest.mark.parametrize("column", ["arm", "wohl"])
@pytest.mark.parametrize("seed", range(4))
def test_an_episode_is_used_up_to_the_first_row_that_lacks_something(column, seed):
    frame = stays(seed=seed)
    lacks = np.random.default_rng(seed).random(frame.height) < 0.2
    lacks[1] = True
    holes = frame.with_columns(pl.when(~pl.Series(lacks)).then(pl.col(column)).alias(column))
    with pytest.raises(InvalidLogError, match=f"{column!r} must"):
        Log(holes, **NAMES, terminated="ende")
    keep, over = [], set()
    for row, (episode, missing) in enumerate(zip(frame["fall"], lacks, strict=True)):
        over |= {episode} if missing else set()
        keep.append(row) if episode not in over else None
    log = Log(holes, **NAMES, terminated="ende", missing="drop")
    assert same(log, Log(frame[keep], **NAMES, terminated="ende"))
    assert log.check.dropped == frame.height - len(keep)
    assert f"{log.check.dropped} rows" in str(log.check)
    assert f"Left out: {log.check.dropped} rows without an action or outcome" in log.notes[0]


def test_single_decisions_without_an_outcome_are_left_out_one_by_one():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "a": [0, 1, None], "r": [1.0, None, 0.0]})
    log = Log(frame, state=["x"], action="a", reward="r", missing="drop")
    assert (log.check.rows, log.check.dropped) == (1, 2)
    with pytest.raises(InvalidOptionError, match="missing must be 'refuse' or 'drop'"):
        Log(frame, state=["x"], action="a", reward="r", missing="ignore")


def test_people_are_counted_and_dealt_as_a_whole():
    frame = stays(40).with_columns(who=pl.col("fall") % 7)
    log = Log(frame, **NAMES, terminated="ende", group="who")
    assert log.check.people == 7
    assert "40 episodes of 7 people" in str(log.check)
    folds = log.rows.folds(5, 0)
    dealt = pl.DataFrame({"who": frame["who"], "fold": folds, "block": log.rows.turn})
    assert dealt.group_by("who").agg(pl.col("fold", "block").n_unique()).select(pl.col("fold", "block").max()).row(
        0
    ) == (1, 1)
    assert sorted(np.bincount(folds[log.rows.first], minlength=5) > 0) == [True] * 5
    with pytest.raises(
        InvalidLogError, match=r"an episode belongs to one 'arm'; the one of row 1 below the names has 2"
    ):
        Log(frame, **NAMES, terminated="ende", group="arm")
    with pytest.raises(
        InvalidLogError, match="'who' must have a value in every row; it is missing in row 1 below the names"
    ):
        Log(frame.with_columns(who=None), **NAMES, terminated="ende", group="who")


@pytest.mark.parametrize("names", ["numbers", "words"])
@pytest.mark.parametrize("kind", ["table", "shards"])
def test_all_episodes_of_a_person_are_counted_in_one_block(tmp_path, monkeypatch, kind, names):
    monkeypatch.setattr(shard_files, "PART_ROWS", 7)
    monkeypatch.setattr(shard_files, "RANGE_ROWS", 3)
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 5, 60)
    person, rows = rng.integers(0, 9, 60), lengths.sum()
    who = np.repeat(person, lengths)  # who is also the state, so that counts tell people apart
    frame = pl.DataFrame({
        "e": np.repeat(np.arange(60), lengths), "s": who, "a": rng.integers(0, 2, rows), "r": rng.random(rows),
        "who": who if names == "numbers" else np.array([f"p{number}" for number in who]),
    })  # fmt: skip
    frame.write_parquet(tmp_path / "log.parquet")
    source = frame if kind == "table" else tmp_path / "log.parquet"
    options = {"state": "s", "action": "a", "reward": "r", "episode": "e", "truncated": False}
    counts = count_log(Log(source, **options, group="who"), blocks=4)
    alone = count_log(Log(source, **options), blocks=4)
    blocks = [set(counts.block[counts.state == state]) for state in range(9)]
    assert all(len(block) == 1 for block in blocks)
    np.testing.assert_array_equal(counts.starts.sum(axis=0), alone.starts.sum(axis=0))
    assert all(set(np.flatnonzero(counts.starts[:, state])) == blocks[state] for state in range(9))
    pairs = [np.bincount(c.state * 2 + c.action, c.count, 18) for c in (counts, alone)]
    np.testing.assert_array_equal(*pairs)
    if kind == "table":
        assert [min(block) for block in blocks] == [state % 4 for state in range(9)]


def test_one_probability_stands_for_all_rows():
    frame = stays()
    column = Log(frame.with_columns(p=pl.lit(0.5)), **NAMES, terminated="ende", probability="p")
    number = Log(frame, **NAMES, terminated="ende", probability=0.5)
    np.testing.assert_array_equal(number.rows.probability, column.rows.probability)
    for wrong in (0, 1.5, True):
        with pytest.raises(InvalidLogError, match="probability must name a column, or be a number above 0"):
            Log(frame, **NAMES, terminated="ende", probability=wrong)


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_who_wrote_the_log_does_not_depend_on_the_order_of_rows(seed):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 2)).round(1)
    action = (rng.random(400) < 1 / (1 + np.exp(-2 * x[:, 0]))).astype(int)
    frame = pl.DataFrame({"x": x[:, 0], "y": x[:, 1], "a": action, "r": rng.random(400)}).sort("a")
    order = np.random.default_rng(seed).permutation(400)
    names = {"state": ["x", "y"], "action": "a", "reward": "r"}
    one, other = (Log(rows, **names) for rows in (frame, frame[order]))
    points = rng.normal(size=(50, 2))
    np.testing.assert_array_equal(*(logging_policy(log).probabilities(points) for log in (one, other)))
    rows, mixed = row_chances(one)[order], row_chances(other)
    twins = frame[order].select("x", "y", "a", "r").is_duplicated().to_numpy()  # equal rows may swap folds
    np.testing.assert_array_equal(rows[~twins], mixed[~twins])


def test_counts_of_a_shuffled_log_of_discrete_states_are_the_same():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({
        "e": np.repeat(np.arange(30), 4), "t": np.tile(np.arange(4), 30), "s": rng.integers(0, 5, 120),
        "a": rng.integers(0, 2, 120), "r": rng.random(120), "end": np.arange(120) % 4 == 3,
    })  # fmt: skip
    names = {"state": "s", "action": "a", "reward": "r", "episode": "e", "step": "t", "terminated": "end"}
    one, other = (count_log(Log(rows, **names)) for rows in (frame, frame.sample(fraction=1.0, shuffle=True, seed=2)))
    for name in ("block", "state", "action", "to", "count", "sums", "starts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_date_that_may_be_read_two_ways_is_asked_about():
    frame = pl.DataFrame({"e": [1, 1], "t": ["1/2/2024", "2/3/2024"], "s": [0, 1], "a": [0, 1], "r": [0.0, 1.0]})
    with pytest.raises(InvalidLogError, match=r"may be day/month or month/day: no row tells\. Hint: write them as"):
        Log(frame, state="s", action="a", reward="r", episode="e", step="t", truncated=False)
    bad = frame.with_columns(t=pl.Series(["2024-01-02", "soon"]))
    with pytest.raises(InvalidLogError, match="'t' must hold numbers or times; row 2 below the names holds neither"):
        Log(bad, state="s", action="a", reward="r", episode="e", step="t", truncated=False)


@pytest.mark.parametrize("skipped", [0, 1])
def test_steps_that_are_numbered_by_fours_are_an_order_and_not_gaps(skipped):
    rows = [(e, 3 + 4 * t, "well", "wait", 1.0, t == 2) for e in range(20) for t in range(3)]
    del rows[1 : 1 + skipped]
    table = pl.DataFrame(rows, schema=["stay", "hour", "state", "done", "paid", "end"], orient="row")
    log = Log(table, state="state", action="done", episode="stay", step="hour", reward="paid", terminated="end")
    assert log.check.gaps == skipped


@pytest.mark.parametrize("name", ["died", "hospital_death", "cost"])
def test_harm_as_a_reward_is_asked_about_and_an_outcome_with_a_direction_is_the_way_out(name):
    frame = pl.DataFrame({"ward": ["a", "b"] * 10, "act": [0, 1, 1, 0] * 5, name: [0.0, 1.0, 1.0, 1.0, 0.0] * 4})
    with pytest.raises(InvalidLogError, match=rf"more of the reward is better, but '{name}' sounds like harm"):
        Log(frame, state="ward", action="act", reward=name)
    log = Log(frame, state="ward", action="act", outcomes=[Outcome(name, name, prefer="less")])
    assert log.check.rows == 20


@pytest.mark.parametrize(
    ("code", "lowest", "rows", "empty"),
    [(-99, 0, 6, 6), (-9, 3, 5, 5), (-99, 0, 4, 0), (-98, 0, 6, 0), (-99, -5, 6, 0)],
)
def test_a_code_is_read_as_empty_where_it_is_repeated_and_nothing_else_is_below_zero(
    tmp_path, code, lowest, rows, empty
):
    values = [code] * rows + list(range(lowest, lowest + 60 - rows))
    lines = [f"{value},{'ab'[k % 2]},{k % 3}" for k, value in enumerate(values)]
    (tmp_path / "log.csv").write_text("\n".join(["lab,action,good", *lines]))
    log = Log(tmp_path / "log.csv", state=["lab"], action="action", reward="good")
    assert log.check.missing.get("lab", 0) == empty
    assert log.empty_codes == ({"lab": code} if empty else {})
    table = pl.read_csv(tmp_path / "log.csv")  # a table in memory is taken at its word
    assert not Log(table, state=["lab"], action="action", reward="good").check.missing


def test_an_endless_feature_and_rows_that_lack_something_are_refused_with_a_way_out():
    frame = pl.DataFrame({"x": [1.0, float("inf")], "a": [0, 1], "r": [1.0, 0.0], "who": ["a", "b"]})
    names = {"state": ["x"], "action": "a", "reward": "r"}
    with pytest.raises(
        InvalidLogError, match="'x' must hold finite numbers or nothing; it is beyond ±1e\\+30 in at least 1 row"
    ):
        _ = Log(frame, **names).rows
    for column, hint in (("r", 'missing="drop" leaves such rows out'), ("who", "fill it in, or delete these rows")):
        with pytest.raises(
            InvalidLogError, match=f"'{column}' must .* it is missing.* in row 1 below the names. Hint: {hint}"
        ):
            Log(frame.with_columns(pl.when(pl.col("a") > 0).then(column).alias(column)), **names, group="who")


def test_yes_and_no_in_several_spellings_are_two_words(tmp_path):
    said = ["Yes", "YES", "y", "no", "N", ""] * 5
    (tmp_path / "a.csv").write_text("x,success\n" + "\n".join(f"{k},{word}" for k, word in enumerate(said)))
    read = scan_text_tables([str(tmp_path / "a.csv")]).collect()["success"].to_list()
    assert read == ["yes", "yes", "yes", "no", "no", None] * 5


def test_a_range_that_one_row_leaves_names_its_place_as_handed_in_and_not_its_value():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "a": [0, None, 1], "score": [1.0, 2.0, -4017.0]})
    told = r"^range \(0\.0, 10\.0\) of outcome 'return' .* row 3 below the names, column 'score', lies below it\. Hint"
    with pytest.raises(InvalidOutcomeError, match=told) as caught:
        Log(frame, state=["x"], action="a", reward="score", missing="drop", return_range=(0, 10))
    assert "4017" not in str(caught.value)
