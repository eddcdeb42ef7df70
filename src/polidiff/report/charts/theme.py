"""What all charts have in common: type, axes, legends, and how rows become data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from polidiff.report.palette import Palette

WIDTH = 560
Rows = Sequence[dict[str, Any]]


def rows_of(rows: Rows, name: str | None = None) -> alt.InlineData:
    """Rows as data of a chart. Keys are ours, never names from the user: dots and brackets in a key plot nothing."""
    return alt.InlineData(values=list(rows), name=name) if name else alt.InlineData(values=list(rows))


def finished(chart: Any, palette: Palette, *, description: str, width: int | str | None = WIDTH) -> Any:
    """The chart with type, axes and legends set, ready to show or to save."""
    if width is not None:
        chart = chart.properties(width=width)
    return chart.properties(description=description, background=palette.surface).configure(**_config(palette))


def _config(palette: Palette) -> dict[str, Any]:
    labels = {"labelColor": palette.soft, "titleColor": palette.soft, "labelFontSize": 12, "titleFontSize": 12}
    return {
        "font": palette.font,
        "axis": {
            **labels,
            "titleFontWeight": 500,
            "gridColor": palette.line,
            "domainColor": palette.muted,
            "tickColor": palette.muted,
            "labelLimit": 170,
            "titleLimit": 300,
            "labelPadding": 6,
            "labelFlush": False,
            "titlePadding": 10,
        },
        "legend": {
            **labels,
            "orient": "top",
            "labelLimit": 220,
            "symbolStrokeWidth": 2,
            "titleLimit": 200,
            "columns": 3,
        },
        "view": {"stroke": None},
        "text": {"color": palette.ink, "fontSize": 12},
        "title": {"color": palette.ink, "fontSize": 13, "fontWeight": 600, "anchor": "start", "offset": 8},
        "aria": False,
    }
