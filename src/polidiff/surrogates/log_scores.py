r"""Plans of at most K rules from the feature rows of a log, by doubly robust scores.

Every row has a score for every action; a list of rules is worth the sum of what its moves add to the current policy.
Lists are chosen on four fifths of the people and judged on the others, five times over, so that everyone judges and
nobody judges a list that they helped to choose; the lists shown are chosen once more by all. Limits on what a plan may
change or cost are kept on the scores that choose, by a price :math:`\lambda` on what they limit, and judged with the
rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from polidiff._version import __version__
from polidiff.errors import InfeasibleError, InvalidOptionError
from polidiff.evaluation.assumptions.confounding_one_step import OneDecision, one_step_holds_up_to
from polidiff.evaluation.assumptions.log_checks import DRAWN, hidden_reasons, rests_on
from polidiff.evaluation.logged.judge import Question, assess
from polidiff.evaluation.logged.plan import MIN_GROUP, MIN_SUPPORT
from polidiff.evaluation.logged.policies import (
    as_log_policy,
    changed_rows,
    estimated_chances,
    is_logs,
    scored_decisions,
)
from polidiff.evaluation.scores.difference import ScoreIntervals, change_within, score_intervals, within
from polidiff.evaluation.scores.plans import JudgedPlan, PlanScores, plan_intervals
from polidiff.evaluation.scores.propensity import logging_chances
from polidiff.evaluation.scores.rule_lists import ProvenList, RuleList, moves_of
from polidiff.evaluation.scores.scored_log import ScoredLog
from polidiff.evaluation.scores.verdicts import ScoreJudge
from polidiff.options import ImproveOptions
from polidiff.policies import PatchedPolicy, Policy, changed_decisions, one_hot
from polidiff.policies.patched import rule_patch
from polidiff.policies.protocol import PolicyLike
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.explanation import Methods
from polidiff.records.numbers import counted, interval_numbers, number
from polidiff.records.outcome import Assumption, Interval
from polidiff.records.patch import Patch
from polidiff.records.plan import Frontier, Plan, PlanRule
from polidiff.records.rule import Rule, covers_any
from polidiff.rules.lists import without_any
from polidiff.surrogates.list_chooser import FOLLOWED, ListChooser, RuleCells, rule_cells, with_bounds
from polidiff.surrogates.record import (
    GuardRoom,
    Note,
    Reduction,
    Solver,
    frozen_rules,
    guard_rooms,
    split_support,
    without_broken,
)
from polidiff.worlds.log import Log
from polidiff.worlds.log_check import log_summary
from polidiff.worlds.protocol import aim

KEEP = "keep"
MOST_FEATURES_IN_A_RULE = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class ScorePlans(Reduction):
    """Rows with scores, the cells that rules speak about, and what is asked of plans."""

    world: Log
    current: PolicyLike  # as the user gave it
    policy: Policy  # what it does, estimated if it wrote the log
    scores: PlanScores
    cells: RuleCells
    frozen: tuple[Rule, ...]
    options: ImproveOptions

    def solve(self, solver: Solver) -> Frontier:
        """The plans, judged."""
        moves = solver.prescribed(self.world.actions, "a log of feature rows")
        chooser = ListChooser(self, [action.name in moves for action in self.world.actions])
        everyone = np.ones(len(self.scores.base), dtype=np.bool_)
        choice = chooser.choose(everyone, proven=True)
        lists = choice.lists
        if lists and lists[-1].worth == -np.inf:
            raise InfeasibleError(
                f"no plan of at most {len(lists)} rules was found that keeps {', '.join(map(str, self.options.keep))}; "
                f"the best found is {chooser.nearest(everyone, choice.gains)}. Hint: loosen it, or allow more rules"
            )
        judged = self.scores.judged(lambda rows: [self.table(one.rules) for one in chooser.choose(rows).lists])
        shown = [k for k, one in enumerate(lists) if one.rules and one.rules not in [two.rules for two in lists[:k]]]
        if not shown:
            return self._frontier((self._nothing(),), stopped=chooser.stopped)
        itself = [self._by_everyone(self.table(lists[k].rules)) for k in shown]
        worth = _Worth(self, [judged[k] for k in shown], itself, choice.gains)
        plans = [worth.plan(place, lists[k]) for place, k in enumerate(shown)]
        return without_broken(self._frontier((self._nothing(), *plans), stopped=chooser.stopped), self.guards)

    def _by_everyone(self, plan: FloatArray) -> JudgedPlan:
        """What everyone says of a plan (n, A), with what empty values may hide."""
        judged = self.scores.by_everyone(plan)
        return replace(judged, scores=replace(judged.scores, hidden=self.scored.hidden(plan, self.scores.current)))

    @cached_property
    def guards(self) -> list[GuardRoom]:
        """What plans must keep."""
        return guard_rooms(self.options.keep, self.world.outcomes, self.present.estimate.tolist())

    def assumptions(self) -> tuple[Assumption, ...]:
        """What was found out about the log."""
        return assess(self.world).assumptions

    def notes(self, plans: Sequence[Plan]) -> tuple[Note, ...]:
        """What rules rest on."""
        count = self.scores.decisions.n_units
        people = counted(count, "episode") if self.world.rows.unit is None else f"{number(count)} people"
        chosen = (
            f"Rules were chosen and judged by doubly robust scores of {people}, in five turns: each "
            "turn judges rules that the other four fifths chose. What is said of a plan is the mean over the turns. "
            "Its interval also spans what everyone says of the rules shown."
        )
        several = (
            "When rules were chosen, what follows a decision was valued by the current policy and then by the rules "
            f"found. {self._reach}They are judged as policies are."
        )
        parted = any(len(without_any(entry.rule, self.frozen, self.cells.kinds)) != 1
                     for plan in plans for entry in plan.rules)  # fmt: skip
        frozen = "Where nothing may change is left out of the rules' edits, though not of their text."
        short = f"Rules from feature rows speak about at most {MOST_FEATURES_IN_A_RULE} features."
        return (
            *self.world.notes,
            chosen,
            *(() if self.scores.decisions.one_step else (several,)),
            *self.cells.notes,
            *self.scored.notes,
            *((frozen,) if parted else ()),
            *((short,) if self.options.max_conditions > MOST_FEATURES_IN_A_RULE else ()),
        )

    @property
    def _reach(self) -> str:
        """How many decisions rules may change, where episodes have more."""
        longest = int(np.bincount(self.scores.decisions.episode).max())
        most = f"They change at most {FOLLOWED:g} decisions of an episode on average, as far as a log can follow. "
        return most if longest > FOLLOWED else ""

    @cached_property
    def scored(self) -> ScoredLog:
        """The rows as verdicts see them."""
        scores = self.scores
        single = scores.single if scores.decisions.one_step else None
        return ScoredLog(self.world, scores.decisions, scores.chances, single, scores.seed)

    @cached_property
    def fixed(self) -> BoolArray:
        """(n,) decisions that may not change."""
        states = self.world.rows.states[self.scores.decisions.order]
        return covers_any(self.frozen, states) if self.frozen else np.zeros(len(states), dtype=np.bool_)

    def codes(self, *, coarse: bool = False) -> AnyArray:
        """(columns, n) cells of the decisions."""
        codes = self.cells.coarse if coarse else self.cells.codes
        return np.asarray(codes[:, self.scores.decisions.order])

    def moves(self, rules: RuleList) -> IntArray:
        """(n,) action that each decision is moved to, or the number of actions where none is."""
        keep = self.world.n_actions
        return np.where(self.fixed, keep, moves_of(self.codes(), rules, keep))

    def table(self, rules: RuleList) -> FloatArray:
        """(n, A) what the policy with these rules does."""
        move, table = self.moves(rules), np.array(self.scores.base)
        table[move < table.shape[1]] = one_hot(move[move < table.shape[1]], table.shape[1])
        return table

    def changed(self, rules: RuleList) -> FloatArray:
        """(n,) chance that these rules change each decision."""
        scores, table = self.scores, self.table(rules)
        if scores.current is not None:
            return changed_decisions(scores.current, table)
        return changed_rows(scores.decisions.actions, scores.base, table)

    @cached_property
    def present(self) -> ScoreIntervals:
        """What the current policy brings."""
        return self.values([None])

    def values(self, plans: Sequence[JudgedPlan | None]) -> ScoreIntervals:
        """What plans bring, outcome after outcome; None: the current policy."""
        decisions = self.scores.decisions
        observed = self.scores.discount ** decisions.step[:, None] * decisions.gains + self.scores.against_log
        sums = [decisions.per_unit(observed + (0.0 if plan is None else plan.scores.rows)) for plan in plans]
        sizes = decisions.per_unit(decisions.first.astype(np.float64))[:, None]
        columns = np.hstack(sums)
        return score_intervals(columns, np.repeat(sizes, columns.shape[1], axis=1), level=self.options.level)

    def _nothing(self) -> Plan:
        """The plan that changes nothing."""
        log, (k, sign) = self.world, aim(self.world)
        outcomes = {o.name: within(self.present.alone(j), o.range) for j, o in enumerate(log.outcomes)}
        value = sign * outcomes[log.outcomes[k].name].estimate
        patch = rule_patch([], [action.name for action in log.actions], log.feature_names)
        return Plan(
            changes=0.0, expected_return=value, outcomes=outcomes, patch=patch, bound=value, gap=0.0, proven=False,
            share=0.0, policy=self.policy,
        )  # fmt: skip

    def _frontier(self, plans: tuple[Plan, ...], *, stopped: bool) -> Frontier:
        log, options = self.world, self.options
        how = "doubly robust scores, cross-fitted"
        outcomes = max(1, len(plans) - 1) * len(log.outcomes)
        return Frontier(
            plans=plans,
            hull=(),
            baselines=(),
            ledger=None,
            gap=max(plan.gap for plan in plans),
            unit="rules",
            outcomes=log.outcomes,
            objective=log.outcomes[aim(log)[0]].name,
            current_return=plans[0].expected_return,
            optimum=max(plan.bound for plan in plans),
            world=log_summary(log),
            methods=Methods("plain", options.level, 0.0, 0.0, options.seed, outcomes, how, {"polidiff": __version__}),
            stats={
                "cells": len(np.unique(self.codes(coarse=True).T, axis=0)),
                "people or episodes": self.scores.decisions.n_units,
            },
            warnings=(f"The time limit of {options.time_limit} s was met before all lists were tried.",) * stopped,
            context=self,
        )


class _Worth:
    """What judged plans bring, told together."""

    def __init__(
        self, problem: ScorePlans, judged: list[JudgedPlan], itself: list[JudgedPlan], gains: FloatArray
    ) -> None:
        k, sign = aim(problem.world)
        self.problem, self.judged = problem, judged
        self.value = np.where(problem.fixed[:, None], 0.0, sign * gains[:, :, k])
        self.joint, self.itself = (plan_intervals(some, level=problem.options.level) for some in (judged, itself))
        self.levels = problem.values(judged)
        self.chooser = ListChooser(problem, [True] * problem.world.n_actions)

    def plan(self, place: int, chosen: ProvenList) -> Plan:
        """One plan with its rules, its patch and what it brings."""
        problem, log = self.problem, self.problem.world
        (k, sign), count = aim(log), len(log.outcomes)
        gain, reasons = self._gain(place)
        outcomes = {o.name: within(self.levels.alone(place * count + j), o.range) for j, o in enumerate(log.outcomes)}
        value = sign * outcomes[log.outcomes[k].name].estimate
        episodes = int(problem.scores.decisions.first.sum())
        open_ = max(0.0, chosen.bound - chosen.worth) / episodes
        span = max(gain.estimate + open_, 1e-300)
        patch = self._patch(chosen.rules)
        table, unkept = problem.table(chosen.rules), self._unkept(place)
        every, one = self._strength(place, gain, PatchedPolicy(problem.policy, patch))
        return Plan(
            changes=float(problem.changed(chosen.rules).sum() / episodes),
            expected_return=value,
            outcomes=outcomes,
            patch=patch,
            bound=value + open_,
            gap=min(1.0, open_ / span) if gain.estimate > 0 else 1.0,
            proven=False,
            rules=tuple(self._rule(chosen.rules, j, value) for j in range(len(chosen.rules))),
            literals=sum(c.literals for _, box in chosen.rules for c in problem.cells.rule(box).conditions),
            share=max(0.0, gain.estimate) / span,
            applicable=1.0,
            stability=self._stability(place, table),
            gain=gain,
            warnings=(*reasons, *unkept),
            kept=not unkept,
            holds_up_to=every,
            rests_on=self._rests_on(every, one, shown=gain.low > 0),
            policy=PatchedPolicy(problem.policy, patch),
        )

    def _stability(self, place: int, table: FloatArray) -> float | None:
        """Of the decisions that the plan or a turn's own choice changes, the share that both change alike."""
        base, judged = self.problem.scores.base, self.judged[place].proposed
        changed = [np.abs(policy - base).max(axis=1) > 1e-9 for policy in (table, judged)]
        either = int((changed[0] | changed[1]).sum())
        alike = changed[0] & changed[1] & (np.abs(table - judged).max(axis=1) < 1e-9)
        return float(alike.sum() / either) if either else None

    def _change(self, at: int) -> Interval:
        """What a plan changes: as the folds say of what others chose in its place, spanning what is said of itself."""
        outcomes = self.problem.world.outcomes
        return change_within(self.joint.joint(at).spanning(self.itself.joint(at)), outcomes[at % len(outcomes)])

    def _gain(self, place: int) -> tuple[Interval, tuple[str, ...]]:
        """What the plan gains, and why that is not known if it is not."""
        problem, (k, sign) = self.problem, aim(self.problem.world)
        at = place * len(problem.world.outcomes) + k
        difference = self._change(at)
        gain = difference if sign > 0 else Interval(
            -difference.estimate, -difference.high, -difference.low, difference.level
        )  # fmt: skip
        reasons = self.judged[place].scores.reasons(float(self.joint.largest_share[at]))
        failed = assess(problem.world).reason
        reasons = (*reasons, *problem.scored.confounded, *((failed,) if failed else ()))
        if reasons:
            gain = replace(gain, low=min(gain.low, 0.0), high=max(gain.high, 0.0))
        if gain.low > 0:
            return gain, ()
        name = problem.world.outcomes[k].name
        _, lowest, highest = interval_numbers(gain)
        said = f"this plan is not shown to improve {name!r}: the gain lies between {lowest} and {highest}"
        return gain, ("; ".join((said, *reasons)),)

    def _strength(self, place: int, gain: Interval, policy: Policy) -> tuple[float | None, float | None]:
        """The strength of unrecorded reasons that undoes a shown gain, of every decision and of one among several.

        None where it is not shown, or actions were drawn by lot.
        """
        scores, (k, sign) = self.problem.scores, aim(self.problem.world)
        if gain.low <= 0 or self._by_lot:
            return None, None
        at = place * len(self.problem.world.outcomes) + k
        quantile = float(self.joint.half[at] / max(self.joint.error[at], 1e-300))
        edge = np.array([gain.low])
        if not scores.decisions.one_step:
            question = Question(self.problem.current, policy, seed=scores.seed)
            return ScoreJudge(self.problem.world, question, self.problem.scored).holds(k, sign, [0], edge, quantile)[0]
        rows = OneDecision(
            scores.decisions.gains[:, k],
            scores.decisions.actions,
            scores.single.fitted[:, :, k],
            scores.chances.table,
            self.judged[place].proposed,
            scores.current,
        )
        everyone = np.ones((1, len(rows.outcome)))
        turned = rows if sign > 0 else rows.negated()
        return float(one_step_holds_up_to(turned, everyone, edge, quantile)[0]), None

    @property
    def _by_lot(self) -> bool:
        """Whether actions were drawn with recorded chances."""
        held = assess(self.problem.world).status("propensities") == "held"
        return self.problem.scores.decisions.probability is not None and held

    def _rests_on(self, every: float | None, one: float | None, *, shown: bool) -> str:
        assessment, units = assess(self.problem.world), self.problem.scores.decisions.n_units
        reasons = None if every is None else hidden_reasons(every, one, assessment.scale)
        reasons = DRAWN if shown and self._by_lot else reasons
        unit = "episodes" if assessment.units is None else assessment.counted_as
        return rests_on(float(units), unit, assessment.assumptions, reasons)

    def _unkept(self, place: int) -> tuple[str, ...]:
        """What is to be said about guards that the plan is not shown to keep."""
        first, guards = place * len(self.problem.world.outcomes), self.problem.guards
        return tuple(text for room in guards for text in room.doubt(self._change(first + room.place)))

    def _patch(self, rules: RuleList) -> Patch:
        """Edits that follow the rules and leave out what is frozen or kept by an earlier rule."""
        log, cells = self.problem.world, self.problem.cells
        left_out, pieces = list(self.problem.frozen), []
        for move, box in rules:
            rule = cells.rule(box)
            if move == log.n_actions:
                left_out.append(rule)
            else:
                pieces += [(part, move) for part in without_any(rule, left_out, cells.kinds)]
        return rule_patch(pieces, [action.name for action in log.actions], log.feature_names)

    def _rule(self, rules: RuleList, index: int, value: float) -> PlanRule:
        """A rule as it is read, without what is frozen if the rest is still one rule."""
        problem, log = self.problem, self.problem.world
        move, box = rules[index]
        rule, rest = problem.cells.rule(box), rules[:index] + rules[index + 1 :]
        left = without_any(rule, problem.frozen, problem.cells.kinds)
        episodes = int(problem.scores.decisions.first.sum())
        everyone = np.ones(len(self.value), dtype=np.bool_)
        lost = [self.chooser.total(some, everyone, self.value) for some in (rules, rest)]
        acts = problem.moves(rules) != problem.moves(rest)
        nothing_left = bool((problem.moves(rest) == log.n_actions).all())
        (k, sign), left_over = aim(log), value - (lost[0] - lost[1]) / episodes
        return PlanRule(
            rule=left[0] if len(left) == 1 else rule,
            move=KEEP if move == log.n_actions else log.actions[move].name,
            applicable=1.0,
            changes=float(problem.changed(rules)[acts].sum() / episodes),
            without=sign * within(problem.present.alone(k), log.outcomes[k].range).estimate
            if nothing_left
            else left_over,
        )


