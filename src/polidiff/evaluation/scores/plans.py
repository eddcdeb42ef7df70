r"""Plans chosen from a log and judged by the same log: every plan is judged by units that had no part in choosing it.

For each fold the plans are chosen on the other folds and scored on this one, so that all units judge and no unit judges
its own choice. The scores on which plans are chosen are those of one decision, with what follows it valued by a policy:
:math:`Y = g + V(s')`, that of the current policy at first and then that of the plan found, as policy iteration does.
What is promised is the interval of the scores of the folds' plans; the plan shown is chosen once more on all units and
may be another one, so that the interval also spans what all units say about it.

Folds are no independent judges: any two of the K choices share most of their units, and luck that makes one plan stand
out does so in all of them. The errors of the folds' means are taken to correlate by 1/K, the share of units that a
choice leaves out (Nadeau and Bengio 2003, Inference for the generalization error), so that the error of their mean
grows by :math:`\sqrt{1 + (K - 1)/K}`. In worlds with known truth the correlations were .05 to .16, and the plan shown
differs from the folds' plans besides. Errors of several decisions are multiplied by factors of their own and not by
this one, which was measured for single decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from polidiff.evaluation.logged.judge import Question
from polidiff.evaluation.scores.difference import (
    CLIP,
    DifferenceScores,
    ScoreIntervals,
    against_log,
    assessed,
    how_often,
    joint_intervals,
    one_step_scores,
)
from polidiff.evaluation.scores.episodes import EpisodeScores, FittedRows, scores_of_fold
from polidiff.evaluation.scores.scored_log import ScoredLog
from polidiff.evaluation.scores.verdicts import ScoreJudge
from polidiff.progress import track
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.records.explanation import Verdict
from polidiff.records.outcome import Assumption
from polidiff.worlds.shards.transition_counts import CUT

FOLDS = 5
LEAST_CHANCE = 0.05  # smaller chances count as it where plans are chosen: a plan that rests on few heavy rows is luck
Choose: TypeAlias = Callable[[BoolArray], Sequence[FloatArray]]
"""From the rows that may choose (n,) to plans (n, A)."""


@dataclass(frozen=True, eq=False)
class JudgedPlan:
    """The scores of what was chosen in a plan's place, and what that does."""

    scores: DifferenceScores
    proposed: FloatArray  # (n, A) of each row, as its fold's others chose


