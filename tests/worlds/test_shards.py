"""Logs in shards: wherever the borders fall, the counts, the checks and the errors are those of the whole."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polidiff import Log, Outcome
from polidiff.errors import InvalidLogError, InvalidOutcomeError
from polidiff.evaluation.logged.counts import count_log, count_rows
from polidiff.worlds.shards import shard_files, shard_summary, transition_counts
from tests.worlds.by_hand import NAMES, by_hand, episodes, told, written


@st.composite
def logs(draw):
    """Episodes of one to seven rows over few labels, some with gaps, some cut; the first has steps one apart."""
    rows = []
    for episode in range(draw(st.integers(1, 6))):
        steps = sorted(draw(st.sets(st.integers(0, 8), min_size=1, max_size=6)) | ({0, 1} if not episode else set()))
        over = draw(st.booleans())
        for index, step in enumerate(steps):
            rows.append({
                "e": 10 * episode + 3, "t": step, "s": draw(st.sampled_from("xyz")), "a": draw(st.integers(0, 2)),
                "r": draw(st.sampled_from([0.0, 0.5, 1.0])), "end": over and index == len(steps) - 1,
            })  # fmt: skip
    return pl.DataFrame(rows)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    frame=logs(),
    cuts=st.lists(st.integers(1, 30), max_size=4),
    group=st.integers(1, 7),
    shard=st.integers(1, 12),
    batch=st.integers(1, 9),
    rows=st.integers(1, 9),
    blocks=st.integers(1, 3),
)
def test_wherever_the_borders_fall_the_counts_are_those_made_by_hand(
    tmp_path, monkeypatch, frame, cuts, group, shard, batch, rows, blocks
):
    monkeypatch.setattr(shard_files, "PART_ROWS", shard)
    monkeypatch.setattr(shard_files, "RANGE_ROWS", batch)
    monkeypatch.setattr(shard_summary, "BATCH_ROWS", rows)
    log = Log(written(frame, tmp_path / "log", cuts, group), **NAMES)
    assert told(log, count_log(log, blocks=blocks)) == by_hand(frame, blocks)
    assert log.check == Log(frame, **NAMES).check
    assert log.check.gaps == sum(
        move > 1 for _, part in frame.group_by("e") for move in part.sort("t")["t"].diff().drop_nulls()
    )
    assert dict(zip((log.states[s] for s in log.starts), log.start_counts, strict=True)) == Counter(
        frame.group_by("e", maintain_order=True).first()["s"]
    )


@settings(max_examples=30, deadline=None)
@given(frame=logs(), blocks=st.integers(1, 3))
def test_rows_in_memory_give_the_same_counts(frame, blocks):
    log = Log(frame, **NAMES)
    rows = log.rows
    assert told(log, count_rows(rows, rows.states, log.n_states, log.n_actions, blocks=blocks)) == by_hand(
        frame, blocks
    )


SPOILT = {
    "steps fall": ({"t": {4: -1}}, r"they fall in row 5 below the names"),
    "steps repeat": ({"t": {4: 0}}, r"they repeat in row 5 below the names"),
    "ended and goes on": ({"end": {3: True}}, r"goes on in row 4 below the names"),
    "episode comes back": ({"e": {4: 0, 5: 0}}, r"row 5 below the names goes on with an earlier one"),
    "no number": ({"r": {5: float("nan")}}, r"finite numbers; .* in row 6 below the names"),
    "no action": ({"a": {2: None}}, r"'a' must have a value in every row; it is missing in row 3 below the names"),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("case", SPOILT)
@pytest.mark.parametrize("cuts", [[], [3], [4], [5]])
def test_problems_next_to_a_border_are_found_where_they_are(tmp_path, case, cuts):
    changes, message = SPOILT[case]
    frame = episodes()
    for name, places in changes.items():
        values = frame[name].to_list()
        for place, value in places.items():
            values[place] = value
        frame = frame.with_columns(pl.Series(name, values, dtype=frame.schema[name]))
    with pytest.raises(InvalidLogError, match=message):
        Log(written(frame, tmp_path / "log", cuts, 1), **NAMES, sort=False)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("place", [0, 1, 2, 17, 35])
@pytest.mark.parametrize("group", [1, 2, 4])
def test_an_episode_over_a_border_is_held_to_its_range_as_a_whole(tmp_path, place, group):
    frame = episodes().with_columns(r=pl.when(pl.int_range(pl.len()) == place).then(2.0).otherwise(1.0))
    folder = written(frame, tmp_path / "log", [4, 9], group)
    assert Log(folder, **NAMES, return_range=(0, 4)).check.episodes == 12
    with pytest.raises(
        InvalidOutcomeError, match=rf"row {place // 3 * 3 + 1} below the names, column 'r', lies above it"
    ):
        Log(folder, **NAMES, return_range=(0, 3))


def scattered(labels=None, size=3000, seed=0):
    """Rows with gaps, cuts, noisy rewards and as many labels as there are in `labels` (or small numbers)."""
    rng = np.random.default_rng(seed)
    episode = np.sort(rng.integers(0, size // 5, size))
    first = np.append(True, np.diff(episode) > 0)
    step = np.arange(size) + np.cumsum(rng.random(size) < 0.1)
    last = np.append(first[1:], True)
    state = rng.integers(0, 40, size)
    return pl.DataFrame({
        "e": episode, "t": step, "s": state if labels is None else np.array(labels)[state % len(labels)],
        "a": rng.integers(0, 3, size), "r": rng.normal(size=size), "end": last & (rng.random(size) < 0.7),
    })  # fmt: skip


def bytes_of(log, blocks):
    """Everything that was counted, to the byte."""
    counts = count_log(log, blocks=blocks)
    parts = (counts.block, counts.state, counts.action, counts.to, counts.count, counts.sums, counts.squares)
    return log.check, log.states, log.actions, [part.tobytes() for part in (*parts, counts.starts)]


@pytest.mark.parametrize("blocks", [2, 7])
def test_machine_code_and_the_interpreter_give_the_same_bytes(monkeypatch, blocks):
    frame = scattered()
    found = []
    for few in (0, 1 << 30):
        monkeypatch.setattr(transition_counts, "FEW_ROWS", few)
        found.append(bytes_of(Log(frame, **NAMES, return_range=(-100, 100)), blocks))
    assert found[0] == found[1]
    log = Log(frame, **NAMES)
    counts, sums, starts = told(log, count_log(log, blocks=blocks))
    by_loop = by_hand(frame, blocks)
    assert (counts, starts) == (by_loop[0], by_loop[2])
    assert sums == pytest.approx(by_loop[1])


LABELS = {
    "text": list("zebra"),
    "negative": [-5, 0, 3],
    "large": [7, 1 << 40, (1 << 62) + 1],
    "foreign after own": [2, 1, 0, (1 << 20) + 5],
    "unsigned": np.array([3, (1 << 63) + 9], dtype=np.uint64),
    "bytes": np.array([200, 3, 255], dtype=np.uint8),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("few", [0, 1 << 30])
def test_labels_of_any_kind_are_counted_as_by_hand(tmp_path, monkeypatch, kind, few):
    monkeypatch.setattr(transition_counts, "FEW_ROWS", few)
    monkeypatch.setattr(shard_files, "PART_ROWS", 100)
    monkeypatch.setattr(shard_files, "RANGE_ROWS", 40)
    frame = scattered(LABELS[kind], 300)
    for source in (frame, written(frame, tmp_path / "log", [77, 150], 20)):
        log = Log(source, **NAMES)
        counts, sums, starts = told(log, count_log(log, blocks=3))
        by_loop = by_hand(frame, 3)
        assert (counts, starts) == (by_loop[0], by_loop[2])
        assert sums == pytest.approx(by_loop[1])


def test_a_log_cut_at_every_place_has_the_same_counts_and_checks(tmp_path, monkeypatch):
    monkeypatch.setattr(shard_files, "PART_ROWS", 1)
    frame = scattered(size=40, seed=3).with_columns(r=pl.int_range(pl.len()).cast(pl.Float64))
    expected = bytes_of(Log(frame, **NAMES), 3)
    for cut in range(1, frame.height):
        assert bytes_of(Log(written(frame, tmp_path / "log", [cut], 1000), **NAMES), 3) == expected


EPISODES = {
    "text": lambda e: e.cast(pl.String).str.zfill(8),
    "unsigned": lambda e: e.cast(pl.UInt64) + (1 << 63),
    "small": lambda e: e.cast(pl.UInt16),
    "days": lambda e: pl.date(2020, 1, 1) + pl.duration(days=e),
}


@pytest.mark.parametrize("kind", EPISODES)
@pytest.mark.parametrize("step", [pl.Float64, pl.UInt32, pl.Datetime("us")])
def test_episodes_and_steps_of_any_kind_are_told_apart(tmp_path, monkeypatch, kind, step):
    monkeypatch.setattr(shard_files, "PART_ROWS", 90)
    monkeypatch.setattr(shard_files, "RANGE_ROWS", 30)
    frame = scattered(size=400)
    other = frame.with_columns(EPISODES[kind](pl.col("e")), pl.col("t").cast(step))
    if step == pl.Datetime("us"):  # times have no gaps
        frame = frame.with_columns(t=pl.int_range(pl.len()))
    log = Log(written(other, tmp_path / "log", [123], 25), **NAMES)
    assert bytes_of(log, 3)[1:] == bytes_of(Log(frame, **NAMES), 3)[1:]
    assert told(log, count_log(log, blocks=3))[0] == by_hand(frame, 3)[0]
    assert (log.check.episodes, log.check.gaps) == (frame["e"].n_unique(), Log(frame, **NAMES).check.gaps)


@pytest.mark.parametrize("place", [0, 17, 39])
def test_what_is_missing_or_no_number_is_found(place):
    frame = scattered(size=40)
    for name, value, message in (
        ("r", float("nan"), "finite numbers"), ("r", float("-inf"), "finite numbers"), ("r", None, "finite numbers"),
        ("s", None, "'s' must have a value"), ("e", None, "'e' must have a value"), ("t", None, "'t' must have a"),
    ):  # fmt: skip
        values = frame[name].to_list()
        values[place] = value
        with pytest.raises(InvalidLogError, match=rf"{message}.* in row {place + 1} below"):
            Log(frame.with_columns(pl.Series(name, values, dtype=frame.schema[name])), **NAMES)


def test_features_of_states_must_be_constant(tmp_path, small):
    frame = episodes().with_columns(
        x=(pl.col("s") * 1.5).replace(4.5, None),
        k=pl.col("s").cast(pl.Int32),
        word=pl.format("w{}", "s"),
        flag=pl.col("s") > 2,
    )
    for names in (["x", "k"], ["word", "x", "flag"]):
        log = Log(written(frame, tmp_path / "log", [5, 11], 3), **NAMES, states=6, features=names)
        first = frame.group_by("s").first().sort("s")
        rows = [list(row) for row in first.select(names).rows()]
        found = log.features_of(np.arange(5)).tolist()
        told_rows = [[None if value != value else value for value in row] for row in found]
        assert told_rows == rows
        assert all(value is None or value != value for value in log.features_of([5])[0].tolist())
    spoilt_at = frame.with_columns(x=pl.when(pl.int_range(pl.len()) == 31).then(9.0).otherwise("x"))
    log = Log(written(spoilt_at, tmp_path / "log", [5, 11], 3), **NAMES, features=["k", "x"])
    with pytest.raises(InvalidLogError, match=r"feature 'x' must be constant within a state; in state '1' it has 2"):
        log.features_of([0])


def test_one_step_decisions_come_in_shards_too(tmp_path, small):
    frame = episodes().drop("e", "t", "end")
    log = Log(written(frame, tmp_path / "log", [5], 3), state="s", action="a", reward="r")
    assert told(log, count_log(log, blocks=3)) == told(
        Log(frame, state="s", action="a", reward="r"),
        count_log(Log(frame, state="s", action="a", reward="r"), blocks=3),
    )
    assert log.check.episodes == log.check.terminated == frame.height


def test_outcomes_that_are_numbers_are_summed_per_decision(tmp_path, small):
    folder = written(episodes(), tmp_path / "log", [7], 2)
    log = Log(folder, **NAMES, outcomes=[Outcome("steps", 2.0)])
    counts = count_log(log, blocks=2)
    np.testing.assert_array_equal(counts.sums[:, 1], 2 * counts.count)
    np.testing.assert_array_equal(counts.squares[:, 1], 4 * counts.count)


def test_rows_that_would_not_fit_into_memory_are_refused_before_they_are_read(monkeypatch):
    log = Log(episodes(), **NAMES)
    monkeypatch.setattr("polidiff.worlds.log.free_memory", lambda: 1000.0)
    with pytest.raises(
        InvalidLogError, match=r"36 rows as arrays need about 3\.46e-06 GB; 1e-06 GB are free"
    ) as caught:
        _ = log.rows
    assert "\n" not in str(caught.value)
    monkeypatch.setattr("polidiff.worlds.log.free_memory", lambda: None)
    assert len(log.rows.actions) == 36


def test_who_wrote_a_log_of_discrete_states_is_told_without_its_rows(monkeypatch):
    from polidiff.evaluation.logged.policies import logged_shares, logging_policy

    log = Log(episodes(), **NAMES)
    visits = np.zeros((5, log.n_actions))
    np.add.at(visits, (log.rows.states, log.rows.actions), 1.0)
    expected = logged_shares(visits)
    fresh = Log(episodes(), **NAMES)
    monkeypatch.setattr("polidiff.worlds.log.free_memory", lambda: 0.0)
    np.testing.assert_array_equal(logging_policy(fresh).probabilities(np.arange(5)), expected)
