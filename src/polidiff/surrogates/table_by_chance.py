"""Policies that act by chance, in tables: going on as now is one decision more, of which a plan may take another one.

A change counts the chance that the current policy would have acted otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from polidiff.policies import one_hot
from polidiff.policies.protocol import TIE
from polidiff.records.action import Action, Shift
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.records.patch import AS_NOW, Edit, Patch
from polidiff.records.plan import Plan
from polidiff.records.rule import Rule
from polidiff.surrogates.record import change_costs
from polidiff.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    from polidiff.options import ChangeCost


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
    flat = np.arange(n_states * n_actions).reshape(table.shape)
    place = np.repeat(np.arange(n_states), n_actions), flat.ravel()
    mean = sparse.csr_array((table.ravel(), place), shape=(n_states, table.size)) @ whole.transitions

    def widened(values: FloatArray, known: FloatArray) -> FloatArray:
        return np.hstack([values, (table * known).sum(axis=1, keepdims=True)])

    names = [action.name for action in world.actions]
    always = np.ones((n_states, 1), dtype=np.bool_)
    total = world.return_outcome.name
    return TabularMDP(
        [*(world.transitions[action::n_actions] for action in range(n_actions)), sparse.csr_array(mean)],
        widened(world.rewards, whole.rewards),
        world.initial,
        absorbing=world.absorbing,
        actions=[*names, next(name for name in (AS_NOW, f"{AS_NOW} (unchanged)") if name not in names)],
        states=world.states,
        features=world.features,
        feature_names=world.feature_names if world.has_features else None,
        allowed=np.hstack([world.allowed & offered & (table < 1 - 1e-9), always]),
        discount=world.discount,
        outcomes=[
            replace(one, of=widened(world.outcome_table(one), whole.outcome_table(other)))
            for one, other in zip(world.outcomes, whole.outcomes, strict=True)
            if one.name != total
        ],
        return_name=total,
        include_return=any(outcome.name == total for outcome in world.outcomes),
    )


def chance_costs(given: ChangeCost | None, table: FloatArray) -> FloatArray:
    """(S, A + 1) what each action counts as a change: the chance that the current policy takes another one.

    >>> chance_costs(None, np.array([[0.75, 0.25]])).tolist()
    [[0.25, 0.75, 0.0]]
    """
    return np.column_stack([change_costs(given, table.shape) * (1 - table), np.zeros(len(table))])


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
