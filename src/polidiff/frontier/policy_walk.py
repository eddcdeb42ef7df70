r"""A policy that changes one decision at a time, with its expected visits and both its values kept up to date.

.. math:: N' = N + \frac{N_{\cdot s}\,(d^\top N)}{1 - d^\top N_{\cdot s}}, \qquad d = P_{s,a} - P_{s,\pi(s)}

A switch that gains strictly can make a policy stay for ever only in a loop of positive gain, so that is what the error
names.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from polidiff.errors import UnboundedReturnError
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.visits import fundamental
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.worlds.checks import closed_loop

REFRESH = 300  # switches between two fresh factorisations
FAR = 0.4  # share of the states from which a policy is factorised rather than walked to


@dataclass(frozen=True, eq=False, slots=True)
class Vertex:
    """A policy that a walk has met."""

    changes: float
    returns: float
    choice: IntArray  # (S,)


class PolicyWalk:
    """A policy that ends from every state, its expected visits, and its changes and return from each state on."""

    def __init__(self, problem: FrontierProblem, choice: IntArray) -> None:
        moves = problem.transitions.tocsr()
        self.rows = (moves.indptr.astype(np.int64), moves.indices.astype(np.int64), moves.data.astype(np.float64))
        self.weights = np.ascontiguousarray(np.stack([problem.cost, problem.reward], axis=1))
        self.problem, self.choice, self.switches = problem, choice.astype(np.int64), 0
        self.refresh()

    def refresh(self) -> None:
        """Factorise afresh."""
        self.inverse = np.ascontiguousarray(fundamental(self.problem, self.choice[None])[0])
        self.values = np.ascontiguousarray(self.inverse @ self.weights[self.choice])
        self.arrays = (self.inverse, self.values, self.weights)
        self.stale = 0

    def point(self) -> FloatArray:
        """Expected changes and return, (2,)."""
        return np.asarray(self.problem.initial @ self.values)

    def vertex(self) -> Vertex:
        """Where the walk is."""
        changes, returns = self.point()
        return Vertex(float(changes), float(returns), self.choice.copy())

    def advantages(self) -> FloatArray:
        """(pairs, 2) advantage in changes and in return of every pair."""
        ahead = self.problem.transitions @ self.values
        return np.asarray(self.weights + ahead - self.values[self.problem.state])

    def switch(self, pair: int) -> None:
        """Take a pair from now on; an error names the loop if the policy would then never end."""
        choice = self.choice.copy()
        choice[self.problem.state[pair]] = pair
        if not self.goto(choice):
            raise UnboundedReturnError(unbounded_message(self.problem, choice))

    def goto(self, choice: IntArray) -> bool:
        """Take all decisions of a policy; False, with the walk anywhere, if it never ends."""
        from polidiff.frontier.walk_kernels import follow

        most = max(1, min(int(FAR * len(choice)), REFRESH - self.stale))
        made = follow(self.arrays, self.rows, self.choice, choice, most)
        self._count(max(made, 0))
        if made < 0:
            ends = self.problem.ends(choice)
            self.choice = choice.copy() if ends else self.choice
            self.refresh()
            return ends
        return True

    def step(self, active: BoolArray, side: int, *, price: float = 0.0, most: int = 1) -> bool:
        """On to the next vertex with more changes (side 1) or fewer (−1), or nearer to the best at a price (0).

        False where there is none. A switch that gains and never ends is part of a loop that pays for ever.
        """
        from polidiff.frontier.walk_kernels import advance

        state = self.problem.state
        made, blocked = advance(self.arrays, self.rows, state, self.choice, active, side, price, most)
        self._count(made)
        if blocked >= 0:
            self.choice[state[blocked]] = blocked
            if not self.problem.ends(self.choice):
                raise UnboundedReturnError(unbounded_message(self.problem, self.choice))
        if blocked >= 0 or self.stale >= REFRESH:
            self.refresh()
        return bool(made or blocked >= 0)

    def _count(self, switches: int) -> None:
        self.stale += switches
        self.switches += switches

    def optimise(self, active: BoolArray, price: float) -> None:
        """The best policy over the active pairs at a price."""
        while self.step(active, 0, price=price, most=REFRESH):
            pass


def unbounded_message(problem: FrontierProblem, choice: IntArray) -> str:
    """Names the loop that a policy never leaves."""
    loop = closed_loop(sparse.csr_array(problem.links[choice]), ~problem.leaks[choice])
    shown = ", ".join(f"state {problem.names[s]} (action {problem.action[choice[s]]})" for s in loop[:5])
    return (
        f"the return is unbounded: the loop {shown}{', …' if len(loop) > 5 else ''} pays for ever. Hint: give a "
        "discount below 1 or a horizon, or forbid the loop with allowed= or candidates="
    )
