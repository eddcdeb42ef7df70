r"""From a table, a policy and the user's limits to the problem that is solved.

Every input is checked here, once: the current policy, what the candidates offer, what is frozen, what a change costs,
which outcomes are guarded, and in which unit changes are counted.

Plans evaluated again in the world, from its own transitions, before anyone sees them.

.. math:: x = (I - \gamma P_\pi^\top)^{-1} p_0, \qquad G_\pi = \sum_s x(s)\, g(s, \pi(s))

over the states that the plan reaches; states it does not reach keep the current action and count for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from polidiff.errors import InvalidOptionError, InvalidWorldError
from polidiff.evaluation.exact import ExactEvaluator, policy_table
from polidiff.frontier.problem import GUARD_TOLERANCE, FrontierProblem, build_problem
from polidiff.frontier.sparse_solver import SweptVisits
from polidiff.options import Unit
from polidiff.policies import PolicyLike, one_hot, top_actions
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.parse import parse_guards
from polidiff.surrogates.record import change_costs, frozen_states, guard_rooms
from polidiff.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    from polidiff.options import ChangeCost, Freeze, Keep

DISAGREEMENT = 1e-6


@dataclass(frozen=True, eq=False)
class Limit:
    """A guard with its limit worked out: the expected sum of `gains` is at most `most`."""

    text: str
    gains: FloatArray  # (S, A); the outcome's own, negated for a floor
    most: float


@dataclass(frozen=True, eq=False)
class Setting:
    """A world, the policy to change in it, and what may be changed."""

    world: TabularMDP
    current: FloatArray  # (S, A) the current policy as it is
    base: IntArray  # (S,) its most probable actions
    allowed: BoolArray  # (S, A) what a plan may do
    cost: FloatArray  # (S, A) what a decision costs as a change
    limits: tuple[Limit, ...]
    scale: float  # changes in the user's unit per expected change
    problem: FrontierProblem

    @property
    def starting_return(self) -> float:
        """Return of the current policy as it is."""
        return float(ExactEvaluator(self.world, self.current).totals(self.world.rewards))

    def actions_of(self, choice: IntArray) -> IntArray:
        """(S,) actions of a choice over the problem's states; the current action elsewhere."""
        actions = self.base.copy()
        actions[self.problem.names] = self.problem.action[choice]
        return actions


def prepare(
    world: TabularMDP,
    current: PolicyLike,
    offered: BoolArray | None,
    *,
    freeze: Freeze = (),
    change_cost: ChangeCost | None = None,
    keep: Keep = (),
    unit: Unit = "expected",
) -> Setting:
    """All inputs checked and put together; `offered` (S, A) says what plans may do, besides what the world allows."""
    table = policy_table(world, current)
    base = np.where(world.absorbing, 0, top_actions(table))
    ExactEvaluator(world, one_hot(base, world.n_actions)).check_ends()
    allowed = world.allowed & ~world.absorbing[:, None] & (True if offered is None else offered)
    frozen = frozen_states(freeze, world.feature_names, world.features_of(np.arange(world.n_states)))
    allowed[frozen] = False
    allowed[np.arange(world.n_states), base] = True
    cost = _costs(world, base, change_cost)
    limits = guard_limits(world, table, keep)
    return Setting(
        world=world,
        current=table,
        base=base,
        allowed=allowed,
        cost=cost,
        limits=limits,
        scale=unit_scale(world, unit),
        problem=_problem(world, allowed, cost, base, limits),
    )


def _costs(world: TabularMDP, base: IntArray, change_cost: ChangeCost | None) -> FloatArray:
    differs = np.arange(world.n_actions)[None, :] != base[:, None]
    costs = change_costs(change_cost, (world.n_states, world.n_actions))
    bad = np.argwhere(differs & ~(np.isfinite(costs) & (costs >= 0)))
    if bad.size:
        state, action = bad[0]
        raise InvalidOptionError(
            f"change_cost must be at least 0; for {world.actions[action].name!r} in {world.states[state]!r} it is "
            f"{costs[state, action]!r}"
        )
    return np.where(differs, costs, 0.0)


def guard_limits(world: TabularMDP, table: FloatArray, keep: Keep) -> tuple[Limit, ...]:
    """Guards on outcomes with their limits worked out for the current policy (S, A)."""
    outcomes = list({outcome.name: outcome for outcome in (world.return_outcome, *world.outcomes)}.values())
    if not parse_guards(keep, [outcome.name for outcome in outcomes]):
        return ()
    gains = [world.outcome_table(outcome) for outcome in outcomes]
    now = ExactEvaluator(world, table).totals(np.stack(gains, axis=2)).tolist()
    return tuple(
        Limit(room.guard.text, room.guard.sign * gains[room.place], room.guard.sign * room.now + room.most)
        for room in guard_rooms(keep, outcomes, now)
    )


