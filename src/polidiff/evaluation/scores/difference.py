r"""What a proposed policy changes, from a log: one score per unit and outcome, and whether to decide on them at all.

Scores of several decisions rest on regressions whose errors add up along an episode. The standard error is therefore
multiplied by :math:`(1.1 + 0.08 D) \sqrt{W}`, with D the decisions of an episode that change (in total variation) and
:math:`W = \sum \omega^2 / \sum \omega` how many times as often the proposed policy meets its own states as the log
does. The factors were chosen on six worlds with known truth and hold on three others (benchmarks/logs/scores.py). A log
that cannot carry the comparison gives no verdict: see `reasons`.

Intervals hold together. Every quantity is a ratio of sums over units u (a segment's mean is the sum of its scores over
its size),

.. math:: \hat\theta_k = \frac{\sum_u n_{uk}}{\sum_u d_{uk}}, \qquad
          h_{uk} = \frac{d_{uk}}{\sum_u d_{uk}}, \qquad
          x_{uk} = \frac{n_{uk} - \hat\theta_k d_{uk}}{\sqrt{1 - h_{uk}} \sum_u d_{uk}}, \qquad
          \mathrm{se}_k^2 = \sum_u x_{uk}^2 .

A large unit pulls the ratio towards itself and leaves too little; :math:`1 - h` gives it back (Bell and McCaffrey 2002,
CR2). Units of equal size share the factor :math:`m / (m - 1)`.

Together: the critical value is that of the largest :math:`|t|` of normal variables with the correlations of the
:math:`x_{uk}`. Few or heavy units: Student's t with :math:`2 m_k / (\kappa_k - 1)` degrees of freedom, those of a
variance from :math:`m_k` units with kurtosis :math:`\kappa_k` (Satterthwaite), at most :math:`1 / \sum_u h_{uk}^2 - 1`,
which is :math:`m_k - 1` for units of equal size.

Doubly robust scores of every action, where each decision is an episode.

.. math:: s_{ia} = m_a(x_i) + \mathbb 1\{A_i = a\} \, \frac{Y_i - m_a(x_i)}{e_a(x_i)}

for every outcome Y at once, with :math:`m` and :math:`e` from folds that do not hold unit i. Each :math:`m_a` is then
shifted by the weighted mean of what it leaves, :math:`\sum_i w_i (Y_i - m_a) / \sum_i w_i` with
:math:`w_i = \mathbb 1\{A_i = a\}/e_a`: without covariates the mean score of an action is the mean of the rows that took
it, to the last digit. Weights of an action are scaled
to sum to n (Hájek), so that a score scatters as the mean that it moves does, also where weights were cut off. The
difference of two policies is :math:`\sum_a (\pi_e - \pi_b)(a \mid x_i)\, s_{ia}`; where the
current policy is the one that wrote the log, :math:`Y_i` itself is its score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from polidiff.evaluation.scores.decisions import Decisions, held_rows
from polidiff.evaluation.scores.episodes import FOLDS, MOST_FITTED, PolicyRows, episode_scores
from polidiff.evaluation.scores.propensity import Propensity, logging_chances
from polidiff.evaluation.scores.regression import ActionRegression, Design, RegressionRows, design_of
from polidiff.policies import changed_decisions
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.numbers import percent
from polidiff.records.outcome import Interval, Outcome
from polidiff.worlds.shards.transition_counts import CUT

ONE_STEP_FOLDS = 5
FOR_REPEATS = 10_000  # rows that folds are drawn for, again and again where there are fewer
MOST_REPEATS = 5
MOST_DRAWN = 60  # outcomes times draws of the folds: a dozen outcomes get all draws, hundreds one
AT_ONCE = 4_000_000  # normal numbers of a joint interval that are held in memory
CLIP = 0.01  # chances below it count as next to none, and as it: no row weighs more than a hundred
ALWAYS = 1.1  # by which errors of several decisions are too small in any case
PER_CHANGE = 0.08  # by which they grow with every changed decision of an episode
MOST_UNSUPPORTED = 0.01
MOST_CHANGES = 4.0
MOST_OFTEN = 8.0
MOST_CUT = 0.2
MOST_SHARE = 0.35


def row_weights(logged: FloatArray) -> FloatArray:
    r"""(n,) inverse chances of the logged actions, at most :math:`\sqrt n`; what is cut off fades before the noise.

    Ionides (2008), Truncated importance sampling.
    """
    return np.asarray(1.0 / np.maximum(logged, max(CLIP, len(logged) ** -0.5)))


@dataclass(frozen=True, eq=False)
class OneStepScores:
    """Scores of every action for every decision, in the order of `decisions`."""

    decisions: Decisions
    scores: FloatArray  # (n, A, M)
    fitted: FloatArray  # (n, A, M) outcome regressions
    propensity: Propensity
    draws: tuple[FloatArray, ...] = ()  # (n, A, M) scores of each draw of the folds, where `scores` is their mean

    def difference(self, proposed: FloatArray, current: FloatArray | None) -> FloatArray:
        """(n, M) scores of proposed − current, policies as (n, A) chances; None: the policy that wrote the log."""
        if current is None:
            return np.asarray(np.einsum("na,nam->nm", proposed, self.scores) - self.decisions.gains)
        return np.asarray(np.einsum("na,nam->nm", proposed - current, self.scores))

    def inflation(self, proposed: FloatArray, current: FloatArray | None) -> float:
        """How many times as large errors are as rows of mean scores say.

        What regressions get wrong in a draw is shared by its rows. The mean over draws makes rows more alike, and what
        the estimate owes to it hardly smaller: the variance is the mean of the draws' own.
        """
        if not self.draws:
            return 1.0
        known = self.difference(proposed, current).var(axis=0)
        parts = (replace(self, scores=scores).difference(proposed, current) for scores in self.draws)
        own = np.mean([part.var(axis=0) for part in parts], axis=0)
        return float(np.sqrt(np.divide(own, known, out=np.ones_like(known), where=known > 0).max()))


def one_step_scores(decisions: Decisions, *, chances: Propensity | None = None, seed: int = 0) -> OneStepScores:
    """Cross-fitted scores; without covariates all rows are one fold, because nothing is chosen."""
    design = design_of(decisions.x, decisions.actions, decisions.n_actions)
    fold = decisions.folds(min(ONE_STEP_FOLDS, decisions.n_units), seed)
    if not len(design.bins):
        fold = np.zeros_like(fold)
    held = held_rows(decisions, seed)
    chances = logging_chances(decisions, seed=seed) if chances is None else chances
    weight = row_weights(chances.logged)
    weight = weight / (np.bincount(decisions.actions, weight)[decisions.actions] / len(weight))
    columns = _outcome_values(design, fold, held, decisions.gains)
    pairs = zip(columns, decisions.gains.T, strict=True)
    fitted = np.stack([_centred(values, decisions, weight, outcome) for values, outcome in pairs], axis=2)
    return OneStepScores(decisions, aipw(fitted, decisions.actions, decisions.gains, weight), fitted, chances)


def repeated_scores(
    decisions: Decisions, estimate: Callable[..., Propensity] = logging_chances, *, seed: int = 0
) -> OneStepScores:
    """Scores averaged over several draws of the folds where rows are few: which fold a row falls into is chance.

    `estimate` gives the chances of the decisions for a seed.
    """
    rows, outcomes = decisions.gains.shape
    repeats = min(1 + FOR_REPEATS // max(rows, 1), MOST_REPEATS, max(MOST_DRAWN // max(outcomes, 1), 1))
    seeds = range(seed, seed + repeats)
    parts = [one_step_scores(decisions, chances=estimate(decisions, seed=one), seed=one) for one in seeds]
    if len(parts) == 1:
        return parts[0]
    scores, fitted = (np.mean([getattr(part, name) for part in parts], axis=0) for name in ("scores", "fitted"))
    table, logged = (np.mean([getattr(part.propensity, n) for part in parts], axis=0) for n in ("table", "logged"))
    chances = replace(parts[0].propensity, table=table, logged=logged)
    draws = tuple(part.scores for part in parts)
    return replace(parts[0], scores=scores, fitted=fitted, propensity=chances, draws=draws)


def aipw(fitted: FloatArray, actions: IntArray, outcomes: FloatArray, weight: FloatArray) -> FloatArray:
    """(n, A, M) scores from outcome regressions (n, A, M), outcomes (n, M) and weights (n,) of the logged actions."""
    scores, index = fitted.copy(), np.arange(len(actions))
    scores[index, actions] += weight[:, None] * (outcomes - fitted[index, actions])
    return scores


def _outcome_values(design: Design, fold: IntArray, held: BoolArray, gains: FloatArray) -> FloatArray:
    """(M, n, A) expected outcome of every action, from folds that did not see the row, within what was seen."""
    values = np.zeros((gains.shape[1], len(gains), design.n_actions))
    for number in np.unique(fold):
        own = fold == number
        rows = np.flatnonzero(~own) if not own.all() else np.arange(len(own))
        shared = RegressionRows(design, rows, held)
        for outcome, found in zip(gains.T, values, strict=True):
            found[own] = np.clip(ActionRegression(shared, outcome)(outcome)[own], outcome.min(), outcome.max())
    return values


def _centred(values: FloatArray, decisions: Decisions, weight: FloatArray, outcome: FloatArray) -> FloatArray:
    """Values shifted so that each action's weighted residuals sum to 0."""
    left = weight * (outcome - values[np.arange(len(outcome)), decisions.actions])
    sums, mass = (np.bincount(decisions.actions, w, decisions.n_actions) for w in (left, weight))
    return np.asarray(values + np.divide(sums, mass, out=np.zeros_like(sums), where=mass > 0))


