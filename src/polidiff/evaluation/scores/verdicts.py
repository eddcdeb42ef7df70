"""Verdicts from a log whose states are features: scores of every episode, and what they rest on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from polidiff.evaluation.assumptions.confounding import Comparison, Moves
from polidiff.evaluation.assumptions.confounding_one_step import OneDecision, one_step_holds_up_to
from polidiff.evaluation.assumptions.log_checks import rare_action_check
from polidiff.evaluation.comparison import Effects, RegionChanges
from polidiff.evaluation.logged.bounds import PolicyBounds, bound_policy
from polidiff.evaluation.logged.counts import count_rows
from polidiff.evaluation.logged.judge import Assessment, IntervalPair, Judge, Question, Verdicts, assess
from polidiff.evaluation.logged.model import Starts, split_policy
from polidiff.evaluation.scores.difference import (
    MOST_UNSUPPORTED,
    ScoreIntervals,
    against_log,
    change_within,
    within,
)
from polidiff.evaluation.scores.episodes import running_products
from polidiff.evaluation.scores.regression import FEWEST_LEVELS, design_of, draw_questions, leaves_of
from polidiff.evaluation.scores.scored_log import ScoredLog, scored_log
from polidiff.evaluation.verdicts import verdict
from polidiff.policies.protocol import PolicyPair
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.explanation import Verdict
from polidiff.records.numbers import counted, number
from polidiff.records.outcome import Assumption, Interval
from polidiff.worlds.log_rows import LoggedRows

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

EVEN_ENOUGH = 0.5  # share of the episodes that weights of whole episodes are worth, to be asked
FAR_APART = 4.0  # standard errors
MOST_REPEATED = 10_000  # rows up to which changes of single regions are judged there, each by two more policies
MOST_REGIONS = 3  # so many of them
CELLS_BY = 2  # trees whose leaves are the cells in which unrecorded reasons are weighed over several decisions


class ScoreJudge(Judge):
    """Two policies judged by scores of the rows that are held.

    `proposed` is what the proposed policy does in the rows (n, A), where that is known.
    """

    def __init__(
        self, log: Log, question: Question, scored: ScoredLog | None = None, proposed: FloatArray | None = None
    ) -> None:
        self.log, self.question, self.assessment = log, question, assess(log)
        self.scored = scored if scored is not None else scored_log(log, question.current, seed=question.seed)
        self.decisions = self.rows = self.scored.decisions
        self.assessment = with_time(self.assessment, self.scored)
        self.one_step = self.decisions.one_step
        whole = np.ones(log.rows.n_episodes, dtype=np.bool_) if question.judging is None else question.judging
        episode = log.rows.episode[self.decisions.order]
        groups = question.groups if question.groups is not None else [whole]
        self.masks: list[BoolArray] = [(mask & whole)[episode] for mask in groups]
        self.episodes = np.array([float((mask & self.decisions.first).sum()) for mask in self.masks])
        proposed = self.scored.policy(question.proposed) if proposed is None else proposed
        tables = proposed, self.scored.policy(question.current)
        self.new, self.old = (self.scored.chances.table if table is None else table for table in tables)
        self.by_log = tables[1] is None
        self.scores = self.scored.apart(*tables)
        values = [self.scored.scores(table) for table in tables]
        self.values = [replace(self.scores, rows=self.scored.observed + one.rows, hidden=one.hidden) for one in values]
        self.unsupported = np.array([float(self.scores.unsupported[m].mean()) if m.any() else 0.0 for m in self.masks])
        person = None if log.rows.unit is None else log.rows.unit[self.decisions.order]
        self.people = None if person is None else np.array([len(np.unique(person[mask])) for mask in self.masks])
        level = question.level if question.family is None else 1 - (1 - question.level) / question.family
        self.joint, self.warnings = self.scores.intervals(self.masks, level=level), self._warnings()

    @property
    def spanned(self) -> str:
        """Why nothing is decided where another reading of the record is not decided."""
        return f"what {' and '.join(self.scored.hiding)} may hide is enough to undo the difference"

    def _at(self, group: int, outcome: int) -> int:
        return group * len(self.log.outcomes) + outcome

    def plain(self) -> Verdicts:
        """Intervals of scores; unknown where the log cannot carry the comparison."""
        values = [one.intervals(self.masks, level=self.question.level) for one in self.values]
        outcomes = range(len(self.log.outcomes))
        return tuple(tuple(self._plain(g, k, values) for k in outcomes) for g in range(len(self.masks)))

    def _plain(self, group: int, k: int, values: list[ScoreIntervals]) -> Verdict:
        at, outcome, mask, level = self._at(group, k), self.log.outcomes[k], self.masks[group], self.question.level
        plain = verdict(
            outcome,
            replace(change_within(self.joint.joint(at), outcome), level=level),
            replace(change_within(self.joint.alone(at), outcome), level=level),
            current=within(values[1].alone(at), outcome.range),
            proposed=within(values[0].alone(at), outcome.range),
            unsupported=float(self.unsupported[group]),
        )
        part = replace(self.scores, unsupported=self.scores.unsupported[mask])
        reasons = part.reasons(float(self.joint.largest_share[at])) if mask.any() else ()
        reasons += (*self._apart_from_products(group, k), *self.scored.confounded)
        if reasons:
            return self.not_carried(plain, k, "; ".join(reasons))
        if plain.direction != "unknown":
            return plain
        if self.joint.half[at] < abs(self.joint.estimate[at]):
            return replace(plain, note=self.spanned)
        few = counted(round(self.episodes[group]), self.decisions.noun)
        return replace(plain, note=f"{few} are too few to tell")

    def _apart_from_products(self, group: int, k: int) -> tuple[str, ...]:
        """Where weights of whole episodes are even enough to say something without any state, whether they agree."""
        if self.decisions.one_step:
            return ()
        mask, first, last = self.masks[group], self.decisions.first, np.append(self.decisions.first[1:], True)
        total = np.zeros(len(mask))
        for table, sign in ((self.new, 1.0), (self.old, -1.0)):
            ratio = against_log(self.decisions, table, self.scored.chances).ratio
            weight = running_products(ratio, first)
            whole = weight[last & mask]
            if not len(whole) or whole.sum() ** 2 < EVEN_ENOUGH * len(whole) * (whole**2).sum():
                return ()
            total += sign * weight * self.scored.observed[:, k]
        alone = replace(self.scores, rows=total[:, None], inflation=1.0, hidden=None)
        plain = alone.intervals([mask], level=self.question.level)
        apart = plain.estimate[0] - self.joint.estimate[self._at(group, k)]
        if abs(apart) <= FAR_APART * np.hypot(plain.error[0], self.joint.error[self._at(group, k)]):
            return ()
        other = number(float(plain.estimate[0]), 3)
        return (f"weighting whole episodes, which needs no states, gives another answer: {other}; what follows a "
                "decision may depend on what came before",)  # fmt: skip

    def halves(self) -> list[list[list[IntervalPair]]]:
        """Intervals of the scores of each half."""
        rows, outcomes = self.log.rows, self.log.outcomes
        late = (2 * rows.episode >= rows.n_episodes)[self.decisions.order]
        parts = ([mask & half for mask in self.masks] for half in (~late, late))

        def pair(one: ScoreIntervals, g: int, k: int) -> IntervalPair:
            joint, alone = one.joint(self._at(g, k)), one.alone(self._at(g, k))
            return change_within(joint, outcomes[k]), change_within(alone, outcomes[k])

        intervals = [self.scores.intervals(masks, level=self.question.level) for masks in parts]
        groups = range(len(self.masks))
        return [[[pair(one, g, k) for k in range(len(outcomes))] for g in groups] for one in intervals]

    def overlap(self) -> Assumption:
        """By the share of decisions on actions next to never taken."""
        return rare_action_check(float(self.scores.unsupported.mean()), MOST_UNSUPPORTED)

    def units(self, group: int) -> int:
        """Distinct units of the scores."""
        return len(np.unique(self.decisions.unit[self.masks[group]]))

    def moved(self, group: int) -> tuple[FloatArray, FloatArray, BoolArray]:
        """By the chances of both policies in the rows."""
        mask = self.masks[group]
        moved = np.abs((self.new - self.old)[mask].sum(axis=0)) / max(float(self.episodes[group]), 1.0)
        taken = np.bincount(self.decisions.actions[mask], minlength=self.decisions.n_actions)
        return moved, taken.astype(np.float64), mask

    def holds(
        self, k: int, sign: float, groups: list[int], edge: FloatArray, quantile: float
    ) -> list[tuple[float, float]]:
        """Sharp bounds where each row is an episode, else over a few cells."""
        single = self.scored.single
        if single is None:
            return super().holds(k, sign, groups, edge, quantile)
        rows = OneDecision(
            self.decisions.gains[:, k], self.decisions.actions, single.fitted[:, :, k], self.scored.chances.table,
            self.new, None if self.by_log else self.old,
        )  # fmt: skip
        masks = np.array([self.masks[g] for g in groups], dtype=np.float64)
        every = one_step_holds_up_to(rows if sign > 0 else rows.negated(), masks, edge, quantile)
        return [(float(gamma), float(gamma)) for gamma in every]

    def compared(self, k: int, groups: list[int], sign: float = 1.0) -> Comparison:
        """The log over a few cells: only how far an end moves with Γ is found there, not where it lies."""
        cell, decisions, discount = self._cells(k), self.decisions, self.log.discount
        size, n_actions = int(cell.max()) + 1, decisions.n_actions
        rows = LoggedRows(cell, decisions.actions, decisions.episode, decisions.follow, decisions.gains, None)
        edges = count_rows(rows, cell, size, n_actions, blocks=1).edges
        masks = (self.masks[g][rows.first].astype(np.float64) for g in groups)
        begun = np.array([np.bincount(cell[rows.first], mask, size) for mask in masks])
        starts = Starts(begun / np.maximum(begun.sum(axis=1, keepdims=True), 1.0), self.episodes[groups])
        ranges, count = [outcome.range for outcome in self.log.outcomes], np.bincount(cell)[:, None]

        def bounds(table: FloatArray) -> PolicyBounds:
            mean = np.column_stack([np.bincount(cell, column, size) for column in table.T]) / count
            changed = np.abs(table - self.scored.chances.table).max(axis=1) >= 1e-9
            target = split_policy(mean, None, same=np.bincount(cell, changed, size) == 0)
            return bound_policy(edges, target, starts, ranges, discount=discount)

        draws = Moves(edges, rows, n_actions).draws(k, discount)
        return Comparison(draws, bounds(self.new), bounds(self.old), k, range(len(groups)), sign=sign)

    def _cells(self, k: int) -> IntArray:
        """(n,) cells of rows whose outcomes to come are alike, apart where the policies act otherwise."""
        ahead, everyone = self.decisions.to_come(self.log.discount)[:, k], np.arange(len(self.decisions.actions))
        design = replace(design_of(self.decisions.x, self.decisions.actions, 1), levels=FEWEST_LEVELS)
        questions = draw_questions(design, ahead - ahead.mean(), everyone, everyone[::4], most=CELLS_BY)
        parts = [*leaves_of(design.bins, questions), self.new.argmax(axis=1), self.old.argmax(axis=1)]
        return np.asarray(np.unique(np.column_stack(parts), axis=0, return_inverse=True)[1]).ravel()

    def _warnings(self) -> tuple[str, ...]:
        """What a reader must know about the chances of the logged actions."""
        if self.by_log or self.scored.chances.known:
            return ()
        given = float(self.old[np.arange(len(self.old)), self.decisions.actions].mean())
        return (
            "the logged actions do not look like the current policy's: on average it gives them probability "
            f"{given:.2f}; both policies are judged by reweighting the log",
        )


def with_time(assessment: Assessment, scored: ScoredLog) -> Assessment:
    """What was found out about a log, with a doubt where intervals also span what follows if the time is a feature."""
    if scored.by_time is None:
        return assessment
    said = "Intervals also hold what follows if the stretch of the log is a feature."
    seen = str(scored.together)
    doubt = Assumption("drift", "decisions and outcomes in stretches of the log", "doubtful", seen, said)
    known = assessment.assumptions
    others = tuple(doubt if one.name == "drift" and one.status != "failed" else one for one in known)
    return replace(assessment, assumptions=others)


def score_effects(scored: ScoredLog, policies: PolicyPair, changes: RegionChanges, *, level: float) -> Effects:
    """What the current policy with one region's change brings, and the proposed one without it, against the current."""
    decisions, log = scored.decisions, scored.log
    if not decisions.one_step:
        if len(decisions.actions) > MOST_REPEATED:
            return {}
        changes = replace(changes, asked=changes.asked[:MOST_REGIONS])
    before, after = (scored.chances.table if table is None else table for table in map(scored.policy, policies))
    family = 2 * len(changes.asked) * len(log.outcomes)

    def difference(table: FloatArray) -> dict[str, Interval]:
        question = Question(*policies, level=level, family=family, lines=False, seed=scored.seed)
        verdicts, _ = ScoreJudge(log, question, scored, table).verdicts()
        return {one.outcome: one.pointwise for one in verdicts[0]}

    return changes.effects(log.rows.states[decisions.order], before, after, difference)