def broken_limits(world: TabularMDP, table: FloatArray, limits: Sequence[Limit]) -> tuple[str, ...]:
    """The guards that a policy (S, A) does not keep, in words."""
    if not limits:
        return ()
    values = ExactEvaluator(world, table).totals(np.stack([limit.gains for limit in limits], axis=2)).tolist()
    most = [limit.most + GUARD_TOLERANCE * (1.0 + abs(limit.most)) for limit in limits]
    return tuple(limit.text for limit, value, end in zip(limits, values, most, strict=True) if value > end)


def unit_scale(world: TabularMDP, unit: str) -> float:
    """Changes in a unit per expected change: 1, or for the total the number of equally likely starts."""
    if unit == "expected":
        return 1.0
    if unit != "total":
        raise InvalidOptionError(f"unit must be 'expected' or 'total'; got {unit!r}")
    shares = world.initial[world.starts]
    if np.ptp(shares) > 1e-9:
        raise InvalidOptionError(
            f"unit='total' counts over equally likely starts; their probabilities run from {shares.min():.4g} to "
            f"{shares.max():.4g}. Hint: use unit='expected'"
        )
    return float(len(shares))


def _problem(
    world: TabularMDP, allowed: BoolArray, cost: FloatArray, base: IntArray, limits: tuple[Limit, ...]
) -> FrontierProblem:
    inside = np.flatnonzero(~world.absorbing)
    rows = (inside[:, None] * world.n_actions + np.arange(world.n_actions)).ravel()
    moves = sparse.csr_matrix(world.transitions[rows])
    if world.discount < 1:
        leaks = np.ones((len(inside), world.n_actions), dtype=np.bool_)
    else:
        leaks = (moves @ world.absorbing.astype(np.float64) > 0).reshape(len(inside), world.n_actions)
    return build_problem(
        world.discount * moves[:, inside],
        world.rewards[inside],
        cost[inside],
        world.initial[inside],
        allowed[inside],
        base[inside],
        leaks=leaks,
        names=inside,
        guards=np.array([limit.gains[inside] for limit in limits]) if limits else None,
        limits=np.array([limit.most for limit in limits]),
    )


@dataclass(frozen=True, eq=False)
class Evaluated:
    """What plans do and bring."""

    actions: IntArray  # (n, S) the current action where the plan does not go
    changes: FloatArray  # (n,) expected, in costs of change
    returns: FloatArray  # (n,)
    outcomes: dict[str, FloatArray]  # name -> (n,), the return among them


def evaluate_plans(setting: Setting, actions: IntArray, visits: Sequence[FloatArray | None] = ()) -> Evaluated:
    """Exact changes, return and outcomes of deterministic plans (n, S), neighbours in the list differing little.

    Each is swept, in the world's own rows, from the visits that the search worked out for the states of its problem,
    or from those of the plan before.
    """
    world = setting.world
    gains = {outcome.name: world.outcome_table(outcome) for outcome in world.told_outcomes}
    measured = np.stack([setting.cost, world.rewards, *gains.values()])
    kept, sums = np.tile(setting.base, (len(actions), 1)), np.zeros((len(measured), len(actions)))
    inside = np.flatnonzero(~world.absorbing)
    moves = sparse.csr_array(world.discount * world.transitions[:, inside])
    swept, own = SweptVisits(moves, world.initial[inside]), np.searchsorted(inside, setting.problem.names)
    there = world.initial[inside]
    for i, plan in enumerate(actions):
        near = visits[i] if i < len(visits) else None
        if near is not None:
            there[own] = near
        reached, there = swept.of(inside * world.n_actions + plan[inside], there)
        kept[i, inside[reached]] = plan[inside[reached]]
        sums[:, i] = measured[:, inside, kept[i, inside]] @ there
    changes, returns, *others = sums
    return Evaluated(kept, changes, returns, dict(zip(gains, others, strict=True)))


def check_agreement(expected_changes: FloatArray, expected_returns: FloatArray, again: Evaluated) -> None:
    """An error if the search and the evaluation of its plans disagree."""
    for what, claimed, found in (
        ("changes", expected_changes, again.changes),
        ("return", expected_returns, again.returns),
    ):
        off = np.abs(claimed - found) > DISAGREEMENT * (1.0 + np.abs(found))
        if off.any():
            worst = int(np.argmax(np.abs(claimed - found)))
            raise InvalidWorldError(
                f"the search claims {what} {claimed[worst]:.9g} for a plan that evaluates to {found[worst]:.9g}: "
                "episodes are too long for proofs in floating-point numbers. Hint: give a discount below 1"
            )
