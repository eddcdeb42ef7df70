"""A log of feature rows as a table over the cells of a grid, for rules about features.

Even episodes choose: their rows are put on the cells of a grid (`row_grid`) and become a table with shrunk rows. A rule
about cells is a rule about features; the policy that follows it everywhere in its bounds, also where the choosing half
saw too little of it to count on it, is what odd episodes judge, in cells of their own that are drawn for that policy.
Each row is one decision of an episode, or a whole episode; in the latter case a plan is a choice of segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.evaluation.logged.assessment import assess
from polidiff.evaluation.logged.counted_log import CountedLog, counted_log
from polidiff.evaluation.logged.counts import BLOCKS, count_rows
from polidiff.evaluation.logged.plan import MIN_GROUP, MIN_SUPPORT, choose_and_judge
from polidiff.evaluation.logged.policies import LOG, as_log_policy, logged_shares, logging_policy
from polidiff.evaluation.logged.rows import some_episodes
from polidiff.options import ImproveOptions
from polidiff.policies import PatchedPolicy, Policy
from polidiff.policies.patched import rule_patch
from polidiff.records.arrays import FloatArray
from polidiff.records.outcome import Assumption
from polidiff.records.plan import Frontier, Plan, PlanRule
from polidiff.records.rule import Rule, covers_any
from polidiff.rules.box_algebra import without_any
from polidiff.surrogates.frozen import frozen_rules
from polidiff.surrogates.logged.choosing_half import ChoosingHalf, choosing_half
from polidiff.surrogates.logged.judging_half import JudgingHalf
from polidiff.surrogates.logged.row_grid import RowCells, cells_of
from polidiff.surrogates.record import Explain, Note
from polidiff.surrogates.support import split_support
from polidiff.surrogates.table import Surrogate
from polidiff.worlds.log import Log
from polidiff.worlds.log_check import log_summary
from polidiff.worlds.log_rows import LoggedRows

KEEP = "keep"
TOLD = 0.005  # share of thinly supported decisions from which on it is told


@dataclass(frozen=True, eq=False, kw_only=True)
class LoggedGrid(Surrogate):
    """The choosing half over cells, and the log that judges."""

    current: Any  # as the user gave it
    policy: Policy  # what it does, estimated if it wrote the log
    rows: LoggedRows  # of the choosing half
    cells: RowCells
    chosen: ChoosingHalf
    least: int
    options: ImproveOptions

    def lift(self, plan: Plan) -> Plan:
        """A plan over cells as one over the log's features."""
        log, cells = self.world, self.cells
        actions = [action.name for action in log.actions]
        left_out, pieces = list(cells.frozen), []
        for entry in plan.rules:
            if entry.move == KEEP:
                left_out.append(entry.rule)
            else:
                parts = without_any(entry.rule, left_out, cells.kinds)
                pieces += [(part, actions.index(entry.move)) for part in parts]
        patch = rule_patch(pieces, actions, log.feature_names)
        rules = tuple(self._as_read(entry) for entry in plan.rules)
        return replace(plan, rules=rules, patch=patch, policy=PatchedPolicy(self.policy, patch))

    def _as_read(self, entry: PlanRule) -> PlanRule:
        """The rule as it is read: without what is frozen, if the rest is still one rule."""
        left = without_any(entry.rule, self.cells.frozen, self.cells.kinds)
        return replace(entry, rule=left[0] if len(left) == 1 else entry.rule)

    def judge(self, plans: Sequence[Plan], explain: Explain | None) -> tuple[Plan, ...]:
        """Plans with what the other half says about their policies, in cells drawn for each."""
        judging = JudgingHalf(self.world, self.current, self.options.level, self._judging_half)
        return tuple(self._told(plan) for plan in judging.judge(plans, explain))

    def _judging_half(self, plan: Plan) -> CountedLog:
        log, current = self.world, self.current
        policy = plan.policy if plan.patch.edits else current
        regions = tuple(dict.fromkeys(edit.rule for edit in plan.patch.edits))
        counted = counted_log(log, (current, policy), regions, seed=self.options.seed)
        half = choose_and_judge(log, counted=counted).judging
        return _as_logged(log, half, regions) if isinstance(current, str) else half

    def _told(self, plan: Plan) -> Plan:
        thin = self._thin(plan)
        note = f"{thin:.0%} of the decisions that these rules speak about lie in cells where too few took the action"
        same_sum = self.table.discount == self.world.discount
        return replace(
            plan,
            model_gap=plan.model_gap if same_sum else None,
            warnings=(*plan.warnings, *((note,) if thin >= TOLD else ())),
        )

    def _thin(self, plan: Plan) -> float:
        """Share of the choosing half's decisions under the rules whose action its cell has seen too rarely."""
        left = np.ones(len(self.cells.cell), dtype=np.bool_)
        spoken = thin = 0
        for rule, action in dict.fromkeys((edit.rule, edit.proposed) for edit in plan.patch.edits):
            here = left & rule.covers(self.rows.states)
            left &= ~here
            spoken += int(here.sum())
            thin += int((~self.chosen.offered[self.cells.cell[here], action]).sum())
        return thin / spoken if spoken else 0.0

    def conclude(self, solved: Frontier, plans: tuple[Plan, ...]) -> Frontier:
        """The log in place of its cells."""
        log = self.world
        return replace(
            solved,
            plans=plans,
            baselines=(),
            outcomes=log.outcomes,
            current_return=plans[0].expected_return,
            optimum=plans[-1].expected_return + solved.optimum - solved.best.expected_return,
            world=log_summary(log),
            methods=replace(
                solved.methods, evaluation="one half of the log chooses rules over cells, the other judges"
            ),
            stats={**solved.stats, "cells": self.cells.grid.size, "strength of shrinking": self.chosen.strength},
            context=self,
        )

    def assumptions(self) -> tuple[Assumption, ...]:
        """What was found out about the log."""
        return assess(self.world).assumptions

    def notes(self, plans: Sequence[Plan]) -> tuple[Note, ...]:
        """What rules rest on."""
        log, discount = self.world, self.table.discount
        note = (
            f"Rules were searched over {self.cells.grid.size} cells of the features, which stand for the rows in them: "
            f"an approximation. Half of the episodes chose them, counting on actions seen at least {self.least} times "
            f"in a cell, with rows shrunk by {self.chosen.strength:g} decisions; the other half judges. A bound is "
            "about rules on these cells."
        )
        shortened = (
            f"The search lets later decisions count less, {discount:.3g} a step, because within a cell one may "
            "seem to gain for ever; the judging half counts them in full."
        )
        parted = any(len(without_any(entry.rule, self.cells.frozen, self.cells.kinds)) != 1
                     for plan in plans for entry in plan.rules)  # fmt: skip
        frozen = "Where nothing may change is left out of the rules' edits, though not of their text."
        return (
            *log.notes,
            note,
            *((shortened,) if discount < log.discount else ()),
            *((frozen,) if parted else ()),
        )


