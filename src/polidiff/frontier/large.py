r"""A certified frontier for tables too large to invert: best-first bisection of the price.

The best policy at a price :math:`\lambda` is a vertex of the hull and so proven: no plan with as few changes beats it.
Between two vertices (c₀, v₀) and (c₁, v₁) a missed plan returns at most v₁ − v₀ more than the staircase shows, so the
widest step is refined first, at the price :math:`\lambda = (v_1 - v_0)/(c_1 - c_0)`, until every step is below the
gap asked for. Edges of the hull longer than the gap are filled with plans inside them. Each price is one
policy iteration from its neighbour's policy on sparse rows: memory is linear in the number of transitions.

Two neighbouring vertices at the ends of a long edge differ in few decisions that matter much. With those held as in the
left vertex, lower prices give plans to the right of it; held as in the right vertex, higher prices give plans to the
left of that one. With the line :math:`U` through both, which no plan exceeds, a plan missed between two found ones
returns at most

.. math:: U(c_{i+1}) - v_i

more than the staircase shows. Where the plans that hold one end's decisions leave a long step themselves, what its two
sides differ in is held as well.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from polidiff.frontier.hull import Hull, OutOfTimeError, parametric_hull
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.solve import HULL, PROVEN, Effort, Solved
from polidiff.frontier.sparse_solver import SparseSolver, Vertex
from polidiff.progress import Clock, report, track
from polidiff.records.arrays import BoolArray, IntArray

MOST_POINTS = 2_000
TRIES = 120  # prices tried in one edge
FIRST = 0.02  # change of the price first tried on each side, relative
FAR = 1e3  # times the price of the edge, beyond which nothing more is asked
CLOSE = 1e-6  # prices closer than this are the same


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
    vertices = [first, last, *(step.left for step in [*steps, *edges] if step.left is not first)]
    return _result(solver, vertices, _inside(solver, edges, wanted, clock, budget), effort, budget)


def hull_in_time(problem: FrontierProblem, clock: Clock) -> Hull:
    """The hull, or its two ends where half of the time left does not do."""
    try:
        return parametric_hull(problem, clock.share(HULL))
    except OutOfTimeError:
        solver = SparseSolver(problem)
        first = solver.cheapest()
        last = solver.best(0.0, first)
        ends = [first, last] if last.changes > first.changes + 1e-12 else [first]
        changes, returns = np.array([(end.changes, end.returns) for end in ends]).T
        choices = np.array([solver.choice(end) for end in ends], dtype=np.int64)
        return Hull(changes, returns, choices, solver.rounds, whole=False)


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
    plans = sorted([*vertices, *inside], key=attrgetter("changes"))
    changes, returns = np.array([(plan.changes, plan.returns) for plan in plans]).T
    choices = np.array([solver.choice(plan) for plan in plans])
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
    numbers = changes[rows], returns[rows], choices[rows], bounds[rows]
    visits = tuple(plans[i].visits for i in np.arange(len(plans))[rows])
    return Solved(*numbers, gap, hull, 0, stopped, span, method, visits)


@dataclass
class Side:
    """Plans that hold to some decisions of one plan, by price."""

    end: Vertex
    held: BoolArray  # (S,)
    price: float  # at which the end is the best of its side
    towards: int  # 1: lower prices lead to more changes than the end's; -1: higher ones to fewer
    tried: list[tuple[float, Vertex]] = field(default_factory=list)  # from the end on

    def faces(self, target: float) -> bool:
        """Whether that many changes lie on the way from the end."""
        return self.towards * (target - self.end.changes) > 0

    def around(self, target: float) -> tuple[tuple[float, Vertex], tuple[float, Vertex] | None]:
        """The last price and plan short of that many changes, and the first beyond, if one was found."""
        short = [(self.price, self.end), *(t for t in self.tried if self.towards * (target - t[1].changes) > 0)]
        beyond = [t for t in self.tried if self.towards * (target - t[1].changes) <= 0]
        return short[-1], beyond[0] if beyond else None

    def next_price(self, target: float) -> float | None:
        """The price that may reach that many changes; None if there is nothing between two prices tried."""
        (near, _), beyond = self.around(target)
        if beyond is not None:
            return (near + beyond[0]) / 2 if abs(beyond[0] - near) > CLOSE * self.price else None
        step = max(FIRST * self.price, 2 * abs(near - self.price))
        return max(0.0, near - self.towards * step) if 0 < near < FAR * self.price else None

    def add(self, price: float, plan: Vertex) -> None:
        """Remember what a price gave."""
        self.tried.append((price, plan))
        self.tried.sort(key=lambda t: -self.towards * t[0])

    def split(self, target: float) -> list[Side]:
        """Two sides in its place: between two neighbouring plans of this one, what they differ in is held too."""
        (near, short), beyond = self.around(target)
        if beyond is None:
            return []
        held = self.held | (short.ranks != beyond[1].ranks)
        return [Side(short, held, near, self.towards), Side(beyond[1], held, beyond[0], -self.towards)]


def plans_inside(solver: SparseSolver, left: Vertex, right: Vertex, wanted: float, clock: Clock) -> list[Vertex]:
    """Plans between two neighbouring vertices until no step could hide more than `wanted`, or none is left to find."""
    price = (right.returns - left.returns) / (right.changes - left.changes)
    held = left.ranks != right.ranks
    sides = [Side(left, held, price, 1), Side(right, held, price, -1)]
    plans = [left, right]
    for _ in range(TRIES):
        hidden = [
            left.returns + price * (after.changes - left.changes) - plan.returns  # by which a missed plan could exceed
            for plan, after in itertools.pairwise(plans)
        ]
        widest = int(np.argmax(hidden))
        target = (plans[widest].changes + plans[widest + 1].changes) / 2
        facing = [side for side in sides if side.faces(target)]
        if hidden[widest] <= wanted or not facing or clock.over():
            break
        side = min(facing, key=lambda side: abs(side.end.changes - target))
        asked = side.next_price(target)
        if asked is None:
            sides.remove(side)
            sides += side.split(target)
            continue
        point = solver.best(asked, side.end, side.held)
        side.add(asked, point)
        plans = _staircase([*plans, point], left, right)
    return plans[1:-1]


def _staircase(plans: list[Vertex], left: Vertex, right: Vertex) -> list[Vertex]:
    """Non-dominated plans from the left to the right end, none within a rounding error of another."""
    near = 1e-8 * (right.returns - left.returns)
    kept = [left]
    for plan in sorted(plans, key=lambda p: (p.changes, -p.returns)):
        inside = left.changes < plan.changes < right.changes and plan.returns < right.returns - near
        if inside and plan.returns > kept[-1].returns + near:
            kept.append(plan)
    return [*kept, right]
