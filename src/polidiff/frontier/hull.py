r"""The stochastic bound: the upper hull of (changes, return) over all policies, by parametric policy iteration.

For a price :math:`\lambda` of a change the best policy maximises :math:`R - \lambda C`. Lowering the price from
infinity to 0, one decision switches at a time: the one whose ratio of advantages

.. math:: \lambda = A_R(s,a) / A_C(s,a), \qquad A_w(s,a) = w(s,a) + (P V_w)(s,a) - V_w(s)

is largest. Every vertex met on the way is a deterministic policy, and each switch is a rank-one update of the expected
visits. The first vertex costs least and, among those, returns most; a switch that would never end proves a loop that
pays for ever.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.visits import PolicyWalk, check_settled
from polidiff.progress import Clock
from polidiff.records.arrays import FloatArray, IntArray

ALIKE = 1e-9  # share by which equal numbers may differ from rounding


@dataclass(frozen=True, eq=False)
class Hull:
    """Vertices of the upper hull, fewest changes first, each with its policy."""

    changes: FloatArray  # (h,) increasing
    returns: FloatArray  # (h,) increasing
    choices: IntArray  # (h, S)
    pivots: int
    whole: bool = True  # else vertices between these may be missing

    @property
    def prices(self) -> FloatArray:
        """(h - 1,) return per change along each edge, decreasing."""
        return np.asarray(np.diff(self.returns) / np.diff(self.changes))

    def bound(self, changes: FloatArray) -> FloatArray:
        """No policy, mixed or not, with at most that many changes returns more."""
        if not self.whole:
            return np.full(np.shape(changes), self.returns[-1])
        return np.asarray(np.interp(changes, self.changes, self.returns))


class OutOfTimeError(Exception):
    """Work that is worth nothing by halves did not end in time; half a hull bounds nothing."""


def check_time(clock: Clock) -> None:
    """`OutOfTimeError` once the clock has run out."""
    if clock.left() <= 0:
        raise OutOfTimeError


def parametric_hull(problem: FrontierProblem, clock: Clock | None = None) -> Hull:
    """All vertices of the upper hull; `OutOfTimeError` if the clock runs out before the last one."""
    walk, every = PolicyWalk(problem, problem.start), np.ones(problem.n_pairs, dtype=np.bool_)
    _cheapest(walk)
    vertices = [walk.vertex()]
    while walk.step(every, 1):
        check_settled(walk.switches < _most_switches(problem))
        if clock is not None:
            check_time(clock)
        last, vertex = vertices[-1], walk.vertex()
        more, better = (1e-12 * (1.0 + abs(number)) for number in (vertex.changes, vertex.returns))
        if vertex.changes > last.changes + more and vertex.returns > last.returns + better:
            vertices.append(vertex)
        elif vertex.returns >= last.returns - better:
            vertices[-1] = vertex
    points = np.array([(vertex.changes, vertex.returns) for vertex in vertices])
    corners = upper_hull(points)
    choices = np.array([vertices[i].choice for i in corners])
    return Hull(points[corners, 0], points[corners, 1], choices, walk.switches)


def _cheapest(walk: PolicyWalk) -> None:
    """Policy iteration for the fewest changes, then for the most return among those."""
    scale = 1e-10 * (1.0 + np.abs(walk.weights).max(axis=0, initial=0.0))
    while True:
        changes, gain = walk.advantages().T
        cheaper = changes < -scale[0]
        richer = (np.abs(changes) <= scale[0]) & (gain > scale[1] * (1.0 + np.abs(walk.values[walk.problem.state, 1])))
        if cheaper.any():
            walk.switch(_first_of_most(np.where(cheaper, -changes, 0.0)))
        elif richer.any():
            walk.switch(_first_of_most(np.where(richer, gain, 0.0)))
        else:
            return
        check_settled(walk.switches < _most_switches(walk.problem))


def _most_switches(problem: FrontierProblem) -> int:
    """Far more switches than a walk along the hull makes: about one per vertex and pair that joins or leaves."""
    return 10_000 + 200 * problem.n_pairs


def _first_of_most(values: FloatArray) -> int:
    """The first of those that are largest but for rounding, which differs between processors."""
    return int(np.argmax(values >= values.max() * (1.0 - ALIKE)))


def upper_hull(points: FloatArray) -> list[int]:
    """Of points (n, 2) from left to right, those that do not lie on or under the line between their neighbours.

    >>> upper_hull(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 1.5], [3.0, 3.0]]))
    [0, 3]
    """
    corners: list[int] = []
    for i, point in enumerate(points):
        while len(corners) > 1 and _not_above(points[corners[-2]], points[corners[-1]], point):
            corners.pop()
        corners.append(i)
    return corners


def _not_above(left: FloatArray, middle: FloatArray, right: FloatArray) -> bool:
    height = (middle[1] - left[1]) * (right[0] - left[0]) - (right[1] - left[1]) * (middle[0] - left[0])
    return bool(height <= 1e-13 * (1.0 + abs(right[1])) * (1.0 + abs(right[0])))
