r"""Plans chosen from a log and judged by the same log: every plan is judged by units that had no part in choosing it.

For each fold the plans are chosen on the other folds and scored on this one, so that all units judge and no unit judges
its own choice. The scores on which plans are chosen are those of one decision, with what follows it valued by a policy:
:math:`Y = g + V(s')`, that of the current policy at first and then that of the plan found, as policy iteration does.
What is promised is the interval of the scores of the folds' plans; the plan shown is chosen once more on all units and
may be another one, so that the interval also spans what all units say about it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from polidiff.evaluation.scores.decisions import Decisions, held_rows
from polidiff.evaluation.scores.difference import (
    CLIP,
    DifferenceScores,
    OneStepScores,
    ScoreIntervals,
    against_log,
    assessed,
    difference_scores,
    how_often,
    one_step_scores,
    score_intervals,
)
from polidiff.evaluation.scores.episodes import EpisodeScores, following, policy_values, sample, scores_of_fold, told
from polidiff.evaluation.scores.propensity import Propensity
from polidiff.evaluation.scores.regression import design_of
from polidiff.progress import track
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.worlds.shards.transition_counts import CUT

FOLDS = 5
LEAST_CHANCE = 0.05  # smaller chances count as it where plans are chosen: a plan that rests on few heavy rows is luck
Choose: TypeAlias = Callable[[BoolArray], Sequence[FloatArray]]
"""From the rows that may choose (n,) to plans (n, A)."""


@dataclass(frozen=True, eq=False)
class PlanScores:
    """Decisions, who took them, and the policy that plans are compared with."""

    decisions: Decisions
    chances: Propensity
    current: FloatArray | None  # (n, A); None: the policy that wrote the log
    discount: float = 1.0
    seed: int = 0

    @property
    def base(self) -> FloatArray:
        """(n, A) what the current policy does."""
        return self.chances.table if self.current is None else self.current

    @cached_property
    def single(self) -> OneStepScores:
        """Scores of every action, where each row is an episode."""
        return one_step_scores(self.decisions, chances=self.chances, seed=self.seed)

    @property
    def untried(self) -> BoolArray:
        """(n, A) actions that the log next to never takes there."""
        return self.chances.untried(self.decisions.actions, CLIP)

    @cached_property
    def against_log(self) -> FloatArray:
        """(n, M) scores of the current policy less the one that wrote the log."""
        if self.current is None:
            return np.zeros_like(self.decisions.gains)
        if self.decisions.one_step:
            return self.single.difference(self.current, None)
        return difference_scores(
            self.decisions, self.current, None, self.chances, discount=self.discount, seed=self.seed
        ).rows

    def judged(self, choose: Choose) -> list[JudgedPlan]:
        """Scores of the plans, each by folds that did not choose it."""
        fold = self.decisions.folds(min(FOLDS, self.decisions.n_units), self.seed)
        single = self.single if self.decisions.one_step else None
        pieces: list[list[_Piece]] = []
        for number in track("rules chosen without the episodes that judge them", np.unique(fold).tolist()):
            own = fold == number
            plans = choose(~own)
            pieces.append(self._scored(plans, own, single))
        return [self._joined([piece[k] for piece in pieces]) for k in range(len(pieces[0]))]

    def by_everyone(self, plan: FloatArray) -> JudgedPlan:
        """Scores of one plan (n, A) by all units, also by those that chose it."""
        single = self.single if self.decisions.one_step else None
        scores = difference_scores(
            self.decisions, plan, self.current, self.chances, discount=self.discount, seed=self.seed, scores=single
        )
        return JudgedPlan(scores, plan)

    def gains(self, rows: BoolArray, follow: FloatArray | None = None) -> FloatArray:
        """(n, A, M) what each action adds to the current policy, from `rows` (n,) alone; 0 elsewhere.

        What comes after is valued by the policy `follow` (n, A); None: the current one.
        """
        decisions, several = self.decisions, not self.decisions.one_step
        outcomes = self._with_future(rows, self.base if follow is None else follow) if several else decisions.gains
        x = np.column_stack([decisions.x, decisions.step]) if several else decisions.x
        some = replace(decisions.some(rows), gains=outcomes[rows], x=x[rows])
        logged = np.maximum(self.chances.logged[rows], LEAST_CHANCE)
        chances = replace(self.chances, table=self.chances.table[rows], logged=logged)
        scores = one_step_scores(some, chances=chances, seed=self.seed + 1).scores
        gains = np.zeros((len(rows), decisions.n_actions, outcomes.shape[1]))
        gains[rows] = scores - np.einsum("na,nam->nm", self.base[rows], scores)[:, None, :]
        return gains

    def _with_future(self, rows: BoolArray, policy: FloatArray) -> FloatArray:
        """(n, M) what a decision adds at once, and the value of what follows under a policy (n, A)."""
        decisions = self.decisions
        decisions = replace(decisions, x=np.column_stack([decisions.x, decisions.step, policy[:, 1:]]))
        some = sample(decisions, rows, self.seed)
        fitted = decisions.some(some)
        design, held = design_of(fitted.x, fitted.actions, fitted.n_actions), held_rows(fitted, self.seed)
        after = np.where(decisions.follow >= 0, decisions.follow, 0)
        columns = []
        for k, gain in enumerate(decisions.gains.T):
            values = told(
                design, decisions.x, policy_values(design, fitted, following(policy[some]), k, held, self.discount)
            )
            state = (policy * values).sum(axis=1)
            lost = values[np.arange(len(gain)), decisions.actions]  # a cut: the model's word for all of it
            ahead = gain + self.discount * (decisions.follow >= 0) * state[after]
            columns.append(np.where(decisions.follow == CUT, lost, ahead))
        return np.column_stack(columns)

    def _scored(self, plans: Sequence[FloatArray], own: BoolArray, single: OneStepScores | None) -> list[_Piece]:
        """Scores of plans less the current policy, of `own` rows, and how often plans meet their states."""
        if single is not None:
            ones = np.ones(int(own.sum()))
            return [_Piece(own, plan, single.difference(plan, self.current)[own], ones) for plan in plans]

        def score(policy: FloatArray) -> EpisodeScores:
            against = against_log(self.decisions, policy, self.chances)
            return scores_of_fold(self.decisions, against, own, discount=self.discount, seed=self.seed)

        less = 0.0 if self.current is None else score(self.current).rows
        known: dict[bytes, _Piece] = {}
        for plan in plans:
            if plan.tobytes() not in known:
                part = score(plan)
                known[plan.tobytes()] = _Piece(own, plan, part.rows - less, part.weight)
        return [known[plan.tobytes()] for plan in plans]

    def _joined(self, pieces: list[_Piece]) -> JudgedPlan:
        rows, plan, weight = np.zeros_like(self.decisions.gains), np.array(self.base), np.ones(len(self.base))
        for piece in pieces:
            own = piece.own
            rows[own], plan[own], weight[own] = piece.rows, piece.plan[own], piece.weight
        often = how_often(weight)
        return JudgedPlan(assessed(self.decisions, rows, plan, self.base, self.chances, weight, often), plan)


@dataclass(frozen=True, eq=False)
class JudgedPlan:
    """The scores of what was chosen in a plan's place, and what that does."""

    scores: DifferenceScores
    proposed: FloatArray  # (n, A) of each row, as its fold's others chose


@dataclass(frozen=True, eq=False)
class _Piece:
    """A plan scored by one fold."""

    own: BoolArray  # (n,)
    plan: FloatArray  # (n, A)
    rows: FloatArray  # (own, M)
    weight: FloatArray  # (own,)


def plan_intervals(judged: Sequence[JudgedPlan], *, level: float) -> ScoreIntervals:
    """Means over episodes of every plan and outcome, plan after plan; all hold together."""
    scores = [plan.scores for plan in judged]
    decisions, outcomes = scores[0].decisions, scores[0].rows.shape[1]
    size, inflation = decisions.per_unit(decisions.first.astype(np.float64)), [one.inflation for one in scores]

    def together(rows: list[FloatArray]) -> ScoreIntervals:
        sums = np.hstack([decisions.per_unit(one) for one in rows])
        sizes = np.repeat(size[:, None], sums.shape[1], axis=1)
        return score_intervals(sums, sizes, level=level, inflation=np.repeat(inflation, outcomes))

    found = together([one.rows for one in scores])
    hidden = [one.rows + one.hidden for one in scores if one.hidden is not None]
    return found if len(hidden) < len(scores) else replace(found, second=together(hidden))
