"""The best plans over a few regions: every combination is worked out, so nothing better over them was missed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from polidiff.errors import InfeasibleError
from polidiff.evaluation.logged.counted_log import CountedLog
from polidiff.evaluation.logged.plan import aim
from polidiff.evaluation.logged.tied import TiedEdit, TiedValue, tied_value
from polidiff.frontier.ledger import Naming, Worth, make_ledger
from polidiff.records.arrays import FloatArray
from polidiff.records.parse import Guard, parse_guard
from polidiff.records.plan import Ledger
from polidiff.worlds.log import Log

MOST_PLANS = 512  # combinations that are worked out; beyond, the changes that gain least alone are left out
TINY = 1e-9


@dataclass(frozen=True, eq=False)
class RegionProblem:
    """A model over cells, the current policy in it, and the edits that plans may make."""

    log: Log
    ground: CountedLog
    base: FloatArray  # (S, A) the current policy's averages
    edits: tuple[TiedEdit, ...]
    _known: dict[tuple[int, ...], TiedValue] = field(default_factory=dict)

    def value(self, plan: tuple[int, ...]) -> TiedValue:
        """Outcomes and changes of the plan that makes these edits."""
        if plan not in self._known:
            ends = np.array([sum(o.range) / 2 if o.range is not None else 0.0 for o in self.log.outcomes])
            chosen = [self.edits[i] for i in plan]
            self._known[plan] = tied_value(self.ground, self.base, chosen, ends, discount=self.log.discount)
        return self._known[plan]

    def returns(self, plan: tuple[int, ...]) -> float:
        """What is improved."""
        k, sign = aim(self.log)
        return sign * float(self.value(plan).outcomes[k])


@dataclass(frozen=True, eq=False)
class RegionPlans:
    """Non-dominated plans, fewest changes first."""

    chosen: tuple[tuple[TiedEdit, ...], ...]
    values: tuple[TiedValue, ...]
    returns: tuple[float, ...]
    bounds: tuple[float, ...]  # most that any plan over the regions returns with at most as many changes
    hull: tuple[tuple[float, float], ...]
    ledger: Ledger | None
    count: int  # combinations worked out
    messages: tuple[str, ...]


def solve_regions(
    problem: RegionProblem,
    names: Sequence[tuple[str, str, str]],
    budget: float | None,
    most: int | None,
    keep: Sequence[str | Guard],
    gap: float,
) -> RegionPlans:
    """All plans that beat the cheaper ones by more than `gap`; with a budget, the current policy and the best within.

    `names` tells region, current and proposed action of each edit; `most` bounds the regions that a plan changes; `gap`
    is a share of the range of returns.
    """
    used = _affordable(problem)
    plans = [plan for plan in _combinations(problem, used) if most is None or len(plan) <= most]
    allowed = [plan for plan in plans if _kept(problem, plan, keep)]
    if not allowed:
        raise InfeasibleError(f"no plan over the regions keeps {', '.join(map(str, keep))}")
    points = {plan: (problem.value(plan).changes, problem.returns(plan)) for plan in allowed}
    front = _non_dominated(points, gap)
    if budget is not None:
        within = [plan for plan in front if points[plan][0] <= budget + TINY]
        front = [within[0], within[-1]] if len(within) > 1 else within
    left = [names[i] for i in range(len(problem.edits)) if i not in used]
    return RegionPlans(
        tuple(tuple(problem.edits[i] for i in plan) for plan in front),
        tuple(problem.value(plan) for plan in front),
        tuple(points[plan][1] for plan in front),
        tuple(max(r for c, r in points.values() if c <= points[plan][0] + TINY) for plan in front),
        _hull([points[plan] for plan in front]),
        _ledger(problem, used, front[-1], names),
        len(plans),
        tuple(f"{new} where {place} gains too little alone to be combined with the others." for place, _, new in left),
    )


def _combinations(problem: RegionProblem, used: Sequence[int]) -> list[tuple[int, ...]]:
    by_region: dict[int, list[int]] = {}
    for i in used:
        by_region.setdefault(problem.edits[i].region, []).append(i)
    choices = [[(), *((i,) for i in indices)] for indices in by_region.values()]
    return [tuple(sorted(i for part in parts for i in part)) for parts in itertools.product(*choices)]


def _affordable(problem: RegionProblem) -> list[int]:
    """Edits whose combinations are few enough, those that gain most alone first."""
    order = sorted(range(len(problem.edits)), key=lambda i: -problem.returns((i,)))
    used: list[int] = []
    for i in order:
        if _size(problem, [*used, i]) <= MOST_PLANS:
            used.append(i)
    return sorted(used)


def _size(problem: RegionProblem, used: Sequence[int]) -> int:
    regions = np.unique([problem.edits[i].region for i in used], return_counts=True)[1]
    return int(np.prod(regions + 1))


def _kept(problem: RegionProblem, plan: tuple[int, ...], keep: Sequence[str | Guard]) -> bool:
    names = [outcome.name for outcome in problem.log.outcomes]
    for text in keep:
        guard = parse_guard(text, names) if isinstance(text, str) else text
        k = names.index(guard.outcome)
        now = float(problem.value(()).outcomes[k]) if guard.relative else 0.0
        over = float(problem.value(plan).outcomes[k]) - now - guard.value
        if (over if guard.sense == "<=" else -over) > TINY * (1 + abs(now)):
            return False
    return True


def _non_dominated(points: dict[tuple[int, ...], tuple[float, float]], gap: float) -> list[tuple[int, ...]]:
    """Plans that return more than all with at most as many changes; of equals the one with the fewest edits."""
    order = sorted(points, key=lambda plan: (round(points[plan][0], 9), -round(points[plan][1], 9), len(plan), plan))
    returns = [value for _, value in points.values()]
    least = max(gap * (max(returns) - points[order[0]][1]), TINY * (1 + max(map(abs, returns))))
    front: list[tuple[int, ...]] = []
    for plan in order:
        if not front or points[plan][1] > points[front[-1]][1] + least:
            front.append(plan)
    return front


def _hull(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Vertices of the smallest concave curve above the plans."""
    hull: list[tuple[float, float]] = []
    for point in points:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-2], point):
            hull.pop()
        hull.append(point)
    return tuple(hull)


def _slope(one: tuple[float, float], other: tuple[float, float]) -> float:
    return (other[1] - one[1]) / max(other[0] - one[0], 1e-300)


def _ledger(
    problem: RegionProblem, used: Sequence[int], best: tuple[int, ...], names: Sequence[tuple[str, str, str]]
) -> Ledger | None:
    if not best:
        return None
    naming = Naming(*(tuple(names[i][part] for i in used) for part in range(3)))
    place = {i: position for position, i in enumerate(used)}
    nothing = np.zeros(len(used))
    worth = Worth(nothing, np.zeros((len(used), len(used))), nothing, problem.returns(()))
    for plan in _combinations(problem, used):
        worth._known[tuple(sorted(place[i] for i in plan))] = problem.returns(plan)
    players = np.array([place[i] for i in best])
    return make_ledger(worth, players, naming, level=0.95, rng=np.random.default_rng(0))
