"""How much a plan depends on the table: search again in tables that could as well have been the true one.

The overlap of two plans is the share of the visits changed by either that both change in the same way. A known
table is perturbed by a tenth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from polidiff.evaluation.exact import ExactEvaluator
from polidiff.frontier.rule_plans.lists import Feasible, Problem, Scored, Support
from polidiff.frontier.rule_plans.model import choice_model
from polidiff.frontier.rule_plans.moves import MoveSet
from polidiff.frontier.rule_plans.plan import plan_table
from polidiff.frontier.rule_plans.search import default_options, landmarks, scaled, search
from polidiff.parallel import run_tasks
from polidiff.records.arrays import FloatArray
from polidiff.rules.cell_grid import Grid
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
    given = (problem.moves, problem.cells, problem.max_conditions, problem.max_literals, problem.feasible,
             problem.finder.support)  # fmt: skip
    tasks = [(perturbed(world, rng), *given, len(best) - 1) for _ in range(draws)]
    shares: list[list[float]] = [[] for _ in best]
    for found in run_tasks(plans_again, tasks, what="stability"):
        for k, table in enumerate(found):
            share = _overlap(problem.moves.current, tables[k], table, visits[k])
            if share is not None:
                shares[k].append(share)
    return tuple(float(np.mean(found)) if found else None for found in shares)


def plans_again(
    world: TabularMDP,
    moves: MoveSet,
    cells: Grid,
    max_conditions: int,
    max_literals: int | None,
    feasible: Feasible | None,
    support: Support | None,
    most: int,
) -> list[FloatArray]:
    """Policies (S, A) of the plans of 0 to `most` rules that a shorter search finds in a table."""
    problem = Problem.of(
        moves, cells, choice_model(world, moves), max_conditions, max_literals, feasible, support
    )  # fmt: skip
    options = scaled(default_options(problem.model.size, len(cells.sizes)), 0.5)
    return [plan_table(problem, scored.rules) for scored in search(problem, landmarks(problem), most, options=options)]


def _overlap(current: FloatArray, one: FloatArray, other: FloatArray, visits: FloatArray) -> float | None:
    changed = [np.abs(table - current).max(axis=1) > 1e-9 for table in (one, other)]
    either = float(visits[changed[0] | changed[1]].sum())
    same = changed[0] & changed[1] & (np.abs(one - other).max(axis=1) < 1e-9)
    return float(visits[same].sum()) / either if either > 0 else None
