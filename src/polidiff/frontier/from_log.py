"""`improve` from a log: plans over decisions that were tried often enough, judged on the other half of the log.

One half of the episodes chooses: its model offers only pairs seen at least `min_support` times. The other half judges
every plan with the careful interval, so that the winner is not judged by the rows that made it win; `model_gap` is what
the choosing half promised beyond what the judging half sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.evaluation.logged.compare import compare_log
from polidiff.evaluation.logged.plan import MIN_SUPPORT, Halves, choose_and_judge, supported_world
from polidiff.frontier.table import improve_table
from polidiff.policies import one_hot, top_actions
from polidiff.progress import track
from polidiff.records.explanation import Explanation
from polidiff.records.interval import Interval
from polidiff.records.plan import Frontier, Plan
from polidiff.worlds.log import Log

MOST_JUDGED = 60


def improve_log(
    log: Log,
    current: Any,
    candidates: Sequence[Any] | None,
    *,
    min_support: float | None,
    max_rules: int | None,
    explain: Callable[[Any, Any, Any], Explanation],
    **options: Any,
) -> Frontier:
    """Plans for a log with discrete states."""
    if not log.discrete:
        raise InvalidOptionError(
            "improve from a log needs discrete states; this log has feature rows. Hint: add a column that numbers "
            "states or cells and pass state='column'"
        )
    if max_rules is not None and log.has_features:
        from polidiff.frontier.rule_plans.from_log import improve_log_with_rules

        return improve_log_with_rules(
            log, current, max_rules=max_rules, min_support=min_support, explain=explain, **options
        )
    halves = choose_and_judge(log, (current,), seed=options.get("seed", 0))
    least = MIN_SUPPORT if min_support is None else int(min_support)
    model = supported_world(log, min_support=least, footing=halves.choosing)
    base = _base(model, halves, current)
    offered = None if candidates is None else [_base(model, halves, candidate) for candidate in candidates]
    cells = options.pop("max_states", None)
    options = {k: v for k, v in options.items() if k in TABLE_OPTIONS}
    solved = improve_table(model, base, offered, max_states=max_rules if cells is None else cells, **options)
    level = float(options.get("level", 0.95))
    judged = [
        _judged(log, halves, plan, current, level, explain)
        for plan in track("plans judged by the other half of the log", list(solved.plans[:MOST_JUDGED]))
    ]
    note = f"Plans use only decisions seen at least {least} times in one half of the log; the other half judges them."
    dropped = len(solved) - len(judged)
    more = (f"{dropped} larger plans were not judged and are left out.",) if dropped else ()
    return replace(
        solved,
        plans=tuple(judged),
        outcomes=log.outcomes,
        world=replace(solved.world, kind="log", facts={"rows": log.check.rows, "episodes": log.check.episodes}),
        warnings=(note, *more, *solved.warnings),
    )


TABLE_OPTIONS = ("budget", "unit", "keep", "freeze", "change_cost", "gap", "time_limit", "level", "seed")


def _base(model: Any, halves: Halves, policy: Any) -> Any:
    """Most probable supported action of each state; where the policy's own is not supported, the most frequent one."""
    table = np.vstack([halves.choosing.table(policy), np.ones((2, model.n_actions)) / model.n_actions])
    return top_actions(np.where(model.allowed, table + 1e-12, 0.0))


def _judged(
    log: Log, halves: Halves, plan: Plan, current: Any, level: float, explain: Callable[[Any, Any, Any], Explanation]
) -> Plan:
    changed = [edit for edit in plan.patch.edits if edit.states]
    table = np.array(halves.judging.table(current))
    for edit in changed:
        states = np.array(edit.states)
        table[states] = one_hot(np.full(len(states), edit.proposed), table.shape[1])
    found = compare_log(log, current, table, level=level, footing=halves.judging)
    outcomes = {v.outcome: v.proposed for v in found.verdicts[0] if v.proposed is not None}
    value = _return_of(log, outcomes)
    return replace(
        plan,
        expected_return=value,
        outcomes=outcomes,
        model_gap=plan.expected_return - value,
        policy=table,
        _explain=lambda: explain(log, current, table),
    )


def _return_of(log: Log, outcomes: Mapping[str, Interval]) -> float:
    """The return if the log tells it, else its first outcome, counted as its preference says (as the model does)."""
    total = log.return_outcome
    if total is not None and total.name in outcomes:
        return outcomes[total.name].estimate
    sign = -1.0 if log.outcomes[0].prefer == "less" else 1.0
    return sign * outcomes[log.outcomes[0].name].estimate
