"""Figures 1, 2, 4 and 7: the framework, and the chain as a graph, with the moves that a policy makes.

The framework is drawn from the stages that ran: each box names a function and what it gave on the chain. The chain runs
to the right and back below, so that three of them stand side by side. Places are in units of equal length in both
directions, so that the heads of the arrows point along their lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import altair as alt
import numpy as np

from polidiff.divergence import find_divergence
from polidiff.domains.chain import AFTER_0, AFTER_1, DESIRED, current, proposed
from polidiff.evaluation import compare
from polidiff.explanation.compose import compose
from polidiff.explanation.sentences import group_starts
from polidiff.explanation.words import listing
from polidiff.frontier.improve import improve
from polidiff.journeys import follow
from polidiff.paper.figures.figure import Figure, Panel
from polidiff.paper.runs import Runs
from polidiff.paper.sentences import costs
from polidiff.paper.values import STARTS, changed_states
from polidiff.records.arrays import IntArray
from polidiff.records.numbers import counted, number
from polidiff.regions.describe import describe
from polidiff.report.charts.theme import Chart, Palette, Row, Rows, rows_of
from polidiff.report.tables import Table

PLACES = (
    (0.0, 0.0), (1.0, 0.0), (1.5, 0.87), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0),
    (4.87, -0.55), (4.0, -1.1), (3.0, -1.1), (2.13, -0.68), (2.13, -1.52), (1.1, -1.1),
)  # fmt: skip
END = 11
UNIT = 54  # pixels
RADIUS = 0.26
Range: TypeAlias = tuple[float, float]
REWARDS = {(1, 2): "+1", (5, 6): "+3", (9, 11): "+5", (10, 11): "+5"}
NOTE = "Dashed: moves not made. Purple: rewards, in s9 and s10 for action 0. Ringed: desired states."


def figure_2(runs: Runs, palette: Palette) -> Figure:
    """The chain and both policies."""
    panels = (
        Panel("(a) The task, with actions", _definition(palette, rewards=False)),
        Panel("(b) Current policy", _policy_graph(current(), palette)),
        Panel("(c) Proposed policy", _policy_graph(proposed(), palette, usual=palette.proposed)),
    )
    diverging = {name for region in runs.chain.plain.regions for name in region.states}
    rows = tuple(
        (f"s{s}", str(current()[s]), str(proposed()[s]), "yes" if f"s{s}" in diverging else "") for s in range(END)
    )
    return Figure(
        2,
        "the chain and its two policies",
        "Twelve states in a row with detours over s2 and s6; the proposed policy takes both detours.",
        f"Red: the current policy's moves. Blue: the proposed one's. {NOTE} An arrow of (a) names the actions that "
        "make the move. The current policy takes action 0 everywhere, the proposed one action 1 in s0, s1 and s5. In "
        "s0 both actions lead to s1: it does not diverge.",
        panels,
        Table(("state", "current action", "proposed action", "diverges"), rows),
        columns=3,
    )


def figure_4(runs: Runs, palette: Palette) -> Figure:
    """The best plans for budgets of 2, 6 and 8 changes."""
    plans = [runs.chain.frontier.at(budget) for budget in (2, 6, 8)]
    base = runs.chain.frontier[0].expected_return
    steps = [(plan.changes, changed_states(plan), len(STARTS) * (plan.expected_return - base)) for plan in plans]
    panels = tuple(
        Panel(
            f"({letter}) κ = {cost:g}: {listing(_names(states))}, return +{number(gain)}",
            _policy_graph(np.isin(range(END + 1), states).astype(np.int64), palette),
        )
        for letter, (cost, states, gain) in zip("abc", steps, strict=True)
    )
    rows = tuple((f"{cost:g}", ", ".join(_names(states)), f"{gain:+.3f}") for cost, states, gain in steps)
    return Figure(
        4,
        "the best plan for each number of changes",
        "Two changes pay at s1, six at s5, eight at both.",
        f"Red: the current policy's moves. Blue: changed moves. {NOTE} κ counts changed decisions, and return is "
        "summed, over the eleven starts.",
        panels,
        Table(("κ", "changed states", "return over all starts"), rows),
        columns=3,
    )


def _names(states: Sequence[int]) -> list[str]:
    return [f"s{state}" for state in states]


def figure_7(runs: Runs, palette: Palette) -> Figure:
    """The definition of the chain."""
    rows = tuple(
        (f"s{s}", f"s{AFTER_0[s]}", f"s{AFTER_1[s]}", _reward(s, 0), _reward(s, 1), "desired" if s in DESIRED else "")
        for s in range(END)
    )
    return Figure(
        7,
        "definition of the chain",
        "Moves and rewards of the twelve states; s11 ends the episode.",
        "Each arrow names the actions that make the move, then its reward (purple) if it is not −0.001; +5 is for "
        "action 0. An episode starts in s0 … s10, each as likely, and ends in s11. The paper's own drawing is missing; "
        "this one agrees with all of its text.",
        (Panel("Moves and rewards", _definition(palette, rewards=True)),),
        Table(("state", "action 0 leads to", "action 1 leads to", "reward of 0", "reward of 1", ""), rows),
    )


def _reward(state: int, action: int) -> str:
    paid = {(1, 1): "1", (5, 1): "3", (9, 0): "5", (10, 0): "5"}
    return paid.get((state, action), "−0.001")


def _definition(palette: Palette, *, rewards: bool) -> Chart:
    moves = sorted({(s, t) for after in (AFTER_0, AFTER_1) for s, t in enumerate(after)})
    made_by = {(s, t): [str(a) for a, after in enumerate((AFTER_0, AFTER_1)) if after[s] == t] for s, t in moves}
    labels = [_label(s, t, ",".join(actions), palette.ink) for (s, t), actions in made_by.items()]
    paid = [_label(s, t, text, palette.better, further=True) for (s, t), text in REWARDS.items()]
    return _graph(
        [_arrow(*PLACES[s], *PLACES[t], palette.soft) for s, t in moves], [], [*labels, *paid * rewards], palette
    )


def _policy_graph(actions: IntArray, palette: Palette, *, usual: str | None = None) -> Chart:
    """Moves of a policy: changed ones blue, others red or in the colour `usual`."""
    made, left = [], []
    for state in range(END):
        taken, other = (AFTER_1[state], AFTER_0[state]) if actions[state] else (AFTER_0[state], AFTER_1[state])
        color = palette.proposed if actions[state] and taken != other else usual or palette.current
        made.append(_arrow(*PLACES[state], *PLACES[taken], color))
        left += [_arrow(*PLACES[state], *PLACES[other], palette.muted)] if taken != other else []
    return _graph(made, left, [_label(s, t, text, palette.better) for (s, t), text in REWARDS.items()], palette)


def _arrow(x: float, y: float, x2: float, y2: float, color: str, gap: float = RADIUS) -> Row:
    """A line from one place to another that leaves a gap around both, and the angle of its head."""
    length = math.hypot(x2 - x, y2 - y)
    along, up = (x2 - x) / length, (y2 - y) / length
    return {
        "x": round(x + gap * along, 3),
        "y": round(y + gap * up, 3),
        "x2": round(x2 - (gap + 0.08) * along, 3),
        "y2": round(y2 - (gap + 0.08) * up, 3),
        "a": round(90 - math.degrees(math.atan2(up, along)), 1),
        "c": color,
    }


def _arrow_layers(rows: Rows, x: alt.X, y: alt.Y, *, dashed: bool = False) -> list[Chart]:
    """Lines and their heads."""
    color = alt.Color("c:N", scale=None)
    style = {"strokeWidth": 1.2, "strokeDash": [3, 3]} if dashed else {"strokeWidth": 2.2}
    tip = {"x": alt.X("x2:Q", axis=None), "y": alt.Y("y2:Q", axis=None), "angle": alt.Angle("a:Q", scale=None)}
    base = alt.Chart(rows_of(rows))
    return [
        base.mark_rule(**style).encode(x=x, y=y, x2="x2", y2="y2", color=color),
        base.mark_point(shape="triangle", filled=True, size=60, opacity=1).encode(color=color, **tip),
    ]


def _label(state: int, target: int, text: str, color: str, *, further: bool = False) -> Row:
    """Text beside the middle of a move, outside of what it goes round; `further` leaves room for another before it."""
    (x, y), (x2, y2) = PLACES[state], PLACES[target]
    middle, length = ((x + x2) / 2, (y + y2) / 2), math.hypot(x2 - x, y2 - y)
    along, up = (x2 - x) / length, (y2 - y) / length
    side = 0.21 if state < 8 or middle[1] > PLACES[8][1] else -0.21
    side = -side if state >= 8 else side
    reward = math.copysign(0.44, middle[0] - 3.0) if further else 0.0
    return {"x": middle[0] - side * up + reward, "y": middle[1] + side * along, "t": text, "c": color}


def _graph(made: Rows, left: Rows, labels: Rows, palette: Palette) -> Chart:
    x, y, size = _plane((-0.4, 5.25), (-1.95, 1.3), UNIT)
    texts = alt.Chart(rows_of(labels)).mark_text(baseline="middle", fontSize=12, fontWeight=600)
    layers = [
        *_arrow_layers(left, x, y, dashed=True),
        *_arrow_layers(made, x, y),
        *_nodes(x, y, palette),
        texts.encode(x=x, y=y, text="t:N", color=alt.Color("c:N", scale=None)),
    ]
    return alt.layer(*layers).properties(**size)


def _plane(x_range: Range, y_range: Range, unit: int) -> tuple[alt.X, alt.Y, dict[str, float]]:
    """Bare axes of equal scale, and the size of the picture at so many pixels a unit."""
    x = alt.X("x:Q", scale=alt.Scale(domain=x_range, nice=False), axis=None)
    y = alt.Y("y:Q", scale=alt.Scale(domain=y_range, nice=False), axis=None)
    return x, y, {"width": unit * (x_range[1] - x_range[0]), "height": unit * (y_range[1] - y_range[0])}


def _nodes(x: alt.X, y: alt.Y, palette: Palette) -> list[Chart]:
    rows = [{"x": at[0], "y": at[1], "n": f"s{s}"} for s, at in enumerate(PLACES)]
    size = math.pi * (RADIUS * UNIT) ** 2
    line = {"stroke": palette.soft, "strokeWidth": 1.4, "opacity": 1}
    marks = (
        ([rows[state] for state in DESIRED], {"size": size * 1.55, **line}),
        (rows[:END], {"size": size, "fill": palette.line, **line}),
        (rows[END:], {"size": size * 1.1, "fill": palette.line, "shape": "square", **line}),
    )
    texts = alt.Chart(rows_of(rows)).mark_text(fontSize=12, baseline="middle", color=palette.ink)
    return [
        *(alt.Chart(rows_of(here)).mark_point(**mark).encode(x=x, y=y) for here, mark in marks),
        texts.encode(x=x, y=y, text="n:N"),
    ]


WIDTH, HEIGHT = 2.5, 1.0  # of a box; centres are in the same unit


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
        (Panel("From two policies to an explanation", _framework_chart(runs, palette)),),
        Table(("stage", "function, below polidiff", "on the chain", "in the paper"), rows),
    )


def _framework_chart(runs: Runs, palette: Palette) -> Chart:
    x, y, size = _plane((-1.3, 13.3), (-3.6, 1.6), 64)
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
    return alt.layer(*_arrow_layers(ways, x, y), frame, titles, given).properties(**size)


def _box(stage: Stage, color: str, gave: str) -> Row:
    x, y = stage.place
    edges = {"l": x - WIDTH / 2, "r": x + WIDTH / 2, "b": y - HEIGHT / 2, "u": y + HEIGHT / 2}
    return {"x": x, "y": y, **edges, "t": stage.title, "g": gave, "c": color}


def _way(one: Stage, other: Stage, color: str) -> Row:
    """An arrow from the right edge of one box to the left edge of the other, or up to the one above."""
    (x, y), (x2, y2) = one.place, other.place
    if x == x2:
        return _arrow(x, y + HEIGHT / 2, x2, y2 - HEIGHT / 2, color, gap=0.05)
    return _arrow(x + WIDTH / 2, y, x2 - WIDTH / 2, y2 + 0.2 * (y - y2), color, gap=0.05)
