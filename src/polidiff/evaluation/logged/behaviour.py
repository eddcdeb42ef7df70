r"""Who wrote the log: a policy that is given, if the log looks like it, or one estimated from the log.

The log looks like a policy :math:`\pi` if its counts are not further from it than those of logs that :math:`\pi` writes
in the same states,

.. math:: G = 2 \sum_{s,a} n(s,a) \ln \frac{n(s,a)}{n(s)\, \pi(a \mid s)},

judged against 199 simulated tables of actions. If it fails, nothing is lost but sharpness: the policy is then judged
like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polidiff.parallel import run_tasks
from polidiff.policies import Policy, TablePolicy
from polidiff.records.arrays import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

SIMULATED = 199
FOLDS = 5
BINS = 10


@dataclass(frozen=True, eq=False)
class Behaviour:
    """The policy that wrote a log, as estimated."""

    policy: Policy
    row_probabilities: FloatArray  # (n, A) for each logged row, from folds that did not see it
    calibration_error: float  # mean distance between stated and observed probability of the logged actions
    log_loss: float  # nats per decision, on rows not seen in fitting
    method: str


def wrote_the_log(visits: FloatArray, table: FloatArray, rng: np.random.Generator) -> bool:
    """Whether counts (S, A) look as if the policy (S, A) had taken the actions."""
    met = visits.sum(axis=1) > 0
    counts, chances = visits[met].astype(np.int64), table[met] / table[met].sum(axis=1, keepdims=True)
    if (counts[chances <= 0] > 0).any():
        return False
    totals = counts.sum(axis=1)
    seen = _distance(counts, chances)
    simulated = (_distance(rng.multinomial(totals, chances), chances) for _ in range(SIMULATED))
    return any(distance >= seen for distance in simulated)


def logged_shares(visits: FloatArray) -> FloatArray:
    """Share of each action in each state (S, A); even where a state was never met."""
    totals = visits.sum(axis=1, keepdims=True)
    return np.where(totals > 0, visits / np.maximum(totals, 1), 1 / visits.shape[1])


def estimate_behaviour(log: Log, *, seed: int = 0) -> Behaviour:
    """The policy that wrote the log: shares for discrete states, a calibrated classifier for features."""
    rows = log.rows
    fold = rows.folds(FOLDS, seed)
    if log.discrete:
        return _from_shares(rows.states, rows.actions, fold, log.n_states, log.n_actions)
    return _from_features(log, fold, seed)


def behaviour_policy(log: Log, *, seed: int = 0) -> Policy:
    """The policy that wrote the log, without the folds that tell how well it is calibrated."""
    rows = log.rows
    if log.discrete:
        return estimate_behaviour(log, seed=seed).policy
    from polidiff.evaluation.logged.encoder import fit_encoder

    encode, order = fit_encoder(rows.states), rows.canonical
    fitted = _fit_classifier(encode(rows.states[order]), rows.actions[order], seed)
    return ClassifierPolicy(fitted, encode, log.n_actions)


def _from_shares(states: IntArray, actions: IntArray, fold: IntArray, n_states: int, n_actions: int) -> Behaviour:
    visits = np.zeros((FOLDS, n_states, n_actions))
    np.add.at(visits, (fold, states, actions), 1.0)
    total = visits.sum(axis=0)
    overall = total.sum(axis=0) / max(total.sum(), 1.0)
    out_of_fold = total[None] - visits + overall  # one pseudo-draw of the whole log, so that no chance is 0
    out_of_fold /= out_of_fold.sum(axis=2, keepdims=True)
    rows = out_of_fold[fold, states]
    return _behaviour(TablePolicy(logged_shares(total)), rows, actions, "shares of each state")


class ClassifierPolicy:
    """Probabilities of a fitted classifier over encoded features."""

    def __init__(self, classifier: Any, encode: Any, n_actions: int) -> None:
        self.classifier, self.encode, self._n_actions = classifier, encode, n_actions

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return self._n_actions

    def probabilities(self, states: Any) -> FloatArray:
        """Probabilities of the classes that were seen; 0 for the others."""
        return _all_classes(self.classifier, self.encode(np.asarray(states)), self._n_actions)


def _from_features(log: Log, fold: IntArray, seed: int) -> Behaviour:
    from polidiff.evaluation.logged.encoder import fit_encoder

    encode, order = fit_encoder(log.rows.states), log.rows.canonical  # what is fitted does not depend on their order
    x, actions, fold = encode(log.rows.states[order]), log.rows.actions[order], fold[order]
    rows = np.zeros((len(actions), log.n_actions))
    held = [fold == number for number in range(FOLDS)]
    split = [part for part in held if part.any() and not part.all()]
    kept = [~part for part in split] + [np.ones(len(actions), dtype=np.bool_)]
    fitted = run_tasks(_fit_classifier, [(x[part], actions[part], seed) for part in kept], what="who wrote the log")
    for part, classifier in zip(split, fitted, strict=False):
        rows[part] = _all_classes(classifier, x[part], log.n_actions)
    policy, back = ClassifierPolicy(fitted[-1], encode, log.n_actions), np.argsort(order)
    return _behaviour(policy, rows[back], actions[back], "boosted trees, isotonic calibration, five folds by episode")


def _fit_classifier(x: FloatArray, actions: IntArray, seed: int) -> Any:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.dummy import DummyClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold

    fewest = np.unique(actions, return_counts=True)[1]
    if len(fewest) == 1:
        return DummyClassifier().fit(x, actions)
    rounds = min(40, max(5, 200 // len(fewest)))  # a round has a tree for every action
    trees = HistGradientBoostingClassifier(max_iter=rounds, max_leaf_nodes=8, random_state=seed, early_stopping=False)
    if fewest.min() < FOLDS:
        return trees.fit(x, actions)
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)
    return CalibratedClassifierCV(trees, method="isotonic" if len(x) >= 1000 else "sigmoid", cv=folds).fit(x, actions)


def _all_classes(classifier: Any, x: FloatArray, n_actions: int) -> FloatArray:
    table = np.zeros((len(x), n_actions))
    table[:, np.asarray(classifier.classes_, dtype=np.int64)] = classifier.predict_proba(x)
    return table


def _behaviour(policy: Policy, rows: FloatArray, actions: AnyArray, method: str) -> Behaviour:
    taken = rows[np.arange(len(actions)), actions]
    hit = np.zeros_like(rows)
    hit[np.arange(len(actions)), actions] = 1.0
    return Behaviour(policy, rows, _calibration_error(rows.ravel(), hit.ravel()),
                     float(-np.log(np.maximum(taken, 1e-12)).mean()), method)  # fmt: skip


def _calibration_error(stated: FloatArray, happened: FloatArray) -> float:
    """Mean |stated − observed| over ten bins of equal size."""
    order = np.argsort(stated, kind="stable")
    parts = [part for part in np.array_split(order, BINS) if len(part)]
    gaps = [abs(stated[part].mean() - happened[part].mean()) * len(part) for part in parts]
    return float(sum(gaps) / max(len(stated), 1))


def _distance(counts: IntArray, chances: FloatArray) -> float:
    expected = counts.sum(axis=1, keepdims=True) * chances
    ratio = np.divide(counts, expected, out=np.ones(counts.shape), where=(counts > 0) & (expected > 0))
    return float(2 * (counts * np.log(ratio)).sum())
