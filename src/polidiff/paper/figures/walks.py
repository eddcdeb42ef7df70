"""Figures 5 and 8: walks through the continuous task, over its reward boxes and the regions where policies differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import altair as alt
import numpy as np

from polidiff.domains import navigation
from polidiff.paper.figures.figure import Figure, Panel
from polidiff.paper.runs import REWARD, STAY, STEPS, Runs
from polidiff.paper.sentences import BOXES, changed, regions_of
from polidiff.policies import as_policy, top_actions
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.explanation import Explanation
from polidiff.report.charts.theme import Chart, Palette, Row, Rows, rows_of
from polidiff.report.tables import Table

STARTS = np.array([[0.018, 0.03], [0.045, 0.078], [0.07, 0.022], [0.088, 0.062]])
X_RANGE, Y_RANGE = (-0.08, 1.08), (0.0, 0.44)
NOTE = (
    "Four walks. Blue: decisions that differ from the current policy's, and the regions where policies differ. "
    "Red boxes: rewards on arrival; a step costs 0.001. Shaded: the desired region. The rectangle with black circles "
    "holds the starts, the one with the star, beyond x = 0.95, is the goal: +10."
)
# Where names and rewards stand clear of the walks: x, y, alignment.
TAGS = {
    "S0": (-0.01, 0.05, "right"),
    "S1": (-0.01, 0.25, "right"),
    "S2": (0.208, 0.186, "left"),
    "S3": (0.1, 0.415, "left"),
    "S4": (0.495, 0.415, "right"),
    "+5": (-0.01, 0.35, "right"),
    "+4": (0.208, 0.018, "left"),
    "+3": (0.308, 0.118, "left"),
    "+7": (0.6, 0.415, "right"),
}
ANGLES = {navigation.EAST: 90, navigation.NORTH: 0, navigation.SOUTH: 180}


def figure_5(runs: Runs, palette: Palette) -> Figure:
    """The best plans without a budget and for one and two changes."""
    frontier = runs.navigation.frontier
    plans = [(f"no budget (κ = {frontier.best.changes:.0f})", frontier.best)]
    plans += [(f"κ = {budget}", frontier.at(budget)) for budget in (1, 2)]
    panels = tuple(
        Panel(f"({letter}) Best policy, {name}", _walk_chart(plan.policy, changed(plan).split(", "), palette))
        for letter, (name, plan) in zip("abc", plans, strict=True)
    )
    rows = tuple(
        (name, changed(plan), *_told(runs, f"κ = {plan.changes:.0f}"))
        for name, plan in sorted(plans, key=lambda pair: pair[1].changes)
    )
    return Figure(
        5,
        "the best walks for each number of changes",
        "One change reaches the box worth 5, two also the box worth 7, three go straight to the goal.",
        f"{NOTE} κ counts changed decisions per episode.",
        panels,
        Table(("budget", "changed regions", REWARD, STAY, STEPS), rows),
        columns=3,
    )


def figure_8(runs: Runs, palette: Palette) -> Figure:
    """The current policy and both proposals."""
    task = runs.navigation
    panels = (
        Panel("(a) Current policy", _walk_chart(navigation.current, sorted(BOXES), palette)),
        Panel("(b) Proposed policy 1", _walk_chart(navigation.proposed_1, _regions(task.proposed_1), palette)),
        Panel("(c) Proposed policy 2", _walk_chart(navigation.proposed_2, _regions(task.proposed_2), palette)),
    )
    rows = (
        ("current", "", *_told(runs, "current")),
        ("proposed 1", regions_of(task.proposed_1), *_told(runs, "proposed 1")),
        ("proposed 2", regions_of(task.proposed_2), *_told(runs, "proposed 2")),
    )
    return Figure(
        8,
        "the policies of the continuous task",
        "The current policy goes north and then east; the first proposal goes east early, the second further north.",
        f"{NOTE} The paper names S1 and S3 for the second proposal; by its own definition it differs in S4 too.",
        panels,
        Table(("policy", "differs in", REWARD, STAY, STEPS), rows),
        columns=3,
    )


def _regions(explanation: Explanation) -> list[str]:
    return regions_of(explanation).split(", ")


def _told(runs: Runs, policy: str) -> tuple[str, str, str]:
    exact = runs.navigation.exact[policy]
    return f"{exact[REWARD]:.4f}", f"{exact[STAY]:g}", f"{exact[STEPS]:g}"


def walk(policy: Callable[[FloatArray], IntArray]) -> Rows:
    """Steps of a few walks: from, to, and whether the decision is the current policy's."""
    model, acting = navigation.NavigationModel(), as_policy(policy, n_actions=len(navigation.ACTIONS))
    states, rows = STARTS, []
    for _ in range(navigation.HORIZON):
        actions: IntArray = top_actions(acting.probabilities(states))
        agrees = actions == navigation.current(states)
        moved, _, ended = model.step(states, actions, np.random.default_rng(0))
        for place, after, action, same in zip(states, moved, actions, agrees, strict=True):
            rows.append(_step(place, after, int(action), bool(same)))
        states = moved[~ended]
        if not len(states):
            break
    return rows


