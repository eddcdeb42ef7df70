r"""Nodes along the edges of their hulls.

The upper hull of a node's points is walked as the hull of the whole problem is (`hull.py`): every vertex is a policy,
and two neighbours differ in one state. Where an edge from :math:`(c_1, v_1)` to :math:`(c_2, v_2)` lies above the
staircase, a policy mixed in that one state would beat every plan known, and no policy of the node returns more than

.. math:: v_1 + \lambda\,(c - c_1), \qquad \lambda = \frac{v_2 - v_1}{c_2 - c_1} .

So the node is split there: one child per action of that state, over the changes where the edge is above. A child starts
at the parent's policy and price; few decisions switch before its own bound is known.

A policy that takes pair (s, a) loses at least :math:`\underline{x}(s)\,[V(s) - Q(s,a)]` at the edge's price, with
:math:`\underline{x}` the visits that states with one pair left alone guarantee. What loses more than the edge is above
the staircase is ruled out, which may leave other states with one pair.

Of the policies that behave alike one ends from every state, so a set of pairs without such a policy holds no plan.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polidiff.frontier.branch import Node, Search
from polidiff.frontier.policy_walk import PolicyWalk, Vertex
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.staircase import Archive


class EdgeSearch(Search):
    """Bounds and splits nodes along their hulls; all nodes share one walk."""

    def __init__(self, problem: FrontierProblem, archive: Archive, budget: float | None) -> None:
        super().__init__(problem, archive, budget)
        self.walk = PolicyWalk(problem, archive.choices[0])

    def children(self, node: Node) -> list[Node]:
        """Per edge that is above the staircase: one node for every pair of the state in which its ends differ."""
        walk = self.walk
        if not walk.goto(node.choice) and not walk.goto(self.problem.ending_choice(node.choice, node.active)):
            return []
        walk.optimise(node.active, node.price)
        middle = self._met()
        if self.above(node.price, middle.returns - node.price * middle.changes, node.low, node.high)[2] <= 0:
            return []
        made: list[Node] = []
        vertex = middle
        while vertex.changes < node.high and walk.step(node.active, 1):
            left, vertex = vertex, self._met()
            made += self._across(node, left, vertex)
        vertex = middle
        if vertex.changes > node.low:
            walk.goto(middle.choice)
        while vertex.changes > node.low and walk.step(node.active, -1):
            right, vertex = vertex, self._met()
            made += self._across(node, vertex, right)
        return sorted(made, key=lambda child: child.excess)

    def _met(self) -> Vertex:
        vertex = self.walk.vertex()
        self.add(vertex)
        return vertex

    def _across(self, node: Node, left: Vertex, right: Vertex) -> list[Node]:
        """Children where an edge is above the staircase; the walk is at one of its ends."""
        from polidiff.frontier.walk_kernels import rule_out

        if right.changes - left.changes <= self.archive.tolerance.changes:
            return []
        price = (right.returns - left.returns) / (right.changes - left.changes)
        total = left.returns - price * left.changes
        ends = max(left.changes, node.low), min(right.changes, node.high)
        low, high, excess = self.above(price, total, *ends)
        if excess <= 0:
            return []
        problem, walk, active = self.problem, self.walk, node.active.copy()
        rule_out(walk.arrays, walk.rows, problem.state, problem.first, problem.initial, active, price, excess)
        inside = replace(node, active=active, price=price, total=total, low=low, high=high, excess=excess)
        return self.split(inside, int(np.argmax(left.choice != right.choice)), left.choice)
