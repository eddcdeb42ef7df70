"""What all charts have in common: colours, type, axes, legends, and how rows become data.

Blue is the current policy and orange the proposed one (Okabe and Ito's set, told apart by colour-blind readers). On the
page a colour is a CSS variable, so charts follow dark mode and print without being drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import altair as alt


@dataclass(frozen=True)
class Palette:
    """The colours of a chart."""

    ink: str
    soft: str  # labels and axes
    line: str  # grid lines
    muted: str  # marks that are not the point
    current: str
    proposed: str
    better: str
    worse: str
    swaps: tuple[str, ...]  # one for each kind of swap, in order
    surface: str
    font: str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"


PAPER = Palette(
    ink="#1b2733",
    soft="#52606d",
    line="#e3e8ee",
    muted="#b6c0cb",
    current="#0072B2",
    proposed="#D55E00",
    better="#007a5a",
    worse="#b3261e",
    swaps=("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    surface="#ffffff",
)

PAGE = Palette(
    ink="var(--ink)",
    soft="var(--soft)",
    line="var(--line)",
    muted="var(--muted)",
    current="var(--current)",
    proposed="var(--proposed)",
    better="var(--better)",
    worse="var(--worse)",
    swaps=tuple(f"var(--swap-{index})" for index in range(6)),
    surface="var(--surface)",
)


WIDTH = 560
Row: TypeAlias = dict[str, Any]  # short keys of ours -> numbers and texts
Rows: TypeAlias = Sequence[Row]
Plain = TypeVar("Plain")
Chart: TypeAlias = alt.Chart | alt.LayerChart | alt.ConcatChart | alt.VConcatChart
Spec: TypeAlias = dict[str, Any]  # a chart, or settings of one, as Vega-Lite reads it


def rows_of(rows: Rows, name: str | None = None) -> alt.InlineData:
    """Rows as data of a chart. Keys are ours, never names from the user: dots and brackets in a key plot nothing.

    Numbers that are not finite are left out: JSON has none, and an axis with one cannot be read. A tuple, because
    charts copy lists each time that they are put together.
    """
    values = tuple({key: drawable(value) for key, value in row.items()} for row in rows)
    return alt.InlineData(values=values, name=name) if name else alt.InlineData(values=values)


def drawable(value: Plain) -> Plain | None:
    """The value, or nothing where it is a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def finished(chart: Chart, palette: Palette, *, description: str, width: int | str | None = WIDTH) -> Chart:
    """The chart with type, axes and legends set, ready to show or to save."""
    if width is not None:
        chart = chart.properties(width=width)
    return chart.properties(description=description, background=palette.surface).configure(**_config(palette))


def _config(palette: Palette) -> Spec:
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
