r"""A policy under single switches, each a rank-one update of the expected visits.

.. math:: N' = N + \frac{N_{\cdot s}\,(d^\top N)}{1 - d^\top N_{\cdot s}}, \qquad d = P_{s,a} - P_{s,\pi(s)}

A switch that gains strictly can make a policy stay for ever only in a loop of positive gain, so that is what the error
names.
"""

from __future__ import annotations

import numpy as np

from polidiff.errors import UnboundedReturnError
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.values import ends_everywhere, fundamental
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.graph import closed_loop

REFRESH = 100  # switches between two fresh factorisations


class Walk:
    """A policy, its expected visits and both values, kept up to date under single switches."""

    def __init__(self, problem: FrontierProblem, choice: IntArray) -> None:
        self.problem, self.choice, self.switches = problem, choice.copy(), 0
        self.weights = np.stack([problem.cost, problem.reward], axis=1)
        self.tiny = 1e-12 * (1.0 + np.abs(self.weights).max(axis=0, initial=0.0))
        self.refresh()

    def refresh(self) -> None:
        """Factorise afresh."""
        self.inverse = fundamental(self.problem, self.choice[None])[0]
        self.values = self.inverse @ self.weights[self.choice]

    def advantages(self) -> FloatArray:
        """(pairs, 2) advantage in changes and in return of every pair."""
        ahead = self.problem.transitions @ self.values
        return np.asarray(self.weights + ahead - self.values[self.problem.state])

    def switch(self, pair: int) -> None:
        """Take a pair from now on; an error names the loop if the policy would then never end."""
        s = int(self.problem.state[pair])
        row = self.problem.dense[pair] - self.problem.dense[self.choice[s]]
        gain = self.weights[pair] - self.weights[self.choice[s]] + row @ self.values
        column = self.inverse[:, s].copy()
        left = 1.0 - row @ column
        self.choice[s] = pair
        self.switches += 1
        if left < 1e-7 and not ends_everywhere(self.problem, self.choice):
            raise UnboundedReturnError(unbounded_message(self.problem, self.choice))
        if self.switches % REFRESH == 0 or left < 1e-7:
            self.refresh()
            return
        self.inverse += np.multiply.outer(column / left, row @ self.inverse)
        self.values += np.multiply.outer(column / left, gain)

    def point(self) -> FloatArray:
        """Expected changes and return, (2,)."""
        return np.asarray(self.problem.initial @ self.values)


def unbounded_message(problem: FrontierProblem, choice: IntArray) -> str:
    """Names the loop that a policy never leaves."""
    loop = closed_loop(problem.links[choice], ~problem.leaks[choice])
    shown = ", ".join(f"state {problem.names[s]} (action {problem.action[choice[s]]})" for s in loop[:5])
    return (
        f"the return is unbounded: the loop {shown}{', …' if len(loop) > 5 else ''} pays for ever. Hint: give a "
        "discount below 1 or a horizon, or forbid the loop with allowed= or candidates="
    )
