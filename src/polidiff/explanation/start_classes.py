"""Directions of outcomes from starts that are known from single episodes only.

One episode says little about its start, so similar starts are judged together: the episodes of one start where starts
come back, else the leaves of a small tree over start features, grown on half of the episodes and judged on the others.
These directions form groups and decide nothing: other episodes judge the groups.
"""

from __future__ import annotations

import numpy as np

from polidiff.evaluation.start_outcomes import StartOutcomes
from polidiff.evaluation.verdicts import direction_of
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.outcome import Outcome

FEWEST = 20  # episodes of a class
MOST_CLASSES = 6  # leaves of the tree
LEVEL = 0.95  # over all classes and outcomes at once
SIGN = {"more": 1, "less": -1, "same": 0}


def same_rows(features: AnyArray) -> IntArray:
    """(n,) the number of each row among the distinct rows.

    >>> same_rows(np.array([[2.0], [1.0], [2.0]])), same_rows(np.array([["b"], ["a"]], dtype=object))
    (array([1, 0, 1]), array([0, 1]))
    """
    if features.dtype.kind in "fiub":
        return np.asarray(np.unique(features, axis=0, return_inverse=True)[1]).reshape(len(features))
    numbers: dict[tuple[object, ...], int] = {}
    return np.array([numbers.setdefault(tuple(row), len(numbers)) for row in features.tolist()], dtype=np.int64)


def distinct_rows(features: AnyArray) -> int:
    """How many rows there are, equal ones counted once."""
    return int(same_rows(features).max(initial=-1)) + 1


def estimated_signs(forming: StartOutcomes, outcomes: tuple[Outcome, ...]) -> IntArray:
    """(n, M) directions of the differences from each start, −1, 0 or 1; the common one where a class leaves it open."""
    label, judging = _classes(forming)
    count = int(label.max(initial=0)) + 1
    strict = 1 - (1 - LEVEL) / (count * max(1, len(outcomes)))
    signs = np.zeros((len(label), len(outcomes)), dtype=np.int64)
    for m, outcome in enumerate(outcomes):
        known = {
            k: direction_of(forming.interval(forming.difference[:, m], judging & (label == k), strict), outcome.margin)
            for k in range(count)
        }
        decided = {k: SIGN[word] for k, word in known.items() if word in SIGN}
        mass = {sign: sum((label == k).sum() for k, s in decided.items() if s == sign) for sign in decided.values()}
        common = max(mass, key=lambda sign: mass[sign], default=0)
        signs[:, m] = np.array([decided.get(k, common) for k in range(count)])[label]
    return signs


def _classes(forming: StartOutcomes) -> tuple[IntArray, BoolArray]:
    """(n,) class of each start, and the episodes that judge the classes."""
    start, everyone = same_rows(forming.features), np.ones(len(forming.weight), dtype=np.bool_)
    if np.bincount(start).min(initial=0) >= FEWEST:
        return start, everyone
    if forming.features.dtype.kind not in "fiub" or len(start) < 4 * FEWEST:
        return np.zeros(len(start), dtype=np.int64), everyone
    grows = np.arange(len(start)) % 2 == 0
    return _leaves(np.nan_to_num(forming.features.astype(np.float64)), forming.difference, grows), ~grows


def _leaves(features: FloatArray, difference: FloatArray, grows: BoolArray) -> IntArray:
    from sklearn.tree import DecisionTreeRegressor

    spread = difference.std(axis=0)
    scaled = difference / np.where(spread > 0, spread, 1.0)
    tree = DecisionTreeRegressor(max_leaf_nodes=MOST_CLASSES, min_samples_leaf=FEWEST, random_state=0)
    tree.fit(features[grows], scaled[grows])
    return same_rows(tree.apply(features)[:, None])
