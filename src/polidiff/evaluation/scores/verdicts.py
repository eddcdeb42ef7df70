"""Verdicts from a log whose states are features: scores of every episode, and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from polidiff.evaluation.assumptions.confounding import Acting, Comparison, Moves, holds_up_to, near_enough
from polidiff.evaluation.assumptions.confounding_one_step import OneDecision, one_step_holds_up_to
from polidiff.evaluation.assumptions.log_checks import rare_action_check, rare_event_check
from polidiff.evaluation.comparison import GroupVerdicts
from polidiff.evaluation.logged.assessment import assess
from polidiff.evaluation.logged.verdict_support import Backing, Strengths, Verdicts, directed
from polidiff.evaluation.scores.difference import MOST_UNSUPPORTED, against_log
from polidiff.evaluation.scores.episodes import running_products
from polidiff.evaluation.scores.intervals import ScoreIntervals
from polidiff.evaluation.scores.regression import binned, draw_questions, leaves_of
from polidiff.evaluation.scores.scored_log import ScoredLog, scored_log, within
from polidiff.evaluation.verdicts import as_unknown, verdict
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.explanation import Verdict
from polidiff.records.outcome import Assumption, Interval
from polidiff.worlds.log_rows import LoggedRows

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

EVEN_ENOUGH = 0.5  # share of the episodes that weights of whole episodes are worth, to be asked
FAR_APART = 4.0  # standard errors
CELLS_BY = 2  # trees whose leaves are the cells in which unrecorded reasons are weighed over several decisions


def compare_by_scores(
    log: Log,
    current: Any,
    proposed: Any,
    groups: Sequence[BoolArray] | None = None,
    *,
    level: float = 0.95,
    family: int | None = None,
    scored: ScoredLog | None = None,
    judging: BoolArray | None = None,
    lines: bool = True,
    seed: int = 0,
) -> GroupVerdicts:
    """Differences proposed − current for all outcomes and every group, from scores of the rows that are held.

    Parameters
    ----------
    groups : sequence of (episodes,) masks, optional
        Episodes of the log, as ``log.starts`` has them; one group of all by default.
    family : int, optional
        Over how many comparisons the level must hold, where more are made than are seen here.
    scored : optional
        The log as scores (`scored_log`), where several policies are judged on it.
    judging : (episodes,) mask, optional
        Episodes that judge; the others help to estimate what they are compared with.
    lines : bool
        Whether verdicts say what they rest on, and up to which strength of unrecorded reasons they hold.
    """
    scored = scored if scored is not None else scored_log(log, current, seed=seed)
    whole = np.ones(log.rows.n_episodes, dtype=np.bool_) if judging is None else judging
    episode = log.rows.episode[scored.decisions.order]
    masks = [(mask & whole)[episode] for mask in (groups if groups is not None else [whole])]
    judge = _Judge(scored, (proposed, current), masks, level, family)
    return judge.verdicts(lines=lines)


class _Judge:
    """Two policies judged on the rows of one log."""

    def __init__(
        self,
        scored: ScoredLog,
        policies: tuple[Any, Any],
        masks: list[BoolArray],
        level: float,
        family: int | None,
    ) -> None:
        self.scored, self.assessment, self.masks, self.level = scored, assess(scored.log), masks, level
        self.log, self.decisions = scored.log, scored.decisions
        tables = scored.policy(policies[0]), scored.policy(policies[1])
        self.new, self.old = (scored.chances.table if table is None else table for table in tables)
        self.by_log = tables[1] is None
        self.values = [scored.observed + scored.scores(table).rows for table in tables]
        self.scores = scored.apart(*tables)
        self.family = family if family is not None else len(masks) * self.scores.rows.shape[1]
        self.joint = self._intervals(self.scores.rows, level if family is None else 1 - (1 - level) / family)

    def _intervals(self, rows: FloatArray, level: float) -> ScoreIntervals:
        return replace(self.scores, rows=rows).intervals(self.masks, level=level)

    def verdicts(self, *, lines: bool) -> GroupVerdicts:
        """All groups, with what their verdicts rest on."""
        values = [self._intervals(rows, self.level) for rows in self.values]
        outcomes, groups = range(len(self.log.outcomes)), range(len(self.masks))
        told: Verdicts = tuple(tuple(self._plain(g, k, values) for k in outcomes) for g in groups)
        told = self._through_time(told)
        reason = self.assessment.reason
        if reason is not None:
            told = tuple(tuple(as_unknown(v, reason) for v in group) for group in told)
        episodes = np.array([float((mask & self.decisions.first).sum()) for mask in self.masks])
        assumptions = self.assessment.assumptions
        if lines:
            overlap = rare_action_check(float(self.scores.unsupported.mean()), MOST_UNSUPPORTED)
            rare = [[self._rare(v, g, k) for k, v in enumerate(group)] for g, group in enumerate(told)]
            one_step, strengths = self.decisions.one_step, self._strengths(told)
            backing = Backing(self.assessment, overlap, episodes, one_step, strengths, rare)
            told, assumptions = backing.told(told), backing.assumptions
        return GroupVerdicts(
            verdicts=told,
            unsupported=np.array([self._unsupported(mask) for mask in self.masks]),
            episodes=episodes,
            family=self.family,
            logged_by_current=self.by_log or self.scored.chances.table is self.old,
            warnings=self._warnings(),
            assumptions=assumptions,
            people=self._people(),
        )

    def _people(self) -> IntArray | None:
        """(groups,) distinct people behind each group, where the log says who is who."""
        unit = self.log.rows.unit
        if unit is None:
            return None
        person = unit[self.decisions.order]
        return np.array([len(np.unique(person[mask])) for mask in self.masks])

    def _unsupported(self, mask: BoolArray) -> float:
        return float(self.scores.unsupported[mask].mean()) if mask.any() else 0.0

    def _at(self, group: int, outcome: int) -> int:
        return group * len(self.log.outcomes) + outcome

    def _plain(self, group: int, k: int, values: list[ScoreIntervals]) -> Verdict:
        """One verdict before the log's assumptions speak."""
        at, outcome, mask = self._at(group, k), self.log.outcomes[k], self.masks[group]
        plain = verdict(
            outcome,
            replace(self.joint.joint(at), level=self.level),
            replace(self.joint.alone(at), level=self.level),
            current=within(values[1].alone(at), outcome.range),
            proposed=within(values[0].alone(at), outcome.range),
            unsupported=self._unsupported(mask),
        )
        part = replace(self.scores, unsupported=self.scores.unsupported[mask])
        reasons = part.reasons(float(self.joint.largest_share[at])) if mask.any() else ()
        reasons += self._apart_from_products(group, k)
        if reasons:
            return as_unknown(plain, "; ".join(reasons))
        if plain.direction != "unknown":
            return plain
        few = f"{int((mask & self.decisions.first).sum())} {'decisions' if self.decisions.one_step else 'episodes'}"
        return replace(
            plain, note=f"the log has what is needed, but {few} are too few to tell: the interval includes 0"
        )

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
        plain = replace(self.scores, rows=total[:, None], inflation=1.0).intervals([mask], level=self.level)
        apart = plain.estimate[0] - self.joint.estimate[self._at(group, k)]
        if abs(apart) <= FAR_APART * np.hypot(plain.error[0], self.joint.error[self._at(group, k)]):
            return ()
        return ("weighting whole episodes, which needs no states, gives another answer: "
                f"{plain.estimate[0]:.3g}; what follows a decision may depend on what came before",)  # fmt: skip

    def _through_time(self, verdicts: Verdicts) -> Verdicts:
        """Where the world changed within the log, intervals span what either half of it says alone."""
        if not self.assessment.drifts:
            return verdicts
        rows = self.log.rows
        late = (2 * rows.episode >= rows.n_episodes)[self.decisions.order]
        parts = [[mask & half for mask in self.masks] for half in (~late, late)]
        halves = [self.scores.intervals(masks, level=self.level) for masks in parts]
        reason = "early and late episodes of the log do not say the same"

        def spanned(found: Verdict, at: int, k: int) -> Verdict:
            joint = _spanning(found.difference, [half.joint(at) for half in halves])
            alone = _spanning(found.pointwise, [half.alone(at) for half in halves])
            return directed(found, self.log.outcomes[k], joint, alone, reason)

        return tuple(
            tuple(v if v.note else spanned(v, self._at(g, k), k) for k, v in enumerate(group))
            for g, group in enumerate(verdicts)
        )

    def _rare(self, found: Verdict, group: int, k: int) -> Assumption | None:
        """What an event that comes with one action, too rare to be seen, would have to cost to turn the verdict."""
        if found.direction not in ("more", "less"):
            return None
        mask = self.masks[group]
        episodes = max(int((mask & self.decisions.first).sum()), 1)
        moved = np.abs((self.new - self.old)[mask].sum(axis=0)) / episodes
        taken = np.bincount(self.decisions.actions[mask], minlength=self.decisions.n_actions)
        heaviest = max(float((moved / np.maximum(taken, 1)).max()), 1e-12)
        edge = found.difference.low if found.direction == "more" else -found.difference.high
        totals = self.decisions.per_unit(self.decisions.gains)[:, k]
        largest = float(np.abs(totals - totals.mean()).max())
        return rare_event_check(edge, 1 / heaviest, self.log.outcomes[k].range, largest)

    def _strengths(self, verdicts: Verdicts) -> Strengths:
        """[group][outcome] Γ up to which a decided verdict holds, for every decision and for one of each episode."""
        strengths: Strengths = [[(None, None)] * len(group) for group in verdicts]
        if self.assessment.randomised:
            return strengths
        quantile = float(stats.norm.isf((1 - self.level) / self.family / 2))
        for k in range(len(self.log.outcomes)):
            for direction, sign in (("more", 1.0), ("less", -1.0)):
                decided = [g for g, group in enumerate(verdicts) if group[k].direction == direction]
                if decided:
                    ends = [verdicts[g][k].difference for g in decided]
                    edge = np.array([end.low if sign > 0 else -end.high for end in ends])
                    for g, both in zip(decided, self._hold(k, sign, decided, edge, quantile), strict=True):
                        strengths[g][k] = both
        return strengths

    def _hold(
        self, k: int, sign: float, groups: list[int], edge: FloatArray, quantile: float
    ) -> list[tuple[float, float]]:
        single = self.scored.single
        if single is not None:
            rows = OneDecision(
                self.decisions.gains[:, k], self.decisions.actions, single.fitted[:, :, k], self.scored.chances.table,
                self.new, None if self.by_log else self.old,
            )  # fmt: skip
            masks = np.array([self.masks[g] for g in groups], dtype=np.float64)
            every = one_step_holds_up_to(rows if sign > 0 else rows.negated(), masks, edge, quantile)
            return [(float(gamma), float(gamma)) for gamma in every]
        compared = replace(self._in_cells(k, groups), within=near_enough(edge))
        every, one = holds_up_to(compared if sign > 0 else compared.negated(), edge, quantile)
        return list(zip(every.tolist(), one.tolist(), strict=True))

    def _in_cells(self, k: int, groups: list[int]) -> Comparison:
        """The log over a few cells: only how far an end moves with Γ is found there, not where it lies."""
        cell, decisions = self._cells(k), self.decisions
        size, n_actions = int(cell.max()) + 1, decisions.n_actions
        rows = LoggedRows(cell, decisions.actions, decisions.episode, decisions.follow, decisions.gains, None)
        draws = Moves(rows, size, n_actions).draws(k, self.log.discount)
        count = np.maximum(np.bincount(cell, minlength=size), 1)[:, None]
        acting = []
        for table in (self.new, self.old):
            mean = np.column_stack([np.bincount(cell, column, size) for column in table.T]) / count
            changed = np.abs(table - self.scored.chances.table).max(axis=1) >= 1e-9
            acting.append(Acting(mean, np.bincount(cell, changed, size) == 0))
        first = decisions.first
        begun = np.array([np.bincount(cell[first & self.masks[g]], minlength=size) for g in groups], dtype=np.float64)
        starts = begun / np.maximum(begun.sum(axis=1, keepdims=True), 1.0)
        return Comparison(draws, acting[0], acting[1], starts, self.log.outcomes[k].range or (0.0, 0.0))

    def _cells(self, k: int) -> IntArray:
        """(n,) cells of rows whose outcomes to come are alike, apart where the policies act otherwise."""
        bins = binned(self.decisions.x)
        ahead = self.decisions.to_come(self.log.discount)[:, k]
        test, everyone = np.arange(0, len(ahead), 4), np.arange(len(ahead))
        questions = draw_questions(bins, ahead - ahead.mean(), everyone, test)[:CELLS_BY]
        parts = [*leaves_of(bins, questions), self.new.argmax(axis=1), self.old.argmax(axis=1)]
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


def _spanning(own: Interval, others: Sequence[Interval]) -> Interval:
    low, high = min(other.low for other in others), max(other.high for other in others)
    return replace(own, low=min(own.low, low), high=max(own.high, high))
