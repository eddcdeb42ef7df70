"""Surrogates that are tables; a table is its own.

Where the current policy acts by chance, going on as now is one decision more, of which a plan may take another one. A
change counts the chance that the current policy would have acted otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from polidiff.errors import ImproperPolicyError
from polidiff.evaluation.exact import ExactEvaluator, policy_table
from polidiff.options import ImproveOptions
from polidiff.policies import TablePolicy, one_hot, top_actions
from polidiff.policies.protocol import TIE, Candidates, PolicyLike
from polidiff.records.action import Action, Shift
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.numbers import number
from polidiff.records.patch import AS_NOW, Edit, Patch
from polidiff.records.plan import Frontier, Plan
from polidiff.records.rule import Rule
from polidiff.rules.cell_grid import Grid
from polidiff.surrogates.record import (
    NO_LOG,
    WITH_RULES,
    Note,
    Reduction,
    Solver,
    change_costs,
    refuse,
)
from polidiff.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    from polidiff.options import ChangeCost, Freeze


@dataclass(frozen=True, eq=False, kw_only=True)
class Surrogate(Reduction):
    """A table to plan in."""

    table: TabularMDP
    base: PolicyLike  # the current policy, in the table
    by_rules: bool = False  # whether plans are lists of rules; else sets of changed places
    offered: BoolArray | None = None  # (S, A) what plans may do, besides what the table allows; None: all of it
    cost: FloatArray | None = None  # (S, A) what a decision counts as a change; None: 1, or what the user says
    frozen: Freeze = ()  # where nothing may change: a mask of the table's states, or conditions
    grid: Grid | None = None  # cells that rules speak about; None: made from the table's features
    where: str = ""  # "a simulator" where places are cells, in which rules can prescribe actions only
    min_support: float | None = None  # what must lie behind a rule, in the table
    node_limit: int | None = None  # 0 where no proof is worth its time, because the table is only an estimate

    def solve(self, solver: Solver) -> Frontier:
        """Lists of rules, or sets of changed places."""
        return solver.rules(self) if self.by_rules else solver.changed_places(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class MixedTable(Surrogate):
    """A table in which the current policy acts by chance; going on as now is an action more."""

    world: TabularMDP
    now: FloatArray  # (S, A) its chances

    def lift(self, plan: Plan) -> Plan:
        """The current policy with the plan's edits."""
        policy = TablePolicy(with_edits(self.now, plan))
        return replace(plan, policy=policy, patch=mixed_patch(plan.patch, self.now, self.world.actions))

    def conclude(self, solved: Frontier, plans: tuple[Plan, ...]) -> Frontier:
        """The frontier, told about the table without the action more."""
        own = {outcome.name: outcome for outcome in self.world.outcomes}
        outcomes = tuple(own.get(outcome.name, outcome) for outcome in solved.outcomes)
        return replace(solved, plans=plans, outcomes=outcomes, world=replace(solved.world, actions=self.world.actions))

    def notes(self, plans: Sequence[Plan]) -> tuple[Note, ...]:
        """What is counted, and what the most probable actions would return."""
        said = "The current policy acts by chance: a change counts the chance that it would have acted otherwise"
        top = ExactEvaluator(self.world, one_hot(top_actions(self.now), self.world.n_actions))
        try:
            value = number(float(top.totals(self.world.rewards)), 6)
        except ImproperPolicyError:
            return (f"{said}. Its most probable actions alone would not end every episode.",)
        own = number(plans[0].expected_return, 6)
        return (f"{said}. It returns {own}; its most probable actions alone would return {value}.",)


def reduce(world: TabularMDP, current: PolicyLike, candidates: Candidates, options: ImproveOptions) -> Surrogate:
    """The table itself; rules over its features if they are asked for."""
    refuse(options, ("pessimism",), NO_LOG)
    by_rules = options.max_rules is not None and world.has_features
    if by_rules:
        refuse(options, ("max_states", "change_cost", "unit"), WITH_RULES)
    now, offered = policy_table(world, current), None
    if candidates is not None:
        base = top_actions(now)
        offered = taken_actions([top_actions(policy_table(world, one), base) for one in candidates], world)
    if not by_rules and (now.max(axis=1) < 1 - TIE)[~world.absorbing].any():
        return _mixed(world, now, offered, options)
    return Surrogate(
        world=world,
        table=world,
        base=current,
        by_rules=by_rules,
        offered=offered,
        frozen=options.freeze,
        min_support=options.min_support,
    )


def taken_actions(tops: Sequence[IntArray], world: TabularMDP) -> BoolArray:
    """(S, A) actions that some candidate takes, by the most probable action of each in the first states."""
    taken = np.zeros((world.n_states, world.n_actions), dtype=np.bool_)
    for top in tops:
        taken[np.arange(len(top)), top] = True
    return taken


