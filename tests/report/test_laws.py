"""Laws of every rendering, over random results: nothing breaks, nothing hidden is shown."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff.records.suppression import suppressed
from polidiff.report.charts import chart, charts_of
from tests.results import FEW, RARE, one_of_few, page_of


@settings(max_examples=15)
@given(FEW, st.booleans())
def test_every_result_has_a_page_and_charts_and_those_of_a_log_name_nobody_rare(seed, plans):
    record, page = one_of_few(seed, plans), page_of(seed, plans)
    assert page.startswith("<!doctype html>")
    shown = suppressed(record)
    drawn = [str(chart(record, name).to_dict()) for name in charts_of(shown)]
    if record.world.recorded:
        assert not any(name in text for name in RARE for text in (page, *drawn))
