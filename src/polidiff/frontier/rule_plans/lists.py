r"""Rule lists over cells: first match wins, and a rule acts only where its move is possible.

*Boxes* with a large sum of weights are found for all moves at once.

.. math:: \max_{\text{box}} \sum_{s \in \text{box}} w(s) - \lambda \cdot \#\text{literals}

A beam adds one condition at a time. Histograms of all nodes over all features come from one matrix product with the
indicator matrix of the cells; the best interval of a feature is the maximum-sum sub-array of its histogram. Negative
weights are also scaled until a node sums to zero: this finds small boxes that no single condition reveals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from polidiff.frontier.rule_plans.model import ChoiceModel, Point, point_at, value_of
from polidiff.frontier.rule_plans.moves import MoveSet
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.rules.cell_grid import Box, Grid

REMEMBERED = 6


@dataclass(frozen=True)
class BoxOptions:
    """How wide to look."""

    conditions: int = 3
    beam: int = 24  # nodes kept over all moves
    enriched: int = 12  # further nodes kept for the share of positive weight in them
    per_move: int = 6  # of these, at most so many for one move
    literal_cost: float = 0.0
    literals: int | None = None  # most of a box that is worth telling


@dataclass(frozen=True, eq=False)
class Support:
    """What must stand behind a box: weights of the free states that sum to at least `least` in it."""

    weight: FloatArray  # (n,)
    least: float

    @property
    def enough(self) -> float:
        """`least`, less what rounding may take."""
        return self.least * (1 - 1e-6)


@dataclass(frozen=True, eq=False)
class BoxFinder:
    """The cells of the free states as an indicator matrix."""

    codes: IntArray  # (n, d)
    sizes: IntArray  # (d,)
    width: int
    indicator: AnyArray  # (n, d · width) float32
    support: Support | None = None

    @classmethod
    def of(cls, cells: Grid, states: IntArray, support: Support | None = None) -> BoxFinder:
        """A finder over some of the states."""
        codes, width = cells.codes[states], int(cells.sizes.max())
        n, d = codes.shape
        indicator = np.zeros((n, d * width), dtype=np.float32)
        indicator[np.arange(n)[:, None], codes + np.arange(d) * width] = 1.0
        return cls(codes, cells.sizes, width, indicator, support)


@dataclass(frozen=True, eq=False)
class _Nodes:
    move: IntArray  # (N,)
    boxes: tuple[Box, ...]
    cover: BoolArray  # (N, n)
    first: IntArray  # (N, d)
    last: IntArray  # (N, d)


def best_boxes(finder: BoxFinder, weights: FloatArray, options: BoxOptions, top: int) -> list[ListedRule]:
    """The `top` boxes over all moves, for weights (moves, n): those with the largest sums, less what literals cost."""
    most = np.maximum(weights, 0).sum(axis=1)
    moves = np.flatnonzero(most > 1e-12 * float(np.abs(weights).sum()))
    if not moves.size:
        return []
    d = finder.codes.shape[1]
    scaled = (weights / most.max()).astype(np.float32)
    cost = options.literal_cost / float(most.max())
    nodes = _Nodes(
        moves,
        ((),) * len(moves),
        np.ones((len(moves), len(finder.codes)), dtype=np.bool_),
        np.zeros((len(moves), d), dtype=np.int64),
        np.tile(finder.sizes - 1, (len(moves), 1)),
    )
    found: dict[tuple[int, Box], float] = {(int(m), ()): float(scaled[m].sum()) for m in moves if scaled[m].sum() > 0}
    for _ in range(options.conditions):
        nodes = _grow(finder, scaled, nodes, options, cost, found)
        if not len(nodes.move):
            break
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    if options.literals is not None:
        ends = finder.sizes - 1
        ranked = [item for item in ranked if sum((a > 0) + (b < ends[c]) for c, a, b in item[0][1]) <= options.literals]
    return [rule for rule, _ in ranked[:top]]


def _grow(
    finder: BoxFinder,
    weights: AnyArray,
    nodes: _Nodes,
    options: BoxOptions,
    cost: float,
    found: dict[tuple[int, Box], float],
) -> _Nodes:
    """Add the best conditions to every node; note good boxes in `found` and return the next nodes."""
    first, last, total, positive, share = _intervals(finder, weights, nodes)
    literals = _literals(finder, nodes, first, last)
    useful = (last >= first) & ((first > nodes.first[:, None]) | (last < nodes.last[:, None])) & (positive > 0)
    useful &= _enough(finder, nodes, first, last)
    worth = np.where(useful, total - cost * literals, -np.inf)
    purity = positive / np.maximum(2 * positive - total, 1e-30) / share[:, None, None]
    rich = np.where(useful, positive * np.log(np.maximum(purity, 1e-9)) + worth, -np.inf)
    parents: dict[tuple[int, Box], tuple[int, int, int, int]] = {}
    for rank, size in ((worth, options.beam), (rich, options.enriched)):
        kept: dict[int, int] = {}
        for q in _largest(rank.ravel(), 5 * size):
            node, option, column = (int(i) for i in np.unravel_index(q, rank.shape))
            low, high = int(first[node, option, column]), int(last[node, option, column])
            move, score = int(nodes.move[node]), float(worth[node, option, column])
            key = (move, _narrowed(nodes.boxes[node], column, low, high))
            if score > 0:
                found.setdefault(key, score)
            if key not in parents and kept.get(move, 0) < options.per_move and sum(kept.values()) < size:
                parents[key] = (node, column, low, high)
                kept[move] = kept.get(move, 0) + 1
    return _children(finder, nodes, parents)


def _intervals(finder: BoxFinder, weights: AnyArray, nodes: _Nodes) -> tuple[AnyArray, ...]:
    """Best interval, prefix and suffix of every feature, and the interval at two more prices of negative weight.

    First and last cell, sum and positive sum, (N, 5, d) each; share of positive weight (N,).
    """
    d, width = len(finder.sizes), finder.width
    inside = weights[nodes.move] * nodes.cover
    some = np.flatnonzero(nodes.cover.any(axis=0))  # deeper nodes cover few states
    cells_of = finder.indicator if 2 * len(some) > len(finder.codes) else finder.indicator[some]
    part = inside if cells_of is finder.indicator else inside[:, some]
    plus = (np.maximum(part, 0) @ cells_of).reshape(-1, d, width)
    both = (part @ cells_of).reshape(-1, d, width)
    minus = plus - both
    P, N = np.maximum(inside, 0).sum(axis=1), np.maximum(-inside, 0).sum(axis=1)
    ratio = np.where(N > 1e-9, P / np.maximum(N, 1e-9), 1.0).astype(np.float32)
    cells = np.arange(width)
    exists = cells < finder.sizes[:, None]
    lows: list[AnyArray] = []
    highs: list[AnyArray] = []
    for price in (np.ones_like(ratio), ratio, 2 * ratio):
        sums = np.cumsum(plus - price[:, None, None] * minus, axis=2)
        before = np.concatenate([np.zeros((*sums.shape[:2], 1), dtype=sums.dtype), sums[:, :, :-1]], axis=2)
        least = np.minimum.accumulate(before, axis=2)
        high = np.where(exists, sums - least, -np.inf).argmax(axis=2)
        lows.append((before == np.take_along_axis(least, high[:, :, None], axis=2)).argmax(axis=2))
        highs.append(high)
        if len(lows) == 1:
            lows += [np.zeros_like(high), np.where(exists, before, np.inf).argmin(axis=2)]
            highs += [np.where(exists, sums, -np.inf).argmax(axis=2), np.broadcast_to(finder.sizes - 1, high.shape)]
    first = np.maximum(np.stack(lows, axis=1), nodes.first[:, None])
    last = np.minimum(np.stack(highs, axis=1), nodes.last[:, None])
    total, positive = _sums(both, first, last), _sums(plus, first, last)
    return first, last, total, positive, np.maximum(P / np.maximum(P + N, 1e-30), 1e-30)


def _enough(finder: BoxFinder, nodes: _Nodes, first: IntArray, last: IntArray) -> BoolArray:
    """(N, 5, d) where the box keeps enough behind it."""
    if finder.support is None:
        return np.ones(first.shape, dtype=np.bool_)
    weight = (nodes.cover * finder.support.weight).astype(np.float32) @ finder.indicator
    behind = _sums(weight.reshape(len(weight), len(finder.sizes), finder.width), first, last)
    return np.asarray(behind >= finder.support.enough)


def _sums(histogram: AnyArray, first: IntArray, last: IntArray) -> AnyArray:
    running = np.concatenate([np.zeros((*histogram.shape[:2], 1)), np.cumsum(histogram, axis=2)], axis=2)
    upper = np.take_along_axis(running, np.swapaxes(np.maximum(last, first - 1) + 1, 1, 2), axis=2)
    lower = np.take_along_axis(running, np.swapaxes(first, 1, 2), axis=2)
    return np.asarray(np.swapaxes(upper - lower, 1, 2))


def _literals(finder: BoxFinder, nodes: _Nodes, first: IntArray, last: IntArray) -> IntArray:
    top = finder.sizes - 1
    own = (nodes.first > 0).astype(np.int64) + (nodes.last < top)
    others = own.sum(axis=1)[:, None] - own
    return np.asarray(others[:, None] + (first > 0) + (last < top))


def _largest(rank: AnyArray, count: int) -> IntArray:
    if len(rank) > count:
        index = np.argpartition(-rank, count)[:count]
    else:
        index = np.arange(len(rank))
    index = index[np.isfinite(rank[index])]
    return np.asarray(index[np.lexsort((index, -rank[index]))])


def _narrowed(box: Box, column: int, low: int, high: int) -> Box:
    return tuple(sorted((*(part for part in box if part[0] != column), (column, low, high))))


def _children(finder: BoxFinder, nodes: _Nodes, parents: dict[tuple[int, Box], tuple[int, int, int, int]]) -> _Nodes:
    node, column, low, high = np.array(list(parents.values()), dtype=np.int64).reshape(-1, 4).T
    each = np.arange(len(node))
    first, last = nodes.first[node], nodes.last[node]
    first[each, column], last[each, column] = low, high
    codes = finder.codes[:, column].T
    cover = nodes.cover[node] & (codes >= low[:, None]) & (codes <= high[:, None])
    return _Nodes(nodes.move[node], tuple(box for _, box in parents), cover, first, last)


ListedRule: TypeAlias = tuple[int, Box]  # (move, box)
RuleList: TypeAlias = tuple[ListedRule, ...]


@dataclass(frozen=True)
class Scored:
    """A rule list with its exact return."""

    rules: RuleList
    expected_return: float
    changes: float
    literals: int


@dataclass(frozen=True, eq=False)
class Problem:
    """Moves, cells and the process of choices: what rule lists are valued in."""

    moves: MoveSet
    cells: Grid
    model: ChoiceModel
    finder: BoxFinder
    row: IntArray  # (moves, n) row of each move in the free states, -1 where impossible
    max_conditions: int
    max_literals: int | None
    most: FloatArray  # (m − 1,) of the changes and of each guarded outcome, ∞ without a limit
    _covers: dict[Box, BoolArray] = field(default_factory=dict, repr=False)
    _values: dict[RuleList, Scored] = field(default_factory=dict, repr=False)
    _plans: dict[bytes, FloatArray] = field(default_factory=dict, repr=False)
    _points: dict[RuleList, Point] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        moves: MoveSet,
        cells: Grid,
        model: ChoiceModel,
        max_conditions: int,
        max_literals: int | None,
        limits: Sequence[float] = (),
        budget: float | None = None,
        support: Support | None = None,
    ) -> Problem:
        """The problem for given parts."""
        choice = moves.choice[:, model.states]
        at = np.broadcast_to(np.arange(model.size), choice.shape)
        row = np.where(choice >= 0, model.row_of[at, np.maximum(choice, 0)], -1)
        finder = BoxFinder.of(cells, model.states, support)
        most = np.array([np.inf if budget is None else budget, *limits])
        return cls(moves, cells, model, finder, row, max_conditions, max_literals, most)

    @property
    def keep(self) -> int:
        """The move that changes nothing."""
        return len(self.row) - 1

    @property
    def evaluated(self) -> dict[RuleList, Scored]:
        """Every list that was valued exactly so far."""
        return self._values

    def covers(self, box: Box) -> BoolArray:
        """(n,) free states in a box."""
        inside = self._covers.get(box)
        if inside is None:
            inside = np.ones(self.model.size, dtype=np.bool_)
            for column, first, last in box:
                codes = self.finder.codes[:, column]
                inside &= (codes >= first) & (codes <= last)
            self._covers[box] = inside
        return inside

    def plan(self, rules: RuleList) -> IntArray:
        """Rows (n,) of the plan that follows the rules."""
        rows = np.array(self.model.keep)
        for move, box in reversed(rules):
            acts = self.covers(box) & (self.row[move] >= 0)
            rows[acts] = self.row[move][acts]
        return rows

    def literals(self, rules: RuleList) -> int:
        """Comparisons that a reader makes."""
        return sum(self.cells.literals(box) for _, box in rules)

    def supported(self, box: Box) -> bool:
        """Whether enough stands behind a box."""
        support = self.finder.support
        return support is None or float(support.weight[self.covers(box)].sum()) >= support.enough

    def admits(self, rules: RuleList) -> bool:
        """Whether the rules are short enough and speak about enough."""
        if any(len(box) > self.max_conditions or not self.supported(box) for _, box in rules):
            return False
        return self.max_literals is None or self.literals(rules) <= self.max_literals

    def value(self, rules: RuleList) -> FloatArray:
        """(m,) exact return, changes and guarded outcomes of a list, short enough or not."""
        plan = self.plan(rules)
        key = plan.tobytes()
        if key not in self._plans:
            self._plans[key] = value_of(self.model, plan)
        return self._plans[key]

    def remember(self, plan: IntArray, sums: FloatArray) -> None:
        """Take what a plan brings as known: worked out from a neighbour's, in a process where every plan ends."""
        if not self.model.loops and np.isfinite(sums).all():
            self._plans.setdefault(plan.tobytes(), sums)

    def score(self, rules: RuleList) -> Scored:
        """The list with its exact return, remembered; -inf if it does not keep what must be kept."""
        known = self._values.get(rules)
        if known is None:
            sums = self.value(rules)
            total = float(sums[0]) if self.keeps(sums) else -np.inf
            known = Scored(rules, total, float(sums[1]), self.literals(rules))
            self._values[rules] = known
        return known

    @property
    def limited(self) -> bool:
        """Whether changes or outcomes have limits."""
        return bool(np.isfinite(self.most).any())

    def keeps(self, sums: FloatArray) -> BoolArray:
        """Whether plans that bring (…, m) keep within the limits."""
        return np.asarray((sums[..., 1:] <= self.most + 1e-9 * (1 + np.abs(self.most))).all(axis=-1))

    def point(self, rules: RuleList) -> Point:
        """The plan of a list, ready to linearise; the last few are remembered."""
        known = self._points.pop(rules, None) or point_at(self.model, self.plan(rules))
        self._points[rules] = known
        if len(self._points) > REMEMBERED:
            self._points.pop(next(iter(self._points)))
        return known
