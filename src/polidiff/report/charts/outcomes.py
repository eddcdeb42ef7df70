"""What the proposed policy does to outcomes: differences with intervals, and how well rules tell the difference."""

from __future__ import annotations

import math

import altair as alt

from polidiff.records.explanation import Explanation, Verdict
from polidiff.report.charts.theme import Chart, Palette, Row, Rows, rows_of
from polidiff.report.names import label

MOST_GROUPS = 12
READINGS = ["better", "worse", "no preference", "same", "unknown"]


def difference_rows(explanation: Explanation, outcome: str) -> Rows:
    """One row for all starts, then one for each sentence."""
    groups = [("All starts", explanation.verdicts)]
    if len(explanation.sentences) > 1:
        groups += [(f"Group {n}", s.verdicts) for n, s in enumerate(explanation.sentences[:MOST_GROUPS], start=1)]
    rows = []
    for order, (group, verdicts) in enumerate(groups):
        verdict = next((v for v in verdicts if v.outcome == outcome), None)
        if verdict is not None and math.isfinite(verdict.difference.estimate):
            rows.append({"g": group, "n": order, **difference_row(verdict)})
    return rows


def difference_row(verdict: Verdict) -> Row:
    """The difference of one verdict; bounds that are not finite are left out, so that the axis stays readable."""
    difference = verdict.difference
    reading = verdict.valence or ("no preference" if verdict.direction in ("more", "less") else verdict.direction)
    return {
        "d": difference.estimate,
        "l": difference.low if math.isfinite(difference.low) else None,
        "h": difference.high if math.isfinite(difference.high) else None,
        "v": reading,
    }


def verdict_scale(palette: Palette) -> alt.Scale:
    """Colours of the five readings of a difference."""
    return alt.Scale(
        domain=READINGS,
        range=[palette.better, palette.worse, palette.current, palette.soft, palette.muted],
    )


def outcome_chart(explanation: Explanation, palette: Palette, *, outcome: str) -> Chart:
    """Forest plot of one outcome: difference proposed − current, for all starts and for each group."""
    of = next((o for o in explanation.outcomes if o.name == outcome), None)
    unit = f" ({label(of.unit, 20)})" if of is not None and of.unit else ""
    rows = difference_rows(explanation, outcome)
    if of is not None and of.is_share:
        unit = " (percentage points)"
        rows = [{**row, **{k: row[k] and 100 * row[k] for k in "dlh"}} for row in rows]
    return forest(rows, palette, title=f"proposed − current{unit}")


def forest(rows: Rows, palette: Palette, *, title: str, name: str | None = None, step: int = 26) -> Chart:
    """Estimates as dots, intervals as lines, zero as a rule."""
    data = rows_of(rows, name)
    y = alt.Y("g:N", sort=alt.EncodingSortField("n", op="min"), title=None, axis=alt.Axis(ticks=False, domain=False))
    color = alt.Color("v:N", scale=verdict_scale(palette), legend=None)
    axis = alt.Axis(tickCount=5)
    base = alt.Chart(data).encode(y=y, color=color)
    zero = alt.Chart(rows_of([{"z": 0}])).mark_rule(color=palette.soft, strokeDash=[2, 2]).encode(x="z:Q")
    lines = base.mark_rule(strokeWidth=3, strokeCap="round").encode(x=alt.X("l:Q", title=title, axis=axis), x2="h:Q")
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=alt.X("d:Q", title=title, axis=axis), shape=_shape(), tooltip=_tooltip()
    )
    return alt.layer(zero, lines, dots).properties(height=max(1, len(rows)) * step)


def _shape() -> alt.Shape:
    shapes = ["triangle-up", "triangle-down", "diamond", "circle", "cross"]
    return alt.Shape("v:N", scale=alt.Scale(domain=READINGS, range=shapes), legend=None)


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("d:Q", title="difference", format=".4~g"),
        alt.Tooltip("l:Q", title="low", format=".4~g"),
        alt.Tooltip("h:Q", title="high", format=".4~g"),
        alt.Tooltip("v:N", title="reading"),
    ]


def outcomes_chart(explanation: Explanation, palette: Palette) -> Chart:
    """All outcomes below each other, each on its own scale."""
    charts = [
        outcome_chart(explanation, palette, outcome=verdict.outcome).properties(width=480, title=label(verdict.outcome))
        for verdict in explanation.verdicts
    ]
    return alt.vconcat(*charts).resolve_scale(x="independent", y="independent")


def tradeoff_chart(explanation: Explanation, palette: Palette) -> Chart:
    """How well k rules describe the difference, the chosen number marked."""
    rows = [{"k": p.rules, "f": p.f1, "c": "chosen" if p.chosen else "other"} for p in explanation.tradeoff]
    x = alt.X("k:Q", title="rules", axis=alt.Axis(tickMinStep=1, format="d"))
    y = alt.Y("f:Q", title="F1 of the description", scale=alt.Scale(domain=[0, 1]))
    base = alt.Chart(rows_of(rows)).encode(x=x, y=y)
    scale = alt.Scale(domain=["chosen", "other"], range=[palette.proposed, palette.current])
    dots = base.mark_point(filled=True, size=80, opacity=1).encode(color=alt.Color("c:N", scale=scale, legend=None))
    return alt.layer(base.mark_line(color=palette.current, strokeWidth=2), dots).properties(height=200)
