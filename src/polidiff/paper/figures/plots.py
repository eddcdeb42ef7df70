"""Figures 3, 5, 6 and 8: outcomes from each start of the chain, true and estimated from a log; return against cost;
walks through the continuous task, over its reward boxes and the regions where policies differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import altair as alt
import numpy as np

from polidiff.domains import navigation
from polidiff.paper.figures.figure import Figure, Panel
from polidiff.paper.runs import LENGTH, REWARD, SLIP, STAY, STEPS, VISITS, Logged, Runs
from polidiff.paper.sentences import BOXES, Box, changed, costs, found_costs, points, regions_of
from polidiff.paper.values import READINGS, STARTS
from polidiff.policies import as_policy, top_actions
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.numbers import percent
from polidiff.records.plan import Frontier
from polidiff.report.charts.theme import Chart, Palette, Rows, rows_of
from polidiff.report.tables import Table

POLICIES = ("current", "proposed")


def figure_3(runs: Runs, palette: Palette) -> Figure:
    """True against estimated outcomes."""
    cases = ((runs.exploring, "the chain"), (runs.slipping, f"slipping in {percent(SLIP)}"))
    panels = tuple(
        Panel(f"({letter}) {outcome.capitalize()}, {name}", _estimates_chart(logged, outcome, palette))
        for letter, (logged, name, outcome) in zip(
            "abcd", [(logged, name, outcome) for logged, name in cases for outcome in (LENGTH, VISITS)], strict=True
        )
    )
    return Figure(
        3,
        "true and estimated outcomes from each start",
        "Estimates from an exploring log lie on the true outcomes; with slips they scatter within their intervals.",
        f"Black: true. Colour: estimated from a log of the current policy, with 95 % intervals ({runs.exploring.log}); "
        "filled by our judge, hollow by the paper's model-based bootstrap. "
        "A log of the current policy alone would show nothing of the proposed actions, so a fifth of its decisions are "
        "random. In the paper's chain every move is certain and estimates are exact; (c) and (d) let "
        f"{percent(SLIP)} of the moves go astray.",
        panels,
        _estimates_table(runs),
        columns=2,
    )


def _estimates_chart(logged: Logged, outcome: str, palette: Palette) -> Chart:
    rows = [{**row, "w": "ours"} for row in outcome_rows(logged, outcome)]
    rows += [{**row, "w": "bootstrap"} for row in outcome_rows(logged, outcome, bootstrap=True)]
    rows = [{**row, "o": f"{row['p']}, {row['w']}"} for row in rows]
    x = alt.X("s:N", sort=list(STARTS), title="start", axis=alt.Axis(labelAngle=0))
    places = [f"{policy}, {way}" for policy in POLICIES for way in ("ours", "bootstrap")]
    aside = alt.XOffset("o:N", sort=places, scale=alt.Scale(paddingOuter=0.3))
    y = alt.Y("e:Q", title=outcome)
    color = alt.Color(
        "p:N", title=None, scale=alt.Scale(domain=list(POLICIES), range=[palette.current, palette.proposed])
    )
    base = alt.Chart(rows_of(rows)).encode(x=x, xOffset=aside)
    spread = base.mark_rule(strokeWidth=2).encode(y=alt.Y("l:Q"), y2="h:Q", color=color)
    ours = base.transform_filter("datum.w == 'ours'").mark_point(size=55, filled=True, opacity=1)
    drawn = base.transform_filter("datum.w != 'ours'").mark_point(size=45, filled=False, strokeWidth=1.6, opacity=1)
    true = base.mark_tick(thickness=2, size=9, opacity=1, color=palette.ink, orient="horizontal").encode(y=alt.Y("t:Q"))
    return alt.layer(spread, ours.encode(y=y, color=color), drawn.encode(y=y, color=color), true).properties(
        width=330, height=190
    )


def outcome_rows(logged: Logged, outcome: str, *, bootstrap: bool = False) -> Rows:
    """One row for each policy and start: by our judge, or by the paper's bootstrap."""
    rows = []
    for policy in POLICIES:
        judged = (logged.bootstrap if bootstrap else logged.estimate)[policy]
        truth, estimate = logged.truth[policy].per_start[outcome], judged.per_start[outcome]
        for start in STARTS:
            interval = estimate[start]
            figures = {"e": interval.estimate, "l": interval.low, "h": interval.high, "t": truth[start].estimate}
            rows.append({"p": policy, "s": start, **{key: round(value, 6) for key, value in figures.items()}})
    return rows


