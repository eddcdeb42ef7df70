"""Logs of features that are too long to be held: whole episodes, the same ones whoever reads, and honest intervals."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, evaluate, explain, improve
from polidiff.errors import InvalidLogError, InvalidOptionError
from polidiff.records.codec import dumps
from polidiff.records.numbers import number
from polidiff.worlds.log_rows import mixed
from polidiff.worlds.shards import shard_files

NAMES = {"state": ["x", "y"], "action": "a", "episode": "e", "terminated": "end", "reward": "r"}


def walks(count: int, *, seed: int = 0, text: bool = False) -> pl.DataFrame:
    """Episodes of one to six decisions; acting 1 pays where x > 0.5."""
    rng = np.random.default_rng(seed)
    length = rng.integers(1, 7, count)
    size = int(length.sum())
    x, a = rng.uniform(size=(size, 2)), rng.integers(0, 2, size)
    end = np.zeros(size, dtype=bool)
    end[np.cumsum(length) - 1] = True
    name = np.repeat(np.arange(count), length)
    names = pl.Series(name).cast(pl.String) + " patient" if text else pl.Series(name)
    reward = np.where(a == 1, np.where(x[:, 0] > 0.5, 1.0, -1.0), 0.0) + rng.normal(size=size) * 0.1
    return pl.DataFrame({"e": names, "x": x[:, 0], "y": x[:, 1], "a": a, "r": reward, "end": end})


def here(rows):
    return np.zeros(len(rows), dtype=int)


def there(rows):
    return (rows[:, 0] > 0.5).astype(int)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(shard_files, "PART_ROWS", 300)


@pytest.mark.parametrize("text", [False, True])
def test_whole_episodes_are_drawn_and_the_same_ones_however_the_rows_are_cut(tmp_path, small, text):
    frame = walks(600, text=text)
    whole = Log(frame, **NAMES, max_rows=700).rows
    lengths = frame.group_by("e", maintain_order=True).len()["len"].to_numpy()
    kept = np.flatnonzero(np.isin(frame.group_by("e", maintain_order=True).first()["x"], whole.states[whole.first, 0]))
    np.testing.assert_array_equal(np.bincount(whole.episode), lengths[kept])
    assert 0.7 * 700 < len(whole.actions) < 1.3 * 700
    for cuts in (5, 9):
        folder = tmp_path / str(cuts)
        folder.mkdir()
        for k, part in enumerate(np.array_split(np.arange(frame.height), cuts)):
            frame[part].write_parquet(folder / f"{k}.parquet")
        found = Log(folder, **NAMES, max_rows=700).rows
        np.testing.assert_array_equal(found.states, whole.states)
        np.testing.assert_array_equal(found.follow, whole.follow)


def test_below_the_cap_every_row_is_there_and_nothing_is_said():
    frame = walks(300)
    log, all_of_it = Log(frame, **NAMES, max_rows=frame.height), Log(frame, **NAMES)
    assert not log.sampled
    assert log.notes == ()
    assert dumps(explain(log, here, there)) == dumps(explain(all_of_it, here, there))


def test_rows_that_are_episodes_of_their_own_are_drawn_one_by_one(tmp_path, small):
    frame = walks(800).select("x", "y", "a", "r")
    names = {name: NAMES[name] for name in ("state", "action", "reward")}
    frame.write_parquet(tmp_path / "log.parquet", row_group_size=100)
    one, two = Log(frame, **names, max_rows=900), Log(tmp_path / "log.parquet", **names, max_rows=900)
    np.testing.assert_array_equal(one.rows.states, two.rows.states)
    assert 700 < len(one.rows.actions) < 1100
    assert one.rows.n_episodes == len(one.rows.actions)


def test_a_sample_is_told_and_intervals_are_those_of_all_rows(tmp_path):
    frame, names = walks(3_000, seed=3), {**NAMES, "return_range": (-10, 10)}
    drawn, whole = Log(frame, **names, max_rows=2_500), Log(frame, **names)
    told, all_of_it = explain(drawn, here, there), explain(whole, here, there)
    held, rows = drawn.rows.n_episodes, number(frame.height)
    assert told.warnings[0] == (
        "The log is too long to be held: rules, verdicts and changes come from "
        f"{held} of 3000 episodes ({number(len(drawn.rows.actions))} of {rows} rows), drawn by a hash of "
        "their names. How often regions are met is counted in all rows."
    )
    assert told.world.facts == {"rows": frame.height, "episodes": 3_000} == all_of_it.world.facts
    narrow, wide = all_of_it.verdicts[0].difference, told.verdicts[0].difference
    assert wide.low <= narrow.estimate <= wide.high
    assert wide.high - wide.low < 1.5 * np.sqrt(3_000 / held) * (narrow.high - narrow.low)
    assert told.changes == pytest.approx(all_of_it.changes, rel=0.1)
    found = evaluate(drawn, there)
    assert found.details["episodes scored"] == held
    assert found.method.startswith(f"doubly robust scores of {held} of 3000 logged episodes")
    assert improve(drawn, here, there).warnings[0] == told.warnings[0]


def test_hashes_are_spread_evenly_and_differ():
    found = mixed(np.arange(100_000))
    assert len(np.unique(found)) == 100_000
    counts = np.bincount((found >> np.uint64(60)).astype(int), minlength=16)
    assert np.abs(counts - 6_250).max() < 5 * np.sqrt(6_250)


def test_episodes_too_long_to_be_drawn_are_refused_in_a_line(monkeypatch):
    frame = walks(50).with_columns(pl.lit(1).alias("e"), pl.lit(False).alias("end"))
    with pytest.raises(InvalidLogError, match=r"no episode is short enough|very long") as caught:
        _ = Log(frame, **NAMES, max_rows=10).rows
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("most", [0, -3, 1.5, True])
def test_a_number_of_rows_that_cannot_be_meant_is_refused(most):
    with pytest.raises(InvalidOptionError, match="max_rows must be a whole number of at least 1"):
        Log(walks(5), **NAMES, max_rows=most)


def test_a_bootstrap_that_would_not_fit_is_refused_before_it_begins(monkeypatch):
    quarters = walks(200).with_columns((pl.col("x") * 4).floor().clip(0, 3).cast(pl.Int64).alias("s"))
    log = Log(quarters, **{**NAMES, "state": "s"}, actions=2)
    monkeypatch.setattr("polidiff.evaluation.logged.model.free_memory", lambda: 100.0)
    with pytest.raises(
        InvalidLogError, match=r"resampling \d+ distinct transitions in blocks needs? about .* 1e-07 GB are free"
    ) as e:
        evaluate(log, np.array([0, 1, 0, 1]), evaluation="model bootstrap")
    assert "\n" not in str(e.value)
    monkeypatch.setattr("polidiff.evaluation.logged.model.free_memory", lambda: None)
    assert evaluate(log, np.array([0, 1, 0, 1]), evaluation="model bootstrap").details["episodes"] == 200


def test_the_number_of_rows_that_fits_is_named_where_too_many_were_asked_for(monkeypatch):
    frame = walks(300)
    monkeypatch.setattr("polidiff.worlds.log.free_memory", lambda: 20_000.0)
    with pytest.raises(InvalidLogError, match=r"max_rows=(\d+) draws whole episodes") as caught:
        _ = Log(frame, **NAMES).rows
    fits = int(str(caught.value).split("max_rows=")[1].split()[0])
    assert 0 < len(Log(frame, **NAMES, max_rows=fits).rows.actions) < 2 * fits
