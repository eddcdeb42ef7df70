"""How much a plan depends on the table: search again in tables that could as well have been the true one.

The overlap of two plans is the share of the visits changed by either that both change in the same way. A model of a log
comes with draws of its own (`gain_intervals`); a known table is perturbed by a tenth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from polidiff.evaluation.exact import ExactEvaluator, policy_table
from polidiff.frontier.rule_plans.cells import Cells
from polidiff.frontier.rule_plans.lists import Problem, Scored
from polidiff.frontier.rule_plans.model import choice_model
from polidiff.frontier.rule_plans.plan import plan_table
from polidiff.frontier.rule_plans.search import default_options, landmarks, scaled, search
from polidiff.records.arrays import FloatArray
from polidiff.records.interval import Interval
from polidiff.records.plan import Frontier
from polidiff.worlds.tabular import TabularMDP

STRENGTH = 0.1


def perturbed(world: TabularMDP, rng: np.random.Generator, strength: float = STRENGTH) -> TabularMDP:
    """The table with every transition probability scaled by about ± `strength` and rows summing to 1 again."""
    moves = world.transitions.copy()
    moves.data = moves.data * np.exp(strength * rng.standard_normal(len(moves.data)))
    sums = np.asarray(moves.sum(axis=1)).ravel()
    moves = sparse.csr_array(sparse.diags_array(1 / np.where(sums > 0, sums, 1.0)) @ moves)
    return TabularMDP(
        [moves[action :: world.n_actions] for action in range(world.n_actions)],
        world.rewards, world.initial, absorbing=world.absorbing, actions=world.actions, features=world.features,
        feature_names=world.feature_names, allowed=world.allowed, discount=world.discount,
    )  # fmt: skip


def overlaps(
    world: TabularMDP, problem: Problem, best: Sequence[Scored], *, draws: int, rng: np.random.Generator
) -> tuple[float | None, ...]:
    """Mean overlap of each plan with the plan of the same size found in perturbed tables."""
    tables = [plan_table(problem, scored.rules) for scored in best]
    visits = [ExactEvaluator(world, table).visits() for table in tables]
    shares: list[list[float]] = [[] for _ in best]
    for _ in range(draws):
        other = _again(perturbed(world, rng), problem)
        marks = landmarks(other)
        found = search(
            other, marks, len(best) - 1, options=scaled(default_options(other.model.size, len(other.cells.sizes)), 0.5)
        )
        for k, scored in enumerate(found):
            share = _overlap(problem.moves.current, tables[k], plan_table(other, scored.rules), visits[k])
            if share is not None:
                shares[k].append(share)
    return tuple(float(np.mean(found)) if found else None for found in shares)


def gain_intervals(
    frontier: Frontier, current: Any, models: Sequence[TabularMDP], level: float = 0.95
) -> tuple[Interval, ...]:
    """Gain of every plan over the current policy, with quantiles over models drawn for the same log.

    Each model must have the states and actions of the world that the plans were made for.
    """
    gains = []
    for model in models:
        now = _return(model, policy_table(model, current))
        gains.append([_return(model, policy_table(model, plan.policy)) - now for plan in frontier])
    drawn = np.array(gains).reshape(len(models), len(frontier))
    tail = (1 - level) / 2
    found = []
    for plan, column in zip(frontier, drawn.T, strict=True):
        low, high = np.quantile(column, [tail, 1 - tail])
        estimate = plan.expected_return - frontier.current_return
        found.append(Interval(estimate, min(float(low), estimate), max(float(high), estimate), level))
    return tuple(found)


def _return(world: TabularMDP, table: FloatArray) -> float:
    return float(ExactEvaluator(world, table).visits() @ (table * world.rewards).sum(axis=1))


def _again(world: TabularMDP, problem: Problem) -> Problem:
    cells: Cells = problem.cells
    model = choice_model(world, problem.moves)
    return Problem.of(
        problem.moves, cells, model, problem.max_conditions, problem.max_literals, problem.feasible,
        problem.finder.support,
    )  # fmt: skip


def _overlap(current: FloatArray, one: FloatArray, other: FloatArray, visits: FloatArray) -> float | None:
    changed = [np.abs(table - current).max(axis=1) > 1e-9 for table in (one, other)]
    either = float(visits[changed[0] | changed[1]].sum())
    same = changed[0] & changed[1] & (np.abs(one - other).max(axis=1) < 1e-9)
    return float(visits[same].sum()) / either if either > 0 else None
