"""Candidates learned from a log where the user gives none: never an action that was hardly tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polidiff.evaluation.logged.behaviour import behaviour_policy
from polidiff.evaluation.logged.episodes import some_episodes
from polidiff.evaluation.logged.fitted_q import FittedQ, fitted_q_iteration
from polidiff.evaluation.logged.plan import MIN_SUPPORT, choose_and_judge, supported_world
from polidiff.evaluation.optimum import best_policy
from polidiff.policies import Policy, TablePolicy, one_hot
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.protocol import aim

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

SWEEPS = 10
LEAST_CHANCE = 0.02  # of an action under the estimated logging policy, below which features do not support it


@dataclass(frozen=True, eq=False)
class GreedyWhereSupported:
    """The best fitted value among the actions that the logging policy takes often enough."""

    fitted: FittedQ
    behaviour: Policy
    sign: float

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return self.fitted.n_actions

    def probabilities(self, states: Any) -> FloatArray:
        """One action per state."""
        rows = np.asarray(states)
        offered = supported_actions(self.behaviour.probabilities(rows))
        best = np.where(offered, self.sign * self.fitted.values(rows), -np.inf).argmax(axis=1)
        return one_hot(best.astype(np.int64), self.n_actions)


def learn_candidates(log: Log, *, min_support: int = MIN_SUPPORT, sweeps: int = SWEEPS, seed: int = 0) -> list[Policy]:
    """The best plan of the half that chooses, over supported pairs; by fitted-Q iteration where states are features."""
    if log.discrete:
        return [_best_supported(log, min_support)]
    behaviour = behaviour_policy(log, seed=seed)
    outcome, sign = aim(log)
    rows = some_episodes(log.rows, log.rows.turn % 2 == 0)  # the half that `choose_and_judge` lets choose
    offered = supported_actions(behaviour.probabilities(rows.states))
    fitted = fitted_q_iteration(log, rows, offered, sign=sign, outcome=outcome, sweeps=sweeps, seed=seed)
    return [GreedyWhereSupported(fitted, behaviour, sign)]


def supported_actions(chances: FloatArray) -> Any:
    """(n, A) which actions are taken often enough; the most frequent one always is."""
    return (chances >= LEAST_CHANCE) | (chances == chances.max(axis=1, keepdims=True))


def _best_supported(log: Log, min_support: int) -> Policy:
    half = choose_and_judge(log).choosing
    world = supported_world(log, counted=half, min_support=min_support)
    logged: IntArray = np.append(half.counts.edges.visits.argmax(axis=1), [0, 0])
    best = best_policy(world, start=logged)
    return TablePolicy(one_hot(best.actions[: log.n_states], log.n_actions))
