r"""The chances with which the log took its actions: recorded, or estimated on other folds.

Estimated: a multinomial logit with a small penalty, then boosted trees on its log-odds for as long as the log loss of
held rows falls, then one temperature :math:`t`, :math:`e_a \propto p_a^t`, that fits held rows best: a model that is
too sure of itself makes weights that are too large.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from scipy.optimize import isotonic_regression, minimize
from scipy.special import pdtr

from polidiff.evaluation.scores.decisions import Decisions, held_rows
from polidiff.evaluation.scores.regression import PATIENCE, Design, TreeGrower, design_of, leaves_of
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

FOLDS = 5
ROUNDS = 40
STEP = 0.3
PENALTIES = (1.0, 30.0)
TEMPERATURES = (0.6, 0.75, 0.9, 1.0, 1.1)
FLOOR = 1e-3
CHANCE = 2.5  # standard errors that a gain in likelihood must exceed to be more than chance
MANY_ACTIONS = 10  # with more, a round is so many trees that the first which brings nothing is the last
BY_CHANCE = 0.01  # probability, for all values of features together, that one without an action had a chance of it
WORTH_A_ROUND = 1e-4  # nats per decision
MOST_FITTED = 100_000  # rows that one estimate sees


@dataclass(frozen=True, eq=False)
class Propensity:
    """Chances of the logged actions and how they were come by."""

    table: FloatArray  # (n, A) of every action, estimated where only the logged one is recorded
    logged: FloatArray  # (n,) of the action that was taken
    known: bool  # whether the log records them
    _untried: dict[float, BoolArray] = field(default_factory=dict, init=False, repr=False)

    def untried(self, decisions: Decisions, least: float) -> BoolArray:
        """(n, A) where an action has next to no chance in the log's decisions."""
        if least not in self._untried:
            rare = self.table < least
            if not self.known:
                rare = rarely_taken(self.table, decisions.actions, least)
                rare |= never_with(decisions, least)
            self._untried[least] = rare
        return self._untried[least]


def known_table(logged: FloatArray, actions: IntArray, n_actions: int) -> FloatArray | None:
    """(n, A) chances of all actions, where those of the logged ones settle them: a fair draw, or two actions.

    >>> known_table(np.array([0.3, 0.9]), np.array([1, 0]), 2)
    array([[0.7, 0.3],
           [0.9, 0.1]])
    """
    if n_actions == 2:
        other = 1.0 - logged
        return np.where(actions[:, None] == np.arange(2), logged[:, None], other[:, None])
    if np.allclose(logged, 1.0 / n_actions, atol=1e-6):
        return np.full((len(logged), n_actions), 1.0 / n_actions)
    return None


def propensities(
    x: FloatArray, actions: IntArray, n_actions: int, fold: IntArray, held: BoolArray, recorded: FloatArray | None
) -> Propensity:
    """Chances for every row (n, d), from folds (n,) that did not see it; `held` (n,) rows choose how far to fit."""
    index = np.arange(len(actions))
    table = None if recorded is None else known_table(recorded, actions, n_actions)
    if table is None:
        table = np.zeros((len(actions), n_actions))
        plain = not (np.ptp(x, axis=0) > 0).any()
        for number in np.unique(np.zeros_like(fold) if plain else fold):
            own = fold == number if not plain else np.ones_like(held)
            others = np.flatnonzero(~own) if not own.all() else index
            table[own] = fit_chances(x[others], actions[others], n_actions, held[others])(x[own])
    logged = table[index, actions] if recorded is None else recorded
    return Propensity(table, logged, recorded is not None)


def logging_chances(decisions: Decisions, *, seed: int = 0) -> Propensity:
    """Chances of the logged actions, recorded or estimated on other folds, with the step as a feature."""
    x = decisions.x if decisions.one_step else np.column_stack([decisions.x, decisions.step])
    fold = decisions.folds(min(FOLDS, decisions.n_units), seed)
    held = held_rows(decisions, seed)
    return propensities(x, decisions.actions, decisions.n_actions, fold, held, decisions.probability)


