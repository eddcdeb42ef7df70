"""One Chromium for all tests of the page, with the network off."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from polidiff.report.page import page_html


def _missing() -> str | None:
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        return "Chromium and its driver are not installed: the page is not tested in a browser"
    if importlib.util.find_spec("selenium") is None:
        return "selenium is not installed: the page is not tested in a browser"
    return None


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless browser that can reach no address."""
    missing = _missing()
    if missing is not None:
        if os.environ.get("POLIDIFF_REQUIRE_BROWSER") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    with browser() as driver:
        yield driver


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium without a window and without a network."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd(
        "Network.emulateNetworkConditions",
        {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0},
    )
    try:
        yield driver
    finally:
        driver.quit()


page_of = cache(page_html)


@pytest.fixture
def show(chromium: Any, tmp_path: Path) -> Callable[..., Any]:
    """Opens results as a page from disk, in a window of a width and a colour scheme."""

    def opened(*records: Any, width: int = 1280, scheme: str = "light") -> Any:
        path = tmp_path / "page.html"
        path.write_text(page_of(*records), encoding="utf-8")
        open_file(chromium, path, width, scheme)
        wait_for(chromium, "return document.documentElement.dataset.ready === 'yes'")
        return chromium

    return opened


def open_file(driver: Any, path: Path, width: int, scheme: str) -> None:
    """Opens a file in a window of a width and a colour scheme."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [feature]})
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    driver.get_log("browser")
    driver.get(path.as_uri())


def axe_findings(driver: Any) -> list[tuple[str, list[str]]]:
    """What axe finds wrong with the page that is open, with everything on it unfolded."""
    spec = importlib.util.find_spec("axe_playwright_python")
    assert spec is not None, "axe-playwright-python is part of the test extra"
    script = Path(str(spec.origin)).with_name("axe.min.js").read_text(encoding="utf-8")
    driver.execute_script("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    driver.execute_cdp_cmd("Runtime.evaluate", {"expression": script})
    driver.set_script_timeout(300)
    found = driver.execute_async_script(
        "const done = arguments[arguments.length - 1];axe.run(document).then((r) => done(JSON.stringify(r.violations)))"
    )
    return [(v["id"], [node["html"][:120] for node in v["nodes"][:3]]) for v in json.loads(found)]


def wait_for(driver: Any, script: str, seconds: float = 30.0) -> None:
    """Until the script returns true."""
    end = time.monotonic() + seconds
    while not driver.execute_script(script):
        assert time.monotonic() < end, f"never true: {script}"
        time.sleep(0.02)
