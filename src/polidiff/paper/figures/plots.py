"""Figures 3 and 6: outcomes from each start of the chain, true and estimated from a log; return against cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from polidiff.explanation.words import percent
from polidiff.paper.figures.figure import Figure, Panel
from polidiff.paper.runs import LENGTH, SLIP, VISITS, Logged, Runs
from polidiff.paper.sentences import costs, found_costs, points
from polidiff.paper.values import READINGS
from polidiff.records.plan import Frontier
from polidiff.report.charts.theme import Chart, Palette, Rows, rows_of
from polidiff.report.tables import Table

POLICIES = ("current", "proposed")
STARTS = tuple(f"s{start}" for start in range(11))


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
        (task, OURS, costs(frontier), "") if name is None else (task, SHORT[name], *_found(frontier, name))
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


def _found(frontier: Frontier, name: str) -> tuple[str, str]:
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
