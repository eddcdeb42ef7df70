"""A grid over features: few cuts, placed where decisions and outcomes differ.

A regression tree on sampled states says where signals differ (the current action, the steps to go, the episode's
return); its thresholds come first, quantiles after them. Cuts are added as long as the cells that are met stay few
enough to learn each of them from episodes. A box whose bounds are cuts is exactly a set of cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from polidiff.errors import InvalidWorldError
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.rule import Condition, Rule
from polidiff.rules.grid import readable_bound

MOST_CELLS = 250
LEAVES = 48
LEAST_SHARE = 0.03  # of the sampled states, between two cuts of a feature
QUANTILES = (1 / 2, 1 / 4, 3 / 4, 1 / 8, 7 / 8, 3 / 8, 5 / 8)


@dataclass(frozen=True, eq=False)
class Grid:
    """Cuts of every feature, and the cells that were met."""

    names: tuple[str, ...]
    cuts: tuple[FloatArray, ...]  # per feature, ascending
    keys: IntArray  # (K,) cells that were met, ascending; see `_key`

    @property
    def size(self) -> int:
        """How many cells there are."""
        return len(self.keys)

    def of(self, features: FloatArray) -> IntArray:
        """Cell of each row (n, d), −1 where none was met."""
        key = _key(features, self.cuts)
        place = np.minimum(np.searchsorted(self.keys, key), self.size - 1)
        return np.where(self.keys[place] == key, place, -1)

    def met(self, features: FloatArray) -> IntArray:
        """Keys of the cells that rows (n, d) lie in, ascending."""
        return np.unique(_key(features, self.cuts))

    @property
    def codes(self) -> IntArray:
        """(K, d) between which cuts of each feature a cell lies."""
        return np.stack(np.unravel_index(self.keys, _shape(self.cuts)), axis=1).astype(np.int64)

    def rule(self, over_codes: Rule) -> Rule:
        """A rule about codes as a rule about features."""
        return Rule(tuple(self._condition(condition) for condition in over_codes.conditions))

    def _condition(self, condition: Condition) -> Condition:
        cuts = self.cuts[condition.column]
        low = -math.inf if math.isinf(condition.low) else float(cuts[math.ceil(condition.low) - 1])
        high = math.inf if math.isinf(condition.high) else float(cuts[math.ceil(condition.high) - 1])
        return Condition(self.names[condition.column], condition.column, low=low, high=high)


def make_grid(
    features: FloatArray,
    signals: FloatArray,
    names: tuple[str, ...],
    *,
    given: tuple[FloatArray, ...] | None = None,
    most: int = MOST_CELLS,
    seed: int = 0,
) -> Grid:
    """A grid for sampled states (n, d), cut at what is `given` per feature, and where signals (n, k) differ."""
    if not np.isfinite(features).all():
        row, column = np.argwhere(~np.isfinite(features))[0]
        raise InvalidWorldError(
            f"rules in a simulator need features that are finite numbers; {names[column]!r} is "
            f"{features[row, column]} in sampled state {row}. Hint: Simulator(…, features=…) can map it to a number"
        )
    cuts: tuple[FloatArray, ...] = given if given is not None else tuple(np.empty(0) for _ in names)
    order = np.sort(features, axis=0)
    for column, wanted in _wanted(features, signals, order, seed):
        more = _with_cut(order[:, column], cuts[column], wanted)
        if more is None:
            continue
        tried = (*cuts[:column], more, *cuts[column + 1 :])
        if len(np.unique(_key(features, tried))) > most:
            continue
        cuts = tried
    if not any(len(part) for part in cuts):
        raise InvalidWorldError(
            f"rules need a feature that differs between states; {', '.join(names[:8])} are constant in all that is met"
        )
    return Grid(names, cuts, np.unique(_key(features, cuts)))


def _wanted(features: FloatArray, signals: FloatArray, order: FloatArray, seed: int) -> Iterable[tuple[int, float]]:
    """(feature, threshold), the most telling first."""
    from sklearn.tree import DecisionTreeRegressor

    scale = signals.std(axis=0)
    target = signals[:, scale > 0] / scale[scale > 0]
    if target.shape[1]:
        tree = DecisionTreeRegressor(max_leaf_nodes=LEAVES, random_state=seed).fit(features, target).tree_
        inner = np.flatnonzero(tree.children_left >= 0)
        loss = tree.impurity * tree.weighted_n_node_samples
        gain = loss[inner] - loss[tree.children_left[inner]] - loss[tree.children_right[inner]]
        for node in inner[np.lexsort((inner, -gain))]:
            yield int(tree.feature[node]), float(tree.threshold[node])
    for quantile in QUANTILES:
        for column in range(features.shape[1]):
            yield column, float(order[int(quantile * (len(order) - 1)), column])


def _with_cut(ordered: FloatArray, cuts: FloatArray, wanted: float) -> FloatArray | None:
    """The cuts with a readable one near `wanted`; None if that leaves too little between two cuts."""
    count, slack = len(ordered), max(1, len(ordered) // 100)
    at = int(np.searchsorted(ordered, wanted, side="right"))
    low = ordered[max(0, min(at, count - 1) - slack)]
    high = ordered[min(count - 1, at + slack)]
    if not low < high:
        above = ordered[ordered > low]
        if not above.size:
            return None
        high = above[0]
    cut = readable_bound(float(low), float(high))
    more = np.unique(np.append(cuts, cut))
    between = np.diff(np.concatenate([[0], np.searchsorted(ordered, more), [count]]))
    beside = between[np.searchsorted(more, cut) :][:2]
    return more if len(more) > len(cuts) and beside.min() >= LEAST_SHARE * count else None


def _shape(cuts: tuple[FloatArray, ...]) -> tuple[int, ...]:
    return tuple(len(part) + 1 for part in cuts)


def _key(features: FloatArray, cuts: tuple[FloatArray, ...]) -> IntArray:
    """One number per row for the cell it lies in."""
    codes = tuple(np.searchsorted(part, features[:, j], side="right") for j, part in enumerate(cuts))
    return np.asarray(np.ravel_multi_index(codes, _shape(cuts)), dtype=np.int64)