def _estimates_table(runs: Runs) -> Table:
    rows = tuple(
        (
            name,
            row["s"],
            outcome,
            row["p"],
            f"{row['t']:.3f}",
            f"{row['e']:.3f}",
            f"{row['l']:.3f} to {row['h']:.3f}",
            f"{other['l']:.3f} to {other['h']:.3f}",
        )
        for name, logged in (("the chain", runs.exploring), (f"slip {percent(SLIP)}", runs.slipping))
        for outcome in (LENGTH, VISITS)
        for row, other in zip(outcome_rows(logged, outcome), outcome_rows(logged, outcome, bootstrap=True), strict=True)
    )
    head = ("world", "start", "outcome", "policy", "true", "estimated", "95 % interval", "model bootstrap")
    return Table(head, rows)


SHORT = {
    "policy iteration, all states": "PI, all states",
    "policy iteration, largest advantage": "PI, largest advantage",
    "policy iteration, largest gain": "PI, largest gain",
}
OURS = "this method (CMDP)"
SIZES = {OURS: 45, **dict(zip(SHORT.values(), (900, 230, 560), strict=True))}  # where all meet, each surrounds the next


def figure_6(runs: Runs, palette: Palette) -> Figure:
    """What each number of changes buys, and who finds it."""
    frontiers = {"chain": runs.chain.frontier, "navigation": runs.navigation.frontier}
    panels = (
        Panel("(a) Chain", _returns_chart(frontiers["chain"], "changed decisions, summed over starts", palette)),
        Panel("(b) Navigation", _returns_chart(frontiers["navigation"], "changed decisions per episode", palette)),
    )
    rows = tuple(
        (task, OURS, costs(frontier), "") if name is None else (task, SHORT[name], *_found_and_missed(frontier, name))
        for task, frontier in frontiers.items()
        for name in (None, *READINGS)
    )
    return Figure(
        6,
        "return against the number of changes",
        "The frontier holds every plan; each reading of policy iteration misses some on one of the tasks.",
        "Red: every plan of this method; the line is what a budget buys. Blue: policy iteration, as points: it has no "
        "plans in between. The paper does not say which change it makes first. All states at once, the largest "
        "advantage, the largest gain in return: none lies above the frontier, the first two miss plans on both tasks, "
        "the third only κ = 2 on the chain. No single reading fits both of the paper's remarks (some plans on the "
        "chain, only the optimum in the plane).",
        panels,
        Table(("task", "method", "finds κ", "misses κ"), rows),
        columns=2,
    )


def _found_and_missed(frontier: Frontier, name: str) -> tuple[str, str]:
    missed = [
        f"{plan.changes:g}"
        for plan in frontier
        if not any(
            abs(cost - plan.changes) < 1e-6 and value > plan.expected_return - 1e-3
            for cost, value in points(frontier, name)
        )
    ]
    return found_costs(frontier, name), ", ".join(missed) or "none"