@dataclass(frozen=True, eq=False)
class DifferenceScores:
    """Scores of proposed − current for every decision, and how far they can be believed."""

    decisions: Decisions
    rows: FloatArray  # (n, M) what each decision adds to its unit's score
    inflation: float  # of standard errors, for what regressions add to them
    unsupported: FloatArray  # (n,) share of each decision that falls on actions the log next to never takes
    changes: float  # decisions of an episode that are not the log's, in total variation
    often: float  # how many times as often the proposed policy meets its own states as the log does
    cut: float  # share of episodes whose record is cut
    hidden: FloatArray | None = None  # (n, M) what is added if only the record lost what is empty

    def intervals(self, segments: list[BoolArray] | None = None, *, level: float = 0.95) -> ScoreIntervals:
        """Means over episodes per segment and outcome, segment after segment; all hold together."""
        return joint_intervals([self], segments, level=level)

    def reasons(self, share: float = 0.0) -> tuple[str, ...]:
        """Why the log cannot carry the comparison, if so; `share` is what one unit has of the variance."""
        lost, often, decisions = float(self.unsupported.mean()), self.often, self.decisions
        one = decisions.noun if decisions.n_units == decisions.n_episodes else "person"
        rare = f"{percent(lost)} of the decisions would change to actions that the log next to never takes there"
        deep = f"{self.changes:.1f} decisions of an episode are not the log's: it does not follow a policy that far"
        found = (
            (lost > MOST_UNSUPPORTED, rare),
            (self.changes > MOST_CHANGES, deep),
            (often > MOST_OFTEN, f"the proposed policy meets its states {often:.0f} times as often as the log does"),
            (self.cut > MOST_CUT, f"the records of {percent(self.cut)} of the episodes are cut before their end"),
            (share > MOST_SHARE, f"one {one} makes {percent(share)} of the uncertainty"),
        )
        return tuple(text for holds, text in found if holds)


