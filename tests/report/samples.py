"""Hand-made results to draw: a plain one, plans, one from a log."""

from __future__ import annotations

import dataclasses
import math
from functools import cache

from polidiff.records.action import Action
from polidiff.records.explanation import (
    Arrow,
    Cell,
    Explanation,
    Feature,
    FormScore,
    Length,
    Methods,
    PathShare,
    Picture,
    Quality,
    Region,
    Sentence,
    Support,
    SwapShare,
    Tail,
    TradeoffPoint,
    Verdict,
    WorldSummary,
    WorseOff,
)
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.patch import Edit, Patch
from polidiff.records.plan import AdoptionPoint, Baseline, Frontier, HullPoint, Ledger, LedgerEntry, Plan, PlanRule
from polidiff.records.rule import Condition, Rule

EXACT = Interval.exactly


def box(
    x: tuple[float, float] | None = None, y: tuple[float, float] | None = None, names: tuple[str, str] = ("x", "y")
) -> Rule:
    """A rectangle over two features."""
    sides = [(names[0], 0, x), (names[1], 1, y)]
    return Rule(tuple(Condition(name, column, low=s[0], high=s[1]) for name, column, s in sides if s is not None))


def verdict(outcome: str, current: float, proposed: float, *, half: float = 0.0, valence: str | None = None) -> Verdict:
    """A verdict whose interval is the difference ± half."""
    gap = proposed - current
    interval = Interval(gap, gap - half, gap + half, 0.95) if half else EXACT(gap)
    if gap == 0 and half == 0:
        direction = "same"
    elif interval.low > 0 or interval.high < 0:
        direction = "more" if gap > 0 else "less"
    else:
        direction = "unknown"
    around = (lambda value: Interval(value, value - half, value + half, 0.95)) if half else EXACT
    return Verdict(
        outcome,
        direction,
        interval,
        interval,
        valence if direction in ("more", "less") else None,
        around(current),
        around(proposed),
    )


OUTCOMES = (
    Outcome("return", prefer="more", more="more reward", less="less reward"),
    Outcome("length", prefer="less", more="longer trajectory", less="shorter trajectory", unit="steps"),
    Outcome("stay in the middle band", prefer="less", unit="steps"),
)


def regions() -> tuple[Region, ...]:
    """The three regions of the second navigation proposal."""
    support = Support(states=412, episodes=1000, share=0.08)
    values = {"return": {"N": 5.0, "E": 12.0, "S": 1.0}, "length": {"N": 11.0, "E": 12.0, "S": 14.0}}
    return (
        Region(
            "S_1",
            box((0.0, 0.1), (0.2, 0.3)),
            "N",
            "E",
            support,
            1.0,
            0.99,
            swaps=(SwapShare("N", "E", 1.0),),
            action_values=values,
        ),
        Region(
            "S_3",
            box((0.1, 0.2), (0.3, 0.4)),
            "N",
            "S",
            Support(210, 480, 0.04),
            0.98,
            1.0,
            swaps=(SwapShare("N", "S", 1.0),),
            action_values=values,
        ),
        Region(
            "S_4",
            box((0.5, 0.6), (0.3, 0.4)),
            "E",
            "N",
            Support(199, 1000, 0.05),
            1.0,
            1.0,
            swaps=(SwapShare("E", "N", 1.0),),
            action_values=values,
        ),
    )


def sentences() -> tuple[Sentence, ...]:
    """Two groups that change and one that does not."""
    support = Support(500, 480, 0.5)
    low, high = Rule((Condition("x", 0, high=0.05),)), Rule((Condition("x", 0, low=0.05),))
    return (
        Sentence(
            low,
            0.48,
            ("S_1", "S_3", "S_4"),
            0.97,
            (
                verdict("return", 9.9895, 21.9905, half=0.4, valence="better"),
                verdict("length", 11.5, 12.5, half=0.2, valence="worse"),
                verdict("stay in the middle band", 9.5, 1.0, half=0.3, valence="better"),
            ),
            support,
            others=(PathShare(("S_1", "S_4"), 0.03),),
        ),
        Sentence(
            high,
            0.40,
            ("S_1", "S_4"),
            0.91,
            (
                verdict("return", 9.0, 14.0, half=0.4, valence="better"),
                verdict("length", 11.5, 11.6, half=0.2),
                verdict("stay in the middle band", 9.5, 5.5, half=0.3, valence="better"),
            ),
            Support(410, 400, 0.4),
        ),
        Sentence(
            Rule((Condition("y", 1, low=0.5),)),
            0.12,
            (),
            1.0,
            (verdict("return", 9.0, 9.0), verdict("length", 11.5, 11.5), verdict("stay in the middle band", 1.0, 1.0)),
            Support(120, 120, 0.1),
        ),
    )