def _returns_chart(frontier: Frontier, title: str, palette: Palette) -> Chart:
    ticks = sorted({round(plan.changes) for plan in frontier})
    x = alt.X("c:Q", title=title, scale=alt.Scale(padding=18), axis=alt.Axis(values=ticks, format="d", grid=False))
    y = alt.Y("r:Q", title="expected return", scale=alt.Scale(zero=False, nice=False, padding=18))
    legend = alt.Legend(columns=2, symbolOpacity=1, symbolSize=110, columnPadding=36)
    names, blue = [OURS, *SHORT.values()], palette.proposed

    def by_method(channel: type[Any], values: Sequence[Any]) -> Any:
        return channel("k:N", sort=names, title=None, legend=legend, scale=alt.Scale(domain=names, range=list(values)))

    base = alt.Chart(rows_of(_return_rows(frontier))).encode(x=x, y=y)
    steps = base.transform_filter(f"datum.k == '{OURS}'").mark_line(
        interpolate="step-after", strokeWidth=2, opacity=0.5, color=palette.current
    )
    dots = base.mark_point(strokeWidth=1.8, opacity=1).encode(
        stroke=by_method(alt.Stroke, [palette.current, blue, blue, blue]),
        fill=by_method(alt.Fill, [palette.current, *["transparent"] * 3]),
        shape=by_method(alt.Shape, ["circle", "square", "triangle-up", "diamond"]),
        size=alt.Size("z:Q", legend=None, scale=None),
    )
    return alt.layer(steps, dots).properties(width=330, height=240)


def _return_rows(frontier: Frontier) -> Rows:
    drawn = [(plan.changes, plan.expected_return, OURS) for plan in frontier]
    drawn += [(cost, value, short) for name, short in SHORT.items() for cost, value in points(frontier, name)]
    return [{"c": round(cost, 6), "r": round(value, 6), "k": name, "z": SIZES[name]} for cost, value, name in drawn]


WALKERS = np.array([[0.018, 0.03], [0.045, 0.078], [0.07, 0.022], [0.088, 0.062]])
X_RANGE, Y_RANGE = (-0.08, 1.08), (0.0, 0.44)
WALKS_NOTE = (
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
Walker: TypeAlias = Callable[[FloatArray], IntArray]
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
        (name, changed(plan), *_achieved(runs, f"κ = {plan.changes:.0f}"))
        for name, plan in sorted(plans, key=lambda pair: pair[1].changes)
    )
    return Figure(
        5,
        "the best walks for each number of changes",
        "One change reaches the box worth 5, two also the box worth 7, three go straight to the goal.",
        f"{WALKS_NOTE} κ counts changed decisions per episode.",
        panels,
        Table(("budget", "changed regions", REWARD, STAY, STEPS), rows),
        columns=3,
    )


def figure_8(runs: Runs, palette: Palette) -> Figure:
    """The current policy and both proposals."""
    task = runs.navigation
    first, second = regions_of(task.proposed_1), regions_of(task.proposed_2)
    panels = (
        Panel("(a) Current policy", _walk_chart(navigation.current, sorted(BOXES), palette)),
        Panel("(b) Proposed policy 1", _walk_chart(navigation.proposed_1, first.split(", "), palette)),
        Panel("(c) Proposed policy 2", _walk_chart(navigation.proposed_2, second.split(", "), palette)),
    )
    differing = {"current": "", "proposed 1": first, "proposed 2": second}
    rows = tuple((name, regions, *_achieved(runs, name)) for name, regions in differing.items())
    return Figure(
        8,
        "the policies of the continuous task",
        "The current policy goes north and then east; the first proposal goes east early, the second further north.",
        f"{WALKS_NOTE} The paper names S1 and S3 for the second proposal; by its own definition it differs in S4 too.",
        panels,
        Table(("policy", "differs in", REWARD, STAY, STEPS), rows),
        columns=3,
    )


def _achieved(runs: Runs, policy: str) -> tuple[str, str, str]:
    exact = runs.navigation.exact[policy]
    return f"{exact[REWARD]:.4f}", f"{exact[STAY]:g}", f"{exact[STEPS]:g}"


