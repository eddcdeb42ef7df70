r"""Plans inside a long edge of the hull of a large table.

Two neighbouring vertices differ in few decisions that matter much. With those held as in the left vertex, lower prices
give plans to the right of it; held as in the right vertex, higher prices give plans to the left of that one. With the
line :math:`U` through both, which no plan exceeds, a plan missed between two found ones returns at most

.. math:: U(c_{i+1}) - v_i

more than the staircase shows. Where the plans that hold one end's decisions leave a long step themselves, what its two
sides differ in is held as well.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from polidiff.frontier.clock import Clock
from polidiff.frontier.sparse_solver import SparseSolver, Vertex
from polidiff.records.arrays import BoolArray

TRIES = 120  # prices tried in one edge
FIRST = 0.02  # change of the price first tried on each side, relative
FAR = 1e3  # times the price of the edge, beyond which nothing more is asked
CLOSE = 1e-6  # prices closer than this are the same


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
        hidden = hidden_returns(plans, left, price)
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
        found = solver.best(asked, side.end, side.held)
        side.add(asked, found)
        plans = _staircase([*plans, found], left, right)
    return plans[1:-1]


def hidden_returns(plans: list[Vertex], left: Vertex, price: float) -> list[float]:
    """By how much a plan missed between two found ones could exceed the staircase."""
    return [
        left.returns + price * (after.changes - left.changes) - plan.returns
        for plan, after in itertools.pairwise(plans)
    ]


def _staircase(plans: list[Vertex], left: Vertex, right: Vertex) -> list[Vertex]:
    """Non-dominated plans from the left to the right end, none within a rounding error of another."""
    near = 1e-8 * (right.returns - left.returns)
    kept = [left]
    for plan in sorted(plans, key=lambda p: (p.changes, -p.returns)):
        inside = left.changes < plan.changes < right.changes and plan.returns < right.returns - near
        if inside and plan.returns > kept[-1].returns + near:
            kept.append(plan)
    return [*kept, right]
