"""Rule plans from a log whose states are features: searched over cells, judged as policies over the features.

Even episodes choose: their rows are put on the cells of a grid (`row_cells`) and become a table with shrunk rows, in
which rules are searched as in a log with discrete states (`from_log`). A rule about cells is a rule about features; the
policy that follows it everywhere in its bounds, also where the choosing half saw too little of it to count on it, is
what odd episodes judge, in cells of their own that are drawn for that policy. Each row is one decision of an episode,
or a whole episode; in the latter case a plan is a choice of segments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.evaluation.logged.behaviour import behaviour_policy, logged_shares
from polidiff.evaluation.logged.counted_log import LOG, CountedLog, as_log_policy, counted_log
from polidiff.evaluation.logged.counts import BLOCKS, count_rows
from polidiff.evaluation.logged.episodes import some_episodes
from polidiff.evaluation.logged.plan import MIN_GROUP, MIN_SUPPORT, choose_and_judge
from polidiff.explanation.summary import features_seen
from polidiff.frontier.judging import judge_plan
from polidiff.frontier.rule_plans.exceptions import without_any
from polidiff.frontier.rule_plans.from_log import Choosing, choosing_tables
from polidiff.frontier.rule_plans.improve import improve_with_rules
from polidiff.frontier.rule_plans.moves import KEEP
from polidiff.frontier.rule_plans.request import actions_only, frozen_rules, split_support
from polidiff.frontier.rule_plans.row_cells import RowCells, cells_of
from polidiff.policies import PatchedPolicy, Policy
from polidiff.policies.patched import rule_patch
from polidiff.progress import track
from polidiff.records.arrays import FloatArray
from polidiff.records.explanation import Explanation, WorldSummary
from polidiff.records.plan import Frontier, Plan, PlanRule
from polidiff.records.rule import Rule, covers_any
from polidiff.worlds.log import Log
from polidiff.worlds.log_rows import LoggedRows

PASSED_ON = ("max_conditions", "max_literals", "keep", "gap", "time_limit", "search")
TOLD = 0.005  # share of thinly supported decisions from which on it is told
Explain = Callable[[Any, Any, Any], Explanation]


@dataclass(frozen=True, eq=False)
class _Ground:
    """A log of feature rows, and where rules for it are searched."""

    log: Log
    rows: LoggedRows  # of the choosing half
    cells: RowCells
    current: Any  # as the user gave it
    base: Policy
    seed: int


def improve_rows_with_rules(
    log: Log,
    current: Any,
    *,
    max_rules: int,
    moves: Any = "actions",
    min_support: float | None = None,
    freeze: Any = (),
    level: float = 0.95,
    seed: int = 0,
    explain: Explain | None = None,
    **options: Any,
) -> Frontier:
    """Plans of at most `max_rules` rules over the features of a log.

    Parameters
    ----------
    moves : "actions" or list of Move.action
        What a rule may prescribe.
    min_support : int or float, optional
        A whole number: how often an action must have been seen in a cell of the choosing half before the search counts
        on it there (10 by default). A share below 1: of the decisions that a rule must speak about.
    freeze : conditions or rules
        Where nothing may change, exactly.
    level : float
        Of the intervals of all plans together.
    """
    share, least = split_support(min_support, MIN_SUPPORT)
    wanted = {name: value for name, value in options.items() if name in PASSED_ON}
    listed = actions_only(moves, log.actions, "a log of feature rows")
    named = moves if isinstance(moves, str) else listed  # "actions" leaves out those that are offered nowhere
    ground = _ground(log, current, frozen_rules(freeze, log.feature_names), seed)
    half = _choosing_half(ground)
    features = ground.cells.features, log.feature_names
    chosen = choosing_tables(log, half, current, least, _frozen(ground), features, _discount(ground))
    solved = improve_with_rules(
        chosen.model, chosen.current, max_rules=max_rules, moves=named, min_support=share, offered=chosen.offered,
        freeze=chosen.frozen, level=level, seed=seed, **wanted,
    )  # fmt: skip
    lifted = [_lifted(ground, plan) for plan in solved.plans]
    family = max(1, len(lifted) - 1) * len(log.outcomes)
    plans = tuple(
        _judged(ground, plan, chosen, level, family, explain)
        for plan in track("plans judged by the other half of the log", lifted)
    )
    return _frontier(ground, solved, plans, chosen, least)


def _ground(log: Log, current: Any, frozen: tuple[Rule, ...], seed: int) -> _Ground:
    rows = log.rows
    if rows.n_episodes < 4 * MIN_GROUP:
        raise InvalidOptionError(
            f"rule plans from a log need at least {4 * MIN_GROUP} episodes, half to choose and half to judge; there "
            f"are {rows.n_episodes}"
        )
    choosing = replace(some_episodes(rows, rows.turn % 2 == 0), hashed=None)  # dealt to blocks by themselves
    logged = isinstance(current, str) and current == LOG
    given = None if logged else as_log_policy(log, current)
    cells = cells_of(log, choosing, given, frozen, seed=seed)
    base = behaviour_policy(log, seed=seed) if given is None else given
    return _Ground(log, choosing, cells, current, base, seed)


def _choosing_half(ground: _Ground) -> CountedLog:
    """The choosing half, counted over the cells of the grid."""
    cell, rows, size = ground.cells.cell, ground.rows, ground.cells.grid.size
    counts = count_rows(rows, cell, size, ground.log.n_actions, blocks=BLOCKS)
    members = np.bincount(cell, minlength=size)

    def average(policy: Any) -> FloatArray:
        chances = np.asarray(as_log_policy(ground.log, policy).probabilities(rows.states), dtype=np.float64)
        return np.column_stack([np.bincount(cell, column, size) for column in chances.T]) / members[:, None]

    names = tuple(f"cell {k}" for k in range(size))
    starts = cell[rows.first]
    return CountedLog(counts, names, starts, np.ones(len(starts), dtype=np.int64), average, lambda: cell)


def _discount(ground: _Ground) -> float:
    """1 − 1 / H for records of H decisions on average: within a cell one may seem to gain for ever, and cannot."""
    length = len(ground.rows.actions) / ground.rows.n_episodes
    return ground.log.discount * (1 - 1 / length) if length > 1 else ground.log.discount


def _frozen(ground: _Ground) -> Any:
    """(K + 2,) cells in which nothing may change; their bounds are cuts."""
    cells = ground.cells
    inside = covers_any(cells.frozen, ground.rows.states) if cells.frozen else np.zeros(len(cells.cell), dtype=bool)
    return np.append(np.bincount(cells.cell, inside, cells.grid.size) > 0, [False, False])


def _lifted(ground: _Ground, plan: Plan) -> Plan:
    """A plan over cells as one over the log's features."""
    log, cells = ground.log, ground.cells
    actions = [action.name for action in log.actions]
    kept, pieces, told = list(cells.frozen), [], []
    for rule in plan.rules:
        real = cells.rule(rule.rule)
        parts = without_any(real, kept, cells.kinds)
        told.append(_told(rule, real, cells))
        if rule.move == KEEP:
            kept.append(real)
        else:
            pieces += [(part, actions.index(rule.move)) for part in parts]
    return replace(plan, rules=tuple(told), patch=rule_patch(pieces, actions, log.feature_names))


