"""A log with discrete states as a table: plans over decisions that were tried often enough.

One half of the episodes chooses: its model offers only pairs seen at least `min_support` times. The other half judges
every plan with the careful interval, so that the winner is not judged by the rows that made it win; `model_gap` is what
the choosing half promised beyond what the judging half sees. With `pessimism` z the choosing half maximises a lower
bound: every decision's reward less z standard errors of what follows it. Rules are searched in a model whose rows are
shrunk (`choosing_half`) instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from polidiff.evaluation.comparison import GroupVerdicts
from polidiff.evaluation.exact import ExactEvaluator
from polidiff.evaluation.logged.compare import compare_log
from polidiff.evaluation.logged.counted_log import CountedLog, counted_log
from polidiff.evaluation.logged.counts import BLOCKS
from polidiff.evaluation.logged.judge import assess
from polidiff.evaluation.logged.plan import (
    MIN_SUPPORT,
    Halves,
    choose_and_judge,
    estimated_world,
    often_seen,
    supported_world,
)
from polidiff.evaluation.scores.scored_log import ScoredLog, scored_log
from polidiff.options import ImproveOptions
from polidiff.policies import TablePolicy, top_actions
from polidiff.policies.protocol import TIE, Candidates, PolicyLike
from polidiff.progress import track
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.records.explanation import Verdict
from polidiff.records.numbers import counted, interval_numbers, signed
from polidiff.records.outcome import Assumption, Interval
from polidiff.records.plan import Frontier, Plan, PlanRule
from polidiff.surrogates.log_model import ChoosingHalf, choosing_half, seen_part
from polidiff.surrogates.record import Explain, Note, guard_rooms, split_support, told_of_world, without_broken
from polidiff.surrogates.table import Surrogate, chance_costs, mixed_patch, with_current, with_edits
from polidiff.worlds.log import Log
from polidiff.worlds.log_check import log_summary
from polidiff.worlds.protocol import aim
from polidiff.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    pass

MOST_JUDGED = 60


@dataclass(frozen=True, eq=False)
class JudgingHalf:
    """The half of a log that did not choose."""

    log: Log
    current: PolicyLike  # as the user gave it
    options: ImproveOptions
    counted: CountedLog  # the half, counted over states; feature rows are scored instead

    def judge(self, plans: Sequence[Plan]) -> tuple[Plan, ...]:
        """Each plan with its policy's outcomes; gains hold together over all plans shown and all outcomes."""
        family = max(1, len(plans) - 1) * len(self.log.outcomes)
        judged: list[Plan] = []
        for plan in track("plans judged by the other half of the log", list(plans)):
            now = judged[0].expected_return if judged else plan.expected_return
            judged.append(self._judged(plan, family, now))
        return tuple(judged)

    def _judged(self, plan: Plan, family: int, now: float) -> Plan:
        """A plan as the half sees it; `now` is what the current policy returns there."""
        log, changing = self.log, bool(plan.patch.edits)
        verdicts = self._compared(plan.policy if changing else self.current, family).verdicts[0]
        outcomes = {v.outcome: v.proposed for v in verdicts if v.proposed is not None}
        k, sign = aim(log)
        value, gain = sign * outcomes[log.outcomes[k].name].estimate, _signed(sign, verdicts[k].difference)
        known = math.isfinite(value)
        unknown = (
            (_not_known(verdicts[k].note, gain, verdicts[k].outcome),) if verdicts[k].direction == "unknown" else ()
        )
        unkept = self._unkept(verdicts)
        return replace(
            plan,
            expected_return=value if known else plan.expected_return,
            outcomes=outcomes,
            gain=gain if changing else None,
            bound=plan.bound + value - plan.expected_return if known else plan.bound,  # as far above as in the model
            proven=False,
            model_gap=plan.expected_return - value if known else None,
            warnings=(*plan.warnings, *((*unknown, *unkept) if changing else ())),
            kept=not unkept,
            holds_up_to=verdicts[k].holds_up_to if changing else None,
            rests_on=verdicts[k].rests_on if changing else None,
            rules=_judged_rules(plan, value, now) if known else plan.rules,
        )

    def _unkept(self, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
        """What is to be said of guards that a plan is not shown to keep."""
        now = [v.current.estimate for v in verdicts if v.current is not None]
        rooms = guard_rooms(self.options.keep, self.log.outcomes, now)
        return tuple(text for room in rooms for text in room.doubt(verdicts[room.place].difference))

    def conclude(self, solved: Frontier, plans: tuple[Plan, ...], method: str) -> Frontier:
        """The frontier that was solved with the judged plans that keep the guards, told about the log."""
        log, first = self.log, plans[0]
        told = told_of_world(solved, plans, log_summary(log), method)
        family = max(1, len(plans) - 1) * len(log.outcomes)
        told = replace(told, objective=log.outcomes[aim(log)[0]].name, methods=replace(told.methods, family=family))
        now = [first.outcomes[o.name].estimate for o in log.outcomes]
        return without_broken(told, guard_rooms(self.options.keep, log.outcomes, now))

    def _compared(self, policy: PolicyLike, family: int) -> GroupVerdicts:
        log, current, level = self.log, self.current, self.options.level
        if log.discrete:
            return compare_log(log, current, policy, level=level, family=family, counted=self.counted)
        odd = log.rows.turn[log.rows.first] % 2 == 1
        return compare_log(log, current, policy, level=level, family=family, scored=self.scored, judging=odd)

    @cached_property
    def scored(self) -> ScoredLog:
        """All rows, of which those of the half judge; the others help to estimate what they are compared with."""
        return scored_log(self.log, self.current)


def _judged_rules(plan: Plan, value: float, now: float) -> tuple[PlanRule, ...]:
    """Rules with what is left without them: the current policy's return, else as far below as in the model."""
    if len(plan.rules) == 1:
        return (replace(plan.rules[0], without=now),)
    return tuple(replace(rule, without=value - (plan.expected_return - rule.without)) for rule in plan.rules)


def _signed(sign: float, interval: Interval) -> Interval:
    if sign > 0:
        return interval
    return Interval(-interval.estimate, -interval.high, -interval.low, interval.level)


def _not_known(note: str | None, gain: Interval, outcome: str) -> str:
    _, low, high = interval_numbers(gain)
    said = f"whether this plan improves {outcome!r} is not known: the gain lies between {low} and {high}"
    return said + (f"; {note}" if note else "")


@dataclass(frozen=True, eq=False, kw_only=True)
class LoggedStates(Surrogate):
    """The model of the choosing half, and the half that judges."""

    world: Log
    current: PolicyLike  # as the user gave it
    halves: Halves
    least: int
    options: ImproveOptions
    now: FloatArray  # (S, A) chances of the current policy, in the whole log
    plain: TabularMDP | None = None  # the model as it was counted, where the table's rewards are lowered

    def lift(self, plan: Plan) -> Plan:
        """The policy over the log's states; what a lowered reward chose, with what it returns as counted.

        What partial adoption does is left out: only the half that chose the plan has told it.
        """
        plan = replace(plan, adoption=(), warnings=() if plan.adoption else plan.warnings)
        if self.plain is not None:
            table = plan.policy.table
            promised = float(ExactEvaluator(self.plain, table).visits() @ (table * self.plain.rewards).sum(axis=1))
            plan = replace(plan, expected_return=promised, bound=max(plan.bound, promised))
        policy = TablePolicy(with_edits(self.halves.judging.table(self.current), plan))
        return replace(plan, policy=policy, patch=mixed_patch(plan.patch, self.now, self.world.actions))

    @cached_property
    def judging(self) -> JudgingHalf:
        """The other half."""
        return JudgingHalf(self.world, self.current, self.options, self.halves.judging)

    def judge(self, plans: Sequence[Plan], explain: Explain | None) -> tuple[Plan, ...]:
        """Plans as the other half sees them; the smaller ones, unless they are lists of rules."""
        return self.judging.judge(plans if self.by_rules else plans[:MOST_JUDGED])

    def conclude(self, solved: Frontier, plans: tuple[Plan, ...]) -> Frontier:
        """The log in place of its model."""
        log = self.world
        method = f"plans from one half of {counted(log.check.episodes, 'logged episode')}, judged by the other half"
        return replace(self.judging.conclude(solved, plans, method), outcomes=log.outcomes)

    def assumptions(self) -> tuple[Assumption, ...]:
        """What was found out about the log."""
        return assess(self.world).assumptions

    def notes(self, plans: Sequence[Plan]) -> tuple[Note, ...]:
        """What plans rest on."""
        return (f"Plans use only decisions seen at least {self.least} times in one half of the log; the other half "
                "judges them.",)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class LoggedStateRules(LoggedStates):
    """The shrunk model of the choosing half, for rules about the features of states."""

    chosen: ChoosingHalf

    def conclude(self, solved: Frontier, plans: tuple[Plan, ...]) -> Frontier:
        """The log in place of its model, with what the choosing half promised."""
        promises = self.chosen.promises(solved)
        frontier = super().conclude(solved, plans)
        return replace(
            frontier,
            warnings=(*_curse(frontier.plans[-1], promises), *frontier.warnings),
            stats={**solved.stats, "strength of shrinking": self.chosen.strength, **promises},
        )

    def notes(self, plans: Sequence[Plan]) -> tuple[Note, ...]:
        """What rules rest on."""
        behind = (
            "" if self.min_support is None else f", rules only about {self.min_support:.3g} of the decisions or more"
        )
        return (
            f"Rules use only decisions seen at least {self.least} times in one half of the log{behind}; its rows are "
            f"shrunk by {self.chosen.strength:g} decisions. The other half judges.",
        )


def _curse(plan: Plan, promises: dict[str, float]) -> tuple[str, ...]:
    """How much the half that chose a plan flatters it."""
    if plan.gain is None:
        return ()
    said = [
        f"{signed(promises[key])} with its rows {'as counted' if way == 'raw' else way}"
        for way in ("raw", "shrunk")
        if (key := f"gain said by the choosing half with {len(plan.rules)} rules, {way}") in promises
    ]
    rules = f"{len(plan.rules)} rule{'s' * (len(plan.rules) != 1)}"
    return (
        f"The half that chose the plan of {rules} says that it gains {', '.join(said)}; the other half "
        f"says {interval_numbers(plan.gain, signs=True)[0]}.",
    )


def reduce_states(log: Log, current: PolicyLike, candidates: Candidates, options: ImproveOptions) -> LoggedStates:
    """The model of the choosing half, offering what it has tried often enough."""
    least = MIN_SUPPORT if options.min_support is None else int(options.min_support)
    counted = counted_log(log, (current,), seed=options.seed, blocks=BLOCKS)
    halves = choose_and_judge(log, counted=counted)
    model = supported_world(log, min_support=least, counted=halves.choosing, pessimism=options.pessimism)
    plain = supported_world(log, min_support=least, counted=halves.choosing) if options.pessimism else None
    visits, now = halves.choosing.counts.edges.visits, halves.choosing.table(current)
    seen = np.vstack([visits > 0, np.ones((2, log.n_actions), dtype=np.bool_)])
    table = seen_part(seen, now, visits, np.append(visits.sum(axis=1) > 0, [False, False]))
    mixed = bool(((table.max(axis=1) < 1 - TIE) | ~model.allowed[np.arange(len(table)), top_actions(table)]).any())
    whole = estimated_world(log, counted=halves.choosing)
    often = np.vstack([often_seen(halves.choosing, least), np.zeros((2, log.n_actions), dtype=np.bool_)])
    return LoggedStates(
        world=log,
        table=with_current(model, table, whole, often) if mixed else model,
        base=np.full(model.n_states, log.n_actions) if mixed else top_actions(table),
        offered=None if candidates is None else _supported(model, halves, candidates, as_now=mixed),
        cost=chance_costs(options.change_cost, table) if mixed else None,
        frozen=options.freeze,
        current=current,
        halves=halves,
        now=counted.table(current),
        least=least,
        options=options,
        plain=with_current(plain, table, whole, often) if mixed and plain is not None else plain,
    )


def reduce_state_rules(
    log: Log, current: PolicyLike, candidates: Candidates, options: ImproveOptions
) -> LoggedStateRules:
    """The shrunk model of the choosing half."""
    share, least = split_support(options.min_support, MIN_SUPPORT)
    counted = counted_log(log, (current,), seed=options.seed, blocks=BLOCKS)
    halves = choose_and_judge(log, counted=counted)
    chosen = choosing_half(log, halves.choosing, current, least, options.freeze)
    return LoggedStateRules(
        world=log,
        table=chosen.model,
        base=chosen.current,
        by_rules=True,
        offered=chosen.offered & _taken(chosen, halves, candidates),
        frozen=chosen.frozen,
        min_support=share,
        current=current,
        halves=halves,
        now=counted.table(current),
        least=least,
        options=options,
        chosen=chosen,
    )


def _taken(chosen: ChoosingHalf, halves: Halves, candidates: Candidates) -> BoolArray:
    """(S + 2, A) actions that some candidate takes; all without candidates."""
    taken = np.full(chosen.offered.shape, candidates is None)
    for candidate in candidates or ():
        top = top_actions(halves.choosing.table(candidate))
        taken[np.arange(len(top)), top] = True
    return taken


def _supported(model: TabularMDP, halves: Halves, candidates: Sequence[PolicyLike], *, as_now: bool) -> BoolArray:
    """(S + 2, A) the most probable supported action of each candidate; with `as_now`, a column for no change."""
    offered = np.zeros((model.n_states, model.n_actions + as_now), dtype=np.bool_)
    for candidate in candidates:
        table = np.vstack([halves.choosing.table(candidate), np.ones((2, model.n_actions)) / model.n_actions])
        offered[np.arange(len(table)), top_actions(np.where(model.allowed, table + 1.0, 0.0))] = True
    return offered
