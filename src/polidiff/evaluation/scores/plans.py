r"""Plans chosen from a log and judged by the same log: every plan is judged by units that had no part in choosing it.

For each fold the plans are chosen on the other folds and scored on this one, so that all units judge and no unit judges
its own choice. The scores on which plans are chosen are those of one decision, with what follows it valued by the
policy in use: :math:`Y = g + V_b(s')`. What a plan is promised is the interval of the scores of the fold's plans; the
plan shown is chosen once more on all units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from polidiff.evaluation.scores.decisions import Decisions, held_rows
from polidiff.evaluation.scores.difference import DifferenceScores, against_log, assessed
from polidiff.evaluation.scores.episodes import CUT, policy_values, scores_of_fold
from polidiff.evaluation.scores.one_step import OneStepScores, one_step_scores
from polidiff.evaluation.scores.propensity import Propensity
from polidiff.evaluation.scores.regression import design_of
from polidiff.records.arrays import BoolArray, FloatArray

FOLDS = 5
Choose: TypeAlias = Callable[[BoolArray, FloatArray], Sequence[FloatArray]]
"""From the rows that may choose (n,) and the gains of every action over what was done (n, A, M) to plans (n, A)."""


def judged_plans(
    decisions: Decisions, chances: Propensity, choose: Choose, *, discount: float = 1.0, seed: int = 0
) -> tuple[list[DifferenceScores], Sequence[FloatArray]]:
    """Scores of the plans by folds that did not choose them, and the plans chosen on all units."""
    fold = decisions.folds(min(FOLDS, decisions.n_units), seed)
    judging = one_step_scores(decisions, chances=chances, seed=seed) if decisions.one_step else None
    pieces: list[list[tuple[BoolArray, FloatArray, FloatArray, FloatArray]]] = []
    for number in np.unique(fold):
        own = fold == number
        plans = choose(~own, choosing_gains(decisions, chances, ~own, discount=discount, seed=seed))
        pieces.append([(own, plan, *_scored(decisions, chances, plan, own, judging, discount, seed)) for plan in plans])
    shown = choose(
        np.ones_like(own), choosing_gains(decisions, chances, np.ones_like(own), discount=discount, seed=seed)
    )
    return [_joined(decisions, chances, [piece[k] for piece in pieces]) for k in range(len(shown))], shown


def choosing_gains(
    decisions: Decisions, chances: Propensity, rows: BoolArray, *, discount: float = 1.0, seed: int = 0
) -> FloatArray:
    """(n, A, M) what each action adds to what was done, from `rows` (n,) alone; 0 elsewhere."""
    outcomes = decisions.gains if decisions.one_step else _with_future(decisions, chances, rows, discount, seed)
    x = decisions.x if decisions.one_step else np.column_stack([decisions.x, decisions.step])
    some = replace(decisions.some(rows), gains=outcomes[rows], x=x[rows])
    part = replace(chances, table=chances.table[rows], logged=chances.logged[rows])
    scores = one_step_scores(some, chances=part, seed=seed + 1)
    gains = np.zeros((len(rows), decisions.n_actions, outcomes.shape[1]))
    gains[rows] = scores.scores - some.gains[:, None, :]
    return gains


def _with_future(decisions: Decisions, chances: Propensity, rows: BoolArray, discount: float, seed: int) -> FloatArray:
    """(n, M) what a decision adds at once, and the value of what follows under the policy that wrote the log."""
    x = np.column_stack([decisions.x, decisions.step, chances.table[:, 1:]])
    design, held = design_of(x, decisions.actions, decisions.n_actions), held_rows(decisions, seed)
    fit = np.flatnonzero(rows & (decisions.follow != CUT))
    after = np.where(decisions.follow >= 0, decisions.follow, 0)
    columns = []
    for k, gain in enumerate(decisions.gains.T):
        values = policy_values(design, decisions, chances.table, k, fit, held, discount)
        state = (chances.table * values).sum(axis=1)
        lost = values[np.arange(len(gain)), decisions.actions]  # a cut: the model's word for all of it
        columns.append(
            np.where(decisions.follow == CUT, lost, gain + discount * (decisions.follow >= 0) * state[after])
        )
    return np.column_stack(columns)


def _scored(
    decisions: Decisions,
    chances: Propensity,
    plan: FloatArray,
    own: BoolArray,
    judging: OneStepScores | None,
    discount: float,
    seed: int,
) -> tuple[FloatArray, FloatArray]:
    """Scores (n, M) of a plan against the log, honest for `own` rows, and how often it meets their states."""
    if judging is not None:
        return judging.difference(plan, None), np.ones(len(own))
    part = scores_of_fold(decisions, against_log(decisions, plan, chances), own, discount=discount, seed=seed)
    return part.rows, part.weight


def _joined(
    decisions: Decisions, chances: Propensity, pieces: list[tuple[BoolArray, FloatArray, FloatArray, FloatArray]]
) -> DifferenceScores:
    rows, plan, weight = np.zeros_like(decisions.gains), np.zeros_like(chances.table), np.ones(len(chances.table))
    for own, proposed, scores, often in pieces:
        rows[own], plan[own], weight[own] = scores[own], proposed[own], often[own]
    return assessed(decisions, rows, plan, chances.table, chances, weight, float(weight.max()))
