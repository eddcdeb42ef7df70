"""Plans chosen by one half of a log, judged by the other: nothing is promised by the rows that made a plan win."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from polidiff.evaluation.comparison import GroupVerdicts
from polidiff.evaluation.logged.compare import compare_log
from polidiff.evaluation.logged.counted_log import CountedLog
from polidiff.evaluation.scores.verdicts import ScoredLog, scored_log
from polidiff.progress import track
from polidiff.records.outcome import Interval
from polidiff.records.plan import Plan
from polidiff.surrogates.record import Explain
from polidiff.worlds.log import Log
from polidiff.worlds.protocol import aim


@dataclass(frozen=True, eq=False)
class JudgingHalf:
    """The half of a log that did not choose."""

    log: Log
    current: Any  # as the user gave it
    level: float
    counted: Callable[[Plan], CountedLog]  # the half, counted over states or cells that suit a plan

    def judge(self, plans: Sequence[Plan], explain: Explain | None) -> tuple[Plan, ...]:
        """Each plan with its policy's outcomes; gains hold together over all plans shown and all outcomes."""
        family = max(1, len(plans) - 1) * len(self.log.outcomes)
        listed = list(plans)
        return tuple(
            self._judged(p, family, explain) for p in track("plans judged by the other half of the log", listed)
        )

    def _judged(self, plan: Plan, family: int, explain: Explain | None) -> Plan:
        log, current = self.log, self.current
        changing = bool(plan.patch.edits)
        policy = plan.policy if changing else current
        compared = self._compared(plan, policy, family)
        verdicts = compared.verdicts[0]
        outcomes = {v.outcome: v.proposed for v in verdicts if v.proposed is not None}
        k, sign = aim(log)
        value, gain = sign * outcomes[log.outcomes[k].name].estimate, _signed(sign, verdicts[k].difference)
        known = math.isfinite(value)
        unknown = (
            (_not_known(verdicts[k].note, gain, verdicts[k].outcome),) if verdicts[k].direction == "unknown" else ()
        )
        return replace(
            plan,
            expected_return=value if known else plan.expected_return,
            outcomes=outcomes,
            gain=gain if changing else None,
            bound=plan.bound + value - plan.expected_return if known else plan.bound,  # as far above as in the model
            proven=False,
            model_gap=plan.expected_return - value if known else None,
            warnings=(*plan.warnings, *(unknown if changing else ())),
            holds_up_to=verdicts[k].holds_up_to if changing else None,
            rests_on=verdicts[k].rests_on if changing else None,
            _explain=None if explain is None else (lambda: explain(log, current, policy)),
        )

    def _compared(self, plan: Plan, policy: Any, family: int) -> GroupVerdicts:
        log, current, level = self.log, self.current, self.level
        if log.discrete:
            return compare_log(log, current, policy, level=level, family=family, counted=self.counted(plan))
        odd = log.rows.turn[log.rows.first] % 2 == 1
        return compare_log(log, current, policy, level=level, family=family, scored=self.scored, judging=odd)

    @cached_property
    def scored(self) -> ScoredLog:
        """All rows, of which those of the half judge; the others help to estimate what they are compared with."""
        return scored_log(self.log, self.current)


def _signed(sign: float, interval: Interval) -> Interval:
    if sign > 0:
        return interval
    return Interval(-interval.estimate, -interval.high, -interval.low, interval.level)


def _not_known(note: str | None, gain: Interval, outcome: str) -> str:
    said = f"whether this plan improves {outcome!r} is not known: the gain lies between {gain.low:.4g} and "
    return f"{said}{gain.high:.4g}" + (f"; {note}" if note else "")
