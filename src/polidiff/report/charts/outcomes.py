"""Differences of outcomes, the order in which regions are met, strips of decisions and the graph of a small table."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

import altair as alt

from polidiff.explanation.said import MARKS, tone_of
from polidiff.records.explanation import Arrow, Explanation, Verdict
from polidiff.report.charts.regions import MOST_PAIRS, swap_colours
from polidiff.report.charts.theme import WIDTH, Chart, Palette, Row, Rows, rows_of
from polidiff.report.names import label
from polidiff.report.view import group_verdicts

MOST_GROUPS = 12
READINGS = [*MARKS]


def difference_rows(explanation: Explanation, outcome: str) -> Rows:
    """One row for all starts, then one for each sentence."""
    groups = group_verdicts(explanation, outcome)[: MOST_GROUPS + 1 if len(explanation.sentences) > 1 else 1]
    return [
        {"g": group, "n": order, **difference_row(verdict)}
        for order, (group, verdict) in enumerate(groups)
        if math.isfinite(verdict.difference.estimate)
    ]


def difference_row(verdict: Verdict) -> Row:
    """The difference of one verdict; bounds that are not finite are left out, so that the axis stays readable."""
    difference = verdict.difference
    return {
        "d": difference.estimate,
        "l": difference.low if math.isfinite(difference.low) else None,
        "h": difference.high if math.isfinite(difference.high) else None,
        "v": tone_of(verdict),
    }


def verdict_scale(palette: Palette) -> alt.Scale:
    """Colours of the five readings of a difference."""
    colours = [palette.better, palette.worse, palette.current, palette.soft, palette.muted]
    return alt.Scale(domain=READINGS, range=colours)


def outcome_chart(explanation: Explanation, palette: Palette, *, outcome: str) -> Chart:
    """One outcome for all starts and for each group: differences as dots, their intervals as lines."""
    of = next((o for o in explanation.outcomes if o.name == outcome), None)
    unit = f" ({label(of.unit, 20)})" if of is not None and of.unit else ""
    rows = difference_rows(explanation, outcome)
    if of is not None and of.is_share:
        unit = " (percentage points)"
        rows = [{**row, **{k: row[k] and 100 * row[k] for k in "dlh"}} for row in rows]
    y = alt.Y("g:N", sort=alt.EncodingSortField("n", op="min"), title=None, axis=alt.Axis(ticks=False, domain=False))
    color = alt.Color("v:N", scale=verdict_scale(palette), legend=None)
    axis, title = alt.Axis(tickCount=5), f"proposed − current{unit}"
    shapes = alt.Scale(domain=READINGS, range=["triangle-up", "triangle-down", "diamond", "circle", "cross"])
    tips = [("d:Q", "difference"), ("l:Q", "low"), ("h:Q", "high")]
    tooltip = [alt.Tooltip(key, title=name, format=".4~r") for key, name in tips]
    base = alt.Chart(rows_of(rows)).encode(y=y, color=color)
    zero = alt.Chart(rows_of([{"z": 0}])).mark_rule(color=palette.soft, strokeDash=[2, 2]).encode(x="z:Q")
    lines = base.mark_rule(strokeWidth=3, strokeCap="round").encode(x=alt.X("l:Q", title=title, axis=axis), x2="h:Q")
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=alt.X("d:Q", title=title, axis=axis),
        shape=alt.Shape("v:N", scale=shapes, legend=None),
        tooltip=[*tooltip, alt.Tooltip("v:N", title="reading")],
    )
    return alt.layer(zero, lines, dots).properties(height=max(1, len(rows)) * 26)


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


OTHER_ACTIONS = "other actions"
NODE_RADIUS = 16.0  # pixels between the head of an arrow and its state
MOST_MOVES = 6  # per state; of more, arrows hide each other


def paths_chart(explanation: Explanation, palette: Palette) -> Chart:
    """One row per group of starts: the regions its episodes meet, in order."""
    scale, names = swap_colours(explanation.regions, palette)
    rows = path_rows(explanation, names)
    groups = [f"Group {n}" for n in range(1, min(len(explanation.sentences), MOST_GROUPS) + 1)]
    x = alt.X("i:O", title="order of meeting", axis=alt.Axis(labelAngle=0, domain=False, ticks=False))
    y = alt.Y("g:N", scale=alt.Scale(domain=groups), title=None, axis=alt.Axis(domain=False, ticks=False))
    base = alt.Chart(rows_of(rows)).encode(x=x, y=y)
    color = alt.Color("s:N", scale=scale, title=None)
    tiles = base.mark_rect(cornerRadius=4, opacity=0.35).encode(color=color)
    return alt.layer(tiles, base.mark_text(fontWeight=600).encode(text="r:N")).properties(height=30 * len(groups))


def path_rows(explanation: Explanation, names: dict[str, str]) -> Rows:
    """One row per group and place in its path."""
    return [
        {"g": f"Group {number}", "i": place, "r": label(region, 12), "s": names.get(region, "")}
        for number, sentence in enumerate(explanation.sentences[:MOST_GROUPS], start=1)
        for place, region in enumerate(sentence.path, start=1)
    ]


def strip_chart(explanation: Explanation, palette: Palette) -> Chart:
    """What both policies do, decision by decision, from a few shared starts."""
    rows = strip_rows(explanation)
    taken = Counter[str]()
    for row in rows:
        taken[row["a"]] += row["j"] - row["i"]
    most = len(palette.swaps)
    names = [name for name, _ in taken.most_common()]
    known = names if len(names) <= most else names[: most - 1]
    rows = [{**row, "a": row["a"] if row["a"] in known else OTHER_ACTIONS} for row in rows]
    domain = [*known, *([OTHER_ACTIONS] if len(known) < len(names) else [])]
    axis = alt.Axis(tickCount=6, tickMinStep=1, grid=False)
    x = alt.X("i:Q", title="decision", axis=axis, scale=alt.Scale(nice=False))
    y = alt.Y("g:N", sort=None, title=None, axis=alt.Axis(domain=False, ticks=False))
    color = alt.Color("a:N", scale=alt.Scale(domain=domain, range=list(palette.swaps[: len(domain)])), title=None)
    tiles = alt.Chart(rows_of(rows)).mark_rect(opacity=0.75).encode(x=x, x2="j:Q", y=y, color=color)
    return tiles.properties(height=26 * 2 * len(explanation.episodes[:MOST_PAIRS]))


def strip_rows(explanation: Explanation) -> Rows:
    """One row per stretch of the same action."""
    rows = []
    for number, pair in enumerate(explanation.episodes[:MOST_PAIRS], start=1):
        for policy, actions in (("current", pair.current), ("proposed", pair.proposed)):
            for action, steps in groupby(enumerate(actions), key=lambda entry: entry[1]):
                places = [place for place, _ in steps]
                stretch = {"i": places[0], "j": places[-1] + 1, "a": label(action)}
                rows.append({"g": f"start {number}, {policy}", **stretch})
    return rows


def draws_graph(explanation: Explanation) -> bool:
    """Whether a table is small and its moves are few enough to be told apart in a picture."""
    states = {name for arrow in explanation.graph for name in (arrow.source, arrow.target)}
    return 0 < len(explanation.graph) <= MOST_MOVES * len(states)


def graph_chart(explanation: Explanation, palette: Palette) -> Chart:
    """States as dots in the order they are reached; moves of the current policy, of the proposed one, of both."""
    places = layout(explanation.graph)
    policies = ["both", "current", "proposed"]
    scale = alt.Scale(domain=policies, range=[palette.muted, palette.current, palette.proposed])
    color = alt.Color("p:N", scale=scale, title="moves of")
    height = min(420, 110 + 60 * math.ceil(_spread_of([y for _, y in places.values()])))
    moves = move_rows(explanation.graph, places, height)
    width = alt.StrokeWidth("w:Q", scale=alt.Scale(domain=[0, 1], range=[0.8, 2.6]), legend=None)
    room = alt.Scale(padding=24, zero=False, nice=False)
    x, y = alt.X("x:Q", scale=room, axis=None), alt.Y("y:Q", scale=room, axis=None)
    tip = {"x": alt.X("x2:Q", axis=None), "y": alt.Y("y2:Q", axis=None), "angle": alt.Angle("a:Q", scale=None)}
    lines = alt.Chart(rows_of(moves)).mark_rule().encode(x=x, y=y, x2="x2", y2="y2", color=color, strokeWidth=width)
    heads = alt.Chart(rows_of(moves)).mark_point(shape="triangle", filled=True, size=50, opacity=1)
    nodes = alt.Chart(rows_of(node_rows(explanation, places))).encode(x=x, y=y)
    fill = alt.Scale(domain=["differs", "same"], range=[palette.proposed, palette.soft])
    dots = nodes.mark_point(filled=True, size=130, opacity=1).encode(
        fill=alt.Fill("d:N", scale=fill, legend=None), tooltip=[alt.Tooltip("n:N", title="state")]
    )
    halo = nodes.mark_text(dy=-15, stroke=palette.surface, strokeWidth=5, strokeJoin="round").encode(text="n:N")
    tags = nodes.mark_text(dy=-15).encode(text="n:N")
    return alt.layer(lines, heads.encode(color=color, **tip), halo, dots, tags).properties(height=height)


def layout(arrows: Sequence[Arrow]) -> dict[str, tuple[float, float]]:
    """Each state at (moves from the first states, place within that column), columns centred.

    >>> layout([Arrow("a", "b", "both", 1.0), Arrow("a", "c", "proposed", 1.0)])
    {'a': (0.0, 0.0), 'b': (1.0, 0.5), 'c': (1.0, -0.5)}
    """
    depth = _depths(arrows)
    columns: dict[int, list[str]] = defaultdict(list)
    for state, column in depth.items():
        columns[column].append(state)
    return {
        state: (float(column), (len(states) - 1) / 2 - row)
        for column, states in sorted(columns.items())
        for row, state in enumerate(states)
    }


def _depths(arrows: Sequence[Arrow]) -> dict[str, int]:
    names = list(dict.fromkeys(name for arrow in arrows for name in (arrow.source, arrow.target)))
    entered = {arrow.target for arrow in arrows if arrow.source != arrow.target}
    following: dict[str, list[str]] = defaultdict(list)
    for arrow in arrows:
        following[arrow.source].append(arrow.target)
    depth: dict[str, int] = {}
    roots = [name for name in names if name not in entered] or names[:1]
    for root in roots + names:  # a loop that nothing enters has no root of its own
        queue = deque([(root, 0)])
        while queue:
            state, column = queue.popleft()
            if state not in depth:
                depth[state] = column
                queue.extend((target, column + 1) for target in following[state])
    for root in roots:  # a late entry stands beside the others of its column, not at the far left
        depth[root] = max(0, min((depth[target] for target in following[root]), default=1) - 1)
    return depth


def _spread_of(values: Sequence[float]) -> float:
    return max(values, default=0.0) - min(values, default=0.0)


def move_rows(arrows: Iterable[Arrow], places: dict[str, tuple[float, float]], height: float = 200.0) -> Rows:
    """One line per move, shortened so that its head stays clear of the dot; lengths and angles as they are drawn."""
    wide = WIDTH / (_spread_of([x for x, _ in places.values()]) or 1.0)
    tall = height / (_spread_of([y for _, y in places.values()]) or 1.0)
    rows = []
    lines: dict[tuple[str, str], Arrow] = {}  # a move that both policies make, even with other chances, is one line
    for arrow in arrows:
        ends = arrow.source, arrow.target
        lines[ends] = replace(arrow, policy="both") if ends in lines else arrow
    for arrow in lines.values():
        (x, y), (x2, y2) = places[arrow.source], places[arrow.target]
        across, up = (x2 - x) * wide, (y2 - y) * tall
        if not (across or up):
            continue
        reach = max(0.5, 1 - NODE_RADIUS / math.hypot(across, up))
        angle = 90 - math.degrees(math.atan2(up, across))
        tip = {"x2": x + (x2 - x) * reach, "y2": y + (y2 - y) * reach, "a": round(angle, 1)}
        rows.append({"x": x, "y": y, **tip, "p": arrow.policy, "w": arrow.probability})
    return rows


def node_rows(explanation: Explanation, places: dict[str, tuple[float, float]]) -> Rows:
    """One dot per state; those in a region stand out."""
    changed = {state for region in explanation.regions for state in region.states}
    return [
        {"x": x, "y": y, "n": label(state, 14), "d": "differs" if state in changed else "same"}
        for state, (x, y) in places.items()
    ]
