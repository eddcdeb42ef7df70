"""Plans: return against changes, what each change is worth, what partial adoption does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import altair as alt

from polidiff.explanation.change_numbers import Numbering
from polidiff.explanation.plan_text import objective, plan_verdicts, ranked_changes
from polidiff.explanation.text import unit_text
from polidiff.explanation.words import bounds_text
from polidiff.records.outcome import Interval
from polidiff.records.plan import AdoptionPoint, Frontier, Plan
from polidiff.records.rule import Rule
from polidiff.report.charts.outcomes import difference_row, verdict_scale
from polidiff.report.charts.regions import Span, is_drawn, side, span_over
from polidiff.report.charts.theme import Chart, Palette, Rows, rows_of
from polidiff.report.names import label

MOST_CHANGES = 20
MOST_OUTCOMES = 12  # in one picture
PICKED = "picked"  # the signals that the page sets: the chosen plan, and plans that break a guard
REFUSED = "refused"
_SPARSE = alt.Axis(tickCount=5)


def frontier_chart(
    frontier: Frontier, palette: Palette, *, plans: Sequence[Plan] | None = None, picked: int = -1
) -> Chart:
    """Plans as dots (hollow where not proven best), the bound above them, simpler methods beside them."""
    shown_plans = list(frontier.plans if plans is None else plans)
    x = alt.X("c:Q", title=unit_text(frontier.world, frontier.unit), axis=alt.Axis(tickCount=6))
    y = _aim_axis(frontier)
    bound = [{"c": point.changes, "r": point.expected_return} for point in frontier.hull]
    hull = alt.Chart(rows_of(bound)).mark_line(color=palette.soft, strokeDash=[4, 4], strokeWidth=1.5)
    base = alt.Chart(rows_of(plan_rows(shown_plans, frontier))).encode(x=x, y=y)
    open_rows = [row for row in plan_rows(shown_plans, frontier) if row["b"] is not None and row["b"] > row["r"] + 1e-9]
    missing = alt.Chart(rows_of(open_rows)).mark_rule(color=palette.muted, strokeWidth=1.5).encode(x=x, y=y, y2="b:Q")
    steps = base.mark_line(color=palette.current, strokeWidth=2, interpolate="step-after", opacity=0.55)
    fill = alt.Fill("p:N", scale=alt.Scale(domain=["proven", "not proven"], range=[palette.current, palette.surface]))
    dots = base.mark_point(size=70, stroke=palette.current, strokeWidth=2, opacity=1, cursor="pointer").encode(
        fill=fill.legend(None), tooltip=_plan_tooltip(frontier)
    )
    chosen = alt.param(name=PICKED, value=picked % max(len(shown_plans), 1))
    proven = frontier.world.enumerated  # bounds in a table that was estimated prove nothing
    layers = [
        *([hull.encode(x=x, y=y, order="c:Q")] if bound and proven else []),
        *(_baseline_layers(frontier, palette, x, y) if proven else []),
        *([missing] if open_rows else []),
        steps,
        dots,
        _ring(base, palette),
    ]
    return alt.layer(*layers).add_params(chosen).properties(height=320)


def plans_chart(frontier: Frontier, palette: Palette, *, plans: Sequence[Plan], picked: int) -> Chart:
    """Plans as dots over two quantities that the page may exchange; the chosen one ringed, refused ones faint."""
    scale = alt.Scale(zero=False, nice=False, padding=16)
    most = math.ceil(max((frontier.cost(plan) for plan in plans), default=0.0))
    whole = _whole_axis(most) if frontier.unit in ("rules", "states") else alt.Axis(tickCount=6)
    x = alt.X("x:Q", title=unit_text(frontier.world, frontier.unit), scale=scale, axis=whole)
    y = alt.Y("y:Q", title=label(frontier.aim), scale=scale, axis=alt.Axis(tickCount=6, **_share_format(frontier)))
    rows = [{"i": row["i"], "x": row["c"], "y": row["r"]} for row in plan_rows(plans, frontier)]
    base = alt.Chart(rows_of(rows, name="plans")).encode(x=x, y=y)
    seen = alt.condition(f"indexof({REFUSED}, datum.i) < 0", alt.value(1.0), alt.value(0.18))
    dots = base.mark_point(size=80, filled=True, color=palette.current, cursor="pointer").encode(opacity=seen)
    chosen, refused = alt.param(name=PICKED, value=picked), alt.param(name=REFUSED, value=[])
    return alt.layer(dots, _ring(base, palette)).add_params(chosen, refused).properties(height=300)


def _ring(base: alt.Chart, palette: Palette) -> Chart:
    """The mark around the chosen plan."""
    return base.transform_filter(f"datum.i == {PICKED}").mark_point(
        size=260, filled=True, color=palette.proposed, opacity=1, stroke=palette.ink, strokeWidth=1.5
    )


def _aim_axis(frontier: Frontier) -> alt.Y:
    """What plans improve, upwards."""
    scale, axis = alt.Scale(zero=False), alt.Axis(**_share_format(frontier))
    return alt.Y("r:Q", title=label(frontier.aim), scale=scale, axis=axis)


def _share_format(frontier: Frontier) -> dict[str, str]:
    outcome = objective(frontier)
    return {"format": ".4~p"} if outcome is not None and outcome.is_share else {}


def plan_rows(plans: Sequence[Plan], frontier: Frontier) -> Rows:
    """One row per plan, in the order of the slider."""
    return [
        {
            "i": index,
            "c": frontier.cost(plan),
            "r": frontier.sign * plan.expected_return,
            "b": plan.bound if math.isfinite(plan.bound) and frontier.world.enumerated else None,
            "p": "proven" if plan.proven else "not proven",
        }
        for index, plan in enumerate(plans)
    ]


def _plan_tooltip(frontier: Frontier) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("c:Q", title=unit_text(frontier.world, frontier.unit), format=".4~r"),
        alt.Tooltip("r:Q", title=label(frontier.aim), format=".6~r"),
        alt.Tooltip("b:Q", title="no plan returns more than", format=".6~r"),
        alt.Tooltip("p:N", title="best for its budget"),
    ]


def _baseline_layers(frontier: Frontier, palette: Palette, x: alt.X, y: alt.Y) -> list[Chart]:
    names = [label(baseline.name) for baseline in frontier.baselines]
    rows = [
        {"c": changes, "r": value, "k": label(baseline.name)}
        for baseline in frontier.baselines
        for changes, value in baseline.points
    ]
    if not rows:
        return []
    shapes = ["square", "triangle-up", "diamond", "cross", "triangle-down"]
    scale = alt.Scale(domain=names, range=[shapes[index % len(shapes)] for index in range(len(names))])
    shape = alt.Shape("k:N", title="simpler methods", legend=alt.Legend(columns=1), scale=scale, sort=names)
    marks = alt.Chart(rows_of(rows)).mark_point(size=80, color=palette.soft, strokeWidth=1.5, opacity=0.9)
    return [marks.encode(x=x, y=y, shape=shape)]


def ledger_chart(frontier: Frontier, palette: Palette, numbering: Numbering | None = None) -> Chart:
    """What each change is worth: fair share of the gain as a bar, alone and added last as marks."""
    rows = ledger_rows(frontier, numbering or Numbering())
    y = alt.Y("n:N", sort=alt.EncodingSortField("o", op="min"), title=None)
    base = alt.Chart(rows_of(rows)).encode(y=y)
    x = alt.X("s:Q", title=f"worth in {'less ' * (frontier.sign < 0)}{label(frontier.aim)}")
    bars = base.mark_bar(color=palette.current, opacity=0.35, cornerRadius=2, height={"band": 0.6}).encode(x=x)
    spread = base.mark_rule(color=palette.current, strokeWidth=2).encode(x="l:Q", x2="h:Q")
    kinds = ["made alone", "added last to the plan"]
    legend = {"title": None, "legend": alt.Legend(columns=1)}
    shapes, colours = ["circle", "diamond"], [palette.proposed, palette.ink]
    marks = (
        base.transform_fold(["a", "r"], as_=["key", "value"])
        .transform_calculate(k=f"datum.key == 'a' ? '{kinds[0]}' : '{kinds[1]}'")
        .mark_point(size=70, filled=True, opacity=1)
        .encode(
            x="value:Q",
            shape=alt.Shape("k:N", scale=alt.Scale(domain=kinds, range=shapes), **legend),
            color=alt.Color("k:N", scale=alt.Scale(domain=kinds, range=colours), **legend),
        )
    )
    return alt.layer(bars, spread, marks).properties(height=24 * max(1, len(rows)))


def ledger_rows(frontier: Frontier, numbering: Numbering) -> Rows:
    """The changes worth most, at most twenty."""
    ranked = ranked_changes(frontier)[:MOST_CHANGES]
    return [
        {
            "n": label(numbering.short(entry)),
            "o": order,
            "s": entry.shapley.estimate,
            "l": entry.shapley.low,
            "h": entry.shapley.high,
            "a": entry.alone,
            "r": entry.removed,
        }
        for order, entry in enumerate(ranked)
    ]


def _whole_axis(most: int) -> alt.Axis:
    """An axis of things that are counted: at most seven whole numbers from 0 on."""
    ticks = sorted({round(k * most / min(most, 6)) for k in range(min(most, 6) + 1)}) if most else [0]
    return alt.Axis(values=ticks, format="d")


def order_chart(frontier: Frontier, palette: Palette, numbering: Numbering | None = None) -> Chart:
    """Expected return after each step of the best order to adopt."""
    rows = [{**row, "n": label(row["n"])} for row in order_rows(frontier, numbering or Numbering())]
    x = alt.X("i:Q", title="changes adopted", axis=_whole_axis(len(rows) - 1))
    y = _aim_axis(frontier)
    base = alt.Chart(rows_of(rows)).encode(x=x, y=y)
    line = base.mark_line(interpolate="step-after", color=palette.current, strokeWidth=2)
    dots = base.mark_point(filled=True, size=70, color=palette.current, opacity=1).encode(
        tooltip=[alt.Tooltip("n:N", title="adopted"), alt.Tooltip("r:Q", title=label(frontier.aim), format=".6~r")]
    )
    return alt.layer(line, dots).properties(height=200)


def order_rows(frontier: Frontier, numbering: Numbering) -> Rows:
    """The current policy, then one row per adopted change."""
    ledger = frontier.ledger
    if ledger is None:
        return []
    names = {entry.change: numbering.named(entry) for entry in ledger.entries}
    steps = zip((names.get(change, change) for change in ledger.order), ledger.running, strict=False)
    now, sign = frontier.plans[0].expected_return if frontier.plans else frontier.current_return, frontier.sign
    alone = next((entry.alone for entry in ledger.entries if entry.change in ledger.order[:1]), None)
    if frontier.judged and alone is not None and ledger.running[0] is not None:
        now = ledger.running[0] - alone  # as the table tells it that tells the steps
    rows = [(name, None if value is None else sign * value) for name, value in steps]
    first = {"i": 0, "r": sign * now, "n": "current policy"}
    return [first, *({"i": i, "r": value, "n": name} for i, (name, value) in enumerate(rows, start=1))]


def adoption_chart(frontier: Frontier, palette: Palette, *, points: Sequence[AdoptionPoint] | None = None) -> Chart:
    """Expected return when each change is followed only some of the time."""
    drawn = frontier.best.adoption if points is None else points
    rows = [{"s": point.share, "r": frontier.sign * point.expected_return} for point in drawn]
    x = alt.X("s:Q", title="share of times the changes are followed", axis=alt.Axis(format="%", tickCount=5))
    y = _aim_axis(frontier)
    base = alt.Chart(rows_of(rows, name="adoption")).encode(x=x, y=y)
    now = alt.Chart(rows_of([{"r": frontier.sign * frontier.current_return}]))
    rule = now.mark_rule(color=palette.soft, strokeDash=[3, 3]).encode(y="r:Q")
    line = base.mark_line(color=palette.proposed, strokeWidth=2.5, point={"filled": True, "color": palette.proposed})
    return alt.layer(rule, line).properties(height=200)


def plan_spans(frontier: Frontier, pair: tuple[str, str]) -> tuple[Span, Span]:
    """The ranges of two features that show the changes of every plan."""
    features = {feature.name: feature for feature in frontier.world.features}
    rules = list({rule: None for plan in frontier.plans for rule in plan_boxes(plan)})
    return span_over(features[pair[0]], rules), span_over(features[pair[1]], rules)


def plan_boxes(plan: Plan) -> list[Rule]:
    """Where a plan changes decisions: its rules where it has them, else its edits."""
    return [entry.rule for entry in plan.rules] or [edit.rule for edit in plan.patch.changing]


def plan_boxes_chart(palette: Palette, pair: tuple[str, str], spans: tuple[Span, Span], rows: Rows) -> Chart:
    """Where a plan acts differently, over two features."""
    x = alt.X("x:Q", title=label(pair[0]), scale=alt.Scale(domain=list(spans[0]), nice=False), axis=_SPARSE)
    y = alt.Y("y:Q", title=label(pair[1]), scale=alt.Scale(domain=list(spans[1]), nice=False), axis=_SPARSE)
    base = alt.Chart(rows_of(rows, name="boxes")).encode(x=x, y=y)
    kinds = ["changes", "stays"]
    boxes = base.mark_rect(stroke=palette.proposed, strokeWidth=2, cornerRadius=2, clip=True).encode(
        x2="x2",
        y2="y2",
        fill=alt.Fill("f:N", scale=alt.Scale(domain=kinds, range=[palette.proposed, palette.surface]), legend=None),
        fillOpacity=alt.FillOpacity("f:O", scale=alt.Scale(domain=kinds, range=[0.22, 1.0]), legend=None),
        tooltip=[alt.Tooltip("t:N", title="change")],
    )
    tags = base.mark_text(align="left", baseline="top", dx=5, dy=5, fontWeight=600).encode(y="y2:Q", text="n:N")
    return alt.layer(boxes, tags).properties(height=300)


def plan_box_rows(
    plan: Plan, pair: tuple[str, str], spans: tuple[Span, Span], texts: Sequence[str], numbers: Sequence[str]
) -> Rows:
    """One rectangle per change of the plan that speaks about these two features and no other; the first lies on top."""
    rows = []
    for place, (rule, text) in enumerate(zip(plan_boxes(plan), texts, strict=True)):
        if is_drawn(rule, pair) or (plan.rules and not rule.conditions):  # which acts wherever none before it does
            x, y = side(rule, pair[0], spans[0]), side(rule, pair[1], spans[1])
            corners = {"x": x[0], "x2": x[1], "y": y[0], "y2": y[1]}
            stays = bool(plan.rules) and plan.rules[place].holds_back
            words = {"n": numbers[place] + ": nothing changes" * stays, "f": "stays" if stays else "changes"}
            rows.append({**corners, **words, "t": label(text, 100), "k": place})
    return rows[::-1]


def largest_differences(frontier: Frontier) -> dict[str, float]:
    """For each outcome the largest difference of any plan to doing nothing; 1 where none differs."""
    nothing = frontier.plans[0]
    return {
        name: max(abs(plan.outcomes[name].estimate - base.estimate) for plan in frontier.plans) or 1.0
        for name, base in nothing.outcomes.items()
    }


def plan_difference_rows(plan: Plan, frontier: Frontier, largest: dict[str, float]) -> Rows:
    """The difference of each outcome to doing nothing, as bars that one picture can hold and words in its own unit."""
    outcomes = {outcome.name: outcome for outcome in frontier.outcomes}
    return [
        {
            "g": label(verdict.outcome, 30),
            "n": order,
            **difference_row(replace(verdict, difference=verdict.difference.scaled(1 / largest[verdict.outcome]))),
            "t": label(
                bounds_text(
                    Interval.exactly(verdict.difference.estimate), outcomes.get(verdict.outcome), difference=True
                ).replace(" percentage points", " pp")
            ),
        }
        for order, verdict in enumerate(plan_verdicts(frontier, plan)[:MOST_OUTCOMES])
    ]


def plan_outcomes_chart(frontier: Frontier, palette: Palette, *, plan: Plan | None = None) -> Chart:
    """What one plan does to every outcome, against doing nothing; each bar is labelled in its own unit."""
    rows = plan_difference_rows(plan or frontier.best, frontier, largest_differences(frontier))
    data = rows_of(rows, "differences")
    y = alt.Y("g:N", sort=alt.EncodingSortField("n", op="min"), title=None, axis=alt.Axis(ticks=False, domain=False))
    x = alt.X("d:Q", axis=None, stack=None, scale=alt.Scale(domain=[-1.0, 3.0], clamp=True))
    base = alt.Chart(data).encode(y=y)
    zero = alt.Chart(rows_of([{"d": 0}])).mark_rule(color=palette.soft, strokeDash=[2, 2]).encode(x=x)
    color = alt.Color("v:N", scale=verdict_scale(palette), legend=None)
    bars = base.mark_bar(height={"band": 0.45}, cornerRadius=2).encode(x=x, color=color)
    words = base.mark_text(align="left", dx=6).encode(x=alt.XDatum(1.0, axis=None), text="t:N")
    return alt.layer(zero, bars, words).properties(height=max(1, len(rows)) * 30)