def joint_intervals(
    policies: Sequence[DifferenceScores], segments: list[BoolArray] | None = None, *, level: float = 0.95
) -> ScoreIntervals:
    """Means over episodes per policy, segment and outcome, in this order; all hold together.

    A segment (n,) marks whole episodes: its mean is over the episodes in it.
    """
    decisions, outcomes = policies[0].decisions, policies[0].rows.shape[1]
    masks = [np.ones(len(decisions.actions), dtype=np.bool_)] if segments is None else segments
    sizes = [decisions.per_unit((mask & decisions.first).astype(np.float64)) for mask in masks]
    counts = np.tile(np.repeat(np.column_stack(sizes), outcomes, axis=1), len(policies))
    inflation = np.repeat([one.inflation for one in policies], len(masks) * outcomes)

    def together(tables: list[FloatArray]) -> ScoreIntervals:
        sums = [decisions.per_unit(rows * mask[:, None]) for rows in tables for mask in masks]
        return score_intervals(np.hstack(sums), counts, level=level, inflation=inflation)

    found = together([one.rows for one in policies])
    if all(one.hidden is None for one in policies):
        return found
    return replace(found, second=together([one.rows + (0.0 if one.hidden is None else one.hidden) for one in policies]))


def difference_scores(
    decisions: Decisions,
    proposed: FloatArray,
    current: FloatArray | None,
    chances: Propensity,
    *,
    discount: float = 1.0,
    seed: int = 0,
    scores: OneStepScores | None = None,
) -> DifferenceScores:
    """Scores of proposed − current, policies as (n, A) chances; current None: the policy that wrote the log."""
    before = chances.table if current is None else current
    if decisions.one_step:
        known = scores if scores is not None else one_step_scores(decisions, chances=chances, seed=seed)
        rows, one = known.difference(proposed, current), np.ones(len(proposed))
        found = assessed(decisions, rows, proposed, before, chances, one, 1.0)
        return replace(found, inflation=known.inflation(proposed, current))
    policies = [against_log(decisions, policy, chances) for policy in (proposed, current) if policy is not None]
    parts = [episode_scores(decisions, policy, discount=discount, seed=seed) for policy in policies]
    rows = parts[0].rows - (parts[1].rows if len(parts) > 1 else 0.0)
    often = max(how_often(part.weight) for part in parts)
    return assessed(decisions, rows, proposed, before, chances, parts[0].weight, often)


