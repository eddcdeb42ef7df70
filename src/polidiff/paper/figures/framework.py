"""Figure 1: the framework, drawn from the stages that ran: each box names a function and what it gave on the chain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import altair as alt

from polidiff.divergence import find_divergence
from polidiff.evaluation import compare
from polidiff.explanation.compose import compose
from polidiff.explanation.sentences import group_starts
from polidiff.explanation.words import counted
from polidiff.frontier.improve import improve
from polidiff.journeys import follow
from polidiff.paper.figures.figure import Figure, Panel
from polidiff.paper.figures.graphs import arrow, arrow_layers
from polidiff.paper.runs import Runs
from polidiff.paper.sentences import costs
from polidiff.regions.describe import describe
from polidiff.report.charts.theme import Chart, Palette, Row, rows_of
from polidiff.report.tables import Table

WIDTH, HEIGHT = 2.5, 1.0  # of a box; centres are in the same unit
UNIT = 64  # pixels
X_RANGE, Y_RANGE = (-1.3, 13.3), (-3.6, 1.6)


@dataclass(frozen=True)
class Stage:
    """One box."""

    place: tuple[float, float]
    title: str
    function: Callable[..., object] | None  # what does it; None: what goes in
    gave: Callable[[Runs], str]
    section: str

    @property
    def name(self) -> str:
        """Where the function stands, below polidiff."""
        path = [] if self.function is None else [*self.function.__module__.split(".")[1:], self.function.__name__]
        return ".".join(path)


STAGES = {
    "current": Stage((0, 1), "Current policy", None, lambda runs: "action 0 everywhere", "1"),
    "proposed": Stage((0, -1), "Proposed policy", None, lambda runs: "action 1 in s0, s1, s5", "1"),
    "divergence": Stage(
        (3.2, 1), "Where they part", find_divergence, lambda runs: f"{len(runs.chain.plain.regions)} states", "4.1"
    ),
    "outcomes": Stage(
        (3.2, -1), "What they achieve", compare, lambda runs: counted(len(runs.chain.plain.outcomes), "outcome"), "4.3"
    ),
    "regions": Stage(
        (6.2, 1), "Regions", describe, lambda runs: ", ".join(region.id for region in runs.chain.plain.regions), "4.2"
    ),
    "verdicts": Stage(
        (6.2, -1), "Verdicts", group_starts, lambda runs: f"{runs.chain.plain.methods.family} comparisons", "4.3"
    ),
    "paths": Stage(
        (9.2, 1), "Paths", follow, lambda runs: " → ".join(runs.chain.plain.sentences[0].path), "4.4"
    ),
    "explanation": Stage(
        (12, 0), "Explanation", compose, lambda runs: counted(len(runs.chain.plain.sentences), "sentence"), "4.4"
    ),
    "plans": Stage(
        (0, -3), "Plans", improve, lambda runs: f"κ = {costs(runs.chain.frontier)}", "5"
    ),
}  # fmt: skip
ARROWS = (
    ("current", "divergence"),
    ("proposed", "divergence"),
    ("current", "outcomes"),
    ("proposed", "outcomes"),
    ("divergence", "regions"),
    ("outcomes", "verdicts"),
    ("regions", "paths"),
    ("paths", "explanation"),
    ("verdicts", "explanation"),
    ("plans", "proposed"),
)


def figure_1(runs: Runs, palette: Palette) -> Figure:
    """The stages of an explanation and of a plan, in order."""
    rows = tuple((s.title, s.name or "given", s.gave(runs), f"section {s.section}") for s in STAGES.values())
    return Figure(
        1,
        "the framework",
        "Two policies are compared by where they part and by what they achieve; both together make the explanation.",
        "Each box names what is made and what came of it on the chain; the table names the functions. Above: "
        "decisions. Below: expected outcomes. Plans are policies of our own making; each is explained the same way.",
        (Panel("From two policies to an explanation", _chart(runs, palette)),),
        Table(("stage", "function, below polidiff", "on the chain", "in the paper"), rows),
    )


def _chart(runs: Runs, palette: Palette) -> Chart:
    x = alt.X("x:Q", scale=alt.Scale(domain=X_RANGE, nice=False), axis=None)
    y = alt.Y("y:Q", scale=alt.Scale(domain=Y_RANGE, nice=False), axis=None)
    tints = {"current": palette.current, "proposed": palette.proposed, "explanation": palette.ink}
    boxes = [_box(stage, tints.get(key, palette.soft), stage.gave(runs)) for key, stage in STAGES.items()]
    drawn = alt.Chart(rows_of(boxes))
    color = {"color": alt.Color("c:N", scale=None)}
    titles = drawn.mark_text(fontSize=14, fontWeight=600, dy=-9).encode(x=x, y=y, text="t:N", **color)
    given = drawn.mark_text(fontSize=12, dy=11, color=palette.soft).encode(x=x, y=y, text="g:N")
    frame = drawn.mark_rect(filled=False, strokeWidth=1.6, cornerRadius=6).encode(
        x=alt.X("l:Q", axis=None), x2="r:Q", y=alt.Y("b:Q", axis=None), y2="u:Q", stroke=alt.Stroke("c:N", scale=None)
    )
    ways = [_way(STAGES[one], STAGES[other], palette.muted) for one, other in ARROWS]
    wide, tall = (UNIT * (high - low) for low, high in (X_RANGE, Y_RANGE))
    return alt.layer(*arrow_layers(ways, x, y), frame, titles, given).properties(width=wide, height=tall)


def _box(stage: Stage, color: str, gave: str) -> Row:
    x, y = stage.place
    edges = {"l": x - WIDTH / 2, "r": x + WIDTH / 2, "b": y - HEIGHT / 2, "u": y + HEIGHT / 2}
    return {"x": x, "y": y, **edges, "t": stage.title, "g": gave, "c": color}


def _way(one: Stage, other: Stage, color: str) -> Row:
    """An arrow from the right edge of one box to the left edge of the other, or up to the one above."""
    (x, y), (x2, y2) = one.place, other.place
    if x == x2:
        return arrow(x, y + HEIGHT / 2, x2, y2 - HEIGHT / 2, color, gap=0.05)
    return arrow(x + WIDTH / 2, y, x2 - WIDTH / 2, y2 + 0.2 * (y - y2), color, gap=0.05)
