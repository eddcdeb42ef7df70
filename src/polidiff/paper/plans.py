"""A frontier in a few words: its costs, what a plan changes, what a simpler method finds."""

from __future__ import annotations

from polidiff.explanation.words import rule_text
from polidiff.paper.sentences import region_name
from polidiff.records.explanation import Explanation
from polidiff.records.plan import Frontier, Plan


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
    return {found.name: found.points for found in frontier.baselines}[baseline]


def found_costs(frontier: Frontier, baseline: str) -> str:
    """Costs of what a simpler method passes through."""
    return ", ".join(f"{cost:g}" for cost, _ in points(frontier, baseline))
