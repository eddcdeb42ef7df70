"""The price of readability: the most return for every number of rules and of literals."""

from __future__ import annotations

from dataclasses import dataclass

from polidiff.errors import InvalidOptionError
from polidiff.frontier.rule_plans.lists import Problem
from polidiff.records.plan import Frontier


@dataclass(frozen=True)
class SurfacePoint:
    """A list that no other list found beats with as few rules and as few literals."""

    rules: int
    literals: int
    expected_return: float


def surface(frontier: Frontier) -> tuple[SurfacePoint, ...]:
    """Non-dominated lists of all that the search valued exactly, fewest rules first, then fewest literals.

    >>> from polidiff.domains import frozen_lake
    >>> from polidiff.frontier.rule_plans import improve_with_rules
    >>> points = surface(improve_with_rules(frozen_lake.world(4), frozen_lake.current(4), max_rules=1))
    >>> [(point.rules, point.literals, round(point.expected_return, 3)) for point in points]
    [(0, 0, 0.038), (1, 1, 0.111)]
    """
    problem = frontier.context
    if not isinstance(problem, Problem):
        raise InvalidOptionError("a frontier read from a file has no search behind it. Hint: call improve again")
    best: dict[tuple[int, int], float] = {}
    for scored in problem.evaluated.values():
        size = (len(scored.rules), scored.literals)
        best[size] = max(best.get(size, scored.expected_return), scored.expected_return)
    points: list[SurfacePoint] = []
    for (rules, literals), value in sorted(best.items()):
        others = [p for p in points if p.rules <= rules and p.literals <= literals]
        if all(p.expected_return < value - 1e-12 * (1 + abs(value)) for p in others):
            points.append(SurfacePoint(rules, literals, value))
    return tuple(points)
