"""Reading that goes on where it stopped: finished shards are kept, changed files are noticed, a kill costs little."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest

from polidiff import Log
from polidiff.cli import main
from polidiff.errors import ChangedInputWarning, InvalidInputError
from polidiff.evaluation.logged.counts import count_log
from polidiff.worlds.shards import shard_files, shard_summary

NAMES = {"state": "s", "action": "a", "episode": "e", "step": "t", "reward": "r", "terminated": "end"}


def episodes(count=40, length=5, seed=0):
    size = count * length
    rng = np.random.default_rng(seed)
    step = np.tile(np.arange(length), count)
    return pl.DataFrame({
        "e": np.repeat(np.arange(count), length), "t": step, "s": rng.integers(0, 6, size),
        "a": rng.integers(0, 2, size), "r": rng.normal(size=size), "end": step == length - 1,
    })  # fmt: skip


@pytest.fixture
def log_files(tmp_path, monkeypatch):
    """Four files of 50 rows, each a part with the rest of its last episode; episodes do not end where files do."""
    monkeypatch.setattr(shard_files, "PART_ROWS", 49)
    folder = tmp_path / "log"
    folder.mkdir()
    frame = episodes()
    for number in range(4):
        frame[53 * number : 53 * (number + 1)].write_parquet(folder / f"{number}.parquet")
    return folder


@pytest.fixture
def reads(monkeypatch):
    """Which files were read, in order."""
    seen = []
    original = shard_summary.summary_of

    def noted(part, *options):
        seen.append(part.ranges[0].file[-9:])
        return original(part, *options)

    monkeypatch.setattr(shard_summary, "summary_of", noted)
    return seen


def arrays(log):
    counts = count_log(log, blocks=2)
    names = ("block", "state", "action", "to", "count", "sums", "squares", "starts")
    return [getattr(counts, name).tobytes() for name in names]


def test_a_second_reading_takes_everything_from_the_folder_and_gives_the_same_bytes(tmp_path, log_files, reads):
    expected = arrays(Log(log_files, **NAMES))
    first = Log(log_files, **NAMES, work_folder=tmp_path / "work")
    assert len(reads) == 8
    again = Log(log_files, **NAMES, work_folder=tmp_path / "work")
    assert len(reads) == 8
    assert arrays(first) == arrays(again) == expected
    assert first.check == again.check


def test_reading_that_stopped_goes_on_with_what_is_missing(tmp_path, log_files, monkeypatch, reads):
    work = tmp_path / "work"
    noted = shard_summary.summary_of

    def stopped(part, *options):
        if part.ranges[0].file.endswith("2.parquet"):
            raise KeyboardInterrupt
        return noted(part, *options)

    monkeypatch.setattr(shard_summary, "summary_of", stopped)
    with pytest.raises(KeyboardInterrupt):
        Log(log_files, **NAMES, work_folder=work)
    kept = len(list(work.glob("shards/*.npz")))  # parts are read side by side: which were done varies
    reads.clear()
    monkeypatch.setattr(shard_summary, "summary_of", noted)
    log = Log(log_files, **NAMES, work_folder=work)
    assert kept < 4
    assert "2.parquet" in reads
    assert len(reads) <= 4 - kept
    assert arrays(log) == arrays(Log(log_files, **NAMES))


def test_a_changed_file_is_noticed_and_read_again(tmp_path, log_files, reads):
    work = tmp_path / "work"
    Log(log_files, **NAMES, work_folder=work)
    changed = pl.read_parquet(log_files / "1.parquet").with_columns(pl.col("a").replace({0: 1, 1: 0}))
    changed.write_parquet(log_files / "1.parquet")
    reads.clear()
    with pytest.warns(ChangedInputWarning, match=r"1\.parquet has changed since this work folder was begun"):
        log = Log(log_files, **NAMES, work_folder=work)
    assert reads == ["0.parquet", "1.parquet"]  # the last episode of the first part goes on in the file
    assert arrays(log) == arrays(Log(log_files, **NAMES))


@pytest.mark.parametrize("change", [{"reward": None, "outcomes": []}, {"step": None}])
def test_other_options_are_not_served_from_the_folder(tmp_path, log_files, reads, change):
    from polidiff import Outcome

    work = tmp_path / "work"
    Log(log_files, **NAMES, work_folder=work)
    reads.clear()
    options = {**NAMES, **change}
    if "outcomes" in change:
        options["outcomes"] = [Outcome("steps", 1.0)]
    Log(log_files, **options, work_folder=work)
    assert len(reads) == 4


def test_a_damaged_file_in_the_folder_is_made_again(tmp_path, log_files, reads):
    work = tmp_path / "work"
    expected = arrays(Log(log_files, **NAMES, work_folder=work))
    kept = sorted((work / "shards").glob("*.npz"))
    assert len(kept) == 4
    kept[0].write_bytes(kept[0].read_bytes()[:100])
    kept[1].write_bytes(b"\x80\x04cos\nsystem\n")  # a pickle is not even looked at
    for file, byte in ((kept[2], 40), (kept[3], kept[3].stat().st_size // 2)):  # the kind of compression, and a number
        content = bytearray(file.read_bytes())
        content[byte] ^= 1
        file.write_bytes(content)
    reads.clear()
    assert arrays(Log(log_files, **NAMES, work_folder=work)) == expected
    assert len(reads) == 4


def test_a_folder_that_cannot_be_made_is_named(tmp_path, log_files):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="cannot use the work folder"):
        Log(log_files, **NAMES, work_folder=tmp_path / "file" / "work")


SLOW = """
import sys, time
from polidiff.worlds.shards import shard_summary, shard_files
shard_files.PART_ROWS = 49
original = shard_summary.summary_of
def slow(shard, *options):
    time.sleep(0.5)
    return original(shard, *options)
shard_summary.summary_of = slow
from polidiff.cli.main import main
main(sys.argv[1:])
"""


def asked(log_files, *more):
    """The words of a command that explains a log."""
    policy = log_files.parent / "new.npy"
    np.save(policy, np.array([0, 1, 0, 1, 0, 1]))
    named = [word for name, column in NAMES.items() for word in (f"--{name}", column)]
    words = ["explain", "--log", log_files, "--json", *more, *named, "--current", "log", "--proposed", policy]
    return [str(word) for word in words]


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_driver_that_was_killed_goes_on_and_says_the_same_to_the_byte(tmp_path, log_files, how, capsys):
    work = tmp_path / "work"
    assert main.run(asked(log_files)) == 0
    expected = capsys.readouterr().out
    assert expected.startswith("{")
    command = asked(log_files, "--work-folder", work)
    with subprocess.Popen([sys.executable, "-c", SLOW, *command], stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 200
        while len(list(work.glob("shards/*.npz"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(how)
        _, said = process.communicate(timeout=200)
    assert process.returncode == (-9 if how == signal.SIGKILL else 130)
    assert "Traceback" not in said
    kept = {path: path.stat().st_mtime_ns for path in work.glob("shards/*.npz")}
    assert 2 <= len(kept) < 4
    assert main.run(command) == 0
    assert capsys.readouterr().out == expected
    assert all(path.stat().st_mtime_ns == then for path, then in kept.items())
    assert len(list(work.glob("shards/*.npz"))) == 4
