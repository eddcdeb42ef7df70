"""The reports of the gallery answer five questions on their first screens; `make docs` makes and reads all of them."""

from __future__ import annotations

import pytest

from tests.docs.gallery import EXPECTED, PAGE, check, made
from tests.docs.pages import cells


@pytest.mark.slow
def test_a_reader_finds_five_answers_on_the_first_screen_of_each_report(tmp_path):
    seen = []
    for name, page in made(tmp_path, without=("icu_sepsis.html",)):  # a quarter of a minute
        check(name, page)
        seen.append(name)
    assert sorted(seen) == sorted(set(EXPECTED) - {"icu_sepsis"})


def test_each_report_stands_on_few_lines():
    text = PAGE.read_text(encoding="utf-8")
    assert max(cell.source.count("\n") for cell in cells(text)) <= 15
    assert all(f"({name}.html)" in text for name in EXPECTED)
