"""What a figure is, and how its panels become one picture."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import altair as alt

from polidiff.report.charts.theme import Chart, Palette, finished
from polidiff.report.tables import Table


@dataclass(frozen=True, eq=False)
class Panel:
    """One part of a figure."""

    caption: str
    chart: Chart


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure of the paper, made again."""

    number: int
    title: str
    summary: str  # read out instead of the picture
    note: str  # how to read it, and where it is not the paper's
    panels: tuple[Panel, ...]
    table: Table
    columns: int = 1  # of the picture in a file

    @property
    def name(self) -> str:
        """Of its files."""
        return f"figure-{self.number}"


def panel_chart(figure: Figure, panel: Panel, palette: Palette) -> Chart:
    """One panel alone, for a page that arranges panels by its width."""
    return finished(panel.chart, palette, description=f"{figure.title}. {panel.caption}", width=None)


def figure_chart(figure: Figure, palette: Palette) -> Chart:
    """All panels as one picture, with title and note."""
    titled = [panel.chart.properties(title=panel.caption) for panel in figure.panels]
    joined = alt.concat(*titled, columns=figure.columns).properties(
        title=alt.TitleParams(
            f"Figure {figure.number}: {figure.title}",
            subtitle=textwrap.wrap(figure.note, 74 + 36 * (figure.columns - 1)),
            subtitleColor=palette.soft,
            subtitlePadding=6,
            fontSize=15,
            offset=14,
        ),
        padding=16,
    )
    return finished(joined, palette, description=figure.summary, width=None)
