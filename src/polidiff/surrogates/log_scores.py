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
from functools import cached_property

import numpy as np

from polidiff.errors import InfeasibleError, InvalidOptionError
from polidiff.evaluation.logged.judge import Question, assess
from polidiff.evaluation.logged.plan import MIN_GROUP, MIN_SUPPORT
from polidiff.evaluation.logged.policies import as_log_policy, changed_rows
from polidiff.evaluation.scores.plans import PlanScores, plan_verdicts
from polidiff.evaluation.scores.scored_log import ScoredLog, scored_log, value_intervals
from polidiff.options import ImproveOptions
from polidiff.policies import PatchedPolicy, Policy, changed_decisions, one_hot
from polidiff.policies.patched import rule_patch
from polidiff.policies.protocol import PolicyLike
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.explanation import Methods
from polidiff.records.numbers import counted, number
from polidiff.records.outcome import Assumption
from polidiff.records.patch import Patch
from polidiff.records.plan import Frontier, Plan, PlanRule
from polidiff.records.rule import Rule, covers_any
from polidiff.rules.best_lists import ProvenList, moves_of
from polidiff.rules.cell_grid import RuleList
from polidiff.rules.lists import without_any
from polidiff.surrogates.list_chooser import FOLLOWED, ListChooser, RuleCells, rule_cells, with_bounds
from polidiff.surrogates.record import (
    GuardRoom,
    Note,
    Reduction,
    Solver,
    frozen_rules,
    guard_rooms,
    sparing_rules,
    split_support,
    with_verdicts,
    without_broken,
)
from polidiff.worlds.log import Log
from polidiff.worlds.log_check import log_summary, rare_words
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

    @property
    def scored(self) -> ScoredLog:
        """The rows as verdicts see them."""
        return self.scores.scored

    @property
    def people(self) -> int:
        """Whose decisions are scored, each counted once; episodes where nobody is known to come back."""
        return len(np.unique(self.world.rows.person[self.scored.decisions.order]))

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
            return self._frontier((self.nothing,), stopped=chooser.stopped)
        tables = [self.table(lists[k].rules) for k in shown]
        question = Question(self.current, self.current, level=self.options.level, seed=self.options.seed)
        verdicts = plan_verdicts(self.scores, [judged[k] for k in shown], tables, question)
        plans = []
        for k, table, told in zip(shown, tables, verdicts, strict=True):
            drafted = with_verdicts(self._draft(lists[k]), *told, self.world, self.options)
            stable = _alike(self.scores.base, table, judged[k].proposed)
            plans.append(replace(self._measured(drafted, lists[k], choice.gains), stability=stable))
        return without_broken(self._frontier((self.nothing, *plans), stopped=chooser.stopped), self.guards)

    @cached_property
    def guards(self) -> list[GuardRoom]:
        """What plans must keep."""
        now = [interval.estimate for interval in self.nothing.outcomes.values()]
        return guard_rooms(self.options.keep, self.world.outcomes, now)

    def assumptions(self) -> tuple[Assumption, ...]:
        """What was found out about the log."""
        return assess(self.world).assumptions

    def notes(self, plans: Sequence[Plan]) -> tuple[Note, ...]:
        """What rules rest on."""
        episode = "decision" if self.scores.scored.decisions.one_step else "episode"
        people = f"{number(self.people)} people" if self.world.rows.unit is not None else counted(self.people, episode)
        chosen = (
            f"Rules were chosen and judged by doubly robust scores of {people}, in five turns: each "
            "turn judges rules that the other four fifths chose. What is said of a plan is the mean over the turns. "
            "Its interval also holds what all rows together say of the rules shown."
        )
        several = (
            "When rules were chosen, what follows a decision was valued by the current policy and then by the rules "
            f"found. {self._reach}Gains are those of whole episodes."
        )
        parted = any(len(without_any(entry.rule, self.frozen, self.cells.kinds)) != 1
                     for plan in plans for entry in plan.rules)  # fmt: skip
        frozen = "Where nothing may change is left out of the rules' edits, though not of their text."
        short = f"Rules from feature rows speak about at most {MOST_FEATURES_IN_A_RULE} features."
        return (
            *self.world.notes,
            chosen,
            *(() if self.scored.decisions.one_step else (several,)),
            *self.cells.notes,
            *self.scored.notes,
            *((frozen,) if parted else ()),
            *((short,) if self.options.max_conditions > MOST_FEATURES_IN_A_RULE else ()),
        )

    @property
    def _reach(self) -> str:
        """How many decisions rules may change, where episodes have more."""
        longest = int(np.bincount(self.scored.decisions.episode).max())
        most = (
            f"No more than {FOLLOWED:g} changed decisions per episode were allowed on average: too few episodes of a "
            "log do as rules with more changes would. "
        )
        return most if longest > FOLLOWED else ""

    @cached_property
    def fixed(self) -> BoolArray:
        """(n,) decisions that may not change."""
        states = self.world.rows.states[self.scored.decisions.order]
        return covers_any(self.frozen, states) if self.frozen else np.zeros(len(states), dtype=np.bool_)

    def codes(self, *, coarse: bool = False) -> AnyArray:
        """(columns, n) cells of the decisions."""
        codes = self.cells.coarse if coarse else self.cells.codes
        return np.asarray(codes[:, self.scored.decisions.order])

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
        return changed_rows(self.scored.decisions.actions, scores.base, table)

    def total(self, rules: RuleList, rows: BoolArray, table: FloatArray) -> float:
        """What the moves of a list sum to, of a table (n, A), over some rows."""
        whole = np.column_stack([table, np.zeros(len(table))])
        return float(whole[np.arange(len(whole)), self.moves(rules)][rows].sum())

    @cached_property
    def nothing(self) -> Plan:
        """The plan that changes nothing."""
        log, (k, sign) = self.world, aim(self.world)
        outcomes, _ = value_intervals(self.scored, self.current, level=self.options.level)
        value = sign * outcomes[log.outcomes[k].name].estimate
        return replace(self._draft(ProvenList((), 0.0, 0.0)), expected_return=value, outcomes=outcomes, bound=value)

    def _draft(self, chosen: ProvenList) -> Plan:
        """A plan before it is judged: it returns nothing, and the best list with as many rules at most its bound."""
        patch, rules = self._patch(chosen.rules), [self.cells.rule(box) for _, box in chosen.rules]
        return Plan(
            changes=float(self.changed(chosen.rules).sum() / self.scored.episodes),
            expected_return=0.0,
            outcomes={},
            patch=patch,
            bound=max(0.0, chosen.bound - chosen.worth) / self.scored.episodes,
            gap=0.0,
            proven=False,
            share=0.0,
            literals=sum(condition.literals for rule in rules for condition in rule.conditions),
            policy=PatchedPolicy(self.policy, patch) if chosen.rules else self.policy,
        )

    def _measured(self, plan: Plan, chosen: ProvenList, gains: FloatArray) -> Plan:
        """A judged plan with how near it comes to the best, and what each of its rules does."""
        assert plan.gain is not None
        open_ = plan.bound - plan.expected_return
        gained, span = plan.gain.estimate, max(plan.gain.estimate + open_, 1e-300)
        k, sign = aim(self.world)
        value = np.where(self.fixed[:, None], 0.0, sign * gains[:, :, k])
        return replace(
            plan,
            gap=min(1.0, open_ / span) if gained > 0 else 1.0,
            share=max(0.0, gained) / span,
            applicable=1.0,
            rules=tuple(self._rule(chosen.rules, j, plan.expected_return, value) for j in range(len(chosen.rules))),
        )

    def _patch(self, rules: RuleList) -> Patch:
        """Edits that follow the rules and leave out what is frozen or kept by an earlier rule."""
        log, cells = self.world, self.cells
        left_out, pieces = list(self.frozen), []
        for move, box in rules:
            rule = cells.rule(box)
            if move == log.n_actions:
                left_out.append(rule)
            else:
                pieces += [(part, move) for part in without_any(rule, left_out, cells.kinds)]
        return rule_patch(pieces, [action.name for action in log.actions], log.feature_names)

    def _rule(self, rules: RuleList, index: int, returned: float, value: FloatArray) -> PlanRule:
        """A rule as it is read, without what is frozen if the rest is still one rule; `value` (n, A) chose it."""
        log, episodes = self.world, self.scored.episodes
        (move, box), rest = rules[index], rules[:index] + rules[index + 1 :]
        rule = self.cells.rule(box)
        left = without_any(rule, self.frozen, self.cells.kinds)
        everyone = np.ones(len(value), dtype=np.bool_)
        lost = [self.total(some, everyone, value) for some in (rules, rest)]
        acts = self.moves(rules) != self.moves(rest)
        nothing_left = bool((self.moves(rest) == log.n_actions).all())
        return PlanRule(
            rule=left[0] if len(left) == 1 else rule,
            move=KEEP if move == log.n_actions else log.actions[move].name,
            applicable=1.0,
            changes=float(self.changed(rules)[acts].sum() / episodes),
            without=self.nothing.expected_return if nothing_left else returned - (lost[0] - lost[1]) / episodes,
        )

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
            methods=Methods("plain", options.level, 0.0, 0.0, options.seed, outcomes, how),
            stats={
                "cells": len(np.unique(self.codes(coarse=True).T, axis=0)),
                "people or episodes": self.people,
            },
            warnings=(f"The time limit of {options.time_limit} s was met before all lists were tried.",) * stopped,
            context=self,
        )


