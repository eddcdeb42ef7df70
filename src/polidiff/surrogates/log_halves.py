"""A log of which one half chooses plans and the other half judges them: no plan is judged by the rows that made it win.

`model_gap` is what the choosing half promised beyond what the judging half sees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from polidiff.evaluation.comparison import GroupVerdicts
from polidiff.evaluation.logged.compare import StateJudge
from polidiff.evaluation.logged.judge import Question, assess
from polidiff.evaluation.logged.plan import Halves
from polidiff.evaluation.scores.difference import within
from polidiff.evaluation.scores.scored_log import ScoredLog, scored_log
from polidiff.evaluation.scores.verdicts import ScoreJudge
from polidiff.options import ImproveOptions
from polidiff.policies.protocol import PolicyLike
from polidiff.progress import track
from polidiff.records.explanation import Verdict
from polidiff.records.numbers import counted
from polidiff.records.outcome import Assumption, Interval, Outcome
from polidiff.records.plan import Frontier, Plan, PlanRule
from polidiff.surrogates.record import Reduction, guard_rooms, told_of_world, with_verdicts, without_broken
from polidiff.worlds.log import Log
from polidiff.worlds.log_check import log_summary
from polidiff.worlds.protocol import aim


@dataclass(frozen=True, eq=False, kw_only=True)
class LogHalves(Reduction):
    """A log whose even episodes choose and whose odd episodes judge."""

    world: Log
    current: PolicyLike  # as the user gave it
    halves: Halves
    least: int  # times that a decision must have been seen to be offered
    options: ImproveOptions
    plans_from: str = "plans"  # what plans are, in words

    def judge(self, plans: Sequence[Plan]) -> tuple[Plan, ...]:
        """Each plan with its policy's outcomes; gains hold together over all plans shown and all outcomes."""
        family = max(1, len(plans) - 1) * len(self.world.outcomes)
        judged: list[Plan] = []
        for plan in track("plans judged by the other half of the log", list(plans)):
            now = judged[0].expected_return if judged else plan.expected_return
            judged.append(self._judged(plan, family, now))
        return tuple(judged)

    def _judged(self, plan: Plan, family: int, now: float) -> Plan:
        """A plan with what the half says that it adds to the current policy, which returns `now`."""
        compared = self._compared(plan.policy, family) if plan.patch.edits else self.present
        verdicts = compared.verdicts[0]
        if plan.patch.edits:
            both = zip(verdicts, self.present.verdicts[0], self.world.outcomes, strict=True)
            verdicts = tuple(_beside(verdict, whole.current, outcome) for verdict, whole, outcome in both)
        judged = with_verdicts(plan, verdicts, compared.assumptions, self.world, self.options)
        if not math.isfinite(judged.expected_return):
            return replace(judged, expected_return=plan.expected_return, bound=plan.bound)
        rules = _judged_rules(plan, judged.expected_return, now)
        return replace(judged, model_gap=plan.expected_return - judged.expected_return, rules=rules)

    def conclude(self, solved: Frontier, plans: tuple[Plan, ...]) -> Frontier:
        """The frontier that was solved with the judged plans that keep the guards, told about the log."""
        log, first = self.world, plans[0]
        logged = counted(log.check.episodes, f"logged {log.check.noun}")
        method = f"{self.plans_from} from one half of {logged}, judged by the other half"
        recorded = log_summary(log)
        recorded = replace(recorded, facts={**recorded.facts, "discount": log.discount})  # changes are counted with it
        frontier = told_of_world(solved, plans, recorded, method)
        family = max(1, len(plans) - 1) * len(log.outcomes)
        frontier = replace(
            frontier,
            outcomes=log.outcomes,
            objective=log.outcomes[aim(log)[0]].name,
            methods=replace(frontier.methods, family=family),
        )
        now = [first.outcomes[o.name].estimate for o in log.outcomes]
        return without_broken(frontier, guard_rooms(self.options.keep, log.outcomes, now))

    def assumptions(self) -> tuple[Assumption, ...]:
        """What was found out about the log."""
        return assess(self.world).assumptions

    @cached_property
    def present(self) -> GroupVerdicts:
        """The current policy beside itself, in the whole log: nothing was chosen there."""
        return self._compared(self.current, 1, whole=True)

    def _compared(self, policy: PolicyLike, family: int, *, whole: bool = False) -> GroupVerdicts:
        log, level = self.world, self.options.level
        question = Question(self.current, policy, level=level, family=family)
        if log.discrete:
            return StateJudge(log, question, self.halves.whole if whole else self.halves.judging).judged()
        odd = None if whole else log.rows.turn[log.rows.first] % 2 == 1
        return ScoreJudge(log, replace(question, judging=odd), self.scored).judged()

    @cached_property
    def scored(self) -> ScoredLog:
        """All rows, of which those of the half judge; the others help to estimate what they are compared with."""
        return scored_log(self.world, self.current)


def _beside(verdict: Verdict, now: Interval | None, outcome: Outcome) -> Verdict:
    """A verdict of the half beside what the current policy brings in the whole log, to which its difference adds."""
    assert now is not None
    return replace(verdict, current=now, proposed=within(now.plus(verdict.pointwise), outcome.range))


def _judged_rules(plan: Plan, value: float, now: float) -> tuple[PlanRule, ...]:
    """Rules with what is left without them: the current policy's return, else as far below as in the model."""
    if len(plan.rules) == 1:
        return (replace(plan.rules[0], without=now),)
    return tuple(replace(rule, without=value - (plan.expected_return - rule.without)) for rule in plan.rules)
