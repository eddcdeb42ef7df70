"""The sentences that the paper prints (sections 4.4, 6.2 and 7) beside those made here.

What must agree: the starts, the regions in order, the swap in each, and the direction of every outcome. What need not:
the words between. `deviations` lists those, each with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polidiff.explanation.text import sentence_text
from polidiff.explanation.words import rule_text
from polidiff.paper.runs import LENGTH, REWARD, STAY, VISITS, Runs
from polidiff.records.explanation import Explanation, Sentence
from polidiff.records.plan import Frontier, Plan
from polidiff.records.rule import Rule
from polidiff.report.tables import Table

Box = tuple[float, float, float, float]  # x from, x to, y from, y to


@dataclass(frozen=True)
class Printed:
    """One sentence of the paper, as facts."""

    starts: str
    steps: tuple[str, ...]  # "s1: action 0 → action 1"
    directions: str  # "trajectory length: more; …"
    joined: str | None  # the word between the two outcomes

    @property
    def told_steps(self) -> str:
        """The steps in one line."""
        return " then ".join(self.steps)


_LONGER = f"{LENGTH}: more; {VISITS}: more"
_TWICE = ("s1: action 0 → action 1", "s5: action 0 → action 1")
SECTION_4_4 = (
    Printed("s0", _TWICE, _LONGER, "but"),
    Printed("s1", _TWICE, _LONGER, "but"),
    *(Printed(f"s{start}", _TWICE[1:], _LONGER, "and") for start in (2, 3, 4, 5)),
    Printed("s6, s7, s8, s9, s10", (), f"{LENGTH}: same; {VISITS}: same", None),
)
SECTION_6_2 = Printed(
    "all",
    ("S1: east → north", "S3: south → east", "S4: south → east"),
    f"{REWARD}: more; {STAY}: less",
    "but",
)

# What the paper says two earlier forms would tell on the chain, each fact in our words.
_DETOUR = f"action 1, which adds 1 to {LENGTH} and adds 1 to {VISITS}"
SECTION_7 = {
    "paths and immediate effects": f"Starting from s0, the proposed policy will reach s1 and perform {_DETOUR}. "
    f"Then it will reach s5 and perform {_DETOUR}.",
    "states visited": "Starting from s0, the proposed policy visits s2 and s6, the current one does not. "
    "The current one visits no state that the proposed one does not.",
    "outcomes only": "Starting from s0, the proposed policy leads to a longer trajectory but more visits to desired "
    "states.",
}

# Which tenths each region of the continuous task spans; S4 as the reward box and the current policy have it.
BOXES: dict[str, Box] = {
    "S0": (0.0, 0.1, 0.0, 0.1),
    "S1": (0.0, 0.1, 0.2, 0.3),
    "S2": (0.1, 0.2, 0.1, 0.2),
    "S3": (0.1, 0.2, 0.3, 0.4),
    "S4": (0.5, 0.6, 0.3, 0.4),
}
REACHED_Y = 0.4  # no policy of the task goes further north


def printed(explanation: Explanation) -> tuple[Printed, ...]:
    """The sentences made here, as facts."""
    return tuple(_facts(explanation, sentence) for sentence in explanation.sentences)


def _facts(explanation: Explanation, sentence: Sentence) -> Printed:
    effects = sentence_text(explanation, sentence).partition("will lead to")[2]
    regions = {region.id: region for region in explanation.regions}
    steps = tuple(
        f"{region_name(regions[key].rule, key)}: {regions[key].current} → {regions[key].proposed}"
        for key in sentence.path
    )
    directions = "; ".join(f"{verdict.outcome}: {verdict.direction}" for verdict in sentence.verdicts)
    joined = next((word for word in ("but", "and") if f" {word} " in effects), None)
    return Printed(", ".join(sentence.starts) or "all", steps, directions, joined)


def region_name(rule: Rule, key: str) -> str:
    """The paper's name of the region that a rule draws; a state's own name on the chain."""
    if {condition.feature for condition in rule.conditions} - {"x", "y"}:
        return key
    return next((name for name, box in BOXES.items() if draws(rule, box)), f"unknown region {key}")


def draws(rule: Rule, box: Box) -> bool:
    """Whether a rule covers exactly the tenths of a box, among the places that any policy reaches."""
    x, y = np.meshgrid(np.arange(0.05, 1.0, 0.1), np.arange(0.05, REACHED_Y, 0.1))
    places = np.column_stack((x.ravel(), y.ravel()))
    left, right, low, high = box
    inside = (places[:, 0] > left) & (places[:, 0] < right) & (places[:, 1] > low) & (places[:, 1] < high)
    return bool((rule.covers(places) == inside).all())


def deviations(runs: Runs) -> Table:
    """All places where the words differ; the first kind found by comparing, the others by reading."""
    made = printed(runs.chain.paper)
    apart = [ours.starts for theirs, ours in zip(SECTION_4_4, made, strict=True) if theirs.joined != ours.joined]
    joined = (f"4.4, starts {apart[0]} … {apart[-1]}", "“and”", "“but”", WHY_BUT) if apart else None
    return Table(("where", "paper", "here", "why"), (*([joined] if joined else []), *READ))


WHY_BUT = (
    "the verdicts are those of s0 and s1, where the paper says “but”; one rule here: “but” when one outcome gets "
    "better and another worse"
)
READ = (
    (
        "4.4, starts s2 … s5",
        "“more number of visits”",
        "“more visits”",
        "same verdict, same words in every sentence; the paper says “more visits” for s0 and s1",
    ),
    (
        "4.3 and 4.4, starts s6 … s10",
        "“unsure” in 4.3, “act the same” in 4.4",
        "“act the same”",
        "no diverging state is met, so nothing is unknown; the paper's own verdict rule gives 0 for both",
    ),
    (
        "6.2, third region",
        "0.4 ≤ x ≤ 0.5",
        "0.5 ≤ x < 0.6",
        "the current policy of the appendix and the reward box lie in the sixth tenth",
    ),
    (
        "6.2, boxes",
        "closed, 0.3 ≤ y ≤ 0.4",
        "half-open, y ≥ 0.3",
        "closed boxes overlap at their borders; nothing further north is ever reached, so a rule need not say it",
    ),
    (
        "6.2, order of outcomes",
        "stay first, then reward",
        "reward first, then stay",
        "outcomes are told in the order in which the task lists them",
    ),
    (
        "7, each detour",
        "“visits the desired state but increases the trajectory length by 1”",
        "“adds 1 to trajectory length and adds 1 to visits”",
        "effects at once are told as numbers, in the order in which the task lists the outcomes",
    ),
)


def costs(frontier: Frontier) -> str:
    """Numbers of changes of the plans, in order."""
    return ", ".join(f"{plan.changes:g}" for plan in frontier)


def changed(plan: Plan) -> str:
    """Names of the states, or of the paper's regions, that a plan changes."""
    return ", ".join(region_name(edit.rule, rule_text(edit.rule)) for edit in plan.patch.changing)


def regions_of(explanation: Explanation) -> str:
    """The paper's names of the regions found."""
    return ", ".join(sorted(region_name(region.rule, region.id) for region in explanation.regions))


def points(frontier: Frontier, baseline: str) -> tuple[tuple[float, float], ...]:
    """Cost and return of what a simpler method passes through."""
    return {one.name: one.points for one in frontier.baselines}[baseline]


def found_costs(frontier: Frontier, baseline: str) -> str:
    """Costs of what a simpler method passes through."""
    return ", ".join(f"{cost:g}" for cost, _ in points(frontier, baseline))
