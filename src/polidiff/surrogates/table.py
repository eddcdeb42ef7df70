"""Surrogates that are tables; a table is its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from polidiff.evaluation.exact import policy_table
from polidiff.options import ImproveOptions
from polidiff.policies import top_actions
from polidiff.policies.protocol import Candidates, PolicyLike
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.records.plan import Frontier
from polidiff.rules.cell_grid import Grid
from polidiff.surrogates.record import Reduction, Solver, refuse_pessimism, refuse_with_rules
from polidiff.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    from polidiff.options import Freeze


@dataclass(frozen=True, eq=False, kw_only=True)
class Surrogate(Reduction):
    """A table to plan in."""

    table: TabularMDP
    base: PolicyLike  # the current policy, in the table
    by_rules: bool = False  # whether plans are lists of rules; else sets of changed places
    candidates: Candidates = None  # policies of the table whose actions plans may take; None: all actions
    offered: BoolArray | None = None  # (S, A) what rules may prescribe, besides what the table allows
    cost: FloatArray | None = None  # (S, A) what a decision counts as a change; None: 1, or what the user says
    frozen: Freeze = ()  # where nothing may change: a mask of the table's states, or conditions
    grid: Grid | None = None  # cells that rules speak about; None: made from the table's features
    where: str = ""  # "a simulator" where places are cells, in which rules can prescribe actions only
    min_support: float | None = None  # what must lie behind a rule, in the table
    node_limit: int | None = None  # 0 where no proof is worth its time, because the table is only an estimate

    def solve(self, solver: Solver) -> Frontier:
        """Lists of rules, or sets of changed places."""
        return solver.rules(self) if self.by_rules else solver.changed_places(self)


def reduce(world: TabularMDP, current: PolicyLike, candidates: Candidates, options: ImproveOptions) -> Surrogate:
    """The table itself; rules over its features if they are asked for."""
    refuse_pessimism(options)
    by_rules = options.max_rules is not None and world.has_features
    if by_rules:
        refuse_with_rules(options)
    return Surrogate(
        world=world,
        table=world,
        base=current,
        by_rules=by_rules,
        candidates=candidates,
        offered=_taken(world, current, candidates) if by_rules and candidates is not None else None,
        frozen=options.freeze,
        min_support=options.min_support,
    )


def _taken(world: TabularMDP, current: PolicyLike, candidates: Sequence[PolicyLike]) -> BoolArray:
    """(S, A) actions that some candidate takes."""
    base = top_actions(policy_table(world, current))
    taken = np.zeros((world.n_states, world.n_actions), dtype=np.bool_)
    for candidate in candidates:
        top = top_actions(policy_table(world, candidate), base)
        taken[np.arange(world.n_states), top] = True
    return taken
