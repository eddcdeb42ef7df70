r"""The score of the difference of two policies, where decisions follow each other.

.. math:: \psi_i = \sum_t \bigl\{(\mu_t - 1)\, \delta_t - (Q(s_t, a_t) - V(s_t))\bigr\}, \qquad
          \delta_t = g_t + V(s_{t+1}) - Q(s_t, a_t), \qquad \mu_t = \omega(s_t, t)\, \rho_t,

:math:`\rho_t = \pi_e / \pi_b` at the logged action,
:math:`\omega(s, t) = \mathbb E_b[\rho_0 \cdots \rho_{t-1} \mid s_t = s]`, and Q, V the values of the *proposed* policy.
It is the doubly robust value of the proposed policy less the outcome that was observed, right if either Q or
:math:`\omega` is. Where the proposed policy keeps what was done, :math:`\rho = 1` and :math:`V(s_t) = Q(s_t, a_t)`: the
score of an episode that meets no difference is 0. Where the log records its chances, :math:`Q(s_t, a_t) - V(s_t)`
gives way to its mean :math:`\sum_a (\pi_b - \pi_e) Q`, so that the draw of :math:`a_t` adds no noise. Nuisances come
from folds of units that do not hold episode i.

Regressions see at most `MOST_FITTED` rows of whole units; every row is scored.

Where the record of an episode is cut, what would have followed is taken from the values of both policies,
:math:`Q(s, a) - Q_b(s, a)`: right if cuts depend on what is recorded only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from polidiff.evaluation.scores.decisions import Decisions, deal, held_rows
from polidiff.evaluation.scores.regression import ActionRegression, Design, RegressionRows, design_of
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.worlds.shards.transition_counts import CUT

FOLDS = 4
SWEEPS = 25
SETTLED = 5e-3  # share of the spread by which a sweep may still move values
MOST_WEIGHT = 20.0  # of a state under the proposed policy, relative to the log
MOST_FITTED = 20_000  # rows that a regression sees
AT_ONCE = 100_000  # rows whose values are told at a time
Values: TypeAlias = Callable[[Design], FloatArray]  # values (n, A) of any rows
Worth: TypeAlias = Callable[[FloatArray], FloatArray]  # of the states (n,) of rows, given the values (n, A) of actions


@dataclass(frozen=True, eq=False)
class PolicyRows:
    """Two policies on the rows of a log."""

    proposed: FloatArray  # (n, A) chances
    logging: FloatArray  # (n, A) chances of the policy that wrote the log
    ratio: FloatArray  # (n,) proposed over logging, at the logged action
    keeps: BoolArray  # (n,) where the proposed policy does by definition what the log does
    known: bool  # whether the chances of the logging policy are recorded

    def some(self, rows: BoolArray) -> PolicyRows:
        """Those of some rows (n,)."""
        return replace(self, proposed=self.proposed[rows], logging=self.logging[rows], ratio=self.ratio[rows],
                       keeps=self.keeps[rows])  # fmt: skip


@dataclass(frozen=True, eq=False)
class EpisodeScores:
    """What each row adds to the score of its episode."""

    rows: FloatArray  # (n, M)
    weight: FloatArray  # (n,) ω: how much more often the proposed policy meets the state at this step


def episode_scores(
    decisions: Decisions, policies: PolicyRows, *, discount: float = 1.0, seed: int = 0
) -> EpisodeScores:
    """Cross-fitted scores of proposed − logging policy."""
    fold = decisions.folds(min(FOLDS, decisions.n_units), seed)
    rows, weight = np.zeros_like(decisions.gains), np.ones(len(fold))
    for number in np.unique(fold):
        own = fold == number
        part = scores_of_fold(decisions, policies, own, discount=discount, seed=seed)
        rows[own], weight[own] = part.rows, part.weight
    return EpisodeScores(rows, weight)


@dataclass(frozen=True, eq=False)
class FittedRows:
    """The rows that regressions of values see, of whole units."""

    some: BoolArray  # (n,) which of all decisions
    decisions: Decisions
    design: Design
    held: BoolArray  # that choose how far to fit
    discount: float

    @classmethod
    def of(cls, decisions: Decisions, rows: BoolArray, *, discount: float, seed: int) -> FittedRows:
        """Of some rows (n,) of whole units all, or as many of their units as regressions see."""
        parts = max(-(-int(rows.sum()) // MOST_FITTED), 1)
        some = rows & (deal(decisions.n_units, parts, seed + 31) == 0)[decisions.unit]
        fitted = decisions.some(some)
        design = design_of(fitted.x, fitted.actions, fitted.n_actions)
        return cls(some, fitted, design, held_rows(fitted, seed), discount)

    def under(self, policy: FloatArray, outcome: int, x: FloatArray, *, whole: bool = False) -> FloatArray:
        """(m, A) values of decisions in rows `x` (m, d) where a policy (n, A) of all decisions follows."""
        table = policy[self.some]
        return values_at(self.design, x, self.values(lambda worth: (table * worth).sum(axis=1), outcome, whole=whole))

    def values(self, worth: Worth, outcome: int, *, whole: bool = False) -> Values:
        """Values of decisions by fitted evaluation; `worth` is that of states, given decisions'.

        Questions are drawn for the outcomes that were observed to come, then once more for what the policy makes of
        them. Sweeps as many as the longest episode has decisions, or `whole` until values settle: what stands alone,
        without residuals that mend it, needs that where states do not tell how many decisions are left.
        """
        fitted = self.decisions
        target, rows = fitted.to_come(self.discount)[:, outcome], np.flatnonzero(fitted.follow != CUT)
        low, high, scale = float(target.min()), float(target.max()), float(target.std()) + 1e-12
        limit = SWEEPS if whole else min(SWEEPS, int(fitted.step.max()) + 1)
        shared = RegressionRows(self.design, rows, self.held)
        for most in (max(1, limit // 2), limit):
            model = ActionRegression(shared, target)
            for _ in range(most):
                last, values = target, np.clip(model(target), low, high)
                target = fitted.gains[:, outcome] + self.discount * _ahead(fitted, worth(values))
                if float(np.abs(target - last)[rows].sum()) <= SETTLED * scale * len(rows):
                    break
        return lambda at: np.clip(model(last, at), low, high)

    def state_weights(self, ratio: FloatArray) -> Callable[[Decisions], FloatArray]:
        """ω by regression forward in time: the mean of ω·ρ of the row before, 1 where an episode begins.

        Questions are drawn for the logarithms of whole products, which are not ruled by a few large ones. At every step
        ρ has mean 1 over what the weights make of the log; it is divided by the mean that it happens to have.
        """
        fitted, design = self.decisions, self.design.without_actions()
        first, step, rows = fitted.first, fitted.step, np.flatnonzero(fitted.follow != CUT)
        before, limit = np.where(first, 0, np.arange(len(first)) - 1), int(step.max()) + 1
        target = np.where(first, 1.0, np.minimum(running_products(ratio, first)[before], MOST_WEIGHT))
        model = ActionRegression(RegressionRows(design, rows, self.held), np.log(target + 0.2))

        def balance(wanted: FloatArray, got: FloatArray) -> FloatArray:
            """(steps,) by what weights are multiplied so that every step has the mass that it should."""
            mass, has = (np.bincount(step[rows], part[rows], limit) for part in (wanted, got))
            return np.divide(mass, has, out=np.ones(limit), where=has > 0)

        for _ in range(min(SWEEPS, limit)):
            last, omega = target, np.where(first, 1.0, np.clip(model(target)[:, 0], 0.0, MOST_WEIGHT))
            factor = balance(target, omega)
            omega = omega * factor[step]
            moved_on = omega * ratio
            moved_on *= balance(omega, moved_on)[step]
            target = np.where(first, 1.0, moved_on[before])
            if float(np.abs(target - last)[rows].sum()) <= SETTLED * len(rows):
                break

        def weights(decisions: Decisions) -> FloatArray:
            plain = np.clip(values_at(design, decisions.x, lambda at: model(last, at))[:, 0], 0.0, MOST_WEIGHT)
            return np.where(decisions.first, 1.0, plain * factor[np.minimum(decisions.step, limit - 1)])

        return weights


def scores_of_fold(
    decisions: Decisions, policies: PolicyRows, own: BoolArray, *, discount: float = 1.0, seed: int = 0
) -> EpisodeScores:
    """Scores of the rows `own` (n,), from regressions on others."""
    decisions = replace(decisions, x=np.column_stack([decisions.x, decisions.step, _borders(policies)]))
    fitted = FittedRows.of(decisions, own if own.all() else ~own, discount=discount, seed=seed)
    mine, here = decisions.some(own), policies.some(own)
    omega = fitted.state_weights(policies.ratio[fitted.some])(mine)
    both = (policies.proposed, policies.logging) if (decisions.follow == CUT).any() else (policies.proposed,)
    rows = np.zeros_like(mine.gains)
    for k in range(rows.shape[1]):
        rows[:, k] = row_scores(mine, here, [fitted.under(one, k, mine.x) for one in both], omega, k, discount)
    return EpisodeScores(rows, omega)


def values_at(design: Design, x: FloatArray, values: Values) -> FloatArray:
    """(n, A) values of decisions in rows (n, d), some at a time."""
    return np.concatenate([values(design.at(x[begin : begin + AT_ONCE])) for begin in range(0, len(x), AT_ONCE)])


def row_scores(
    decisions: Decisions,
    policies: PolicyRows,
    values: list[FloatArray],
    omega: FloatArray,
    outcome: int,
    discount: float = 1.0,
) -> FloatArray:
    """(n,) what each row adds to its episode's score, from values (n, A) of the proposed policy.

    Where records are cut, the values of the logging policy come second.
    """
    index, cut = np.arange(len(omega)), decisions.follow == CUT
    here, state = values[0][index, decisions.actions], (policies.proposed * values[0]).sum(axis=1)
    state = np.where(policies.keeps, here, state)
    gain = ((policies.proposed - policies.logging) * values[0]).sum(axis=1) if policies.known else state - here
    surprise = decisions.gains[:, outcome] + discount * _ahead(decisions, state) - here
    beyond = here - values[-1][index, decisions.actions]  # what a cut hides: 0 where the record goes on
    score = np.where(cut, beyond, (omega * policies.ratio - 1.0) * surprise) + np.where(policies.keeps, 0.0, gain)
    return np.asarray(discount**decisions.step * score)


def running_products(ratio: FloatArray, first: BoolArray) -> FloatArray:
    """(n,) product of the ratios from the start of the episode to each row.

    >>> running_products(np.array([2.0, 3.0, 0.5, 4.0]), np.array([True, False, True, False])).round(6)
    array([2. , 6. , 0.5, 2. ])
    """
    logs = np.cumsum(np.log(np.maximum(ratio, 1e-12)))
    before = np.concatenate([[0.0], logs])[np.flatnonzero(first)]
    return np.asarray(np.exp(np.clip(logs - before[np.cumsum(first) - 1], -30.0, 30.0)))


def _ahead(decisions: Decisions, state: FloatArray) -> FloatArray:
    """(n,) worth of the state that comes next, 0 after the end or a cut."""
    goes_on = decisions.follow >= 0
    return np.where(goes_on, state[np.where(goes_on, decisions.follow, 0)], 0.0)


def _borders(policies: PolicyRows) -> FloatArray:
    """What the policies do is a feature: values and weights change at their borders."""
    apart = np.abs(policies.proposed - policies.logging).sum(axis=1)
    both = np.column_stack([policies.proposed[:, 1:], policies.logging[:, 1:], apart])
    return both[:, both.std(axis=0) > 1e-9] if both.shape[1] <= 20 else apart[:, None]