def how_often(weight: FloatArray) -> float:
    """How many times as often the proposed policy meets its own states as the log does, from ω (n,)."""
    return float((weight**2).sum() / max(float(weight.sum()), 1e-12))


def assessed(
    decisions: Decisions,
    rows: FloatArray,
    proposed: FloatArray,
    current: FloatArray,
    chances: Propensity,
    weight: FloatArray,
    often: float,
) -> DifferenceScores:
    """Scores (n, M) with what says how far they can be believed."""
    episodes = int(decisions.episode[-1]) + 1
    changes = float(changed_decisions(current, proposed).sum() / episodes)
    rare = chances.untried(decisions, CLIP)
    unsupported = weight * (np.maximum(proposed - current, 0.0) * rare).sum(axis=1)
    inflation = 1.0
    if not decisions.one_step:  # and no more is claimed than the rows that regressions saw would tell
        beyond = max(1.0, len(decisions.actions) / (FOLDS * MOST_FITTED))
        inflation = (ALWAYS + PER_CHANGE * changes) * float(np.sqrt(max(1.0, often) * beyond))
    cut = float((decisions.follow == CUT).sum() / episodes)
    return DifferenceScores(decisions, rows, inflation, unsupported, changes, often, cut)


def against_log(decisions: Decisions, policy: FloatArray, chances: Propensity) -> PolicyRows:
    """A policy (n, A) beside the one that wrote the log."""
    index = np.arange(len(policy))
    ratio = policy[index, decisions.actions] / np.maximum(chances.logged, CLIP)
    keeps = np.abs(policy - chances.table).max(axis=1) < 1e-9
    return PolicyRows(policy, chances.table, np.where(keeps, 1.0, ratio), keeps, chances.known)


DRAWS = 20_000


@dataclass(frozen=True, eq=False)
class ScoreIntervals:
    """Estimates of K quantities with standard errors, each alone and all together."""

    estimate: FloatArray  # (K,)
    error: FloatArray  # (K,) standard errors
    half: FloatArray  # (K,) half width of the intervals that hold together
    half_alone: FloatArray  # (K,)
    largest_share: FloatArray  # (K,) of the variance that one unit has
    units: FloatArray  # (K,) that take part
    level: float
    second: ScoreIntervals | None = None  # of a second reading of the same rows, which intervals span too

    def part(self, some: slice) -> ScoreIntervals:
        """Some of the quantities, which still hold together with the others."""
        names = ("estimate", "error", "half", "half_alone", "largest_share", "units")
        second = None if self.second is None else self.second.part(some)
        return replace(self, **{name: getattr(self, name)[some] for name in names}, second=second)

    def joint(self, k: int) -> Interval:
        """The interval of one quantity; all of them hold together."""
        own, second = self._interval(k, float(self.half[k])), self.second
        return own if second is None else own.spanning(second.joint(k))

    def alone(self, k: int) -> Interval:
        """The interval of one quantity on its own."""
        own, second = self._interval(k, float(self.half_alone[k])), self.second
        return own if second is None else own.spanning(second.alone(k))

    def _interval(self, k: int, half: float) -> Interval:
        centre = float(self.estimate[k])
        return Interval(centre, centre - half, centre + half, self.level)