def _alike(base: FloatArray, table: FloatArray, judged: FloatArray) -> float | None:
    """Of the decisions that a plan (n, A) or the turns' own choices change, the share that both change alike."""
    changed = [np.abs(policy - base).max(axis=1) > 1e-9 for policy in (table, judged)]
    either = int((changed[0] | changed[1]).sum())
    alike = changed[0] & changed[1] & (np.abs(table - judged).max(axis=1) < 1e-9)
    return float(alike.sum() / either) if either else None


def reduce_to_scores(log: Log, current: PolicyLike, options: ImproveOptions) -> ScorePlans:
    """The rows of a log with what is needed to score plans of rules."""
    split_support(options.min_support, MIN_SUPPORT)
    states, spared = log.rows.states, rare_words(log, options.min_group)
    frozen = sparing_rules(frozen_rules(options.freeze, log.feature_names), spared)
    cells, scored = rule_cells(states, log.feature_names, spared), scored_log(log, current, seed=options.seed)
    people = len(np.unique(log.rows.person[scored.decisions.order]))
    if people < 4 * MIN_GROUP:
        unit = log_summary(log).counted_in
        raise InvalidOptionError(f"plans from feature rows need at least {4 * MIN_GROUP} {unit}; there are {people}")
    return ScorePlans(
        world=log,
        current=current,
        policy=as_log_policy(log, current, seed=options.seed),
        scores=PlanScores(scored, scored.policy(current)),
        cells=cells,
        frozen=tuple(part for rule in frozen for part in with_bounds(rule, states, cells.kinds)),
        options=options,
    )
