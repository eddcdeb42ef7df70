"""Where two policies differ: visits over two features, the regions as boxes, and a few episodes on top."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeAlias

import altair as alt

from polidiff.explanation.words import swap_text
from polidiff.records.explanation import Cell, Explanation, Feature, Picture, Region
from polidiff.records.rule import Rule
from polidiff.report.charts.theme import Chart, Palette, Row, Rows, rows_of
from polidiff.report.names import label

Span: TypeAlias = tuple[float, float]


def span_over(feature: Feature, rules: Iterable[Rule]) -> Span:
    """The range of a feature that shows all rules: what was seen, every bound, and room for sides that are open.

    >>> from polidiff.records.rule import Condition
    >>> span_over(Feature("x", "number", 0.0, 2.0), []), span_over(Feature("x", "number", 1.0, 1.0), [])
    ((0.0, 2.0), (0.5, 1.5))
    >>> span_over(Feature("x", "number", 0.0, 0.1), [Rule((Condition("x", 0, low=1.0),))])
    (0.0, 1.2)
    """
    least = feature.low if feature.low is not None and math.isfinite(feature.low) else 0.0
    most = feature.high if feature.high is not None and math.isfinite(feature.high) else least + 1.0
    seen = (least, most) if most > least else (least - 0.5, least + 0.5)
    conditions = [c for rule in rules for c in rule.conditions if c.feature == feature.name and c.values is None]
    bounds = [*seen, *(bound for c in conditions for bound in (c.low, c.high) if math.isfinite(bound))]
    low, high = min(bounds), max(bounds)
    room = 0.2 * (high - low)
    below = room if low < seen[0] and any(c.low == -math.inf for c in conditions) else 0.0
    above = room if high > seen[1] and any(c.high == math.inf for c in conditions) else 0.0
    return low - below, high + above


def side(rule: Rule, feature: str, span: Span) -> Span:
    """The part of one feature's range that a rule allows.

    >>> from polidiff.records.rule import Condition
    >>> side(Rule((Condition("x", 0, high=0.1),)), "x", (0.0, 1.0))
    (0.0, 0.1)
    """
    low, high = span
    for condition in rule.conditions:
        if condition.feature == feature and condition.values is None:
            low, high = max(low, condition.low), min(high, condition.high)
    return low, max(low, high)


def telling_pair(rules: Iterable[Rule], features: Sequence[Feature]) -> tuple[str, str] | None:
    """The two numeric features that most rules speak about and no other; None if no rule can be drawn so."""
    numeric = [feature.name for feature in features if feature.kind == "number"]
    spoken = Counter(frozenset(rule.features) for rule in rules if all(c.values is None for c in rule.conditions))
    parts = {pair: (pair, pair[:1], pair[1:]) for pair in combinations(numeric, 2)}
    drawn = {pair: sum(spoken[frozenset(part)] for part in own) for pair, own in parts.items()}
    pair = max(drawn, key=lambda names: drawn[names], default=None)
    return pair if pair is not None and drawn[pair] else None


def is_drawn(rule: Rule, pair: tuple[str, str]) -> bool:
    """Whether a rectangle over two features is all that a rule says."""
    return bool(rule.conditions) and {*rule.features} <= {*pair} and all(c.values is None for c in rule.conditions)


MOST_CELLS = 900
MOST_PAIRS = 3
OTHER = "other swaps"
_AXIS = alt.Axis(tickCount=6, grid=False)


def coarser(picture: Picture, most: int = MOST_CELLS) -> Picture:
    """The picture with neighbouring cells put together until at most `most` remain."""
    cells, factor = list(picture.cells), 1
    while len(cells) > most:
        factor *= 2
        cells = _merged(picture, factor)
    return replace(picture, x_step=picture.x_step * factor, y_step=picture.y_step * factor, cells=tuple(cells))


def _merged(picture: Picture, factor: int) -> list[Cell]:
    visits: dict[tuple[int, int], dict[str | None, float]] = defaultdict(lambda: defaultdict(float))
    left = min(cell.x for cell in picture.cells) - picture.x_step / 2
    below = min(cell.y for cell in picture.cells) - picture.y_step / 2
    wide, tall = picture.x_step * factor, picture.y_step * factor
    for cell in picture.cells:
        key = math.floor((cell.x - left) / wide), math.floor((cell.y - below) / tall)
        visits[key][cell.region] += cell.visits
    return [
        Cell(
            left + (column + 0.5) * wide,
            below + (row + 0.5) * tall,
            sum(by.values()),
            max(by, key=lambda region: (by[region], region is not None)),
        )
        for (column, row), by in sorted(visits.items())
    ]


def swap_colours(regions: Sequence[Region], palette: Palette) -> tuple[alt.Scale, dict[str, str]]:
    """One colour for each kind of swap, beyond six one for all others; and region id -> entry of the legend."""
    names = {region.id: label(swap_text(region, short=True)) for region in regions}
    kinds, most = list(dict.fromkeys(names.values())), len(palette.swaps)
    own = kinds if len(kinds) <= most else [*kinds[: most - 1], OTHER]
    scale = alt.Scale(domain=own, range=list(palette.swaps[: len(own)]))
    return scale, {key: name if name in own else OTHER for key, name in names.items()}


def regions_chart(explanation: Explanation, palette: Palette, *, picture: int = 0, most: int = MOST_CELLS) -> Chart:
    """Visits (grey where the policies agree, coloured by swap where they do not) under the outlines of the regions."""
    drawn = coarser(explanation.pictures[picture], most)
    scale, names = swap_colours(explanation.regions, palette)
    x, y = _axes(drawn, explanation)
    cells = _cell_rows(drawn, names)
    color = alt.Color("s:N", scale=scale, title=None)
    base = alt.Chart().encode(x=x, x2="x2", y=y, y2="y2")
    strength = alt.Opacity("o:Q", scale=alt.Scale(domain=[0, 1], range=[0.15, 0.75]), legend=None)
    square = base.transform_calculate(x2=f"datum.x + {drawn.x_step!r}", y2=f"datum.y + {drawn.y_step!r}")
    grey = square.mark_rect(color=palette.muted).encode(opacity=strength).properties(data=rows_of(cells[0]))
    coloured = square.mark_rect().encode(opacity=strength, color=color).properties(data=rows_of(cells[1]))
    outlines = box_rows(explanation, drawn, names)
    boxes = base.properties(data=rows_of(outlines)).mark_rect(filled=False, strokeWidth=2.5, cornerRadius=2)
    boxes = boxes.encode(color=color, tooltip=[alt.Tooltip("t:N", title="region")])
    places = tag_rows(outlines, *_limits(drawn, explanation))
    tags = alt.Chart(rows_of(places)).mark_text(
        align="left", baseline="top", dx=5, dy=5, fontWeight=600, color=palette.ink
    )
    return alt.layer(grey, coloured, boxes, tags.encode(x=x, y="y:Q", text="id:N")).properties(height=340)


def tag_rows(boxes: Rows, across: Span, along: Span) -> Rows:
    """Where the number of each box is written: at its upper left, or the next free place below; else nowhere."""
    wide, tall = 0.07 * (across[1] - across[0]), 0.08 * (along[1] - along[0])
    rows: list[Row] = []
    for box in boxes:
        steps = 1 + int(max(0.0, box["y2"] - box["y"]) / tall)
        for step in range(min(steps, 6)):
            place = {"x": box["x"], "y": box["y2"] - step * tall, "id": box["id"]}
            if all(abs(row["x"] - place["x"]) >= wide or abs(row["y"] - place["y"]) >= tall for row in rows):
                rows.append(place)
                break
    return rows


def trajectories_chart(explanation: Explanation, palette: Palette, *, picture: int = 0) -> Chart:
    """A few episodes of both policies from the same starts, over the regions."""
    drawn = explanation.pictures[picture]
    x, y = _axes(drawn, explanation)
    names = {region.id: label(swap_text(region, short=True)) for region in explanation.regions}
    rows = [
        {"x": _short(point[0]), "y": _short(point[1]), "n": f"{policy}{number}", "i": step, "p": policy}
        for policy, paths in (("current", drawn.trajectories), ("proposed", drawn.proposed_trajectories))
        for number, path in enumerate(paths[:MOST_PAIRS], start=1)
        for step, point in enumerate(path)
    ]
    policies = ["current", "proposed"]
    scales = [alt.Scale(domain=policies, range=of) for of in ([palette.current, palette.proposed], [[5, 3], [1, 0]])]
    color, dash = (
        alt.Color("p:N", scale=scales[0], title="policy"),
        alt.StrokeDash("p:N", scale=scales[1], title="policy"),
    )
    lines = (
        alt.Chart(rows_of(rows))
        .mark_line(strokeWidth=2, opacity=0.8, interpolate="linear")
        .encode(x=x, y=y, color=color, strokeDash=dash, detail="n:N", order="i:Q")
    )
    begun = rows_of([row for row in rows if row["i"] == 0 and row["p"] == "current"])
    starts = alt.Chart(begun).mark_point(filled=True, size=70, color=palette.ink).encode(x=x, y=y)
    boxes = (
        alt.Chart(rows_of(box_rows(explanation, drawn, names)))
        .mark_rect(color=palette.muted, fillOpacity=0.18, stroke=palette.muted, strokeWidth=1.5, cornerRadius=2)
        .encode(x=x, x2="x2", y=y, y2="y2")
    )
    return alt.layer(boxes, lines, starts).properties(height=340)


def box_rows(explanation: Explanation, picture: Picture, names: dict[str, str]) -> Rows:
    """One rectangle per region whose rule speaks about the picture's two features and no other."""
    across, along = _limits(picture, explanation)
    rows = []
    for region in explanation.regions:
        if not set(region.rule.features) <= {picture.x, picture.y}:
            continue
        x, y = side(region.rule, picture.x, across), side(region.rule, picture.y, along)
        tip = label(f"{region.id}: {swap_text(region, short=True)}", 80)
        rows.append(
            {"x": x[0], "x2": x[1], "y": y[0], "y2": y[1], "id": label(region.id, 12), "s": names[region.id], "t": tip}
        )
    return rows


