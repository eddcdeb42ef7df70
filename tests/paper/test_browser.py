"""The page of the reproduction in a real browser, opened from disk with the network off."""

from __future__ import annotations

import json

import pytest

from tests.browser.conftest import chromium  # noqa: F401  (a fixture)
from tests.browser.test_page import axe_script

pytestmark = pytest.mark.browser

AXE = "const done = arguments[arguments.length - 1];axe.run(document).then((r) => done(JSON.stringify(r.violations)))"


@pytest.fixture
def show(chromium, folder):  # noqa: F811
    """Opens the page in a window of a width and a colour scheme."""

    def opened(width: int = 1280, scheme: str = "light"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [feature]})
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        chromium.get_log("browser")
        chromium.get((folder / "index.html").as_uri())
        return chromium

    return opened


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])  # each width, each scheme
def test_axe_finds_no_violation(show, width, scheme):
    driver = show(width, scheme)
    driver.execute_script("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe_script()})
    found = json.loads(driver.execute_async_script(AXE))
    assert [(v["id"], [node["html"][:120] for node in v["nodes"][:3]]) for v in found] == []


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_nothing_sticks_out_of_the_window(show, width):
    assert show(width).execute_script("return document.documentElement.scrollWidth") <= width


def test_it_opens_without_complaint_and_fetches_nothing(show):
    driver = show()
    assert [entry["message"] for entry in driver.get_log("browser")] == []
    assert driver.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)") == []
