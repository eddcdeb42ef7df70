"""The folder, the page and the exit code of ``polidiff paper``."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from polidiff.paper import page
from polidiff.paper import values as expectations

NAMES = {f"figure-{number}.{suffix}" for number in range(1, 9) for suffix in ("png", "svg")}


def test_the_folder_is_complete(folder):
    assert {path.name for path in folder.iterdir()} == {*NAMES, "index.html", "values.json"}


def test_pictures_are_pictures(folder):
    for name in NAMES:
        content = (folder / name).read_bytes()
        if name.endswith(".png"):
            assert content.startswith(b"\x89PNG\r\n\x1a\n")
        else:
            assert ElementTree.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"


def test_the_page_carries_its_figures_runs_nothing_and_asks_no_one(folder):
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert text.count("<svg") == 1 + 3 + 4 + 3 + 3 + 2 + 1 + 3
    assert "<script" not in text
    assert set(re.findall(r"https?://[^\s\"')]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "where x &lt; 0.1" in text or "region x &lt; 0.1" in text


def test_the_page_says_how_many_values_agree(folder, values):
    assert f"{len(values)} of {len(values)} values agree" in (folder / "index.html").read_text(encoding="utf-8")


def test_values_are_written_with_what_was_expected(folder, values):
    document = json.loads((folder / "values.json").read_text(encoding="utf-8"))
    assert document["passed"] is True
    assert [(entry["id"], entry["expected"], entry["got"]) for entry in document["values"]] == [
        (value.id, value.expected, value.got) for value in values
    ]


def test_another_expected_value_gives_exit_code_1_and_is_named(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(expectations, "CURRENT_TOTAL", 55.963)
    monkeypatch.setattr(page, "all_figures", lambda *_: ())  # they are drawn by other tests
    assert command("--out", tmp_path) == 1
    printed = capsys.readouterr()
    assert "off: chain: return of the current policy summed over starts (figure 6): expected 55.963, got 54.963" in (
        printed.out
    )
    assert "Values that are off" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "values.json").read_text(encoding="utf-8"))["passed"] is False


def test_a_folder_that_cannot_be_made_is_named_and_nothing_is_written(command, tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert command("--out", tmp_path / "file" / "paper") == 2
    assert "cannot make the folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_the_same_seed_writes_the_same_bytes(folder, tmp_path):
    from polidiff.cli.main import run

    assert run(["paper", "--out", str(tmp_path), "--quiet"]) == 0
    for path in folder.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name
