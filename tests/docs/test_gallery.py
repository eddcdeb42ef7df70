"""The nine reports of the gallery: five answers on their first screens, small, and open to everybody."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import axe_findings, chromium, open_file, wait_for  # noqa: F401  (a fixture)
from tests.docs.gallery import EXPECTED, PAGE, check, made
from tests.docs.pages import ROOT, cells


@pytest.mark.slow
@pytest.mark.browser
def test_each_report_answers_five_questions_and_axe_finds_no_violation_in_it(chromium, tmp_path):  # noqa: F811
    seen = []
    for name, page in made(tmp_path):
        check(name, page)
        seen.append(name)
        for width, scheme in ((1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")):
            open_file(chromium, tmp_path / f"{name}.html", width, scheme)
            wait_for(chromium, "return document.documentElement.dataset.ready === 'yes'")
            assert chromium.execute_script("return document.documentElement.scrollWidth") <= width, (name, width)
            assert axe_findings(chromium) == [], (name, width, scheme)
    assert sorted(seen) == sorted(EXPECTED)


def test_every_sentence_of_the_evidence_table_has_tests_that_exist():
    table = (ROOT / "docs" / "evidence" / "report.md").read_text(encoding="utf-8").split("## Nine pages")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ") and not line.startswith("| sen")]
    assert len(rows) > 30
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", row[-1])
        assert named, f"no test is named for {row[0]}"
        for file, test in named:
            assert f"def {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), f"{file} has no {test}"


def test_each_report_stands_on_few_lines():
    text = PAGE.read_text(encoding="utf-8")
    assert max(cell.source.count("\n") for cell in cells(text)) <= 15
    assert all(f"({name}.html)" in text for name in EXPECTED)