def reduce_to_scores(log: Log, current: PolicyLike, options: ImproveOptions) -> ScorePlans:
    """The rows of a log with what is needed to score plans of rules."""
    split_support(options.min_support, MIN_SUPPORT)
    frozen, rows = frozen_rules(options.freeze, log.feature_names), log.rows
    cells = rule_cells(rows.states, log.feature_names)
    decisions = scored_decisions(log, seed=options.seed)
    if decisions.n_units < 4 * MIN_GROUP:
        raise InvalidOptionError(
            f"rule plans from a log need at least {4 * MIN_GROUP} episodes; there are {decisions.n_units}"
        )
    logged = is_logs(current)
    policy = as_log_policy(log, current, seed=options.seed)
    table = None if logged else np.asarray(policy.probabilities(rows.states[decisions.order]), dtype=np.float64)
    recorded = decisions.probability is not None
    chances = (logging_chances if recorded else partial(estimated_chances, log))(decisions, seed=options.seed)
    scores = PlanScores(decisions, chances, table, log.discount, options.seed)
    return ScorePlans(
        world=log,
        current=current,
        policy=policy,
        scores=scores,
        cells=cells,
        frozen=tuple(part for rule in frozen for part in with_bounds(rule, rows.states, cells.kinds)),
        options=options,
    )
