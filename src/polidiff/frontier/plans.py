r"""Plans evaluated again in the world, from its own transitions, before anyone sees them.

.. math:: x = (I - \gamma P_\pi^\top)^{-1} p_0, \qquad G_\pi = \sum_s x(s)\, g(s, \pi(s))

over the states that the plan reaches; states it does not reach keep the current action and count for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from polidiff.evaluation.exact import ExactEvaluator
from polidiff.evaluation.linear import DENSE_UP_TO
from polidiff.frontier.setting import Setting
from polidiff.policies import one_hot
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.outcome import Outcome
from polidiff.worlds.graph import reachable_from

DISAGREEMENT = 1e-6
BATCH_NUMBERS = 4_000_000


@dataclass(frozen=True, eq=False)
class Evaluated:
    """What plans do and bring."""

    actions: IntArray  # (n, S) the current action where the plan does not go
    visits: FloatArray  # (n, S)
    changes: FloatArray  # (n,) expected, in costs of change
    returns: FloatArray  # (n,)
    outcomes: dict[str, FloatArray]  # name -> (n,), the return among them


def told_outcomes(setting: Setting) -> tuple[Outcome, ...]:
    """The outcomes of the world, the return among them."""
    world = setting.world
    return world.outcomes if world.return_outcome in world.outcomes else (world.return_outcome, *world.outcomes)


def evaluate_plans(setting: Setting, actions: IntArray) -> Evaluated:
    """Exact visits, changes, return and outcomes of deterministic plans (n, S)."""
    world, states = setting.world, np.arange(setting.world.n_states)
    visits = np.zeros(actions.shape)
    kept = actions.copy()
    size = max(1, BATCH_NUMBERS // max(1, world.n_states**2))
    for start in range(0, len(actions), size):
        rows = slice(start, start + size)
        visits[rows], kept[rows] = _visits(setting, actions[rows])
    gains = {outcome.name: world.outcome_table(outcome) for outcome in told_outcomes(setting)}
    return Evaluated(
        actions=kept,
        visits=visits,
        changes=(visits * setting.cost[states, kept]).sum(axis=1),
        returns=(visits * world.rewards[states, kept]).sum(axis=1),
        outcomes={name: (visits * gain[states, kept]).sum(axis=1) for name, gain in gains.items()},
    )


def _visits(setting: Setting, actions: IntArray) -> tuple[FloatArray, IntArray]:
    world = setting.world
    reached = np.array([_reached(setting, plan) for plan in actions])
    kept = np.where(reached, actions, setting.base)
    if world.n_states > DENSE_UP_TO:
        return np.array([ExactEvaluator(world, one_hot(a, world.n_actions)).visits() for a in kept]), kept
    moves = np.zeros((len(kept), world.n_states, world.n_states))
    for moved, plan, there in zip(moves, kept, reached, strict=True):
        moved[there] = world.transitions[np.flatnonzero(there) * world.n_actions + plan[there]].toarray()
    system = np.eye(world.n_states) - world.discount * moves.transpose(0, 2, 1)
    start = np.broadcast_to(world.initial[:, None], (*kept.shape, 1))
    visits = np.linalg.solve(system, start)[:, :, 0]
    return np.where(reached & ~world.absorbing, visits, 0.0), kept


def _reached(setting: Setting, plan: IntArray) -> FloatArray:
    world = setting.world
    moves = sparse.csr_array(world.transitions[np.arange(world.n_states) * world.n_actions + plan])
    return np.asarray(reachable_from(moves, world.initial > 0) & ~world.absorbing)


def check_agreement(expected_changes: FloatArray, expected_returns: FloatArray, again: Evaluated) -> None:
    """An error if the search and the evaluation of its plans disagree."""
    for what, claimed, found in (
        ("changes", expected_changes, again.changes),
        ("return", expected_returns, again.returns),
    ):
        off = np.abs(claimed - found) > DISAGREEMENT * (1.0 + np.abs(found))
        if off.any():
            worst = int(np.argmax(np.abs(claimed - found)))
            raise RuntimeError(
                f"the search claims {what} {claimed[worst]:.9g} for a plan that evaluates to {found[worst]:.9g}; "
                "the table is too badly conditioned for floating-point proofs"
            )
