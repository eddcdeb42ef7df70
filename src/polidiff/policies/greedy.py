"""A policy that always takes the most probable action of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polidiff.policies.protocol import Policy, one_hot, top_actions
from polidiff.records.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class GreedyPolicy:
    """The most probable action, ties to the lowest index."""

    base: Policy

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return self.base.n_actions

    def probabilities(self, states: Any) -> FloatArray:
        """Probability 1 for the most probable action."""
        return one_hot(top_actions(self.base.probabilities(states)), self.n_actions)