def score_intervals(
    sums: FloatArray, sizes: FloatArray | None = None, *, level: float = 0.95, inflation: float | FloatArray = 1.0
) -> ScoreIntervals:
    """Intervals of the K ratios of sums (units, K) and sizes (units, K); without sizes of means over units.

    >>> found = score_intervals(np.array([[1.0], [2.0], [3.0], [2.0]]))
    >>> found.estimate, found.error
    (array([2.]), array([0.40824829]))
    """
    sizes = np.ones_like(sums) if sizes is None else sizes
    total = sizes.sum(axis=0)
    estimate = np.divide(sums.sum(axis=0), total, out=np.zeros(len(total)), where=total > 0)
    leverage = np.divide(sizes, total, out=np.zeros_like(sums), where=total > 0)
    parts = np.divide(sums - estimate * sizes, total, out=np.zeros_like(sums), where=total > 0)
    parts /= np.sqrt(np.maximum(1 - leverage, 1e-9))  # a unit that is alone leaves nothing
    part_in = (sizes != 0) | (sums != 0)
    units = part_in.sum(axis=0).astype(np.float64)
    square, fourth = (parts**2).sum(axis=0), (parts**4).sum(axis=0)
    error = np.sqrt(square)
    kurtosis = np.divide(units * fourth, square**2, out=np.ones_like(square), where=square > 0)
    alike = 1 / np.maximum((leverage**2).sum(axis=0), 1e-300)  # units of equal size that would weigh as these do
    freedom = np.clip(2 * units / np.maximum(kurtosis - 1, 1e-9), 2.0, np.maximum(alike - 1, 2.0))
    alpha = joint_alpha(parts, level)
    together, alone = (
        np.where(units < 2, np.inf, stats.t.ppf(1 - a / 2, freedom) * error * inflation) for a in (alpha, 1 - level)
    )
    share = np.divide((parts**2).max(axis=0), square, out=np.zeros_like(square), where=square > 0)
    return ScoreIntervals(estimate, error, together, alone, share, units, level)


def within(interval: Interval, limits: tuple[float, float] | None) -> Interval:
    """An interval inside what can be, where that is known.

    >>> within(Interval(0.9, 0.7, 1.1, 0.95), (0.0, 1.0))
    Interval(estimate=0.9, low=0.7, high=1.0, level=0.95)
    """
    if limits is None:
        return interval
    centre, low, high = (float(np.clip(v, *limits)) for v in (interval.estimate, interval.low, interval.high))
    return Interval(centre, low, high, interval.level)


def change_within(interval: Interval, outcome: Outcome) -> Interval:
    """The interval of a difference: two values in the declared range are no further apart than its ends.

    >>> change_within(Interval(0.4, -1.0, 1.8, 0.95), Outcome("readmitted", range=(0.0, 1.0)))
    Interval(estimate=0.4, low=-1.0, high=1.0, level=0.95)
    """
    if outcome.range is None:
        return interval
    span = outcome.range[1] - outcome.range[0]
    return within(interval, (-span, span))


def joint_alpha(parts: FloatArray, level: float) -> float:
    """The chance of error that each of K normal quantities is given so that all hold together at the level."""
    spread = np.sqrt((parts**2).sum(axis=0))
    some = parts[:, spread > 0] / spread[spread > 0]
    if some.shape[1] < 2:
        return 1 - level
    correlation = some.T @ some
    values, vectors = np.linalg.eigh(correlation)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # the one root that no choice of vectors moves
    rng, block = np.random.default_rng(97), max(AT_ONCE // len(values), 1)
    sizes = [min(block, DRAWS - begin) for begin in range(0, DRAWS, block)]
    largest = [np.abs(rng.standard_normal((size, len(values))) @ root).max(axis=1) for size in sizes]
    critical = float(np.quantile(np.concatenate(largest), level))
    return min(1 - level, 2 * float(stats.norm.sf(critical)))
