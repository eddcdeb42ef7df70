"""The figures: for each a few panels, one line that says what they show, and the same facts as a table."""

from __future__ import annotations

from dataclasses import replace

from polidiff.paper.figures.estimates import figure_3
from polidiff.paper.figures.figure import Figure, Panel, figure_chart, panel_chart
from polidiff.paper.figures.graphs import figure_2, figure_4, figure_7
from polidiff.paper.figures.returns import figure_6
from polidiff.paper.figures.walks import figure_5, figure_8
from polidiff.paper.runs import Runs
from polidiff.report.charts.theme import Palette

__all__ = ["Figure", "Panel", "all_figures", "figure_chart", "panel_chart"]


def all_figures(runs: Runs, palette: Palette) -> tuple[Figure, ...]:
    """Figures 2 to 8 in the paper's colours: the current policy and rewards red, changes and regions blue."""
    makers = (figure_2, figure_3, figure_4, figure_5, figure_6, figure_7, figure_8)
    own = replace(palette, current=palette.worse, proposed=palette.current)
    return tuple(make(runs, own) for make in makers)
