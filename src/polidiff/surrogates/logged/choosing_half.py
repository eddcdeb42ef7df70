"""The half of a log that chooses rules, as a table: rows are shrunk, and only pairs seen often enough are offered."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from polidiff.errors import ImproperPolicyError
from polidiff.evaluation.exact import ExactEvaluator
from polidiff.evaluation.logged.counted_log import CountedLog
from polidiff.evaluation.logged.plan import estimated_world, supported_world
from polidiff.policies import one_hot
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.records.plan import Frontier, Plan
from polidiff.surrogates.frozen import frozen_states
from polidiff.surrogates.logged.shrinking import best_strength, shrunk
from polidiff.worlds.log import Log
from polidiff.worlds.protocol import aim
from polidiff.worlds.tabular import TabularMDP


@dataclass(frozen=True, eq=False)
class ChoosingHalf:
    """What the choosing half of a log knows, as tables."""

    raw: TabularMDP  # rows as counted
    model: TabularMDP  # rows shrunk
    current: FloatArray  # (S + 2, A) the policy in use
    offered: BoolArray  # (S + 2, A) pairs that rules may prescribe
    frozen: BoolArray  # (S + 2,) never met, or kept by the user
    strength: float

    def promises(self, solved: Frontier) -> dict[str, float]:
        """What the choosing half says a plan gains, with shrunk and with raw rows: the winner's curse in figures."""
        said: dict[str, float] = {}
        base = _return(self.raw, self.current)
        for plan in solved.plans[1:]:
            table, rules = with_edits(self.current, plan), len(plan.rules)
            said[f"gain said by the choosing half with {rules} rules, shrunk"] = (
                plan.expected_return - solved.current_return
            )
            try:
                raw = _return(self.raw, table) - base
            except ImproperPolicyError:  # counts without shrinking may hold loops that nobody was seen to leave
                continue
            said[f"gain said by the choosing half with {rules} rules, raw"] = raw
        return said


def choosing_half(
    log: Log, half: CountedLog, current: Any, least: int, freeze: Any, discount: float | None = None
) -> ChoosingHalf:
    """What one half of a log knows; `discount` may end what cells make look endless."""
    visits = half.counts.edges.visits
    met = np.append(visits.sum(axis=1) > 0, [False, False])
    raw = _with_features(estimated_world(log, counted=half), met)
    raw.discount = raw.discount if discount is None else discount
    strength = best_strength(half.counts.edges, outcome=aim(log)[0])
    often = np.array(supported_world(log, min_support=least, counted=half).allowed)
    often[:-2] &= visits >= least
    frozen = ~met | frozen_states(freeze, raw.feature_names, raw.features_of(np.arange(raw.n_states)))
    model = shrunk(raw, visits, strength)
    table = _seen_part(model, half.table(current), visits, met)
    return ChoosingHalf(raw, model, table, often, frozen, strength)


def with_edits(table: FloatArray, plan: Plan) -> FloatArray:
    """A policy (S, A) with the plan's edits, which list their states."""
    edited = np.array(table)
    for edit in plan.patch.edits:
        states = list(edit.states or ())
        edited[states] = one_hot(np.full(len(states), edit.proposed), table.shape[1])
    return edited


def _seen_part(world: TabularMDP, table: FloatArray, visits: FloatArray, met: BoolArray) -> FloatArray:
    """The policy on what the half has seen: its seen actions, or the most frequent one where it has none."""
    whole = np.vstack([table, np.zeros((2, table.shape[1]))])
    whole = np.where(world.allowed, whole, 0.0)
    usual = one_hot(np.append(visits.argmax(axis=1), [0, 0]), table.shape[1])
    mass = whole.sum(axis=1, keepdims=True)
    return np.where((mass > 0) & met[:, None], whole / np.maximum(mass, 1e-300), usual)


def _with_features(world: TabularMDP, met: BoolArray) -> TabularMDP:
    """The table with the features of a met state lent to states that the half never met; nothing changes there."""
    filled = copy.copy(world)
    if world.features is not None and met.any() and not met.all():
        features = np.array(world.features)
        features[~met] = features[np.flatnonzero(met)[0]]
        filled.features = features
    return filled


def _return(world: TabularMDP, table: FloatArray) -> float:
    return float(ExactEvaluator(world, table).visits() @ (table * world.rewards).sum(axis=1))
