r"""A certified frontier for tables too large to invert: best-first bisection of the price.

The best policy at a price :math:`\lambda` is a vertex of the hull and so proven: no plan with as few changes beats it.
Between two vertices (c₀, v₀) and (c₁, v₁) a missed plan returns at most v₁ − v₀ more than the staircase shows, so the
widest step is refined first, at the price :math:`\lambda = (v_1 - v_0)/(c_1 - c_0)`, until every step is below the
gap asked for. Edges of the hull longer than the gap are filled with plans inside them (`inside.py`). Each price is one
policy iteration from its neighbour's policy on sparse rows: memory is linear in the number of transitions.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from polidiff.frontier.clock import Clock
from polidiff.frontier.hull import Hull
from polidiff.frontier.inside import plans_inside
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.solve import PROVEN, Effort, Solved
from polidiff.frontier.sparse_solver import SparseSolver, Vertex
from polidiff.progress import report, track
from polidiff.records.arrays import FloatArray, IntArray

MOST_POINTS = 2_000


@dataclass(order=True)
class _Step:
    """A step between two vertices, the widest first."""

    rank: float
    left: Vertex = field(compare=False)
    right: Vertex = field(compare=False)


def solve_large(problem: FrontierProblem, effort: Effort, clock: Clock, budget: float | None = None) -> Solved:
    """Plans close enough that no step between them hides more than the gap; within a budget, the best one found."""
    solver = SparseSolver(problem)
    first = solver.cheapest()
    last = solver.best(0.0, first)
    span = max(last.returns - first.returns, 1e-9 * max(1.0, abs(last.returns)))
    wanted = max(effort.gap, 1e-9) * span
    if last.changes <= first.changes + 1e-12:
        return _result(solver, [first], [], effort, budget)
    edges, steps = list[_Step](), [_Step(first.returns - last.returns, first, last)]
    while steps and -steps[0].rank > wanted and len(steps) + len(edges) < MOST_POINTS and not clock.over():
        step = heapq.heappop(steps)
        report("frontier", min(1.0, wanted / -step.rank), f"gap {-step.rank / span:.2%}")
        away = budget is not None and not step.left.changes <= budget < step.right.changes
        middle = None if away else solver.between(step.left, step.right)
        if middle is None:
            edges.append(step)
        else:
            heapq.heappush(steps, _Step(step.left.returns - middle.returns, step.left, middle))
            heapq.heappush(steps, _Step(middle.returns - step.right.returns, middle, step.right))
    vertices = sorted([first, last, *(step.left for step in [*steps, *edges] if step.left is not first)], key=_changes)
    return _result(solver, vertices, _inside(solver, edges, wanted, clock, budget), effort, budget)


def _changes(plan: Vertex) -> float:
    return plan.changes


def _inside(
    solver: SparseSolver, edges: list[_Step], wanted: float, clock: Clock, budget: float | None
) -> list[Vertex]:
    """Plans inside the edges of the hull that are longer than wanted, the longest first."""
    found: list[Vertex] = []
    long = [edge for edge in sorted(edges) if -edge.rank > wanted]
    for edge in track("frontier", long):
        if clock.over():
            break
        if budget is None or edge.left.changes <= budget < edge.right.changes:
            found += plans_inside(solver, edge.left, edge.right, wanted, clock)
    return found


def _result(
    solver: SparseSolver, vertices: list[Vertex], inside: list[Vertex], effort: Effort, budget: float | None
) -> Solved:
    """All plans with the bound that the prices tried put on each, and on what may lie between two."""
    plans = sorted([*vertices, *inside], key=_changes)
    changes, returns, choices = _columns(solver, plans)
    proven = {id(vertex) for vertex in vertices}
    own = np.array([id(plan) in proven for plan in plans])
    hull = Hull(changes[own], returns[own], choices[own] if inside else choices, solver.rounds)
    span = max(float(returns[-1] - returns[0]), 1e-9 * max(1.0, abs(float(returns[-1]))))
    bounds = np.where(own, returns, np.maximum(returns, solver.bound(changes)))
    hidden = bounds[1:] - returns[:-1]
    rows: slice | IntArray = slice(None)
    if budget is not None:
        last = int((changes <= budget + 1e-12).sum()) - 1
        rows = np.unique([0, last])
        bounds[last] = max(returns[last], float(solver.bound(np.array([budget]))[0]))
        hidden = bounds[last] - returns[last]
    gap = max(0.0, float(np.max(hidden, initial=0.0))) / span
    stopped = bool(gap > (effort.gap if budget is None else PROVEN))
    method = "prices by bisection, sparse policy iteration"
    return Solved(changes[rows], returns[rows], choices[rows], bounds[rows], gap, hull, 0, stopped, method)


def _columns(solver: SparseSolver, plans: list[Vertex]) -> tuple[FloatArray, FloatArray, IntArray]:
    changes = np.array([plan.changes for plan in plans])
    return changes, np.array([plan.returns for plan in plans]), np.array([solver.choice(plan) for plan in plans])
