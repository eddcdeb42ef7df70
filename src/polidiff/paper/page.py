"""The folder: figures as files, every value as JSON, and one page without scripts, a table behind each figure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import jinja2
from markupsafe import Markup

from polidiff._version import __version__
from polidiff.errors import InvalidInputError
from polidiff.explanation.text import sentence_text
from polidiff.files import write_whole
from polidiff.paper.figures import Figure, all_figures, figure_chart, panel_chart
from polidiff.paper.runs import Runs
from polidiff.paper.sentences import deviations
from polidiff.paper.values import FORM_NAMES, Number, Value, explained, forms_table, measured
from polidiff.records.explanation import Explanation
from polidiff.records.numbers import number
from polidiff.report.charts import rendered
from polidiff.report.charts.theme import PAGE, PAPER

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"


def page_html(runs: Runs, values: Sequence[Value]) -> str:
    """The text of the page."""
    figures = [(figure, drawn_panels(figure)) for figure in all_figures(runs, PAGE)]
    text = (
        _environment()
        .get_template("paper.html")
        .render(
            policy=POLICY,
            style=Markup(_style()),
            version=__version__,
            seed=runs.seed,
            right=sum(value.ok for value in values),
            count=len(values),
            off=[value_row(value) for value in values if not value.ok],
            groups=[(where, [value_row(value) for value in checked]) for where, checked in by_place(values)],
            figures=figures,
            sentences=[
                ("4.4, the chain", texts(runs.chain.paper)),
                ("6.2, navigation", texts(runs.navigation.proposed_2)),
            ],
            plain=texts(runs.chain.plain),
            deviations=deviations(runs),
            forms=[(FORM_NAMES.get(name, name), text) for name, text in runs.chain.plain.forms.items()],
            form_tables=[(task, forms_table(explanation)) for task, explanation in explained(runs).items()],
            measured=measured(runs),
        )
    )
    return text.strip() + "\n"


def drawn_panels(figure: Figure) -> list[tuple[str, Markup]]:
    """Caption and drawing of each panel; the panel is read out by its label, so its marks are hidden from readers."""
    charts = [rendered(panel_chart(figure, panel, PAGE), ".svg").decode() for panel in figure.panels]
    hidden = [Markup(chart.replace("<svg ", '<svg aria-hidden="true" ', 1)) for chart in charts]
    return [(panel.caption, chart) for panel, chart in zip(figure.panels, hidden, strict=True)]


def by_place(values: Sequence[Value]) -> list[tuple[str, list[Value]]]:
    """Values by where the paper has them."""
    places = dict.fromkeys(value.where for value in values)
    return [(where, [value for value in values if value.where == where]) for where in places]


def value_row(value: Value) -> dict[str, str | bool]:
    """A value in words."""
    numeric = not isinstance(value.expected, str)
    least = "at least " if value.at_least else ""
    return {
        "quantity": value.quantity,
        "expected": least + shown_value(value.expected),
        "got": shown_value(value.got),
        "tolerance": f"{value.tolerance:.1g}" if numeric else "",
        "ok": value.ok,
    }


def shown_value(value: Number) -> str:
    """A number without needless digits, or words.

    >>> shown_value(9.989500000000007), shown_value("")
    ('9.9895', 'none')
    """
    return (value or "none") if isinstance(value, str) else number(value, 7)


def texts(explanation: Explanation) -> list[str]:
    """The sentences of an explanation."""
    return [sentence_text(explanation, sentence) for sentence in explanation.sentences]


def _style() -> str:
    """The report's style, then what this page adds."""
    sheets = (("polidiff.report", "page.css"), ("polidiff.paper", "paper.css"))
    return "".join((files(package) / "templates" / name).read_text(encoding="utf-8") for package, name in sheets)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("polidiff.paper"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


VALUE_KEYS = ("id", "where", "quantity", "expected", "got", "tolerance", "at_least", "ok")
PAGE_NAME, VALUES_NAME = "index.html", "values.json"
SUFFIXES = (".png", ".svg")


def write_folder(folder: Path, runs: Runs, values: Sequence[Value]) -> tuple[Path, ...]:
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


def values_json(runs: Runs, values: Sequence[Value]) -> str:
    """Every value with what was expected, what came and whether it agrees."""
    document = {
        "polidiff": __version__,
        "seed": runs.seed,
        "passed": all(value.ok for value in values),
        "values": [{key: _plain(getattr(value, key)) for key in VALUE_KEYS} for value in values],
    }
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _plain(part: object) -> object:
    return str(part) if isinstance(part, float) and not math.isfinite(part) else part