def walk(policy: Walker) -> Rows:
    """Steps of a few walks: from, to, and whether the decision is the current policy's."""
    model, acting = navigation.NavigationModel(), as_policy(policy, n_actions=len(navigation.ACTIONS))
    states, rows = WALKERS, []
    for _ in range(navigation.HORIZON):
        actions: IntArray = top_actions(acting.probabilities(states))
        agrees = actions == navigation.current(states)
        moved, _, ended = model.step(states, actions, np.random.default_rng(0))
        for place, after, action, same in zip(states, moved, actions, agrees, strict=True):
            x, y, x2, y2 = (round(float(value), 4) for value in (*place, *after))
            middle = {"mx": (x + x2) / 2, "my": (y + y2) / 2, "a": ANGLES[int(action)]}
            rows.append({"x": x, "y": y, "x2": x2, "y2": y2, **middle, "k": "as now" if same else "changed"})
        states = moved[~ended]
        if not len(states):
            break
    return rows


def _walk_chart(policy: Walker, regions: Sequence[str], palette: Palette) -> Chart:
    x, y = (
        axis(f"{name}:Q", title=name, scale=alt.Scale(domain=ends, nice=False), axis=alt.Axis(values=at, grid=False))
        for axis, name, ends, at in (
            (alt.X, "x", X_RANGE, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            (alt.Y, "y", Y_RANGE, [0, 0.1, 0.2, 0.3, 0.4]),
        )
    )
    steps = alt.Chart(rows_of(walk(policy)))
    scale = alt.Scale(domain=["as now", "changed"], range=[palette.current, palette.proposed])
    color = alt.Color("k:N", scale=scale, legend=None)
    lines = steps.mark_rule(strokeWidth=1.6).encode(x=x, y=y, x2="x2", y2="y2", color=color)
    heads = steps.mark_point(shape="triangle", filled=True, size=26, opacity=1).encode(
        x="mx:Q", y="my:Q", color=color, angle=alt.Angle("a:Q", scale=None)
    )
    starts = rows_of([{"x": float(place[0]), "y": float(place[1])} for place in WALKERS])
    dots = alt.Chart(starts).mark_point(filled=True, size=30, opacity=1, color=palette.ink).encode(x=x, y=y)
    backdrop, tags = _backdrop(x, y, palette), _tag_layers(regions, x, y, palette)
    return alt.layer(*backdrop, _region_layer(regions, x, y, palette), lines, heads, dots, *tags).properties(
        width=250, height=160
    )


def _boxes(boxes: Sequence[Box], x: alt.X, y: alt.Y, **style: object) -> Chart:
    rows = [dict(zip(("x", "x2", "y", "y2"), box, strict=True)) for box in boxes]
    return alt.Chart(rows_of(rows)).mark_rect(**style).encode(x=x, x2="x2", y=y, y2="y2")


def _backdrop(x: alt.X, y: alt.Y, palette: Palette) -> list[Chart]:
    rewards = [(column / 10, (column + 1) / 10, row / 10, (row + 1) / 10) for column, row in navigation.BONUS]
    frame = {"filled": False, "stroke": palette.ink, "strokeWidth": 1.8}
    star = alt.Chart(rows_of([{"x": 1.015, "y": 0.03, "t": "★"}])).mark_text(fontSize=16, color=palette.ink)
    return [
        _boxes([(0.0, 0.1, 0.0, 0.1)], x, y, **frame),
        _boxes([(0.0, navigation.GOAL_X, 0.2, 0.3)], x, y, color=palette.muted, opacity=0.22),
        _boxes([(navigation.GOAL_X, X_RANGE[1], 0.0, Y_RANGE[1])], x, y, **frame),
        star.encode(x=x, y=y, text="t:N"),
        _boxes(rewards, x, y, color=palette.current, fillOpacity=0.15, stroke=palette.current),
    ]


def _region_layer(names: Sequence[str], x: alt.X, y: alt.Y, palette: Palette) -> Chart:
    """Blue boxes, drawn a little inside their bounds: the rectangle of starts and a reward may have the same ones."""
    inside = {"xOffset": 2.5, "x2Offset": -2.5, "yOffset": -2.5, "y2Offset": 2.5}
    blue = {"color": palette.proposed, "fillOpacity": 0.12, "stroke": palette.proposed, "strokeWidth": 1.6}
    return _boxes([BOXES[name] for name in names], x, y, **blue, **inside)


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