@dataclass(frozen=True, eq=False)
class ChanceModel:
    """Chances of actions as a function of features."""

    design: Design  # of the rows that were fitted
    weights: FloatArray  # (p, A) of the logit
    trees: tuple[tuple[int, IntArray, FloatArray], ...]  # action, questions (levels, 2), worth of the leaves
    temperature: float

    def __call__(self, x: FloatArray) -> FloatArray:
        """(n, A) chances in rows (n, d), none of them below `FLOOR`."""
        columns = self.design.columns
        scores = columns.basis(x)[:, : len(self.weights)] @ self.weights
        bins = columns.bins(x)
        for a, question, leaf in self.trees:
            scores[:, a] += STEP * leaf[leaves_of(bins, question[None])[0]]
        chances = np.maximum(_softmax(self.temperature * scores), FLOOR)
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def fit_chances(x: FloatArray, actions: IntArray, n_actions: int, held: BoolArray) -> ChanceModel:
    """The chances of actions (n,) in rows (n, d); of more than `MOST_FITTED` rows, every so manieth is fitted."""
    some = slice(None, None, -(-len(x) // MOST_FITTED))
    design, held = design_of(x[some], actions[some], n_actions), held[some]
    rows = np.arange(len(design.actions))
    fit, test = rows[~held], rows[held]
    if design.linear == 1 or not len(fit) or not len(test):
        shares = np.bincount(design.actions, minlength=n_actions) + 1e-9
        return ChanceModel(design, np.log(shares / shares.sum())[None], (), 1.0)
    penalty, start = _best_logit(design, fit, test)
    rounds, temperature = _boosted(design, fit, start, test)
    weights = fit_logit(design, rows, penalty)
    return ChanceModel(design, weights, _trees_after(design, weights, rounds), temperature)


def fit_logit(design: Design, rows: IntArray, penalty: float) -> FloatArray:
    """(p, A) weights of a multinomial logit on the features of some rows."""
    return logit_weights(design.basis[rows, : design.linear], design.actions[rows], design.n_actions, penalty)


def logit_weights(
    x: FloatArray, actions: IntArray, count: int, penalty: float, *, tolerance: float = 1e-7
) -> FloatArray:
    """(p, A) weights of a multinomial logit on columns (n, p), the penalty on all but the first, which is constant.

    To the end by default, because where a search stops early moves with the version of its library.
    """
    index = np.arange(len(x))
    shrink = np.full((x.shape[1], 1), penalty)
    shrink[0] = 1e-6
    taken = np.array([np.bincount(actions, column, count) for column in x.T])
    curve = x.T @ x * (1 / count) * (1 - 1 / count)  # of the loss, where all actions are as likely
    curve[np.diag_indices(len(curve))] += shrink[:, 0]
    whiten = np.linalg.inv(np.linalg.cholesky(curve))  # features that all bend the loss alike: few steps are enough

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = whiten.T @ flat.reshape(-1, count)
        scores = x @ weights
        scores -= scores.max(axis=1, keepdims=True)
        logged = scores[index, actions].sum()
        np.exp(scores, out=scores)
        total = scores.sum(axis=1)
        scores /= total[:, None]
        value = np.log(total).sum() - logged + 0.5 * (shrink * weights**2).sum()
        return float(value), (whiten @ (x.T @ scores - taken + shrink * weights)).ravel()

    start, most = np.zeros(x.shape[1] * count), {"maxiter": 1000, "ftol": tolerance * 1e-8, "gtol": tolerance}
    settled = minimize(loss, start, jac=True, method="L-BFGS-B", options=most)  # type: ignore[call-overload]
    return np.asarray(whiten.T @ settled.x.reshape(-1, count))


def rarely_taken(table: FloatArray, actions: IntArray, least: float) -> BoolArray:
    """(n, A) where an action has next to no chance: below `least`, or where it should have been seen and was not.

    Among the rows with the smallest chances of an action, next to none took it although the estimate, which is smooth
    and then too large there, expects more. The share that took it rises with the estimate (isotonic regression, rows of
    one estimate together); rows where it is below `least` count if so few are as rare as none where 2.5 are expected.
    """
    rare = table < least
    for a in range(table.shape[1]):
        _, code, rows = np.unique(table[:, a], return_inverse=True, return_counts=True)
        share = np.bincount(code, actions == a) / rows
        seldom = (isotonic_regression(share, weights=rows).x < least)[code]
        few, expected = int((actions[seldom] == a).sum()), float(table[seldom, a].sum())
        rare[seldom, a] |= bool(pdtr(few, expected) < math.exp(-2.5))
    return rare


def never_with(decisions: Decisions, least: float) -> BoolArray:
    """(n, A) where an action is next to never taken, beyond chance, in all rows with a value of one feature.

    An estimate of the chances is drawn to those of all rows, and needs many rows of a rare level to say so. Units
    count, as the rows of one may all have one action.
    """
    actions, n_actions = decisions.actions, decisions.n_actions
    never = np.zeros((len(actions), n_actions), dtype=np.bool_)
    sizes = decisions.kinds.max(axis=0, initial=-1) + 1
    share = np.bincount(actions, minlength=n_actions) / len(actions)
    for code, size in zip(decisions.kinds.T, sizes.tolist(), strict=True):
        taken = np.bincount(code * n_actions + actions, minlength=size * n_actions).reshape(size, n_actions)
        met = np.unique(code * decisions.n_units + decisions.unit) // decisions.n_units
        chance = pdtr(taken, np.bincount(met, minlength=size)[:, None] * share)
        rare = taken < least * taken.sum(axis=1, keepdims=True)
        never |= (rare & (chance < BY_CHANCE / (n_actions * sizes.sum())))[code]
    return never


def _best_logit(design: Design, fit: IntArray, test: IntArray) -> tuple[float, FloatArray]:
    fits = [(penalty, fit_logit(design, fit, penalty)) for penalty in PENALTIES]
    linear = design.basis[:, : design.linear]
    return min(fits, key=lambda found: _log_loss(linear[test] @ found[1], design.actions[test]))


def _boosted(design: Design, fit: IntArray, weights: FloatArray, test: IntArray) -> tuple[int, float]:
    """How many rounds of trees, and which temperature, give held rows the least log loss."""
    best = float("inf"), 0, 1.0
    for rounds, (now, _) in enumerate(_rounds(design, fit, weights)):
        loss, temperature = min((_log_loss(t * now[test], design.actions[test]), t) for t in TEMPERATURES)
        if loss < best[0] - WORTH_A_ROUND:
            best = loss, rounds, temperature
        if rounds == ROUNDS or rounds - best[1] >= (PATIENCE if design.n_actions <= MANY_ACTIONS else 1):
            break
    return best[1], best[2]


def _trees_after(design: Design, weights: FloatArray, rounds: int) -> tuple[tuple[int, IntArray, FloatArray], ...]:
    """The trees of some rounds, fitted to all rows."""
    found: list[tuple[int, IntArray, FloatArray]] = []
    for _, trees in islice(_rounds(design, np.arange(len(design.actions)), weights), rounds + 1):
        found += trees
    return tuple(found)


def _rounds(
    design: Design, rows: IntArray, weights: FloatArray
) -> Iterator[tuple[FloatArray, list[tuple[int, IntArray, FloatArray]]]]:
    """(n, A) log-odds after 0, 1, … rounds of trees fitted to some rows, and the trees of the round."""
    grower, now = TreeGrower(design.bins[:, rows], design.levels), design.basis[:, : design.linear] @ weights
    hit = np.eye(design.n_actions)[design.actions[rows]]
    columns = range(1, 2) if design.n_actions == 2 else range(design.n_actions)
    trees: list[tuple[int, IntArray, FloatArray]] = []
    while True:
        yield now, trees
        chances, trees = _softmax(now[rows]), []
        for a in columns:
            slope = hit[:, a] - chances[:, a]
            question, _, leaf = grower.grow(slope, chances[:, a] * (1.0 - chances[:, a]))
            now[:, a] += STEP * leaf[leaves_of(design.bins, question[None])[0]]
            trees.append((a, question, leaf))


def _log_loss(scores: FloatArray, actions: IntArray) -> float:
    chances = _softmax(scores)[np.arange(len(actions)), actions]
    return float(-np.log(np.maximum(chances, FLOOR)).mean())


def _softmax(scores: FloatArray) -> FloatArray:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def looks_written_by(given: FloatArray, estimated: Propensity, decisions: Decisions) -> bool:
    """Whether a log looks as if a policy (n, A) had taken its actions: no worse than the estimate, beyond chance."""
    logged = given[np.arange(len(given)), decisions.actions]
    if (logged <= 0).any():
        return False
    return not says_more(estimated.logged, logged, decisions)


def says_more(one: FloatArray, other: FloatArray, decisions: Decisions) -> bool:
    """Whether one estimate of the chances (n,) of logged actions is better than another beyond chance, over units."""
    gain = decisions.per_unit((np.log(np.maximum(one, FLOOR)) - np.log(other))[:, None])[:, 0]
    return bool(gain.mean() > CHANCE * gain.std() / np.sqrt(len(gain)) + 1e-12)
