"""The page of the reproduction in a real browser, opened from disk with the network off."""

from __future__ import annotations

import pytest

from tests.browser.conftest import axe_findings, chromium, open_file  # noqa: F401  (a fixture)

pytestmark = pytest.mark.browser


@pytest.fixture
def show(chromium, folder):  # noqa: F811
    """Opens the page in a window of a width and a colour scheme."""

    def opened(width: int = 1280, scheme: str = "light"):
        open_file(chromium, folder / "index.html", width, scheme)
        return chromium

    return opened


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])  # each width, each scheme
def test_axe_finds_no_violation(show, width, scheme):
    assert axe_findings(show(width, scheme)) == []


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_nothing_sticks_out_of_the_window(show, width):
    assert show(width).execute_script("return document.documentElement.scrollWidth") <= width


def test_it_opens_without_complaint_and_fetches_nothing(show):
    driver = show()
    assert [entry["message"] for entry in driver.get_log("browser")] == []
    assert driver.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)") == []
