"""Figure 6: return against cost, every plan of the frontier beside three readings of policy iteration."""

from __future__ import annotations

import altair as alt

from polidiff.paper.figures.figure import Figure, Panel
from polidiff.paper.runs import Runs
from polidiff.paper.sentences import costs, found_costs, points
from polidiff.paper.values import READINGS
from polidiff.records.plan import Frontier
from polidiff.report.charts.theme import Chart, Palette, Rows, rows_of
from polidiff.report.tables import Table

SHORT = {
    "policy iteration, all states": "PI, all states",
    "policy iteration, largest advantage": "PI, largest advantage",
    "policy iteration, largest gain": "PI, largest gain",
}
OURS = "this method (CMDP)"


def figure_6(runs: Runs, palette: Palette) -> Figure:
    """What each number of changes buys, and who finds it."""
    frontiers = {"chain": runs.chain.frontier, "navigation": runs.navigation.frontier}
    panels = (
        Panel("(a) Chain", _chart(frontiers["chain"], "changed decisions, summed over starts", palette)),
        Panel("(b) Navigation", _chart(frontiers["navigation"], "changed decisions per episode", palette)),
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
        "Red: every plan of this method; the line is what a budget buys. Policy iteration is drawn as points: it has "
        "no plans in between. The paper does not say which change it makes first. All states at once, the largest "
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


def _chart(frontier: Frontier, title: str, palette: Palette) -> Chart:
    ticks = sorted({round(plan.changes) for plan in frontier})
    x = alt.X("c:Q", title=title, axis=alt.Axis(values=ticks, format="d", grid=False))
    y = alt.Y("r:Q", title="expected return", scale=alt.Scale(zero=False, padding=14))
    legend = alt.Legend(columns=2, symbolOpacity=1, symbolSize=80, columnPadding=36)
    names = [OURS, *SHORT.values()]
    tints = [palette.current, palette.proposed, palette.swaps[5], palette.swaps[2]]
    color = alt.Color("k:N", sort=names, title=None, legend=legend, scale=alt.Scale(domain=names, range=tints))
    shape = alt.Shape(
        "k:N",
        sort=names,
        title=None,
        legend=legend,
        scale=alt.Scale(domain=names, range=["circle", "square", "triangle-up", "diamond"]),
    )
    base = alt.Chart(rows_of(_rows(frontier))).encode(x=x, y=y, color=color)
    steps = base.transform_filter(f"datum.k == '{OURS}'").mark_line(
        interpolate="step-after", strokeWidth=2, opacity=0.5
    )
    ours = base.transform_filter(f"datum.k == '{OURS}'").mark_point(filled=True, size=60, opacity=1).encode(shape=shape)
    others = base.transform_filter(f"datum.k != '{OURS}'").mark_point(strokeWidth=1.8, opacity=1)
    size = alt.Size("k:N", legend=None, scale=alt.Scale(domain=names, range=[60, 520, 300, 190]))
    return alt.layer(steps, others.encode(shape=shape, size=size), ours).properties(width=330, height=240)


def _rows(frontier: Frontier) -> Rows:
    drawn = [(plan.changes, plan.expected_return, OURS) for plan in frontier]
    drawn += [(cost, value, short) for name, short in SHORT.items() for cost, value in points(frontier, name)]
    return [{"c": round(cost, 6), "r": round(value, 6), "k": method} for cost, value, method in drawn]
