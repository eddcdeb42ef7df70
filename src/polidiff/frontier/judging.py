"""Plans chosen by one half of a log, judged by the other: nothing is promised by the rows that made a plan win."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from polidiff.evaluation.logged.compare import compare_log
from polidiff.evaluation.logged.counted_log import CountedLog
from polidiff.evaluation.logged.plan import aim
from polidiff.progress import track
from polidiff.records.explanation import Explanation
from polidiff.records.interval import Interval
from polidiff.records.plan import Plan
from polidiff.worlds.log import Log

Explain = Callable[[Any, Any, Any], Explanation]


def judge_plans(
    log: Log, judging: CountedLog, plans: Sequence[Plan], policies: Sequence[Any], current: Any, level: float,
    explain: Explain | None,
) -> tuple[Plan, ...]:  # fmt: skip
    """Each plan with its policy's outcomes as the judging half sees them; gains hold together over all plans shown."""
    family = max(1, len(plans) - 1) * len(log.outcomes)
    pairs = list(zip(plans, policies, strict=True))
    return tuple(
        judge_plan(log, judging, plan, policy, current, level, family, explain)
        for plan, policy in track("plans judged by the other half of the log", pairs)
    )


def judge_plan(
    log: Log,
    judging: CountedLog,
    plan: Plan,
    policy: Any,
    current: Any,
    level: float,
    family: int,
    explain: Explain | None,
) -> Plan:
    """The plan with what the judging half sees of its policy; `family` gains hold together."""
    found = compare_log(log, current, policy, level=level, family=family, counted=judging)
    verdicts = found.verdicts[0]
    outcomes = {v.outcome: v.proposed for v in verdicts if v.proposed is not None}
    k, sign = aim(log)
    value, gain = sign * outcomes[log.outcomes[k].name].estimate, _times(sign, verdicts[k].difference)
    known = math.isfinite(value)
    untold = () if verdicts[k].direction != "unknown" else (_not_known(verdicts[k].note, gain, verdicts[k].outcome),)
    return replace(
        plan,
        expected_return=value if known else plan.expected_return,
        outcomes=outcomes,
        gain=gain,
        bound=plan.bound + value - plan.expected_return if known else plan.bound,  # as far above as in the model
        model_gap=plan.expected_return - value if known else None,
        warnings=(*plan.warnings, *(untold if plan.patch.edits else ())),
        policy=policy,
        _explain=None if explain is None else (lambda: explain(log, current, policy)),
    )


def _times(sign: float, interval: Interval) -> Interval:
    if sign > 0:
        return interval
    return Interval(-interval.estimate, -interval.high, -interval.low, interval.level)


def _not_known(note: str | None, gain: Interval, outcome: str) -> str:
    said = f"whether this plan improves {outcome!r} is not known: the gain lies between {gain.low:.4g} and "
    return f"{said}{gain.high:.4g}" + (f"; {note}" if note else "")