def picture(cells: int = 20, names: tuple[str, str] = ("x", "y")) -> Picture:
    """Visits on a grid over the unit square, and two episodes of each policy."""
    step = 1 / cells
    found = regions()

    def region_at(x: float, y: float) -> str | None:
        for region in found:
            (lx, hx), (ly, hy) = ((c.low, c.high) for c in region.rule.conditions)
            if lx - 1e-9 <= x < hx - 1e-9 and ly - 1e-9 <= y < hy - 1e-9:
                return region.id
        return None

    grid = [
        Cell(
            (i + 0.5) * step,
            (j + 0.5) * step,
            50.0 * (1 + math.sin(i) ** 2) * math.exp(-abs(i - j) / cells * 3),
            region_at(i * step, j * step),
        )
        for i in range(cells)
        for j in range(cells)
    ]
    current = tuple((0.05, 0.05 + 0.1 * t) if t < 9 else (0.05 + 0.1 * (t - 8), 0.85) for t in range(18))
    proposed = tuple((0.05, 0.05 + 0.1 * t) if t < 3 else (0.05 + 0.1 * (t - 2), 0.25) for t in range(12))
    return Picture(*names, step, step, tuple(grid), (current, tuple((x + 0.02, y) for x, y in current)), (proposed,))


def methods() -> Methods:
    """Settings of a run."""
    versions = {"polidiff": "0.1.0", "numpy": "2.0.0", "python": "3.11"}
    return Methods("plain", 0.95, 0.1, 0.1, 0, 12, "10000 paired episodes", versions, {"stays.parquet": "sha256:0f3a"})


def quality() -> Quality:
    """A good explanation, compared with earlier forms."""
    length = Length(3, 3, 12, 8, 96)
    forms = (
        FormScore("polidiff", length, 0.99, 0.98, 1.0, 0.97),
        FormScore("paths and immediate effects", Length(14, 9, 20, 12, 260), 0.91, 0.66, 0.5, 0.55),
        FormScore("outcomes only", Length(1, 0, 0, 3, 22), 0.83, 0.0, 1.0, 0.95),
        FormScore("none", Length(0, 0, 0, 0, 0), 0.83, 0.0, None, 0.5),
    )
    return Quality(
        0.99,
        0.98,
        0.985,
        0.99,
        {"return": 0.998, "length": 1.0, "stay in the middle band": None},
        1.0,
        0.0,
        length,
        0.08,
        forms,
    )


@cache
def plain() -> Explanation:
    """A result in the shape of the navigation task."""
    features = (Feature("x", "number", 0.0, 1.0), Feature("y", "number", 0.0, 1.0))
    overall = (
        verdict("return", 9.9895, 21.9905, half=0.25, valence="better"),
        verdict("length", 11.5, 12.5, half=0.12, valence="worse"),
        verdict("stay in the middle band", 9.5, 1.0, half=0.2, valence="better"),
    )
    worse = (
        WorseOff("length", Rule((Condition("x", 0, high=0.05),)), 0.48, Interval(1.0, 0.8, 1.2, 0.95)),
        WorseOff("return", box((0.0, 0.05), (0.45, 0.5)), 0.02, Interval(-0.7, -1.1, -0.3, 0.95)),
    )
    return Explanation(
        regions(),
        sentences(),
        2.7,
        OUTCOMES,
        overall,
        worse,
        (Tail("return", 12.0, -0.4, 0.02), Tail("length", 1.0, 2.0, 0.48)),
        patch(),
        quality(),
        tuple(TradeoffPoint(k, 4 * k, f, k == 3) for k, f in enumerate((0.4, 0.8, 0.985, 0.99), start=1)),
        WorldSummary(
            "simulator",
            tuple(Action(a) for a in "NESW"),
            features,
            {"horizon": 100, "states visited": 20_000, "restore": "by copy"},
        ),
        methods(),
        ("2 % of episodes were cut at the horizon of 100 steps",),
        pictures=(picture(), picture(10)),
    )


def patch() -> Patch:
    """The regions as edits."""
    index = {name: place for place, name in enumerate("NESW")}
    edits = tuple(Edit(r.rule, index[r.current], index[r.proposed]) for r in regions())
    return Patch(edits, tuple("NESW"), ("x", "y"))