@dataclass(frozen=True, eq=False)
class PlanScores:
    """A log as scores, and the policy that plans are compared with."""

    scored: ScoredLog
    current: FloatArray | None  # (n, A); None: the policy that wrote the log
    _known: dict[tuple[bytes, bytes], EpisodeScores] = field(default_factory=dict, repr=False)

    @property
    def base(self) -> FloatArray:
        """(n, A) what the current policy does."""
        return self.scored.chances.table if self.current is None else self.current

    @property
    def untried(self) -> BoolArray:
        """(n, A) actions that the log next to never takes there."""
        return self.scored.chances.untried(self.scored.decisions, CLIP)

    def judged(self, choose: Choose) -> list[JudgedPlan]:
        """Scores of the plans, each by folds that did not choose it."""
        decisions = self.scored.decisions
        fold = decisions.folds(min(FOLDS, decisions.n_units), self.scored.seed)
        turns = track("rules chosen without the episodes that judge them", np.unique(fold).tolist())
        chosen = [(fold == number, choose(fold != number)) for number in turns]
        return [self._judged([(own, plans[k]) for own, plans in chosen]) for k in range(len(chosen[0][1]))]

    def _judged(self, turns: list[tuple[BoolArray, FloatArray]]) -> JudgedPlan:
        """What each turn's rows (n,) say of the plan (n, A) that the others chose."""
        plan = np.array(self.base)
        for own, chosen in turns:
            plan[own] = chosen[own]
        if self.scored.decisions.one_step:
            scores, shared = self.scored.apart(plan, self.current), float(np.sqrt(2 - 1 / len(turns)))
            return JudgedPlan(replace(scores, inflation=scores.inflation * shared), plan)
        rows, weight = np.zeros_like(self.scored.decisions.gains), np.ones(len(plan))
        for own, chosen in turns:
            part = self._of_fold(chosen, own)
            rows[own], weight[own] = part.rows, part.weight
            if self.current is not None:
                rows[own] -= self._of_fold(self.current, own).rows
        often = how_often(weight)
        return JudgedPlan(
            assessed(self.scored.decisions, rows, plan, self.base, self.scored.chances, weight, often), plan
        )

    def _of_fold(self, policy: FloatArray, own: BoolArray) -> EpisodeScores:
        """Scores of a policy (n, A) less the log's own, of `own` rows (n,)."""
        scored, key = self.scored, (policy.tobytes(), own.tobytes())
        if key not in self._known:
            against = against_log(scored.decisions, policy, scored.chances)
            self._known[key] = scores_of_fold(
                scored.decisions, against, own, discount=scored.log.discount, seed=scored.seed
            )
        return self._known[key]

    def gains(self, rows: BoolArray, follow: FloatArray | None = None) -> FloatArray:
        """(n, A, M) what each action adds to the current policy, from `rows` (n,) alone; 0 elsewhere.

        What comes after is valued by the policy `follow` (n, A); None: the current one.
        """
        decisions, chances = self.scored.decisions, self.scored.chances
        several = not decisions.one_step
        outcomes = self._with_future(rows, self.base if follow is None else follow) if several else decisions.gains
        x = np.column_stack([decisions.x, decisions.step]) if several else decisions.x
        some = replace(decisions.some(rows), gains=outcomes[rows], x=x[rows])
        logged = np.maximum(chances.logged[rows], LEAST_CHANCE)
        chances = replace(chances, table=chances.table[rows], logged=logged)
        scores = one_step_scores(some, chances=chances, seed=self.scored.seed + 1).scores
        gains = np.zeros((len(rows), decisions.n_actions, outcomes.shape[1]))
        gains[rows] = scores - np.einsum("na,nam->nm", self.base[rows], scores)[:, None, :]
        return gains

    def _with_future(self, rows: BoolArray, policy: FloatArray) -> FloatArray:
        """(n, M) what a decision adds at once, and the value of what follows under a policy (n, A)."""
        decisions, seed, discount = self.scored.decisions, self.scored.seed, self.scored.log.discount
        decisions = replace(decisions, x=np.column_stack([decisions.x, decisions.step, policy[:, 1:]]))
        fitted = FittedRows.of(decisions, rows, discount=discount, seed=seed)
        after = np.where(decisions.follow >= 0, decisions.follow, 0)
        columns = []
        for k, gain in enumerate(decisions.gains.T):
            values = fitted.under(policy, k, decisions.x)
            state = (policy * values).sum(axis=1)
            lost = values[np.arange(len(gain)), decisions.actions]  # a cut: the model's word for all of it
            ahead = gain + discount * (decisions.follow >= 0) * state[after]
            columns.append(np.where(decisions.follow == CUT, lost, ahead))
        return np.column_stack(columns)


class PlanJudge(ScoreJudge):
    """One of several plans that are judged together, by what was chosen in its place and by what is shown."""

    def __init__(self, scores: PlanScores, judged: JudgedPlan, together: ScoreIntervals, question: Question) -> None:
        super().__init__(scores.scored.log, question, scores.scored)
        self.new, self.scores, self.joint = judged.proposed, judged.scores, together
        self.unsupported = np.array([float(judged.scores.unsupported.mean())])
        now = self.values[1]
        self.values = [replace(judged.scores, rows=now.rows + judged.scores.rows, hidden=now.hidden), now]

    @property
    def spanned(self) -> str:
        """Why nothing is decided where the rules shown are not."""
        return "judged by everyone, the rules shown are not shown to make a difference"


def plan_verdicts(
    scores: PlanScores, judged: Sequence[JudgedPlan], shown: Sequence[FloatArray], question: Question
) -> list[tuple[tuple[Verdict, ...], tuple[Assumption, ...]]]:
    """What each plan changes, per outcome, and what that rests on; intervals of all of them hold together.

    They span what everyone says of the plans that are shown (n, A).
    """
    itself = [scores.scored.apart(plan, scores.current) for plan in shown]
    joint = replace(
        joint_intervals([one.scores for one in judged], level=question.level),
        second=joint_intervals(itself, level=question.level),
    )
    size = len(scores.scored.log.outcomes)
    question = replace(question, family=len(judged) * size)
    judges = [
        PlanJudge(scores, plan, joint.part(slice(size * place, size * (place + 1))), question)
        for place, plan in enumerate(judged)
    ]
    return [(verdicts[0], assumptions) for verdicts, assumptions in (judge.verdicts() for judge in judges)]
