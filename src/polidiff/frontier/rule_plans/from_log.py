"""Rule plans from a log: one half of the episodes chooses, the other half judges.

The choosing half becomes a table whose rows are shrunk (`shrinking`), and rules may prescribe only pairs that were seen
often enough. The best of many plans looks better than it is in the rows that chose it, shrunk or not; so the gain that
is promised is the judging half's, with its careful interval, simultaneous over all plans that are shown. What the
choosing half said beyond that is `Plan.model_gap`, and what it would have said without shrinking is told beside it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polidiff.errors import ImproperPolicyError
from polidiff.evaluation.exact import ExactEvaluator
from polidiff.evaluation.logged.compare import compare_log
from polidiff.evaluation.logged.counted_log import CountedLog
from polidiff.evaluation.logged.plan import (
    MIN_SUPPORT,
    Halves,
    aim,
    choose_and_judge,
    estimated_world,
    supported_world,
)
from polidiff.frontier.rule_plans.improve import improve_with_rules
from polidiff.frontier.rule_plans.request import split_support
from polidiff.frontier.rule_plans.shrinking import best_strength, shrunk
from polidiff.frontier.setting import frozen_states
from polidiff.policies import one_hot
from polidiff.progress import track
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray
from polidiff.records.explanation import Explanation
from polidiff.records.interval import Interval
from polidiff.records.plan import Frontier, Plan
from polidiff.worlds.log import Log
from polidiff.worlds.tabular import TabularMDP

PASSED_ON = ("max_conditions", "max_literals", "moves", "fallback", "keep", "gap", "time_limit", "search", "seed")


@dataclass(frozen=True, eq=False)
class Choosing:
    """What the choosing half of a log knows, as tables."""

    raw: TabularMDP  # rows as counted
    model: TabularMDP  # rows shrunk
    current: FloatArray  # (S + 2, A) the policy in use
    offered: BoolArray  # (S + 2, A) pairs that rules may prescribe
    frozen: BoolArray  # (S + 2,) never met, or kept by the user
    strength: float


def improve_log_with_rules(
    log: Log,
    current: Any,
    *,
    max_rules: int,
    min_support: float | None = None,
    freeze: Any = (),
    level: float = 0.95,
    explain: Callable[[Any, Any, Any], Explanation] | None = None,
    **options: Any,
) -> Frontier:
    """Plans of at most `max_rules` rules for a log with discrete states that have features.

    Parameters
    ----------
    min_support : int or float, optional
        A whole number: how often a pair must have been seen in the choosing half before a rule may prescribe it (10 by
        default). A share below 1: of the decisions in the choosing half that a rule must speak about.
    level : float
        Of the intervals of all plans together.
    """
    share, least = split_support(min_support, MIN_SUPPORT)
    halves = choose_and_judge(log, (current,), seed=options.get("seed", 0))
    chosen = choosing_tables(log, halves.choosing, current, least, freeze)
    solved = improve_with_rules(
        chosen.model,
        chosen.current,
        max_rules=max_rules,
        min_support=share,
        offered=chosen.offered,
        freeze=chosen.frozen,
        level=level,
        **{name: value for name, value in options.items() if name in PASSED_ON},
    )
    judge = _Judge(log, halves, chosen, current, level, max(1, len(solved) - 1), explain)
    plans = [judge.plan(plan) for plan in track("plans judged by the other half of the log", list(solved.plans))]
    promises = judge.promises(solved)
    return replace(
        solved,
        plans=tuple(plans),
        outcomes=log.outcomes,
        current_return=plans[0].expected_return,
        world=replace(solved.world, kind="log", facts={"rows": log.check.rows, "episodes": log.check.episodes}),
        warnings=(_note(least, share, chosen.strength), *_curse(plans[-1], promises), *solved.warnings),
        stats={**solved.stats, "strength of shrinking": chosen.strength, **promises},
    )


def _note(least: int, share: float | None, strength: float) -> str:
    behind = "" if share is None else f", rules only about {share:.3g} of the decisions or more"
    return (
        f"Rules use only decisions seen at least {least} times in one half of the log{behind}; its rows are shrunk by "
        f"{strength:g} decisions. The other half judges; a bound is its estimate plus what the model leaves open."
    )


def _curse(plan: Plan, promises: dict[str, float]) -> tuple[str, ...]:
    """How much the half that chose a plan flatters it."""
    if plan.gain is None:
        return ()
    said = [
        f"{promises[key]:+.3g} with its rows {'as counted' if way == 'raw' else way}"
        for way in ("raw", "shrunk")
        if (key := f"gain said by the choosing half with {len(plan.rules)} rules, {way}") in promises
    ]
    return (
        f"The half that chose the plan of {len(plan.rules)} rules says that it gains {', '.join(said)}; the other half "
        f"says {plan.gain.estimate:+.3g}.",
    )


def choosing_tables(
    log: Log,
    half: CountedLog,
    current: Any,
    least: int,
    freeze: Any,
    features: tuple[AnyArray, tuple[str, ...]] | None = None,
    discount: float | None = None,
) -> Choosing:
    """What one half of a log knows.

    Where states are cells and not the log's own, `features` (S, d) and their names tell them, and `discount` may end
    what cells make look endless.
    """
    visits = half.counts.edges.visits
    met = np.append(visits.sum(axis=1) > 0, [False, False])
    raw = _with_features(estimated_world(log, counted=half), met, features)
    raw.discount = raw.discount if discount is None else discount
    strength = best_strength(half.counts.edges, outcome=aim(log)[0])
    often = np.array(supported_world(log, min_support=least, counted=half).allowed)
    often[:-2] &= visits >= least
    frozen = ~met | frozen_states(raw, freeze)
    model = shrunk(raw, visits, strength)
    table = _seen_part(model, half.table(current), visits, met)
    return Choosing(raw, model, table, often, frozen, strength)


def _seen_part(world: TabularMDP, table: FloatArray, visits: FloatArray, met: BoolArray) -> FloatArray:
    """The policy on what the half has seen: its seen actions, or the most frequent one where it has none."""
    whole = np.vstack([table, np.zeros((2, table.shape[1]))])
    whole = np.where(world.allowed, whole, 0.0)
    usual = one_hot(np.append(visits.argmax(axis=1), [0, 0]), table.shape[1])
    mass = whole.sum(axis=1, keepdims=True)
    return np.where((mass > 0) & met[:, None], whole / np.maximum(mass, 1e-300), usual)


def _with_features(
    world: TabularMDP, met: BoolArray, given: tuple[AnyArray, tuple[str, ...]] | None = None
) -> TabularMDP:
    """The table with the features of a met state lent to states that the half never met; nothing changes there."""
    filled = copy.copy(world)
    if given is None:
        features: AnyArray = np.array(world.features)
    else:
        features, filled.feature_names = np.vstack([given[0], given[0][:1], given[0][:1]]), given[1]
    if met.any() and not met.all():
        features[~met] = features[np.flatnonzero(met)[0]]
    filled.features = features
    return filled


@dataclass(frozen=True, eq=False)
class _Judge:
    """The other half of the log."""

    log: Log
    halves: Halves
    chosen: Choosing
    current: Any
    level: float
    family: int  # plans that the level holds for together
    explain: Callable[[Any, Any, Any], Explanation] | None

    def plan(self, plan: Plan) -> Plan:
        """The plan with what the judging half says about it."""
        table = self.followed(plan)
        found = compare_log(
            self.log, self.current, table, level=self.level, family=self.family, counted=self.halves.judging
        )
        verdicts = {verdict.outcome: verdict for verdict in found.verdicts[0]}
        main, turn = _main(self.log)
        value = turn * verdicts[main].proposed.estimate  # type: ignore[union-attr]  # told for every outcome of a log
        explain, log, current = self.explain, self.log, self.current
        return replace(
            plan,
            expected_return=value,
            bound=value + (plan.bound - plan.expected_return),
            proven=False,
            outcomes={name: v.proposed for name, v in verdicts.items() if v.proposed is not None},
            gain=_turned(verdicts[main].difference, turn) if plan.rules else None,
            model_gap=plan.expected_return - value,
            policy=table,
            _explain=None if explain is None else (lambda: explain(log, current, table)),
        )

    def followed(self, plan: Plan) -> FloatArray:
        """(S, A) the policy in use with the plan's edits."""
        return _edited(self.halves.judging.table(self.current), plan)

    def promises(self, solved: Frontier) -> dict[str, float]:
        """What the choosing half says a plan gains, with shrunk and with raw rows: the winner's curse in figures."""
        told: dict[str, float] = {}
        base = _return(self.chosen.raw, self.chosen.current)
        for plan in solved.plans[1:]:
            table, rules = _edited(self.chosen.current, plan), len(plan.rules)
            told[f"gain said by the choosing half with {rules} rules, shrunk"] = (
                plan.expected_return - solved.current_return
            )
            try:
                raw = _return(self.chosen.raw, table) - base
            except ImproperPolicyError:  # counts without shrinking may hold loops that nobody was seen to leave
                continue
            told[f"gain said by the choosing half with {rules} rules, raw"] = raw
        return told


def _edited(table: FloatArray, plan: Plan) -> FloatArray:
    """The table with the plan's edits, which list their states."""
    edited = np.array(table)
    for edit in plan.patch.edits:
        edited[list(edit.states or ())] = np.eye(table.shape[1])[edit.proposed]
    return edited


def _return(world: TabularMDP, table: FloatArray) -> float:
    return float(ExactEvaluator(world, table).visits() @ (table * world.rewards).sum(axis=1))


def _main(log: Log) -> tuple[str, float]:
    """The outcome that plans maximise, and −1 where less of it is preferred: the return, or the first that is told."""
    total = log.return_outcome
    if total is not None and any(outcome.name == total.name for outcome in log.outcomes):
        return total.name, 1.0
    return log.outcomes[0].name, -1.0 if log.outcomes[0].prefer == "less" else 1.0


def _turned(interval: Interval, sign: float) -> Interval:
    if sign > 0:
        return interval
    return Interval(-interval.estimate, -interval.high, -interval.low, interval.level)