@cache
def chain() -> Explanation:
    """A small table: states instead of features, and a graph."""
    moves = [
        ("s0", "s1", "both"),
        ("s1", "s3", "current"),
        ("s1", "s2", "proposed"),
        ("s2", "s3", "both"),
        ("s3", "s4", "both"),
        ("s4", "s5", "both"),
        ("s5", "s7", "current"),
        ("s5", "s6", "proposed"),
        ("s6", "s7", "both"),
        ("s7", "s8", "both"),
        ("s8", "s9", "both"),
        ("s9", "s11", "both"),
        ("s10", "s11", "both"),
    ]
    at = lambda name: Rule((Condition("state", 0, values=(name,)),))  # noqa: E731
    support = Support(1, 6, 0.1)
    found = tuple(
        Region(f"S_{i}", at(name), "0", "1", support, 1.0, 1.0, states=(name,)) for i, name in enumerate(("s1", "s5"))
    )
    base = plain()
    told = (
        Sentence(
            at("s0"),
            2 / 11,
            ("S_0", "S_1"),
            1.0,
            (verdict("return", 5.0, 8.0, valence="better"), verdict("length", 7.5, 9.5, valence="worse")),
            Support(2, 2, 0.2),
            starts=("s0", "s1"),
        ),
        Sentence(
            at("s6"),
            5 / 11,
            (),
            1.0,
            (verdict("return", 5.0, 5.0), verdict("length", 3.0, 3.0)),
            Support(5, 5, 0.2),
            starts=("s6", "s7", "s8"),
        ),
    )
    world = WorldSummary(
        "table",
        (Action("0"), Action("1")),
        (Feature("state", "category", values=("s0", "s1")),),
        {"states": 12, "starts": 11},
    )
    arrows = tuple(Arrow(a, b, p, 1.0) for a, b, p in moves)
    return dataclasses.replace(
        base,
        regions=found,
        sentences=told,
        world=world,
        pictures=(),
        graph=arrows,
        worse_off=(),
        tails=(),
        warnings=(),
        verdicts=(verdict("return", 5.0, 6.8, valence="better"), verdict("length", 6.0, 7.0, valence="worse")),
    )


def plan(changes: float, value: float, edits: int, *, proven: bool = True, source: Patch | None = None) -> Plan:
    """The first few edits of a patch as a plan."""
    whole = source if source is not None else patch()
    some = Patch(whole.edits[:edits], whole.actions, whole.feature_names)
    outcomes = {
        "return": EXACT(value),
        "length": EXACT(11.5 + changes / 3),
        "stay in the middle band": EXACT(9.5 - 2.8 * changes),
    }
    bound = value if proven else value + 0.4
    adoption = tuple(AdoptionPoint(s / 10, 9.99 + (value - 9.99) * (s / 10) ** 2, {}) for s in range(11))
    return Plan(
        changes,
        value,
        outcomes,
        some,
        bound,
        (bound - value) / 12,
        proven,
        adoption=adoption,
        share=(value - 9.9895) / 12.001,
    )


@cache
def frontier() -> Frontier:
    """The plans of the navigation task."""
    plans = (plan(0, 9.9895, 0), plan(1, 14.9885, 1), plan(2, 21.9895, 2), plan(3, 21.9905, 3, proven=False))
    entries = (
        LedgerEntry("S_1: N → E", "S_1", "N", "E", 5.0, 7.0, Interval.exactly(6.0)),
        LedgerEntry("S_3: N → S", "S_3", "N", "S", 0.0, 7.0, Interval.exactly(5.5), needs=("S_1: N → E",)),
        LedgerEntry(
            "S_4: E → N", "S_4", "E", "N", -0.2, 0.001, Interval(0.5, 0.4, 0.6, 0.95), conflicts=("S_1: N → E",)
        ),
    )
    ledger = Ledger(entries, tuple(e.change for e in entries), (14.9885, 21.9895, 21.9905), True)
    baselines = (Baseline("policy iteration", ((0.0, 9.9895), (2.0, 16.9915), (3.0, 21.9905))),)
    hull = (HullPoint(0, 9.9895), HullPoint(2, 21.9895), HullPoint(3, 21.9905))
    base = plain()
    return Frontier(
        plans,
        hull,
        baselines,
        ledger,
        0.03,
        "expected",
        OUTCOMES,
        9.9895,
        21.9905,
        base.world,
        base.methods,
        ("S_2 was never visited with N: not offered",),
    )


def rule_frontier() -> Frontier:
    """Plans told as rules."""
    base = frontier()
    told = tuple(
        dataclasses.replace(
            p,
            rules=tuple(PlanRule(e.rule, "NESW"[e.proposed], 0.9, 1.0, p.expected_return - 3) for e in p.patch.edits),
            literals=4 * len(p.patch.edits),
        )
        for p in base.plans
    )
    return dataclasses.replace(base, plans=told, unit="rules")


def from_log(episodes: int = 4) -> Explanation:
    """A result from a log in which one region and one group are smaller than a report may show."""
    base = plain()
    small = Support(9, episodes, 0.001, unsupported=0.2)
    return dataclasses.replace(
        base,
        regions=(*base.regions[:2], dataclasses.replace(base.regions[2], support=small)),
        sentences=(
            dataclasses.replace(base.sentences[0], path=("S_1", "S_3")),
            dataclasses.replace(base.sentences[1], support=small),
            base.sentences[2],
        ),
        world=dataclasses.replace(base.world, kind="log", facts={"rows": 20_000, "episodes": 1_000}),
        pictures=tuple(dataclasses.replace(p, trajectories=(), proposed_trajectories=()) for p in base.pictures),
    )
