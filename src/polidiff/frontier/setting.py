"""From a table, a policy and the user's limits to the problem that is solved.

Every input is checked here, once: the current policy, what the candidates offer, what is frozen, what a change costs,
which outcomes are guarded, and in which unit changes are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from polidiff.errors import InvalidOptionError
from polidiff.evaluation.exact import ExactEvaluator, policy_table
from polidiff.frontier.problem import FrontierProblem, build_problem
from polidiff.options import Unit
from polidiff.policies import PolicyLike, one_hot, top_actions
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.parse import Guard, parse_guard
from polidiff.surrogates.record import frozen_states
from polidiff.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    from polidiff.options import ChangeCost, Freeze


@dataclass(frozen=True, eq=False)
class Limit:
    """A guard with its limit worked out: the expected sum of `gains` is at most `most`."""

    text: str
    outcome: str
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
        evaluator = ExactEvaluator(self.world, self.current)
        return float(evaluator.visits() @ (self.current * self.world.rewards).sum(axis=1))

    def actions_of(self, choice: IntArray) -> IntArray:
        """(S,) actions of a choice over the problem's states; the current action elsewhere."""
        actions = self.base.copy()
        actions[self.problem.names] = self.problem.action[choice]
        return actions


def prepare(
    world: TabularMDP,
    current: PolicyLike,
    candidates: Sequence[PolicyLike] | None,
    *,
    freeze: Freeze = (),
    change_cost: ChangeCost | None = None,
    keep: Iterable[str | Guard] = (),
    unit: Unit = "expected",
) -> Setting:
    """All inputs checked and put together."""
    table = policy_table(world, current)
    base = np.where(world.absorbing, 0, top_actions(table))
    ExactEvaluator(world, one_hot(base, world.n_actions)).check_ends(world.initial)
    allowed = _offered(world, base, candidates)
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


def _offered(world: TabularMDP, base: IntArray, candidates: Sequence[PolicyLike] | None) -> BoolArray:
    """Actions a plan may take: all that the world allows, or those of the candidates beside the current one."""
    if candidates is None:
        return np.array(world.allowed & ~world.absorbing[:, None])
    offered = np.zeros((world.n_states, world.n_actions), dtype=np.bool_)
    for candidate in candidates:
        top = top_actions(policy_table(world, candidate), base)
        offered[np.arange(world.n_states), top] = True
    return offered & world.allowed & ~world.absorbing[:, None]


def _costs(world: TabularMDP, base: IntArray, change_cost: ChangeCost | None) -> FloatArray:
    shape = (world.n_states, world.n_actions)
    differs = np.arange(world.n_actions)[None, :] != base[:, None]
    if change_cost is None:
        return differs.astype(np.float64)
    given = np.asarray(change_cost, dtype=np.float64)
    given = given[None, :] if given.shape == (world.n_actions,) else given
    if given.shape not in (shape, (1, world.n_actions), ()):
        raise InvalidOptionError(
            f"change_cost must be a number, one per action ({world.n_actions},) or per state and action {shape}; "
            f"got shape {given.shape}"
        )
    costs = np.broadcast_to(given, shape)
    bad = np.argwhere(differs & ~(np.isfinite(costs) & (costs >= 0)))
    if bad.size:
        state, action = bad[0]
        raise InvalidOptionError(
            f"change_cost must be at least 0; for {world.actions[action].name!r} in {world.states[state]!r} it is "
            f"{costs[state, action]!r}"
        )
    return np.where(differs, costs, 0.0)


def guard_limits(world: TabularMDP, table: FloatArray, keep: Iterable[str | Guard]) -> tuple[Limit, ...]:
    """Guards on outcomes with their limits worked out for the current policy (S, A)."""
    known = {outcome.name: outcome for outcome in (world.return_outcome, *world.outcomes)}
    texts = [keep] if isinstance(keep, (str, Guard)) else list(keep)
    guards = [parse_guard(guard, list(known)) if isinstance(guard, str) else guard for guard in texts]
    limits = []
    for guard in guards:
        gains = world.outcome_table(known[guard.outcome])
        now = 0.0
        if guard.relative:
            visits = ExactEvaluator(world, table).visits()
            now = float(visits @ (table * gains).sum(axis=1))
        sign = 1.0 if guard.sense == "<=" else -1.0
        limits.append(Limit(guard.text, guard.outcome, sign * gains, sign * (now + guard.value)))
    return tuple(limits)


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
