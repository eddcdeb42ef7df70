"""Markdown, pictures and notebooks."""

from __future__ import annotations

import html
import re
import struct
from dataclasses import replace

import pytest

from polidiff.errors import InvalidOptionError
from polidiff.report.charts import charts_of, picture
from polidiff.report.markdown import escaped, markdown
from tests.report import extremes, samples

RECORDS = {
    "plain": samples.plain,
    "chain": samples.chain,
    "hostile": extremes.hostile,
    "frontier": samples.frontier,
    "rules": samples.rule_frontier,
    "hostile frontier": extremes.hostile_frontier,
}


@pytest.mark.parametrize("name", RECORDS)
def test_every_chart_is_drawn_as_svg_with_its_marks(name, tmp_path):
    from polidiff.report.charts import save_picture

    record = RECORDS[name]()
    assert charts_of(record)
    for which in charts_of(record):
        text = save_picture(record, tmp_path / f"{which}.svg", which).read_text()
        assert text.startswith("<svg")
        assert "mark-" in text
        assert "<script" not in text


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_unit_that_no_file_may_hold_is_written_out_where_it_ended_the_process(suffix):
    record = samples.frontier()
    outcomes = tuple(replace(outcome, unit="\x1b[2J\uffff") for outcome in record.outcomes)
    drawn = picture(replace(record, outcomes=outcomes), "plan", suffix)
    assert drawn.startswith(b"\x89PNG") if suffix == ".png" else "⟨U+001B⟩[2J⟨U+FFFF⟩" in drawn.decode()


def test_the_default_pictures_are_regions_and_frontier(tmp_path):
    for record, word in ((samples.plain(), "S_1"), (samples.frontier(), ">return<")):
        assert word in record.save(tmp_path / "x.svg").read_text()
        png = record.save(tmp_path / "x.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", png[16:24])
        assert width > 800
        assert height > 400


def test_charts_are_the_same_each_time():
    for record in (samples.plain(), samples.frontier()):
        for which in charts_of(record):
            assert record.chart(which).to_dict() == record.chart(which).to_dict()


def test_an_unknown_chart_is_named_with_what_there_is():
    with pytest.raises(InvalidOptionError, match=r"no chart 'regoins'; it has: regions, outcomes"):
        samples.plain().chart("regoins")


def test_markdown_comes_with_its_pictures(tmp_path):
    path = samples.plain().save(tmp_path / "a diff.md")
    text = path.read_text()
    addresses = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text)
    assert len(addresses) == 3
    for address in addresses:
        assert (tmp_path / address.replace("%20", " ")).read_bytes().startswith(b"\x89PNG")
    assert text.index("**For whom worse?**") < text.index("## What changes") < text.index("## Worse off")


def test_markdown_escapes_names():
    for record in (extremes.hostile(), extremes.hostile_frontier()):
        text = markdown(record)
        assert not re.search(r"(?<!\\)<\w", text)
        assert "\u202e" not in text
        rows = [line for line in text.splitlines() if line.startswith("| ")]
        heads = [line.count("|") - line.count("\\|") for line in rows]
        assert rows
        assert min(heads) >= 4


@pytest.mark.parametrize(
    "address", ["https://example.org/a", "HTTP://example.org", "www.example.org", "mailto:a@example.org", "a@b.example"]
)
def test_no_name_becomes_a_link_in_markdown(address):
    text = escaped(f"see {address} now")
    assert address not in text
    assert text.replace("\u2060", "").replace("\\", "") == f"see {address} now"


def test_a_notebook_that_asks_for_html_gets_the_same_frame():
    assert samples.plain()._repr_html_() == samples.plain()._repr_mimebundle_()["text/html"]
    assert samples.frontier()._repr_html_() == samples.frontier()._repr_mimebundle_()["text/html"]


def test_a_notebook_shows_the_page_in_a_frame_without_access():
    bundle = samples.plain()._repr_mimebundle_()
    assert bundle["text/plain"] == str(samples.plain())
    assert bundle["text/html"].startswith('<iframe sandbox="allow-scripts" srcdoc="')
    inner = html.unescape(bundle["text/html"].split('srcdoc="')[1].split('" title=')[0])
    assert inner.strip().startswith("<!doctype html>")
    assert inner.strip().endswith("</html>")
