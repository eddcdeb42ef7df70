"""The best plans over a few regions: every combination is worked out, so nothing better over them was missed."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from polidiff.errors import InfeasibleError
from polidiff.explanation.words import rule_text
from polidiff.frontier.hull import upper_hull
from polidiff.frontier.ledger import Naming, make_ledger
from polidiff.options import ImproveOptions
from polidiff.records.explanation import Methods, WorldSummary
from polidiff.records.patch import Edit, Patch
from polidiff.records.plan import Frontier, HullPoint, Ledger, Plan
from polidiff.records.rule import Condition, Rule

if TYPE_CHECKING:
    from polidiff.surrogates.log_edits import RegionEdits  # brings in the data frame library

MOST_PLANS = 512  # combinations that are worked out; beyond, the changes that gain least alone are left out
TINY = 1e-9


def solve_regions(problem: RegionEdits, options: ImproveOptions, most: int | None) -> Frontier:
    """All plans that beat the cheaper ones by more than `gap`; with a budget, the current policy and the best within.

    `most` bounds the regions that a plan changes; the gap is a share of the range of returns.
    """
    used = _affordable(problem)
    plans = [plan for plan in _combinations(problem, used) if most is None or len(plan) <= most]
    guards = problem.guards
    allowed = [plan for plan in plans if all(room.keeps(problem.value(plan).outcomes[room.place]) for room in guards)]
    if not allowed:
        best = " and ".join(room.nearest([problem.value(p).outcomes[room.place] for p in plans]) for room in guards)
        raise InfeasibleError(f"no plan over the regions keeps its limits; the best is {best}. Hint: loosen it")
    points = {plan: (problem.value(plan).changes, problem.returns(plan)) for plan in allowed}
    front = _non_dominated(points, options.gap)
    if options.budget is not None:
        within = [plan for plan in front if points[plan][0] <= options.budget + TINY]
        if not within:
            raise InfeasibleError(f"no plan over the regions keeps its limits within {options.budget:g} changes")
        front = [within[0], within[-1]] if len(within) > 1 else within
    if () not in points:  # the current policy breaks a limit; it is listed to compare with
        points[()], front = (0.0, problem.returns(())), [(), *front]
    made = tuple(_plan(problem, plan, front, points) for plan in front)
    return Frontier(
        plans=made,
        hull=tuple(HullPoint(*points[front[i]]) for i in upper_hull(np.array([points[plan] for plan in front]))),
        baselines=(),
        ledger=_ledger(problem, used, front[-1]),
        gap=max(plan.gap for plan in made),
        unit="expected",
        budget=options.budget,
        outcomes=problem.world.outcomes,
        current_return=made[0].expected_return,
        optimum=max(points[plan][1] for plan in front),
        world=WorldSummary(problem.world.kind, problem.world.actions, (), {}),
        methods=Methods("plain", options.level, 0.1, 0.1, options.seed, 0, ""),
        warnings=_left_out(problem, used),
        stats={"plans": len(plans), "method": "every plan over the regions"},
    )


def _left_out(problem: RegionEdits, used: Sequence[int]) -> tuple[str, ...]:
    """Changes that are not combined with the others, in words."""
    cells, actions = problem.cells.cells, problem.world.actions
    edits = [edit for i, edit in enumerate(problem.offered) if i not in used]
    return tuple(
        f"{actions[edit.proposed].name} where {rule_text(cells[edit.region].rule)} gains too little alone to be "
        "combined with the others."
        for edit in edits
    )


def _plan(
    problem: RegionEdits,
    plan: tuple[int, ...],
    front: Sequence[tuple[int, ...]],
    points: dict[tuple[int, ...], tuple[float, float]],
) -> Plan:
    changes, value = points[plan]
    bound = max(r for c, r in points.values() if c <= changes + TINY)
    first, last = points[front[0]][1], points[front[-1]][1]
    span = max(last - first, 1e-300)
    gap = max(0.0, bound - value) / span
    chosen, names = [problem.offered[i] for i in plan], [cell.name for cell in problem.cells.cells]
    places = [Rule((Condition("state", 0, values=(names[edit.region],)),)) for edit in chosen]
    edits = tuple(Edit(p, e.current, e.proposed, (e.region,)) for p, e in zip(places, chosen, strict=True))
    return Plan(
        changes=changes,
        expected_return=value,
        outcomes={},
        patch=Patch(edits, tuple(action.name for action in problem.world.actions), ("state",)),
        bound=bound,
        gap=gap,
        proven=False,
        share=(value - first) / span,
        breaks=tuple(r.guard.text for r in problem.guards if not r.keeps(problem.value(plan).outcomes[r.place])),
    )


def _combinations(problem: RegionEdits, used: Sequence[int]) -> list[tuple[int, ...]]:
    by_region: dict[int, list[int]] = {}
    for i in used:
        by_region.setdefault(problem.offered[i].region, []).append(i)
    choices = [[(), *((i,) for i in indices)] for indices in by_region.values()]
    return [tuple(sorted(i for part in parts for i in part)) for parts in itertools.product(*choices)]


def _affordable(problem: RegionEdits) -> list[int]:
    """Edits whose combinations are few enough, those that gain most alone first."""
    order = sorted(range(len(problem.offered)), key=lambda i: -problem.returns((i,)))
    used: list[int] = []
    for i in order:
        edits_by_region = Counter(problem.offered[j].region for j in (*used, i))
        if math.prod(edits + 1 for edits in edits_by_region.values()) <= MOST_PLANS:
            used.append(i)
    return sorted(used)


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


def _ledger(problem: RegionEdits, used: Sequence[int], best: tuple[int, ...]) -> Ledger | None:
    if not best:
        return None
    cells, actions = problem.cells.cells, problem.world.actions
    edits = [problem.offered[i] for i in used]
    naming = Naming(
        tuple(cells[edit.region].name for edit in edits),
        tuple(actions[edit.current].name for edit in edits),
        tuple(actions[edit.proposed].name for edit in edits),
        problem.places(),
    )
    place = {i: position for position, i in enumerate(used)}
    returns = {tuple(sorted(place[i] for i in p)): problem.returns(p) for p in _combinations(problem, used)}
    players = np.array([place[i] for i in best])
    return make_ledger(returns.__getitem__, players, naming, level=0.95, rng=np.random.default_rng(0))
