"""The figures: for each a few panels, one line that says what they show, and the same facts as a table."""

from __future__ import annotations

from dataclasses import replace

from polidiff.paper.figures.figure import Figure, figure_chart, panel_chart
from polidiff.paper.figures.graphs import figure_1, figure_2, figure_4, figure_7
from polidiff.paper.figures.plots import figure_3, figure_5, figure_6, figure_8
from polidiff.paper.runs import Runs
from polidiff.report.charts.theme import PAGE, Palette

__all__ = ["Figure", "all_figures", "figure_chart", "panel_chart"]


def all_figures(runs: Runs, palette: Palette) -> tuple[Figure, ...]:
    """Figures 1 to 8 in the paper's colours: the current policy red, changes and regions blue, rewards purple."""
    makers = (figure_1, figure_2, figure_3, figure_4, figure_5, figure_6, figure_7, figure_8)
    purple = "var(--reward)" if palette is PAGE else "#7a3fb0"
    own = replace(palette, current=palette.worse, proposed=palette.current, better=purple)
    return tuple(make(runs, own) for make in makers)
