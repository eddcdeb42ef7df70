"""`improve` from a log: plans over decisions that were tried often enough, judged on the other half of the log.

One half of the episodes chooses: its model offers only pairs seen at least `min_support` times. The other half judges
every plan with the careful interval, so that the winner is not judged by the rows that made it win; `model_gap` is what
the choosing half promised beyond what the judging half sees. With `pessimism` z the choosing half maximises a lower
bound: every decision's reward less z standard errors of what follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.evaluation.exact import ExactEvaluator
from polidiff.evaluation.logged.plan import MIN_SUPPORT, Halves, choose_and_judge, supported_world
from polidiff.frontier.from_rows import RowOptions, improve_rows
from polidiff.frontier.judging import judge_plans
from polidiff.frontier.table import improve_table
from polidiff.policies import one_hot, top_actions
from polidiff.records.arrays import FloatArray
from polidiff.records.explanation import Explanation
from polidiff.records.plan import Frontier, Plan
from polidiff.worlds.log import Log
from polidiff.worlds.tabular import TabularMDP

MOST_JUDGED = 60
TABLE_OPTIONS = ("budget", "unit", "keep", "freeze", "change_cost", "gap", "time_limit", "level", "seed")


def improve_log(
    log: Log,
    current: Any,
    candidates: Sequence[Any] | None,
    *,
    min_support: float | None,
    max_rules: int | None,
    explain: Callable[[Any, Any, Any], Explanation],
    pessimism: float = 0.0,
    **options: Any,
) -> Frontier:
    """Plans over states, over regions of candidates if states are features, or of rules over features."""
    least = MIN_SUPPORT if min_support is None else int(min_support)
    by_rules = max_rules is not None and log.has_features and (log.discrete or candidates is None)
    if by_rules and pessimism:
        raise InvalidOptionError(
            "pessimism does not go with max_rules: rules are searched in rows that are shrunk instead. Hint: leave one "
            "of the two out"
        )
    if by_rules and not log.discrete:
        from polidiff.frontier.rule_plans.from_rows import improve_rows_with_rules

        return improve_rows_with_rules(
            log, current, max_rules=max_rules or 0, min_support=min_support, explain=explain, **options
        )
    if not log.discrete:
        chosen = _row_options(least, max_rules, pessimism, options)
        return improve_rows(log, current, candidates, chosen, explain)
    if by_rules:
        from polidiff.frontier.rule_plans.from_log import improve_log_with_rules

        return improve_log_with_rules(
            log, current, max_rules=max_rules or 0, min_support=min_support, explain=explain, **options
        )
    halves = choose_and_judge(log, (current,), seed=options.get("seed", 0))
    model = supported_world(log, min_support=least, counted=halves.choosing, pessimism=pessimism)
    base = _base(model, halves, current)
    offered = None if candidates is None else [_base(model, halves, candidate) for candidate in candidates]
    cells = options.pop("max_states", None)
    options = {k: v for k, v in options.items() if k in TABLE_OPTIONS}
    solved = improve_table(model, base, offered, max_states=max_rules if cells is None else cells, **options)
    if pessimism:
        solved = _without_penalty(solved, supported_world(log, min_support=least, counted=halves.choosing))
    shown = solved.plans[:MOST_JUDGED]
    policies = [_patched(halves.judging.table(current), plan) for plan in shown]
    judged = judge_plans(log, halves.judging, shown, policies, current, float(options.get("level", 0.95)), explain)
    note = f"Plans use only decisions seen at least {least} times in one half of the log; the other half judges them."
    dropped = len(solved) - len(judged)
    more = (f"{dropped} larger plans were not judged and are left out.",) if dropped else ()
    return replace(
        solved,
        plans=judged,
        outcomes=log.outcomes,
        world=replace(solved.world, kind="log", facts={"rows": log.check.rows, "episodes": log.check.episodes}),
        warnings=(note, *more, *solved.warnings),
    )


def _row_options(least: int, max_rules: int | None, pessimism: float, options: dict[str, Any]) -> RowOptions:
    if options.get("unit", "expected") != "expected" or options.get("change_cost") is not None or pessimism:
        raise InvalidOptionError(
            "unit='total', change_cost and pessimism need discrete states; this log has feature rows. Hint: pass "
            "state='column', a column that numbers states or cells"
        )
    most = options.get("max_states")
    return RowOptions(
        budget=options.get("budget"),
        max_regions=max_rules if most is None else most,
        keep=tuple(options.get("keep", ())),
        freeze=tuple(options.get("freeze", ())),
        min_support=least,
        gap=float(options.get("gap", 1e-3)),
        level=float(options.get("level", 0.95)),
        seed=int(options.get("seed", 0)),
    )


def _base(model: Any, halves: Halves, policy: Any) -> Any:
    """Most probable supported action of each state; where the policy's own is not supported, the most frequent one."""
    table = np.vstack([halves.choosing.table(policy), np.ones((2, model.n_actions)) / model.n_actions])
    return top_actions(np.where(model.allowed, table + 1.0, 0.0))


def _without_penalty(solved: Frontier, plain: TabularMDP) -> Frontier:
    """Plans that a lowered reward chose, with what they return in the model as it was counted."""
    plans = []
    for plan in solved.plans:
        table = plan.policy.table
        promised = float(ExactEvaluator(plain, table).visits() @ (table * plain.rewards).sum(axis=1))
        plans.append(replace(plan, expected_return=promised, bound=max(plan.bound, promised)))
    return replace(solved, plans=tuple(plans))


def _patched(table: FloatArray, plan: Plan) -> FloatArray:
    """The current policy (S, A) with the plan's edits made."""
    new = np.array(table)
    for edit in plan.patch.edits:
        states = np.array(edit.states)
        new[states] = one_hot(np.full(len(states), edit.proposed), new.shape[1])
    return new