def _told(rule: PlanRule, real: Rule, cells: RowCells) -> PlanRule:
    """The rule as it is read: without what is frozen, if the rest is still one rule."""
    left = without_any(real, cells.frozen, cells.kinds)
    return replace(rule, rule=left[0] if len(left) == 1 else real)


def _judged(ground: _Ground, plan: Plan, chosen: Choosing, level: float, family: int, explain: Explain | None) -> Plan:
    """The plan with what the other half says about its policy, in cells drawn for it."""
    log, current = ground.log, ground.current
    policy = PatchedPolicy(ground.base, plan.patch) if plan.patch.edits else current
    regions = tuple(dict.fromkeys(edit.rule for edit in plan.patch.edits))
    counted = counted_log(log, (current, policy), regions, seed=ground.seed)
    judging = choose_and_judge(log, counted=counted).judging
    if isinstance(current, str):
        judging = _as_logged(log, judging, regions)
    judged = judge_plan(log, judging, plan, policy, current, level, family, explain)
    thin = _thin(ground, plan, chosen)
    note = f"{thin:.0%} of the decisions that these rules speak about lie in cells where too few took the action"
    return replace(
        judged,
        proven=False,
        model_gap=judged.model_gap if _discount(ground) == log.discount else None,  # else not the same sum
        gain=judged.gain if plan.rules else None,
        warnings=(*judged.warnings, *((note,) if thin >= TOLD else ())),
    )