def _mixed(world: TabularMDP, now: FloatArray, offered: BoolArray | None, options: ImproveOptions) -> MixedTable:
    as_now = np.ones((world.n_states, 1), dtype=np.bool_)
    return MixedTable(
        world=world,
        table=with_current(world, now, world, np.ones_like(world.allowed)),
        base=np.full(world.n_states, world.n_actions),
        offered=None if offered is None else np.hstack([offered, as_now]),
        cost=chance_costs(options.change_cost, now),
        frozen=options.freeze,
        now=now,
    )


def with_edits(table: FloatArray, plan: Plan) -> FloatArray:
    """A policy (S, A) with the plan's edits, which list their states."""
    edited, chosen = np.array(table), plan.patch.choices
    edited[list(chosen)] = one_hot(np.array(list(chosen.values()), dtype=np.int64), table.shape[1])
    return edited


def with_current(world: TabularMDP, table: FloatArray, whole: TabularMDP, offered: BoolArray) -> TabularMDP:
    """The table with one action more: going on as now, with the chances (S, A) of the current policy.

    What it leads to is told by the `whole` table, which also has what was done too rarely to be offered.

    What a policy does by chance is then one decision among others, of which a plan may take another one; those that
    it takes for certain are not offered twice.
    """
    n_states, n_actions = table.shape

    def widened(values: FloatArray, known: FloatArray) -> FloatArray:
        return np.hstack([values, (table * known).sum(axis=1, keepdims=True)])

    names = [action.name for action in world.actions]
    always, pairs = np.ones((n_states, 1), dtype=np.bool_), zip(world.outcomes, whole.outcomes, strict=True)
    return rebuilt(
        world,
        [*(world.transitions[action::n_actions] for action in range(n_actions)), whole.policy_moves(table)],
        widened(world.rewards, whole.rewards),
        [widened(world.outcome_table(one), whole.outcome_table(other)) for one, other in pairs],
        actions=[*names, next(name for name in (AS_NOW, f"{AS_NOW} (unchanged)") if name not in names)],
        allowed=np.hstack([world.allowed & offered & (table < 1 - 1e-9), always]),
    )


def rebuilt(
    world: TabularMDP,
    transitions: Sequence[sparse.csr_array],
    rewards: FloatArray,
    tables: Sequence[FloatArray],
    *,
    actions: Sequence[Action | str],
    allowed: BoolArray,
) -> TabularMDP:
    """The table with other decisions: where each leads, what it pays, and what it adds to every outcome (S, A)."""
    total = world.return_outcome.name
    return TabularMDP(
        transitions,
        rewards,
        world.initial,
        absorbing=world.absorbing,
        actions=actions,
        states=world.states,
        features=world.features,
        feature_names=world.feature_names if world.has_features else None,
        allowed=allowed,
        discount=world.discount,
        outcomes=[
            replace(one, of=table) for one, table in zip(world.outcomes, tables, strict=True) if one.name != total
        ],
        return_name=total,
        include_return=any(outcome.name == total for outcome in world.outcomes),
    )


def chance_costs(given: ChangeCost | None, table: FloatArray) -> FloatArray:
    """(S, A + 1) what each action counts as a change: the chance that the current policy takes another one.

    >>> chance_costs(None, np.array([[0.75, 0.25]])).tolist()
    [[0.25, 0.75, 0.0]]
    """
    costs = np.where(table < 1, change_costs(given, table.shape), 0.0)
    return np.column_stack([costs * (1 - table), np.zeros(len(table))])


def mixed_patch(patch: Patch, now: FloatArray, actions: Sequence[Action]) -> Patch:
    """Edits of the policy (S, A) that is in use now, with its chances where it is mixed."""
    names = tuple(action.name for action in actions)
    if names == patch.actions and (now.max(axis=1) >= 1 - TIE)[list(patch.choices)].all():
        return patch
    places: dict[tuple[Rule, int | None, int | None], list[int]] = {}
    for edit in patch.edits:
        key = (edit.rule, edit.current, edit.current) if edit.holds_back else (edit.rule, None, edit.proposed)
        places.setdefault(key, []).extend(edit.states or ())
    edits = [
        _edit(rule, after, states[0], now)
        if len(states) == 1 and after is not None and after != before
        else Edit(rule, before, after, tuple(states))
        for (rule, before, after), states in places.items()
    ]
    return replace(patch, edits=tuple(edits), actions=names)


def _edit(rule: Rule, action: int, state: int, now: FloatArray) -> Edit:
    """Another action in one state: instead of the certain one, or more often than by chance."""
    top = int(now[state].argmax())
    if now[state, top] >= 1 - TIE:
        return Edit(rule, top, action, (state,))
    return Edit(rule, None, action, (state,), Shift(float(now[state, action]), 1.0))