def _step(place: FloatArray, after: FloatArray, action: int, same: bool) -> Row:
    x, y, x2, y2 = (round(float(value), 4) for value in (*place, *after))
    middle = {"mx": (x + x2) / 2, "my": (y + y2) / 2, "a": ANGLES[action]}
    return {"x": x, "y": y, "x2": x2, "y2": y2, **middle, "k": "as now" if same else "changed"}


def _walk_chart(policy: Callable[[FloatArray], IntArray], regions: Sequence[str], palette: Palette) -> Chart:
    x = alt.X("x:Q", title="x", scale=alt.Scale(domain=X_RANGE, nice=False), axis=_axis([0, 0.2, 0.4, 0.6, 0.8, 1.0]))
    y = alt.Y("y:Q", title="y", scale=alt.Scale(domain=Y_RANGE, nice=False), axis=_axis([0, 0.1, 0.2, 0.3, 0.4]))
    steps = walk(policy)
    scale = alt.Scale(domain=["as now", "changed"], range=[palette.current, palette.proposed])
    color = alt.Color("k:N", scale=scale, legend=None)
    lines = alt.Chart(rows_of(steps)).mark_rule(strokeWidth=1.6).encode(x=x, y=y, x2="x2", y2="y2", color=color)
    heads = (
        alt.Chart(rows_of(steps))
        .mark_point(shape="triangle", filled=True, size=26, opacity=1)
        .encode(x="mx:Q", y="my:Q", color=color, angle=alt.Angle("a:Q", scale=None))
    )
    starts = rows_of([{"x": float(place[0]), "y": float(place[1])} for place in STARTS])
    dots = alt.Chart(starts).mark_point(filled=True, size=30, opacity=1, color=palette.ink).encode(x=x, y=y)
    ground, tags = _ground(x, y, palette), _tag_layers(regions, x, y, palette)
    return alt.layer(*ground, _region_layer(regions, x, y, palette), lines, heads, dots, *tags).properties(
        width=250, height=160
    )


def _axis(values: list[float]) -> alt.Axis:
    return alt.Axis(values=values, grid=False)


def _ground(x: alt.X, y: alt.Y, palette: Palette) -> list[Chart]:
    band = rows_of([{"x": 0.0, "x2": navigation.GOAL_X, "y": 0.2, "y2": 0.3}])
    goal = rows_of([{"x": navigation.GOAL_X, "x2": X_RANGE[1], "y": 0.0, "y2": Y_RANGE[1]}])
    star = rows_of([{"x": 1.015, "y": 0.03, "t": "★"}])
    boxes = [
        {"x": column / 10, "x2": (column + 1) / 10, "y": row / 10, "y2": (row + 1) / 10}
        for column, row in navigation.BONUS
    ]
    starts = rows_of([{"x": 0.0, "x2": 0.1, "y": 0.0, "y2": 0.1}])
    area = {"x": x, "y": y, "x2": "x2", "y2": "y2"}
    return [
        alt.Chart(starts).mark_rect(filled=False, stroke=palette.ink, strokeWidth=1.8).encode(**area),
        alt.Chart(band).mark_rect(color=palette.muted, opacity=0.22).encode(**area),
        alt.Chart(goal).mark_rect(filled=False, stroke=palette.ink, strokeWidth=1.8).encode(**area),
        alt.Chart(star).mark_text(fontSize=16, color=palette.ink).encode(x=x, y=y, text="t:N"),
        alt.Chart(rows_of(boxes))
        .mark_rect(color=palette.current, fillOpacity=0.15, stroke=palette.current)
        .encode(**area),
    ]


def _region_layer(names: Sequence[str], x: alt.X, y: alt.Y, palette: Palette) -> Chart:
    """Blue boxes, drawn a little inside their bounds: the rectangle of starts and a reward may have the same ones."""
    rows = [dict(zip(("x", "x2", "y", "y2"), BOXES[name], strict=True)) for name in names]
    inside = {"xOffset": 2.5, "x2Offset": -2.5, "yOffset": -2.5, "y2Offset": 2.5}
    blue = {"color": palette.proposed, "fillOpacity": 0.12, "stroke": palette.proposed, "strokeWidth": 1.6}
    return alt.Chart(rows_of(rows)).mark_rect(**blue, **inside).encode(x=x, x2="x2", y=y, y2="y2")


def _tag_layers(regions: Sequence[str], x: alt.X, y: alt.Y, palette: Palette) -> list[Chart]:
    """Names of regions and rewards over everything else, each with a rim that parts it from the walks."""
    names = {f"+{reward:g}": palette.current for reward in navigation.BONUS.values()}
    names |= dict.fromkeys(regions, palette.proposed)
    rim = {"stroke": palette.surface, "strokeWidth": 3, "strokeJoin": "round"}
    return [
        alt.Chart(rows_of([{"x": TAGS[name][0], "y": TAGS[name][1], "t": name}]))
        .mark_text(align=TAGS[name][2], baseline="middle", fontSize=11, fontWeight=600, color=color, **style)
        .encode(x=x, y=y, text="t:N")
        for name, color in names.items()
        for style in (rim, {})
    ]
