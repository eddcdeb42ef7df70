"""Figures 2, 4 and 7: the chain as a graph, with the moves that a policy makes.

The detours over s2 and s6 lie above the straight way. Places are in units of equal length in both directions, so that
the heads of the arrows point along their lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt

from polidiff.domains.chain import AFTER_0, AFTER_1, DESIRED, current, proposed
from polidiff.explanation.words import listing
from polidiff.paper.figures.figure import Figure, Panel
from polidiff.paper.runs import Runs
from polidiff.records.arrays import IntArray
from polidiff.records.plan import Plan
from polidiff.report.charts.theme import Chart, Palette, Row, Rows, rows_of
from polidiff.report.tables import Table

PLACES = (
    (0.0, 0.0),
    (1.0, 0.0),
    (1.5, 0.87),
    (2.0, 0.0),
    (3.0, 0.0),
    (4.0, 0.0),
    (4.5, 0.87),
    (5.0, 0.0),
    (6.0, 0.0),
    (6.87, 0.5),
    (6.87, -0.5),
    (7.74, 0.0),
)
END = 11
UNIT = 54  # pixels
RADIUS = 0.26
X_RANGE, Y_RANGE = (-0.4, 8.35), (-0.85, 1.3)
REWARDS = {(1, 2): "+1", (5, 6): "+3", (9, 11): "+5 for 0", (10, 11): "+5 for 0"}
NOTE = "Red: the current policy's moves. Blue: changed moves. Dashed: moves not made. Ringed: desired states."


def figure_2(runs: Runs, palette: Palette) -> Figure:
    """The chain and both policies."""
    panels = (
        Panel(
            "(a) The task: arrows name their action where the two actions lead apart",
            _definition(palette),
        ),
        Panel("(b) Current policy: action 0 everywhere", _policy_graph(current(), palette)),
        Panel("(c) Proposed policy: action 1 in s0, s1 and s5", _policy_graph(proposed(), palette)),
    )
    rows = tuple((f"s{s}", str(current()[s]), str(proposed()[s]), _differs(runs, s)) for s in range(END))
    return Figure(
        2,
        "the chain and its two policies",
        "Twelve states in a row with detours over s2 and s6; the proposed policy takes both detours.",
        f"{NOTE} s0 acts differently too, but both actions lead to s1: it does not diverge.",
        panels,
        Table(("state", "current action", "proposed action", "diverges"), rows),
    )


def _differs(runs: Runs, state: int) -> str:
    return "yes" if any(f"s{state}" in region.states for region in runs.chain.plain.regions) else ""


def figure_4(runs: Runs, palette: Palette) -> Figure:
    """The best plans for budgets of 2, 6 and 8 changes."""
    plans = [runs.chain.frontier.at(budget) for budget in (2, 6, 8)]
    base = runs.chain.frontier[0].expected_return
    steps = [(plan.changes, changed_states(plan), 11 * (plan.expected_return - base)) for plan in plans]
    panels = tuple(
        Panel(
            f"({letter}) κ = {cost:g}: change {listing(_names(states))}, return {gain:+g} over all starts",
            _policy_graph(_with_changes(states), palette),
        )
        for letter, (cost, states, gain) in zip("abc", steps, strict=True)
    )
    rows = tuple((f"{cost:g}", ", ".join(_names(states)), f"{gain:+.3f}") for cost, states, gain in steps)
    return Figure(
        4,
        "the best plan for each number of changes",
        "Two changes pay at s1, six at s5, eight at both.",
        f"{NOTE} κ counts changed decisions, summed over the eleven starts.",
        panels,
        Table(("κ", "changed states", "return over all starts"), rows),
    )


def changed_states(plan: Plan) -> tuple[int, ...]:
    """States of the chain that a plan changes."""
    return tuple(sorted(state for edit in plan.patch.edits for state in edit.states or ()))


def _names(states: Sequence[int]) -> list[str]:
    return [f"s{state}" for state in states]


def _with_changes(states: Sequence[int]) -> IntArray:
    actions = current()
    actions[list(states)] = 1
    return actions


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
        "Each arrow names its action, then its reward if it is not −0.001. Unnamed: both actions. An episode starts in "
        "s0 … s10, each as likely, and ends in s11. The paper's own drawing of the moves is missing; this one agrees "
        "with all of its text.",
        (Panel("Moves and rewards", _definition(palette)),),
        Table(("state", "action 0 leads to", "action 1 leads to", "reward of 0", "reward of 1", ""), rows),
    )


def _reward(state: int, action: int) -> str:
    paid = {(1, 1): "1", (5, 1): "3", (9, 0): "5", (10, 0): "5"}
    return paid.get((state, action), "−0.001")


def _definition(palette: Palette) -> Chart:
    moves = {(s, t) for after in (AFTER_0, AFTER_1) for s, t in enumerate(after)}
    rows = [_arrow(s, t, palette.soft) for s, t in sorted(moves)]
    labels = [_label(s, t, _move_name(s, t)) for s, t in sorted(moves)]
    return _graph(rows, [], [row for row in labels if row["t"]], palette)


def _move_name(state: int, target: int) -> str:
    reward = REWARDS.get((state, target), "")
    if AFTER_0[state] == AFTER_1[state]:
        return reward
    action = "0" if AFTER_0[state] == target else "1"
    return f"{action}: {reward}" if reward else action


def _policy_graph(actions: IntArray, palette: Palette) -> Chart:
    made, left = [], []
    for state in range(END):
        taken, other = (AFTER_1[state], AFTER_0[state]) if actions[state] else (AFTER_0[state], AFTER_1[state])
        made.append(_arrow(state, taken, palette.proposed if actions[state] and taken != other else palette.current))
        left += [_arrow(state, other, palette.muted)] if taken != other else []
    return _graph(made, left, [_label(s, t, text) for (s, t), text in REWARDS.items()], palette)


def _arrow(state: int, target: int, color: str) -> Row:
    (x, y), (x2, y2) = PLACES[state], PLACES[target]
    length = math.hypot(x2 - x, y2 - y)
    along, up = (x2 - x) / length, (y2 - y) / length
    return {
        "x": round(x + RADIUS * along, 3),
        "y": round(y + RADIUS * up, 3),
        "x2": round(x2 - (RADIUS + 0.08) * along, 3),
        "y2": round(y2 - (RADIUS + 0.08) * up, 3),
        "a": round(90 - math.degrees(math.atan2(up, along)), 1),
        "c": color,
    }


def _label(state: int, target: int, text: str) -> Row:
    """Text beside the middle of a move: left of the detours, above a level move, outside the last four."""
    (x, y), (x2, y2) = PLACES[state], PLACES[target]
    if target in DESIRED:
        aside, lift, align = -0.12, 0.1, "right"
    elif y == y2:
        aside, lift, align = 0.0, 0.14, "center"
    else:
        lift = 0.26 if max(y, y2) > 0 else -0.26
        aside, align = (-0.1, "right") if state == 8 else (0.05, "left")
    return {"x": (x + x2) / 2 + aside, "y": (y + y2) / 2 + lift, "t": text, "al": align}


def _graph(made: Rows, left: Rows, labels: Rows, palette: Palette) -> Chart:
    x = alt.X("x:Q", scale=alt.Scale(domain=X_RANGE, nice=False), axis=None)
    y = alt.Y("y:Q", scale=alt.Scale(domain=Y_RANGE, nice=False), axis=None)
    color = alt.Color("c:N", scale=None)
    move = {"x": x, "y": y, "x2": "x2", "y2": "y2", "color": color}
    tip = {"x": alt.X("x2:Q", axis=None), "y": alt.Y("y2:Q", axis=None), "angle": alt.Angle("a:Q", scale=None)}
    layers = [
        alt.Chart(rows_of(left)).mark_rule(strokeWidth=1.2, strokeDash=[3, 3]).encode(**move),
        alt.Chart(rows_of(made)).mark_rule(strokeWidth=2.2).encode(**move),
        alt.Chart(rows_of([*left, *made]))
        .mark_point(shape="triangle", filled=True, size=60, opacity=1)
        .encode(color=color, **tip),
        *_nodes(x, y, palette),
        *(
            alt.Chart(rows_of([row for row in labels if row["al"] == align]))
            .mark_text(align=align, baseline="middle", fontSize=12, fontWeight=600, color=palette.better)
            .encode(x=x, y=y, text="t:N")
            for align in ("left", "center", "right")
        ),
    ]
    wide, tall = (UNIT * (high - low) for low, high in (X_RANGE, Y_RANGE))
    return alt.layer(*layers).properties(width=wide, height=tall)


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
