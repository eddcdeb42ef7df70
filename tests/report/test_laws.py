"""Laws of every rendering, over random results: nothing breaks, nothing hidden is shown."""

from __future__ import annotations

from hypothesis import given, settings

from polidiff.records.suppression import suppressed
from polidiff.report.charts import chart, charts_of
from polidiff.report.page import page_html
from tests.results import RARE, results


@settings(max_examples=15, deadline=None)
@given(results(kinds=("log", "table", "simulator")))
def test_every_result_has_a_page_and_charts_and_those_of_a_log_name_nobody_rare(record):
    page = page_html(record)
    assert page.startswith("<!doctype html>")
    shown = suppressed(record)
    drawn = [str(chart(record, name).to_dict()) for name in charts_of(shown)]
    if record.world.recorded:
        assert not any(name in text for name in RARE for text in (page, *drawn))
