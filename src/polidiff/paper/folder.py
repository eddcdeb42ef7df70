"""The folder: seven figures as PNG and SVG, one page, and every value as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from polidiff._version import __version__
from polidiff.errors import InvalidInputError
from polidiff.files import write_whole
from polidiff.paper.expectation import Checked
from polidiff.paper.figures import all_figures, figure_chart
from polidiff.paper.page import page_html
from polidiff.paper.runs import Runs
from polidiff.report.palette import PAPER
from polidiff.report.pictures import rendered

PAGE_NAME, VALUES_NAME = "index.html", "values.json"
SUFFIXES = (".png", ".svg")


def write_folder(folder: Path, runs: Runs, values: Sequence[Checked]) -> tuple[Path, ...]:
    """Write everything; the page last, so that a page is never older than what it shows."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(
            f"cannot make the folder {folder}: {error.strerror or error}. Hint: choose another place with --out"
        ) from error
    written = []
    for figure in all_figures(runs, PAPER):
        chart = figure_chart(figure, PAPER)
        written += [write_whole(folder / f"{figure.name}{suffix}", rendered(chart, suffix)) for suffix in SUFFIXES]
    written.append(write_whole(folder / VALUES_NAME, values_json(runs, values)))
    written.append(write_whole(folder / PAGE_NAME, page_html(runs, values)))
    return tuple(written)


def values_json(runs: Runs, values: Sequence[Checked]) -> str:
    """Every value with what was expected, what came and whether it agrees."""
    document = {
        "polidiff": __version__,
        "seed": runs.seed,
        "passed": all(value.ok for value in values),
        "values": [{key: _plain(part) for key, part in asdict(value).items()} for value in values],
    }
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _plain(part: Any) -> Any:
    return str(part) if isinstance(part, float) and not math.isfinite(part) else part
