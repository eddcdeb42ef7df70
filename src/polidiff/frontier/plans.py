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
from polidiff.frontier.sparse_solver import SparseRows
from polidiff.frontier.visits import inverse_of, policy_visits, switched_visits
from polidiff.policies import one_hot
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.outcome import Outcome
from polidiff.worlds.checks import reachable_from

DISAGREEMENT = 1e-6
FAR = 8  # a plan that differs from the inverse at hand in more than one of so many states is factorised
RESIDUAL = 1e-12
SWEPT = 0.05  # of the residual: the largest move after which sweeps end
SMALL = 150  # states up to which plans are evaluated many at a time
BATCH_NUMBERS = 4_000_000  # numbers held at once for these


@dataclass(frozen=True, eq=False)
class Evaluated:
    """What plans do and bring."""

    actions: IntArray  # (n, S) the current action where the plan does not go
    changes: FloatArray  # (n,) expected, in costs of change
    returns: FloatArray  # (n,)
    outcomes: dict[str, FloatArray]  # name -> (n,), the return among them


def told_outcomes(setting: Setting) -> tuple[Outcome, ...]:
    """The outcomes of the world, the return among them."""
    world = setting.world
    return world.outcomes if world.return_outcome in world.outcomes else (world.return_outcome, *world.outcomes)


def evaluate_plans(setting: Setting, actions: IntArray) -> Evaluated:
    """Exact changes, return and outcomes of deterministic plans (n, S), neighbours in the list differing little."""
    world, states = setting.world, np.arange(setting.world.n_states)
    gains = {outcome.name: world.outcome_table(outcome) for outcome in told_outcomes(setting)}
    measured = np.stack([setting.cost, world.rewards, *gains.values()])
    kept, sums = actions.copy(), np.zeros((len(measured), len(actions)))
    size = max(1, BATCH_NUMBERS // world.n_states**2)
    visited = _Visits(setting)
    for start in range(0, len(actions), size if world.n_states <= SMALL else 1):
        if world.n_states <= SMALL:
            rows = slice(start, start + size)
            kept[rows], visits = _batch(setting, actions[rows])
            sums[:, rows] = (measured[:, states, kept[rows]] * visits).sum(axis=2)
        else:
            reached = _reached(setting, actions[start])
            kept[start] = np.where(reached, actions[start], setting.base)
            sums[:, start] = measured[:, states, kept[start]] @ visited.of(kept[start], reached)
    changes, returns, *others = sums
    return Evaluated(kept, changes, returns, dict(zip(gains, others, strict=True)))


def _batch(setting: Setting, actions: IntArray) -> tuple[IntArray, FloatArray]:
    """Plans (b, S) of a small table with the current action where they do not go, and their expected visits."""
    world, states = setting.world, np.arange(setting.world.n_states)
    table = world.transitions.toarray().reshape(world.n_states, world.n_actions, world.n_states)
    table[world.absorbing] = 0.0
    moves = table[states, actions]
    reached = np.repeat(world.initial[None] > 0, len(actions), axis=0)
    while True:
        more = reached | ((reached[:, None, :].astype(np.float64) @ moves)[:, 0] > 0)
        if (more == reached).all():
            break
        reached = more
    moves[~reached] = 0.0
    visits = policy_visits(world.discount * moves, world.initial)
    return np.where(reached, actions, setting.base), np.where(reached & ~world.absorbing, visits, 0.0)


class _Visits:
    """Expected visits of plans that are evaluated one after the other.

    One inverse serves plans that differ from its own in few states (Sherman, Morrison and Woodbury). Tables too large
    to invert are swept from the visits of the plan before. What that gives is believed only where it solves the plan's
    own system in the world, else the plan is evaluated afresh.
    """

    def __init__(self, setting: Setting) -> None:
        self.world = setting.world
        self.inside = np.flatnonzero(~self.world.absorbing)
        self.start = self.world.initial[self.inside]
        self.plan: IntArray | None = None
        self.inverse = np.zeros((0, 0))
        self.visits = np.zeros(0)

    def of(self, plan: IntArray, reached: BoolArray) -> FloatArray:
        """(S,) expected visits, 0 in absorbing states and in those that the plan does not reach."""
        visits = np.zeros(self.world.n_states)
        large = self.world.n_states > DENSE_UP_TO
        visits[self.inside] = self._swept(plan, reached[self.inside]) if large else self._near(plan)
        return np.maximum(visits, 0.0)

    def _swept(self, plan: IntArray, reached: BoolArray) -> FloatArray:
        moves = self._moves(plan, np.arange(len(self.inside)))
        rows = SparseRows(sparse.csr_matrix(moves.T), np.arange(len(self.inside) + 1))
        rows.follow(np.arange(len(self.inside)))
        before = self.visits if len(self.visits) else self.start
        visits = np.where(reached, before, 0.0)  # what is not reached may circle for ever
        rows.settle(self.start, visits, SWEPT * RESIDUAL * max(1.0, float(visits.max())))
        if not self._solves(moves, visits):
            visits = ExactEvaluator(self.world, one_hot(plan, self.world.n_actions)).visits()[self.inside]
        self.visits = visits
        return visits

    def _solves(self, moves: sparse.csr_array, visits: FloatArray) -> bool:
        rest = np.abs(self.start + moves.T @ visits - visits).max(initial=0.0)
        return bool(rest <= RESIDUAL * max(1.0, np.abs(visits).max(initial=0.0)))

    def _near(self, plan: IntArray) -> FloatArray:
        if self.plan is not None:
            where = np.flatnonzero(plan[self.inside] != self.plan[self.inside])
            if len(where) <= len(self.inside) // FAR:
                step = self._moves(plan, where).toarray() - self._moves(self.plan, where).toarray()
                found = switched_visits(self.inverse, self.visits, where, step)[1]
                if self._solves(self._moves(plan, np.arange(len(self.inside))), found):
                    return found
        self.plan = plan
        self.inverse = inverse_of(self._moves(plan, np.arange(len(self.inside))).toarray()[None])[0]
        self.visits = self.start @ self.inverse
        return self.visits

    def _moves(self, plan: IntArray, where: IntArray) -> sparse.csr_array:
        """(k, n) discounted moves of a plan from some of the states inside."""
        states = self.inside[where]
        rows = sparse.csr_array(self.world.transitions[states * self.world.n_actions + plan[states]])
        return sparse.csr_array(self.world.discount * rows[:, self.inside])


def _reached(setting: Setting, plan: IntArray) -> BoolArray:
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
