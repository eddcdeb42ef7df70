"""The pictures of the documentation, made from today's pages: ``python -m tests.docs.pictures docs/pictures``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from polidiff.cli.main import run
from polidiff.files import write_whole
from polidiff.paper.figures import all_figures, figure_chart
from polidiff.paper.runs import all_runs
from polidiff.report.charts import rendered
from polidiff.report.charts.theme import PAPER
from tests.browser.conftest import browser, wait_for

REPORT = {  # name -> width, height, id of the section it begins with
    "report": (1280, 1180, None),
    "report-top-1280": (1280, 900, None),
    "report-top-390": (390, 900, None),
    "report-plans-1280": (1280, 1300, "plans"),
}
PAPERS = (1, 4, 6)


def report_pictures(folder: Path) -> None:
    """Parts of the report of the navigation task."""
    with tempfile.TemporaryDirectory() as made, browser() as driver:
        page = Path(made) / "diff.html"
        assert run(["demo", "navigation", "--report", str(page), "-q"]) == 0
        for name, (width, height, section) in REPORT.items():
            screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            driver.get(page.as_uri())
            wait_for(driver, "return document.documentElement.dataset.ready === 'yes'")
            _scroll(driver, section)
            driver.save_screenshot(str(folder / f"{name}.png"))


def _scroll(driver: Any, section: str | None) -> None:
    if section is not None:
        driver.execute_script("document.getElementById(arguments[0]).scrollIntoView({behavior: 'instant'})", section)


def paper_figures(folder: Path) -> None:
    """Figures that the page of the reproduction shows."""
    for figure in all_figures(all_runs(), PAPER):
        if figure.number in PAPERS:
            write_whole(folder / f"paper-{figure.name}.svg", rendered(figure_chart(figure, PAPER), ".svg"))


if __name__ == "__main__":
    report_pictures(Path(sys.argv[1]))
    paper_figures(Path(sys.argv[1]))