def _as_logged(log: Log, judging: CountedLog, regions: tuple[Rule, ...]) -> CountedLog:
    """The log, counted so that a patched policy does as was logged where no edit speaks, and not as was estimated."""
    changed = np.zeros(judging.counts.n_states, dtype=np.bool_)
    changed[judging.row_state()[covers_any(regions, log.rows.states)]] = True
    shares, average = logged_shares(judging.counts.edges.visits), judging.average
    return replace(judging, average=lambda policy: np.where(changed[:, None], average(policy), shares))


def _thin(ground: _Ground, plan: Plan, chosen: Choosing) -> float:
    """Share of the choosing half's decisions under the rules whose prescribed action its cell has seen too rarely."""
    left = np.ones(len(ground.cells.cell), dtype=np.bool_)
    spoken = thin = 0
    for rule, action in dict.fromkeys((edit.rule, edit.proposed) for edit in plan.patch.edits):
        here = left & rule.covers(ground.rows.states)
        left &= ~here
        spoken += int(here.sum())
        thin += int((~chosen.offered[ground.cells.cell[here], action]).sum())
    return thin / spoken if spoken else 0.0


def _frontier(ground: _Ground, solved: Frontier, plans: tuple[Plan, ...], chosen: Choosing, least: int) -> Frontier:
    log, size = ground.log, ground.cells.grid.size
    note = (
        f"Rules were searched over {size} cells of the features, which stand for the rows in them: an approximation. "
        f"Half of the episodes chose them, counting on actions seen at least {least} times in a cell, with rows shrunk "
        f"by {chosen.strength:g} decisions; the other half judges. A bound is about rules on these cells."
    )
    shortened = (
        f"The search lets later decisions count less, {_discount(ground):.3g} a step, because within a cell one may "
        "seem to gain for ever; the judging half counts them in full."
    )
    ends = (shortened,) if _discount(ground) < log.discount else ()
    parted = any(len(without_any(told.rule, ground.cells.frozen, ground.cells.kinds)) != 1
                 for plan in plans for told in plan.rules)  # fmt: skip
    frozen = ("Where nothing may change is left out of the rules' edits, though not of their text.",) if parted else ()
    return replace(
        solved,
        plans=plans,
        baselines=(),
        outcomes=log.outcomes,
        current_return=plans[0].expected_return,
        optimum=plans[-1].expected_return + solved.optimum - solved.best.expected_return,
        world=WorldSummary(
            "log",
            log.actions,
            features_seen(np.asarray(log.rows.states), log.feature_names),
            {"rows": log.check.rows, "episodes": log.check.episodes},
        ),
        methods=replace(solved.methods, evaluation="one half of the log chooses rules over cells, the other judges"),
        warnings=(*log.notes, note, *ends, *frozen, *solved.warnings),
        stats={**solved.stats, "cells": size, "strength of shrinking": chosen.strength},
        context=ground,
    )