def reduce_to_row_grid(log: Log, current: Any, options: ImproveOptions) -> LoggedGrid:
    """The choosing half over cells of its features."""
    share, least = split_support(options.min_support, MIN_SUPPORT)
    frozen = frozen_rules(options.freeze, log.feature_names)
    rows = log.rows
    if rows.n_episodes < 4 * MIN_GROUP:
        raise InvalidOptionError(
            f"rule plans from a log need at least {4 * MIN_GROUP} episodes, half to choose and half to judge; there "
            f"are {rows.n_episodes}"
        )
    choosing = replace(some_episodes(rows, rows.turn % 2 == 0), hashed=None)  # dealt to blocks by themselves
    given = None if isinstance(current, str) and current == LOG else as_log_policy(log, current)
    cells = cells_of(log, choosing, given, frozen, seed=options.seed)
    half = _choosing_counts(log, choosing, cells)
    chosen = choosing_half(log, half, current, least, _frozen_cells(choosing, cells), _discount(log, choosing))
    return LoggedGrid(
        world=log,
        table=chosen.model,
        base=chosen.current,
        by_rules=True,
        offered=chosen.offered,
        frozen=chosen.frozen,
        grid=cells.grid.padded(2),
        where="a log of feature rows",
        min_support=share,
        current=current,
        policy=logging_policy(log, seed=options.seed) if given is None else given,
        rows=choosing,
        cells=cells,
        chosen=chosen,
        least=least,
        options=options,
    )


def _choosing_counts(log: Log, rows: LoggedRows, cells: RowCells) -> CountedLog:
    """The choosing half, counted over the cells of the grid."""
    cell, size = cells.cell, cells.grid.size
    counts = count_rows(rows, cell, size, log.n_actions, blocks=BLOCKS)
    members = np.bincount(cell, minlength=size)

    def average(policy: Any) -> FloatArray:
        chances = np.asarray(as_log_policy(log, policy).probabilities(rows.states), dtype=np.float64)
        return np.column_stack([np.bincount(cell, column, size) for column in chances.T]) / members[:, None]

    names = tuple(f"cell {k}" for k in range(size))
    starts = cell[rows.first]
    return CountedLog(counts, names, starts, np.ones(len(starts), dtype=np.int64), average, lambda: cell)


def _discount(log: Log, rows: LoggedRows) -> float:
    """1 − 1 / H for records of H decisions on average: within a cell one may seem to gain for ever, and cannot."""
    length = len(rows.actions) / rows.n_episodes
    return log.discount * (1 - 1 / length) if length > 1 else log.discount


def _frozen_cells(rows: LoggedRows, cells: RowCells) -> Any:
    """(K + 2,) cells in which nothing may change; their bounds are cuts."""
    inside = covers_any(cells.frozen, rows.states) if cells.frozen else np.zeros(len(cells.cell), dtype=bool)
    return np.append(np.bincount(cells.cell, inside, cells.grid.size) > 0, [False, False])


def _as_logged(log: Log, judging: CountedLog, regions: tuple[Rule, ...]) -> CountedLog:
    """The log, counted so that a patched policy does as was logged where no edit speaks, and not as was estimated."""
    changed = np.zeros(judging.counts.n_states, dtype=np.bool_)
    changed[judging.row_state()[covers_any(regions, log.rows.states)]] = True
    shares, average = logged_shares(judging.counts.edges.visits), judging.average
    return replace(judging, average=lambda policy: np.where(changed[:, None], average(policy), shares))
