r"""Plans inside a long edge of the hull of a large table.

Two neighbouring vertices differ in few decisions that matter much. With those held as in the left vertex, lower prices
give plans to the right of it; held as in the right vertex, higher prices give plans to the left of that one. With the
line :math:`U` through both, which no plan exceeds, a plan missed between two found ones returns at most

.. math:: U(c_{i+1}) - v_i

more than the staircase shows.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from polidiff.frontier.clock import Clock
from polidiff.frontier.sparse_solver import SparseSolver, Vertex

TRIES = 40  # prices tried in one edge
FIRST = 0.02  # change of the price first tried on each side, relative
CLOSE = 1e-6  # prices closer than this are the same


@dataclass
class Side:
    """Plans that hold to the decisions of one end of the edge, by price."""

    end: Vertex
    price: float  # of the edge
    towards: int  # 1: lower prices lead into the edge, from its left end; -1: higher ones, from its right end
    tried: list[tuple[float, Vertex]] = field(default_factory=list)  # from the end on, away from the edge's price

    def next_price(self, target: float) -> float | None:
        """The price that may reach that many changes; None if there is nothing between two prices tried."""
        short = [(self.price, self.end), *(t for t in self.tried if self.towards * (target - t[1].changes) > 0)]
        beyond = [price for price, plan in self.tried if self.towards * (target - plan.changes) <= 0]
        near = short[-1][0]
        if beyond:
            price = (near + beyond[0]) / 2
            return price if abs(beyond[0] - near) > CLOSE * self.price else None
        step = max(FIRST * self.price, 2 * abs(near - self.price))
        return None if near <= 0 else max(0.0, near - self.towards * step)

    def add(self, price: float, plan: Vertex) -> None:
        """Remember what a price gave."""
        self.tried.append((price, plan))
        self.tried.sort(key=lambda t: -self.towards * t[0])


def plans_inside(solver: SparseSolver, left: Vertex, right: Vertex, wanted: float, clock: Clock) -> list[Vertex]:
    """Plans between two neighbouring vertices until no step could hide more than `wanted`, or none is left to find."""
    price = (right.returns - left.returns) / (right.changes - left.changes)
    held = left.ranks != right.ranks
    sides = (Side(left, price, 1), Side(right, price, -1))
    plans, spent = [left, right], set[int]()
    for _ in range(TRIES):
        hidden = hidden_returns(plans, left, price)
        widest = int(np.argmax(hidden))
        if hidden[widest] <= wanted or len(spent) == 2 or clock.over():
            break
        target = (plans[widest].changes + plans[widest + 1].changes) / 2
        which = _side(target, left, right, spent)
        asked = sides[which].next_price(target)
        if asked is None:
            spent.add(which)
            continue
        found = solver.best(asked, sides[which].end, held)
        sides[which].add(asked, found)
        plans = _staircase([*plans, found], left, right)
    return plans[1:-1]


def hidden_returns(plans: list[Vertex], left: Vertex, price: float) -> list[float]:
    """By how much a plan missed between two found ones could exceed the staircase."""
    return [
        left.returns + price * (after.changes - left.changes) - plan.returns
        for plan, after in itertools.pairwise(plans)
    ]


def _side(target: float, left: Vertex, right: Vertex, spent: set[int]) -> int:
    nearer = 0 if target - left.changes < right.changes - target else 1
    return nearer if nearer not in spent else 1 - nearer


def _staircase(plans: list[Vertex], left: Vertex, right: Vertex) -> list[Vertex]:
    """Non-dominated plans from the left to the right end, none within a rounding error of another."""
    near = 1e-8 * (right.returns - left.returns)
    kept = [left]
    for plan in sorted(plans, key=lambda p: (p.changes, -p.returns)):
        inside = left.changes < plan.changes < right.changes and plan.returns < right.returns - near
        if inside and plan.returns > kept[-1].returns + near:
            kept.append(plan)
    return [*kept, right]
