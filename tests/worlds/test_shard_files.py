"""Files of a log: how they are cut into shards, and what happens where they cannot be read."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polidiff import Log
from polidiff.errors import InvalidLogError, SkippedRowsWarning
from polidiff.evaluation.logged.counts import count_log
from polidiff.worlds.shards import shard_files
from tests.worlds.by_hand import NAMES, by_hand, episodes, spoilt, told, written


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=9), most=st.integers(1, 60), batch=st.integers(1, 9))
def test_parts_are_as_few_as_needed_and_of_about_the_same_size(tmp_path, monkeypatch, sizes, most, batch):
    monkeypatch.setattr(shard_files, "PART_ROWS", most)
    monkeypatch.setattr(shard_files, "RANGE_ROWS", batch)
    for number, rows in enumerate(sizes):
        pl.DataFrame({"s": [0] * rows}).write_parquet(tmp_path / f"{number}.parquet")
    files = [str(tmp_path / f"{number}.parquet") for number in range(len(sizes))]
    shards = shard_files.whole_parts(shard_files.split_files(files), None)
    held, needed = [shard.rows for shard in shards], -(-sum(sizes) // most)
    assert sum(held) == sum(sizes)
    assert len(held) <= needed
    assert max(held) < sum(sizes) / needed + min(batch, max(sizes))
    assert all(rows >= sum(sizes) / needed for rows in held[:-1])


@pytest.mark.parametrize("writer", ["polars", "pyarrow"])
def test_the_number_of_rows_is_read_from_the_footer_alone(tmp_path, writer):
    path = tmp_path / "log.parquet"
    frame = episodes().with_columns(text=pl.lit("ü" * 300), nested=pl.lit([1, 2]))
    if writer == "polars":
        frame.write_parquet(path, row_group_size=7)
    else:
        pq.write_table(frame.to_arrow(), path, row_group_size=10)
    whole = path.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    path.write_bytes(b"\0" * (len(whole) - 8 - length) + whole[-8 - length :])
    assert shard_files.count_rows(str(path)) == frame.height


def test_a_footer_that_is_damaged_is_refused_and_never_believed(tmp_path):
    path = tmp_path / "log.parquet"
    episodes().write_parquet(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(300):
        data = bytearray(whole)
        for place in rng.integers(len(data) - 400, len(data), 3):
            data[place] = rng.integers(0, 256)
        path.write_bytes(data)
        with suppress(*shard_files.FAULTS):
            assert shard_files.count_rows(str(path)) >= 0


@pytest.mark.usefixtures("small")
def test_rows_that_cannot_be_read_are_named_and_left_out_only_on_request(tmp_path, monkeypatch):
    monkeypatch.setattr(shard_files, "RANGE_ROWS", 5)  # rows 5 to 9 are read together
    folder = written(episodes(), tmp_path / "log", [15], 3)
    spoilt(folder / "000.parquet", 2)
    with pytest.raises(InvalidLogError, match=r"000\.parquet, rows 6 to 8.*--skip-bad") as caught:
        Log(folder, **NAMES)
    assert "\n" not in str(caught.value)
    with pytest.warns(SkippedRowsWarning, match=r"000\.parquet, rows 6 to 8 could not be read"):
        log = Log(folder, **NAMES, skip_bad=True)
    # episode 2 is lost, and so is 3: nobody can say whether its first row begins it
    assert (log.check.episodes, log.check.rows, log.check.cut) == (10, 30, 0)
    assert "rows 6 to 8" in str(log.check)
    kept = episodes().filter(~pl.col("e").is_in([2, 3]))
    assert told(log, count_log(log, blocks=2)) == told(Log(kept, **NAMES), count_log(Log(kept, **NAMES), blocks=2))
    np.testing.assert_array_equal(log.rows.states, kept["s"])


def test_rows_left_out_because_of_a_feature_are_left_out_again(tmp_path):
    file = tmp_path / "log.parquet"
    rows = np.arange(3_000)
    state = np.where((rows >= 500) & (rows < 1_000), 3, rows % 3)  # a state that only rows to be spoilt have
    frame = pl.DataFrame({"s": state, "a": rows % 2, "r": rows * 1.0, "x": state * 1.5 + 0.25})
    frame.write_parquet(file, row_group_size=500, compression="uncompressed", statistics=False)
    column = pq.ParquetFile(file).metadata.row_group(1).column(3)
    begin = min(filter(None, (column.data_page_offset, column.dictionary_page_offset)))
    with file.open("r+b") as stream:
        stream.seek(begin)
        stream.write(b"\xff" * column.total_compressed_size)
    with pytest.warns(SkippedRowsWarning):
        log = Log(file, state="s", action="a", reward="r", features=["x"], skip_bad=True)
    assert log.read.facts.rows == 2_500
    with pytest.warns(SkippedRowsWarning):
        assert log.summary(blocks=3).facts.rows == 2_500


@pytest.mark.usefixtures("small")
def test_an_episode_cut_by_what_is_left_out_is_cut_and_its_rest_dropped(tmp_path):
    folder = written(episodes(), tmp_path / "log", [], 4)
    spoilt(folder / "000.parquet", 1)  # rows 4 to 7: the rest of episode 1 and the beginning of episode 2
    with pytest.warns(SkippedRowsWarning):
        log = Log(folder, **NAMES, skip_bad=True)
    kept = episodes().filter((pl.int_range(pl.len()) < 4) | (pl.col("e") > 2))
    assert log.check.cut == 1
    assert told(log, count_log(log, blocks=2)) == by_hand(kept, 2)


@pytest.mark.usefixtures("small")
def test_a_file_without_a_footer_is_named_and_left_out_only_on_request(tmp_path):
    folder = written(episodes(), tmp_path / "log", [12, 24], 3)
    cut = folder / "001.parquet"
    cut.write_bytes(cut.read_bytes()[:200])
    with pytest.raises(InvalidLogError, match=r"001\.parquet: it does not end as a Parquet file does"):
        Log(folder, **NAMES)
    with pytest.warns(SkippedRowsWarning, match=r"001\.parquet could not be read"):
        log = Log(folder, **NAMES, skip_bad=True)
    kept = episodes().filter((pl.col("e") < 4) | (pl.col("e") > 8))
    assert told(log, count_log(log, blocks=2)) == by_hand(kept, 2)


def test_files_with_other_types_are_refused_by_name(tmp_path):
    folder = written(episodes(), tmp_path / "log", [12], 3)
    other = pl.read_parquet(folder / "001.parquet").with_columns(pl.col("s").cast(pl.String))
    other.write_parquet(folder / "001.parquet")
    with pytest.raises(InvalidLogError, match=r"'s' holds Int64 in the first file and String in .*001\.parquet"):
        Log(folder, **NAMES)


def test_a_log_at_an_address_is_read_through_fsspec(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    frame = episodes()
    memory = fsspec.filesystem("memory")
    for number, part in enumerate((frame[:10], frame[10:])):
        with memory.open(f"/logs/{number}.parquet", "wb") as stream:
            part.write_parquet(stream)
    expected = by_hand(frame, 2)
    for address in ("memory://logs", "memory://logs/*.parquet"):
        log = Log(address, **NAMES)
        assert told(log, count_log(log, blocks=2)) == expected
        assert len(log.rows.actions) == frame.height
    with pytest.raises(InvalidLogError, match="found none"):
        Log("memory://nowhere/*.parquet", **NAMES)
