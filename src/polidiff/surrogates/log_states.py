"""A log with discrete states as a table: plans over decisions that were tried often enough.

One half of the episodes chooses: its model offers only pairs seen at least `min_support` times. The other half judges
every plan with the careful interval, so that the winner is not judged by the rows that made it win; `model_gap` is what
the choosing half promised beyond what the judging half sees. With `pessimism` z the choosing half maximises a lower
bound: every decision's reward less z standard errors of what follows it. Rules are searched in a model whose rows are
shrunk (`choosing_half`) instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from polidiff.evaluation.exact import ExactEvaluator
from polidiff.evaluation.logged.counted_log import CountedLog, counted_log
from polidiff.evaluation.logged.counts import BLOCKS
from polidiff.evaluation.logged.plan import (
    MIN_SUPPORT,
    choose_and_judge,
    estimated_world,
    often_seen,
    supported_world,
)
from polidiff.options import ImproveOptions
from polidiff.policies import TablePolicy, top_actions
from polidiff.policies.protocol import TIE, Candidates, PolicyLike
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.records.numbers import interval_numbers, signed
from polidiff.records.plan import Frontier, Plan
from polidiff.surrogates.log_halves import LogHalves
from polidiff.surrogates.log_model import ChoosingHalf, choosing_half, seen_part
from polidiff.surrogates.record import Note, split_support
from polidiff.surrogates.table import Surrogate, chance_costs, mixed_patch, taken_actions, with_current, with_edits
from polidiff.worlds.log import Log
from polidiff.worlds.tabular import TabularMDP

MOST_JUDGED = 60


@dataclass(frozen=True, eq=False, kw_only=True)
class LoggedStates(LogHalves, Surrogate):
    """The model of the choosing half, and the half that judges."""

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

    def judge(self, plans: Sequence[Plan]) -> tuple[Plan, ...]:
        """Plans as the other half sees them; the smaller ones, unless they are lists of rules."""
        return super().judge(plans if self.by_rules else plans[:MOST_JUDGED])

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
    offered = None if candidates is None else _supported(model, halves.choosing, candidates)
    return LoggedStates(
        world=log,
        table=with_current(model, table, whole, often) if mixed else model,
        base=np.full(model.n_states, log.n_actions) if mixed else top_actions(table),
        offered=None if offered is None else np.pad(offered, ((0, 0), (0, int(mixed)))),
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
        offered=chosen.offered
        if candidates is None
        else chosen.offered
        & taken_actions([top_actions(halves.choosing.table(candidate)) for candidate in candidates], chosen.model),
        frozen=chosen.frozen,
        min_support=share,
        current=current,
        halves=halves,
        now=counted.table(current),
        least=least,
        options=options,
        chosen=chosen,
    )


def _supported(model: TabularMDP, half: CountedLog, candidates: Sequence[PolicyLike]) -> BoolArray:
    """(S + 2, A) the most probable supported action of each candidate."""
    ends = np.ones((2, model.n_actions)) / model.n_actions
    tables = [np.vstack([half.table(candidate), ends]) for candidate in candidates]
    return taken_actions([top_actions(np.where(model.allowed, table + 1.0, 0.0)) for table in tables], model)
