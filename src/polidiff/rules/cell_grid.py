r"""Features cut into cells, and boxes of cells.

A grid holds the cells of every feature for some places: the states of a table, or the combinations that were met in a
simulator. A box is an interval of cells for some columns, where a feature of words has a column per word with the cells
"other" and "this one"; it is exactly a rule about the features.

Cuts are placed where they tell most. A regression tree on sampled states says where signals differ (the current action,
the steps to go, the episode's return); its thresholds come first, quantiles after them. Cuts are added as long as the
cells that are met stay few enough to learn each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product, zip_longest
from typing import TypeAlias

import numpy as np

from polidiff.errors import InvalidWorldError
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.rule import Rule, missing_entries
from polidiff.rules.grid import Axis, readable_bound

Trials: TypeAlias = tuple[FloatArray, FloatArray]  # rows (k, d) in which an action was tried, its effect (k,)
Box: TypeAlias = tuple[tuple[int, int, int], ...]  # (column, first cell, last cell), by column
RuleList: TypeAlias = tuple[tuple[int, Box], ...]  # (move, box), first match wins
Column: TypeAlias = tuple[int, int | None]  # an axis of numbers, or an axis and one of its words
WHOLE = 254  # whole numbers with at most so many values get a cell for each
MOST_CELLS = 250
LEAVES = 48
EFFECTS = 12  # leaves of what one action brings
FEW = 25  # rows of such a leaf
SURE = 12.0  # times the variance that a split on effects must take off the sum of squares
LEAST_SHARE = 0.015  # of the sampled states, between two cuts of a feature
QUANTILES = (1 / 2, 1 / 4, 3 / 4, 1 / 8, 7 / 8, 3 / 8, 5 / 8)


def covers(codes: AnyArray, box: Box) -> BoolArray:
    """(n,) which rows with cells (columns, n) lie in a box."""
    inside = np.ones(codes.shape[1], dtype=np.bool_)
    for column, first, last in box:
        inside &= (codes[column] >= first) & (codes[column] <= last)
    return inside


def bounds_of(box: Box, sizes: IntArray) -> int:
    """Comparisons that a reader of a box makes."""
    return sum(int(first > 0) + int(last < sizes[column] - 1) for column, first, last in box)


def all_boxes(sides: Sequence[Sequence[tuple[int, int, int]]], most: int) -> Iterator[Box]:
    """Every box with at most so many of the given conditions on each column; the first has none."""
    several = (columns for size in range(most + 1) for columns in combinations(sides, size))
    return (box for columns in several for box in product(*columns))


@dataclass(frozen=True, eq=False)
class Grid:
    """Axes, in which cell of each of them every place lies, and the columns that boxes speak about."""

    axes: tuple[Axis, ...]
    places: AnyArray  # (K, axes)
    columns: tuple[Column, ...]
    complete: bool = True  # whether every box over the features has an equal over the cells

    @property
    def size(self) -> int:
        """How many places there are."""
        return len(self.places)

    @cached_property
    def codes(self) -> AnyArray:
        """(columns, K) cell of every place in each column."""
        return np.array([
            self.places[:, axis] if word is None else self.places[:, axis] == word for axis, word in self.columns
        ], dtype=np.uint8)  # fmt: skip

    @cached_property
    def sizes(self) -> IntArray:
        """(columns,) cells of each column."""
        return np.array([self.axes[axis].cells if word is None else 2 for axis, word in self.columns])

    def covers(self, box: Box) -> BoolArray:
        """(K,) which places lie in the box."""
        return covers(self.codes, box)

    def rule(self, box: Box) -> Rule:
        """The box in terms of the features."""
        allowed: dict[int, BoolArray] = {}
        for column, first, last in box:
            index, word = self.columns[column]
            rank = np.arange(self.axes[index].cells)
            if word is None:
                inside = (rank >= first) & (rank <= last)
            else:
                named = [k for other, k in self.columns if other == index and k is not None]
                inside = rank == word if first else np.isin(rank, named) & (rank != word)
            allowed[index] = allowed.get(index, True) & inside
        conditions = (self.axes[index].condition(cells) for index, cells in allowed.items())
        return Rule(tuple(condition for condition in conditions if condition is not None))

    def literals(self, box: Box) -> int:
        """Comparisons that a reader makes."""
        return bounds_of(box, self.sizes)

    def box(self, rule: Rule) -> Box | None:
        """The box that covers the same places as a rule over codes; None if it covers none."""
        bounds = []
        for condition in rule.conditions:
            first = max(0, math.ceil(condition.low)) if math.isfinite(condition.low) else 0
            top = int(self.sizes[condition.column]) - 1
            last = min(top, math.ceil(condition.high) - 1) if math.isfinite(condition.high) else top
            if first > last:
                return None
            if (first, last) != (0, top):
                bounds.append((condition.column, first, last))
        return tuple(sorted(bounds))

    def of(self, features: AnyArray) -> IntArray:
        """Place of each row (n, d) of numbers, −1 where none was met; places of a `met_grid` are distinct, in order."""
        sizes = [axis.cells for axis in self.axes]
        numbers = _cell_numbers(np.vstack([self.places, _codes(features, self.axes)]).T, sizes)
        known, asked = numbers[: self.size], numbers[self.size :]
        at = np.minimum(np.searchsorted(known, asked), self.size - 1)
        return np.where(known[at] == asked, at, -1)

    def padded(self, more: int) -> Grid:
        """The grid with a few places behind the others, like the first."""
        lent = np.repeat(self.places[:1], more, axis=0)
        return replace(self, places=np.vstack([self.places, lent]))

    @property
    def points(self) -> FloatArray:
        """(K, axes) a point of each place, for axes of numbers: its lower cuts, or just below the first one."""
        columns = []
        for code, axis in zip(self.places.T, self.axes, strict=True):
            assert axis.cuts is not None
            below = axis.cuts[0] - 1.0 if len(axis.cuts) else 0.0
            columns.append(np.concatenate([[below], axis.cuts])[code])
        return np.stack(columns, axis=1)


def grid_of_states(
    features: AnyArray | None, names: Sequence[str], alive: BoolArray, weight: FloatArray, *, cuts: int = 24
) -> Grid:
    """Cells of the states (S, d) of a table; many-valued numbers are cut where `weight` (S,) has its quantiles."""
    if features is None:
        raise InvalidWorldError(
            "rules need states with features; this table has none. Hint: TabularMDP(…, features=, feature_names=)"
        )
    axes: list[Axis] = []
    for index, name in enumerate(names):
        column = features[:, index]
        if column.dtype == object and not _numbers(column):
            axes.append(Axis(name, index, None, tuple(dict.fromkeys(column[alive].tolist())), missing=False))
        else:
            axes.append(_number_axis(name, index, column.astype(np.float64), weight * alive, alive, cuts))
    places = _codes(features, axes)
    grid = Grid(tuple(axes), places, _columns(axes, places[alive]), all(axis.complete for axis in axes))
    if not grid.columns and alive.sum() == 1:
        raise InvalidWorldError(
            "rules tell states apart, and only one state decides anything here. Hint: leave max_rules out"
        )
    return _checked(grid)


def grid_of_rows(
    values: FloatArray,
    signals: FloatArray,
    names: Sequence[str],
    *,
    trials: Sequence[Trials] = (),
    most: int = MOST_CELLS,
    seed: int = 0,
) -> Grid:
    """Cells of sampled rows (n, d), cut where signals (n, k) or effects of actions differ, at most so many are met.

    Where no more are there in all, those that no row met are cells too: a rule may lead there.
    """
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise InvalidWorldError(
            f"rules in a simulator need features that are finite numbers; {names[column]!r} is "
            f"{values[row, column]} in sampled state {row}. Hint: Simulator(…, features=…) can map it to a number"
        )
    cuts = (np.empty(0),) * len(names)
    order = np.sort(values, axis=0)
    for column, wanted in _wanted(values, signals, order, trials, seed):
        more = _with_cut(order[:, column], cuts[column], wanted)
        tried = cuts if more is None else (*cuts[:column], more, *cuts[column + 1 :])
        if more is not None and met_grid(values, names, tried).size <= most:
            cuts = tried
    grid = _checked(met_grid(values, names, cuts))
    cells = [axis.cells for axis in grid.axes]
    every = math.prod(cells) <= most
    return (
        replace(grid, places=np.stack(np.unravel_index(np.arange(math.prod(cells)), cells), axis=1)) if every else grid
    )


def met_grid(values: FloatArray, names: Sequence[str], cuts: Sequence[FloatArray]) -> Grid:
    """The grid of the cells that rows (n, d) of numbers lie in."""
    axes = tuple(Axis(name, k, part, (), False) for k, (name, part) in enumerate(zip(names, cuts, strict=True)))
    codes = _codes(values, axes)
    first = np.unique(_cell_numbers(codes.T, [axis.cells for axis in axes]), return_index=True)[1]
    return Grid(axes, codes[first], _columns(axes, codes[first]))


def _columns(axes: Sequence[Axis], places: IntArray) -> tuple[Column, ...]:
    """An axis of several numbers as one column; of words one for each that is met, in the order in which they are."""
    columns: list[Column] = []
    for index, axis in enumerate(axes):
        met = [None] * (axis.cells > 1) if axis.cuts is not None else list(dict.fromkeys(places[:, index].tolist()))
        columns += [(index, word) for word in met if axis.cuts is not None or len(met) > 1]
    return tuple(columns)


def _checked(grid: Grid) -> Grid:
    if not grid.columns:
        names = ", ".join(axis.name for axis in grid.axes[:8])
        raise InvalidWorldError(
            f"rules need a feature that differs between states; these do not: {names}. Hint: give others with features="
        )
    return grid


def _codes(features: AnyArray, axes: Sequence[Axis]) -> IntArray:
    return np.stack([axis.encode(features[:, axis.column]) for axis in axes], axis=1).astype(np.int64)


def _cell_numbers(codes: IntArray, sizes: Sequence[int]) -> IntArray:
    """(n,) a number for the cell of each row, in the order of the cells; any number of axes (d, n) has room."""
    numbers, cells = np.zeros(len(codes[0]), dtype=np.int64), 1
    for column, size in zip(codes, sizes, strict=True):
        if cells * size >= 2**62:
            numbers = np.unique(numbers, return_inverse=True)[1]
            cells = len(numbers)
        numbers, cells = numbers * size + column, cells * size
    return numbers


def _numbers(column: AnyArray) -> bool:
    return all(isinstance(value, (int, float, np.integer, np.floating)) for value in column)


def _number_axis(name: str, index: int, column: FloatArray, weight: FloatArray, alive: BoolArray, cuts: int) -> Axis:
    absent = np.flatnonzero(missing_entries(column) & alive)
    if absent.size:
        raise InvalidWorldError(
            f"features of states must be numbers or categories; {name!r} is missing in state {absent[0]} "
            f"({absent.size} states). Hint: fill it, or give a category such as 'not measured'"
        )
    values = np.unique(column[alive])
    if len(values) <= max(cuts + 1, WHOLE if (values == np.round(values)).all() else 0):
        upper, whole = np.arange(1, len(values)), True
    else:
        order = np.argsort(column[alive], kind="stable")
        mass = np.cumsum(weight[alive][order] + 1e-12 + weight.sum() / len(column))  # half by visits, half by states
        at = np.searchsorted(mass, mass[-1] * np.arange(1, cuts + 1) / (cuts + 1))
        upper, whole = np.unique(np.searchsorted(values, column[alive][order][at])), False
        upper = upper[upper > 0]
    bounds = [readable_bound(float(values[u - 1]), float(values[u])) for u in upper]
    return Axis(name, index, np.array(bounds, dtype=np.float64), (), missing=False, complete=whole)


def _wanted(
    features: FloatArray, signals: FloatArray, order: FloatArray, trials: Sequence[Trials], seed: int
) -> Iterable[tuple[int, float]]:
    """(feature, threshold), the most telling first: in turn of what differs as it is, and of each action's effect."""
    scale = signals.std(axis=0)
    target = signals[:, scale > 0] / scale[scale > 0]
    ways = [_splits(features, target, LEAVES, 1, 0.0, seed)] if target.shape[1] else []
    ways += [_splits(rows, effect[:, None], EFFECTS, FEW, SURE, seed) for rows, effect in trials]
    yield from (cut for turn in zip_longest(*ways) for cut in turn if cut is not None)
    for quantile in QUANTILES:
        for column in range(features.shape[1]):
            yield column, float(order[int(quantile * (len(order) - 1)), column])


def _splits(
    rows: FloatArray, target: FloatArray, leaves: int, fewest: int, sure: float, seed: int
) -> list[tuple[int, float]]:
    """Splits of a regression tree, the most telling first, that take more than `sure` times the variance off."""
    from sklearn.tree import DecisionTreeRegressor

    model = DecisionTreeRegressor(max_leaf_nodes=leaves, min_samples_leaf=fewest, random_state=seed % 2**32)
    tree = model.fit(rows, target).tree_
    inner = np.flatnonzero(tree.children_left >= 0)
    loss = tree.impurity * tree.weighted_n_node_samples
    gain = loss[inner] - loss[tree.children_left[inner]] - loss[tree.children_right[inner]]
    ranked = inner[np.lexsort((inner, -gain))][: np.count_nonzero(gain >= sure * tree.impurity[0])]
    return [(int(tree.feature[node]), float(tree.threshold[node])) for node in ranked]


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