def _cell_rows(picture: Picture, names: dict[str, str]) -> tuple[Rows, Rows]:
    most = max((cell.visits for cell in picture.cells), default=1.0) or 1.0
    grey, coloured = [], []
    for cell in picture.cells:
        left, below = cell.x - picture.x_step / 2, cell.y - picture.y_step / 2
        row = {"x": _short(left), "y": _short(below), "o": round(math.sqrt(cell.visits / most), 2)}
        if cell.region in names:
            coloured.append({**row, "s": names[cell.region]})
        else:
            grey.append(row)
    return grey, coloured


def _short(number: float) -> float:
    return float(f"{number:.6g}")


def _limits(picture: Picture, explanation: Explanation) -> tuple[Span, Span]:
    """Range of both axes: everything seen, never less than the cells."""
    seen = {feature.name: (feature.low, feature.high) for feature in explanation.world.features}

    def limits(name: str, centres: list[float], step: float) -> Span:
        cells = (edge for centre in centres for edge in (centre - step / 2, centre + step / 2))
        finite = [edge for edge in (*cells, *seen.get(name, ())) if edge is not None and math.isfinite(edge)]
        return (min(finite), max(finite)) if finite and max(finite) > min(finite) else (0.0, 1.0)

    across = limits(picture.x, [cell.x for cell in picture.cells], picture.x_step)
    return across, limits(picture.y, [cell.y for cell in picture.cells], picture.y_step)


def _axes(picture: Picture, explanation: Explanation) -> tuple[alt.X, alt.Y]:
    across, along = _limits(picture, explanation)
    x = alt.X("x:Q", title=label(picture.x), scale=alt.Scale(domain=list(across), nice=False, zero=False), axis=_AXIS)
    y = alt.Y("y:Q", title=label(picture.y), scale=alt.Scale(domain=list(along), nice=False, zero=False), axis=_AXIS)
    return x, y
