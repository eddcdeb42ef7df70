"""Files are written whole or not at all, whatever goes wrong halfway."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polidiff.errors import InvalidInputError
from polidiff.files import write_whole


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_and_bytes_are_written_and_replaced(tmp_path):
    target = tmp_path / "result.json"
    assert write_whole(target, "straße") == target
    assert target.read_text(encoding="utf-8") == "straße"
    write_whole(str(target), b"\x00\x01")
    assert target.read_bytes() == b"\x00\x01"
    assert files_in(tmp_path) == ["result.json"]


@pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("before", [None, "old"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call, before):
    target = tmp_path / "result.json"
    if before is not None:
        target.write_text(before)

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(InvalidInputError, match=r"cannot write .*No space left on device") as caught:
        write_whole(target, "new")
    assert "\n" not in str(caught.value)
    assert files_in(tmp_path) == ([] if before is None else ["result.json"])
    assert before is None or target.read_text() == before


def test_a_disk_that_fills_up_while_writing_leaves_nothing(tmp_path):
    """A limit on the size of files makes the kernel refuse the write itself."""
    code = (
        "import resource, signal, sys\n"
        "from polidiff.errors import InvalidInputError\n"
        "from polidiff.files import write_whole\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n    write_whole(sys.argv[1], b'x' * 1_000_000)\n"
        "except InvalidInputError as error:\n    print(error)\n"
    )
    target = tmp_path / "result.json"
    target.write_text("old")
    done = subprocess.run([sys.executable, "-c", code, str(target)], capture_output=True, text=True, check=True)
    assert "cannot write" in done.stdout
    assert target.read_text() == "old"
    assert files_in(tmp_path) == ["result.json"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interruption_leaves_nothing_behind(tmp_path, monkeypatch, error):
    def interrupted(*args):
        raise error

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(error):
        write_whole(tmp_path / "result.json", "new")
    assert files_in(tmp_path) == []


def test_a_process_killed_halfway_leaves_the_old_file_and_the_next_write_its_own_alone(tmp_path):
    code = (
        "import os, sys, time\n"
        "import polidiff.files\n"
        "def slow(handle):\n    print('here', flush=True)\n    time.sleep(60)\n"
        "os.fsync = slow\n"
        "polidiff.files.write_whole(sys.argv[1], 'new' * 1000)\n"
    )
    target = tmp_path / "result.json"
    target.write_text("old")
    with subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "here\n"
        write_whole(target, "meanwhile")
        assert len(files_in(tmp_path)) == 2  # the part of a writer that is at work stays
        process.kill()
    assert target.read_text() == "meanwhile"
    assert len(files_in(tmp_path)) == 2
    write_whole(target, "new")
    assert files_in(tmp_path) == ["result.json"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing/result.json", "No such file or directory"), ("file/result.json", "Not a directory"), ("", "directory")],
)
def test_places_that_cannot_be_written_are_named(tmp_path, name, reason):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match=f"cannot write .*{reason}.*Hint") as caught:
        write_whole(tmp_path / name, "new")
    assert "\n" not in str(caught.value)
    assert files_in(tmp_path) == ["file"]


def test_a_folder_without_permission_is_named(tmp_path, monkeypatch):
    """Refused by the system for most users; for root, who may write anywhere, by a stand-in."""
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    if os.geteuid() == 0:

        def refused(*args, **kwargs):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("tempfile.mkstemp", refused)
    with pytest.raises(InvalidInputError, match="Permission denied"):
        write_whole(folder / "result.json", "new")
    assert files_in(folder) == []


def test_permissions_of_an_existing_file_stay(tmp_path):
    target = tmp_path / "result.json"
    target.write_text("old")
    target.chmod(0o600)
    write_whole(target, "new")
    assert target.stat().st_mode & 0o777 == 0o600
    fresh = tmp_path / "fresh.json"
    mask = os.umask(0o027)
    try:
        write_whole(fresh, "new")
    finally:
        os.umask(mask)
    assert fresh.stat().st_mode & 0o777 == 0o640


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "real.json").write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to("real.json")
    write_whole(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        write_whole(pipe, "new")
        assert reader.stdout.read() == "new"
    assert pipe.is_fifo()


def test_readers_see_the_old_file_or_the_new_one_never_a_part(tmp_path):
    target = tmp_path / "result.json"
    versions = [b"a" * 400_000, b"b" * 400_000]
    write_whole(target, versions[0])
    code = (
        "import sys\nfrom polidiff.files import write_whole\n"
        "for i in range(60): write_whole(sys.argv[1], (b'a', b'b')[i % 2] * 400_000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(target)]) as writer:
        deadline = time.monotonic() + 30
        while writer.poll() is None and time.monotonic() < deadline:
            assert target.read_bytes() in versions
    assert writer.returncode == 0
