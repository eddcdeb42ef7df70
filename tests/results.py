"""Random results for laws: explanations and frontiers of any kind of world, with small groups and hostile numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Literal

import numpy as np
from hypothesis import strategies as st

from polidiff.records.action import Action
from polidiff.records.explanation import (
    FOLLOWED,
    Arrow,
    Cell,
    Explanation,
    Feature,
    Length,
    Meeting,
    Methods,
    PathShare,
    Picture,
    Quality,
    Region,
    SampledState,
    Sentence,
    Support,
    SwapShare,
    Tail,
    Verdict,
    WorldSummary,
    WorseOff,
)
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.patch import Edit, Patch
from polidiff.records.plan import Frontier, HullPoint, Ledger, LedgerEntry, Plan, PlanRule
from polidiff.records.rule import Condition, Rule
from polidiff.report.page import page_html

Kind = Literal["table", "simulator", "log"]
SEEDS = st.integers(0, 2**32 - 1)
ACTIONS = ("wait", "treat", "send home")
COMMON, RARE = tuple(f"place {k}" for k in range(6)), ("RAREname", "RAREtown")
EPISODES = 1000
STRENGTHS = (math.inf, 1.004, 1.3, 5.0)  # of unrecorded reasons that would undo a verdict


class Draw:
    """Parts of a random result."""

    def __init__(self, seed: int, kind: Kind, *, named: bool) -> None:
        self.rng = np.random.default_rng(seed)
        self.kind, self.named = kind, named
        self.outcomes = (
            Outcome("return", prefer="more"),
            Outcome("hours", prefer="less", unit="hours", more="more hours", less="fewer hours"),
            Outcome("share", prefer=None, range=(0.0, 1.0)),
        )[: int(self.rng.integers(1, 4))]

    def chance(self, p: float = 0.5) -> bool:
        return bool(self.rng.random() < p)

    def several(self, most: int) -> range:
        return range(int(self.rng.integers(0, most + 1)))

    def share(self) -> float:
        return float(self.rng.choice([0.0, 0.003, 0.009, 0.01, 0.2, 0.5, 1.0]))

    def number(self) -> float:
        return float(self.rng.choice([0.0, -1.0, 1.0, 2.5, -0.0301, 1e-9, 12345.6]))

    def interval(self) -> Interval:
        if self.chance(0.3):
            return Interval.exactly(self.number())
        middle, half = self.number(), abs(self.number())
        low, high = middle - half, middle + half
        low = -math.inf if self.chance(0.1) else low
        return Interval(middle, low, math.inf if self.chance(0.1) else high, 0.95)

    def rule(self) -> Rule:
        if self.named:
            names = self.rng.choice([*COMMON, *RARE], size=int(self.rng.integers(1, 4)), replace=False)
            return Rule((Condition("state", 0, values=tuple(str(name) for name in names)),))
        low = float(self.rng.choice([-math.inf, 0.25, 0.5]))
        sides = [Condition("age", 0, low=low, high=0.75)]
        if self.chance(0.3):
            names = self.rng.choice([*COMMON, *RARE], size=2, replace=False)
            sides.append(Condition("town", 1, values=tuple(str(name) for name in names)))
        return Rule(tuple(sides))

    def names(self) -> tuple[str, ...]:
        return tuple(str(n) for n in self.rng.choice([*COMMON, *RARE], size=2, replace=False)) if self.named else ()

    def support(self) -> Support:
        return Support(int(self.rng.integers(1, 50)), int(self.rng.choice([0, 3, 9, 10, 200])), self.share(), None)

    def pair(self) -> tuple[str, str]:
        one, other = self.rng.choice(ACTIONS, size=2, replace=False)
        return str(one), str(other)

    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(self.verdict(outcome) for outcome in self.outcomes)

    def verdict(self, outcome: Outcome) -> Verdict:
        interval = self.interval()
        direction = "more" if interval.low > 0 else "less" if interval.high < 0 else "unknown"
        direction = "same" if interval.low == interval.high == 0 else direction
        valence = None
        if direction in ("more", "less") and outcome.prefer is not None:
            valence = "better" if direction == outcome.prefer else "worse"
        where = self.rng.choice([*COMMON, *RARE])
        note = f"nobody has tried 'treat' in {str(where)!r}" if direction == "unknown" else None
        sides = self.interval(), self.interval()
        decided = self.kind == "log" and direction in ("more", "less")
        strength = STRENGTHS[round(1000 * abs(sides[0].estimate)) % len(STRENGTHS)] if decided else None
        return Verdict(outcome.name, direction, interval, interval, valence, *sides, note=note, holds_up_to=strength)

    def region(self, k: int) -> Region:
        current, proposed = self.pair()
        swaps = (SwapShare(current, proposed, 0.97), SwapShare(proposed, current, 0.03))
        values = {o.name: {action: self.number() for action in ACTIONS} for o in self.outcomes}
        return Region(
            f"S{k + 1}", self.rule(), current, proposed, self.support(), self.share(), self.share(),
            swaps=swaps, states=self.names(), action_values=values,
        )  # fmt: skip

    def sentence(self, ids: list[str]) -> Sentence:
        path = tuple(str(i) for i in self.rng.choice(ids, size=2)) if ids and self.chance() else ()
        meetings = tuple(Meeting(i, self.share(), 2.0) for i in ids) if ids and not path and self.chance() else ()
        others = (PathShare(tuple(ids[:2]), self.share()),) if ids and self.chance() else ()
        start = self.rule() if self.chance(0.7) else None
        also = (self.rule(),) if start is not None and self.chance(0.3) else ()
        starts = self.names() if start is not None else ()
        return Sentence(
            start, self.share(), path, 0.9, self.verdicts(), self.support(),
            also=also, others=others, meetings=meetings, starts=starts,
        )  # fmt: skip

    def features(self) -> tuple[Feature, ...]:
        if self.named:
            return (Feature("state", "category", values=(*COMMON, *RARE)),)
        return (Feature("age", "number", 0.0, 93.25), Feature("town", "category", values=(*COMMON, *RARE)))

    def world(self) -> WorldSummary:
        people = {**dict.fromkeys(COMMON, 300), **dict.fromkeys(RARE, 2)}
        by_feature = {("state" if self.named else "town"): people} if self.kind == "log" else {}
        facts = {"rows": EPISODES * (1 if self.chance() else 3), "episodes": EPISODES}
        facts |= {FOLLOWED: 19_936} if self.kind == "table" else {}
        return WorldSummary(self.kind, tuple(map(Action, ACTIONS)), self.features(), facts, by_feature)

    def methods(self) -> Methods:
        return Methods("plain", 0.95, 0.1, 0.1, 0, 3, "careful intervals")

    def picture(self, ids: list[str]) -> Picture:
        cells = tuple(
            Cell(0.1 * k, 0.1, float(self.rng.choice([0.5, 3.0, 400.0])), str(self.rng.choice(ids)) if ids else None)
            for k in range(5)
        )
        return Picture("age", "dose", 0.1, 0.1, cells)

    def edit(self, rule: Rule) -> Edit:
        return Edit(rule, 0, 1)

    def warnings(self) -> tuple[str, ...]:
        return ("the log shows no way to an end from 'RAREname'",) if self.chance() else ()


def explanation(seed: int, kind: Kind = "log", *, named: bool = False) -> Explanation:
    """A random explanation; of a log it names people it must not name."""
    draw = Draw(seed, kind, named=named)
    regions = tuple(draw.region(k) for k in draw.several(4))
    ids = [region.id for region in regions]
    sentences = tuple(draw.sentence(ids) for _ in draw.several(4))
    worse = tuple(
        WorseOff(draw.outcomes[0].name, draw.rule(), draw.share(), draw.interval(), draw.names())
        for _ in draw.several(3)
    )
    log = kind == "log"
    return Explanation(
        regions=regions,
        sentences=sentences,
        changes=0.5,
        outcomes=draw.outcomes,
        verdicts=draw.verdicts(),
        worse_off=worse,
        tails=() if log else (Tail(draw.outcomes[0].name, 0.5, -1.0, 0.1),),
        patch=Patch(tuple(draw.edit(region.rule) for region in regions), ACTIONS, ("age", "town")),
        quality=Quality(0.9, 0.8, 0.85, 0.9, {}, None, None, Length(1, 1, 1, 1, 9), 0.0),
        tradeoff=(),
        world=draw.world(),
        methods=draw.methods(),
        warnings=draw.warnings(),
        forms={"complete policy": "in RAREname: treat"},
        lead="complete" if draw.chance(0.2) else "difference",
        pictures=(draw.picture(ids),) if not named and draw.chance() else (),
        graph=(Arrow("RAREname", "place 1", "both", 1.0),) if named else (),
        sample=() if named else (SampledState((93.25, "RAREtown"), 1.0, "wait", "treat"),),
    )


def frontier(seed: int, kind: Kind = "log", *, named: bool = False) -> Frontier:
    """A random frontier; of a log it names people it must not name."""
    draw = Draw(seed, kind, named=named)
    outcomes = draw.outcomes
    plans = [Plan(0.0, 1.0, {o.name: Interval.exactly(1.0) for o in outcomes}, Patch((), ACTIONS), 1.0, 0.0, True)]
    for k in draw.several(3):
        rules = tuple(
            PlanRule(draw.rule(), "treat", 1.0, float(draw.rng.choice([0.005, 0.2])), 1.0) for _ in draw.several(2)
        )
        edits = () if rules else (draw.edit(draw.rule()),)
        values, gain = {o.name: draw.interval() for o in outcomes}, draw.interval() if draw.chance() else None
        plan = Plan(k + 1.0, 1.0 + k, values, Patch(edits, ACTIONS), 2.0 + k, 0.1, False, rules=rules, gain=gain)
        plans.append(replace(plan, warnings=draw.warnings()))
    places = [*COMMON[:2], *RARE]
    last = f"{places[-1]}: wait → treat"
    entries = tuple(
        LedgerEntry(f"{place}: wait → treat", place, "wait", "treat", 1.0, 1.0, draw.interval(), (last,))
        for place in places
    )
    if not named:  # the text of a place holds the names of its rule
        rules = [draw.rule() for _ in range(4)]
        texts = [" and ".join(f"{c.feature} in {c.values or ''}" for c in rule.conditions) for rule in rules]
        entries = tuple(
            LedgerEntry(f"{k}: {text}", text, "wait", "treat", 1.0, 1.0, draw.interval(), rule=rule if k else None)
            for k, (rule, text) in enumerate(zip(rules, texts, strict=True))
        )
    order = tuple(entry.change for entry in entries)
    ledger = Ledger(entries, order, tuple(float(k) for k in range(len(order))), True)
    return Frontier(
        plans=tuple(plans),
        hull=(HullPoint(0.0, 1.0),),
        baselines=(),
        ledger=ledger,
        gap=0.1,
        unit="rules" if any(plan.rules for plan in plans) else "expected",
        outcomes=outcomes,
        current_return=1.0,
        optimum=9.0,
        world=draw.world(),
        methods=draw.methods(),
        warnings=draw.warnings(),
    )


MAKERS = st.sampled_from([explanation, frontier])


@st.composite
def results(draw: st.DrawFn, kinds: tuple[Kind, ...] = ("log",)) -> Explanation | Frontier:
    """A random explanation or frontier."""
    return draw(MAKERS)(draw(SEEDS), draw(st.sampled_from(kinds)), named=draw(st.booleans()))


KINDS: tuple[Kind, ...] = ("table", "simulator", "log")
FEW = st.integers(24, 47)  # seeds of results whose pages several laws read


@cache
def one_of_few(seed: int, plans: bool) -> Explanation | Frontier:
    """A result of a kind in turn, every other one named."""
    return (frontier if plans else explanation)(seed, KINDS[seed % 3], named=seed % 2 == 1)


@cache
def page_of(seed: int, plans: bool) -> str:
    """Its page, made once for all laws."""
    return page_html(one_of_few(seed, plans))
