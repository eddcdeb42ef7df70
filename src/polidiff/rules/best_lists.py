r"""Lists of at most K rules that gain most on rows: first match wins, no match keeps the current decision.

.. math:: \max_{\text{list}} \; \sum_i g_{i, \text{move}(i)} - \lambda \cdot \#\text{bounds}, \qquad
          g_{ia} = s_{ia} - s_{i, \text{current}}

Boxes of two features are all gone through, those of three among the features that are best in pairs: all of them where
there are few. Lists grow by the best insertion at every place and then improve rule by rule, each replaced by the best
box given the others, until no replacement helps. Where cells are few, all lists are gone through (`proven_lists`); else
what no list can exceed is the sum of the best moves of all cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from math import comb

import numpy as np

from polidiff.progress import Clock
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.rules.cell_grid import Box, RuleList, all_boxes, bounds_of, covers

SWEEPS = 3
BEAM = 2
NODES = 2000  # lists whose last rule is looked for, per number of rules
MOST_SCANNED = 50_000_000  # triples of features, moves and cells
SCREENED = 10  # features, and half as many moves, among which triples are then looked for
MOST_LISTED = 20_000_000  # boxes, moves and cells that are multiplied to go through all lists


@dataclass(frozen=True)
class ListOptions:
    """How long rules may be, what must stand behind them, what a bound costs."""

    max_rules: int = 4
    max_conditions: int = 3
    min_support: float = 10.0  # logged rows that took the action where the rule acts
    min_share: float = 0.0  # of the rows that a rule speaks about
    price: float = 0.0  # of a bound, in standard deviations of a sum over all rows
    max_literals: int | None = None  # bounds of all rules together
    clock: Clock = field(default_factory=Clock)  # when to stop looking for longer or better lists


@dataclass(frozen=True, eq=False)
class CellTable:
    """Rows with equal cells as one."""

    codes: AnyArray  # (d, n)
    sizes: IntArray  # (d,)
    gains: FloatArray  # (A + 1, n); the last move keeps
    support: FloatArray  # (A + 1, n) logged rows that took each action
    weight: FloatArray  # (n,) share of the rows
    price: FloatArray  # (A + 1,)
    named: BoolArray  # (d,) features of which a box names the last cell or says nothing
    options: ListOptions
    features: IntArray  # that boxes may speak about
    moves_tried: IntArray  # moves of boxes; the last keeps
    known: dict[tuple[RuleList, RuleList], list[RuleList]] = field(default_factory=dict)  # best boxes between rules

    @property
    def crowded(self) -> bool:
        """Whether there are too many triples of features to scan them all for every move."""
        return comb(len(self.sizes), 3) * self.gains.size > MOST_SCANNED

    @property
    def keep(self) -> int:
        return len(self.gains) - 1

    def sides(self, feature: int) -> list[tuple[int, int, int]]:
        """Conditions on a feature: first cell, cell behind the last, and bounds, those with one first."""
        size = int(self.sizes[feature])
        ends = [(a, b) for a in range(size) for b in range(a + 1, size + 1) if b == size or not self.named[feature]]
        sides = [(a, b, int(a > 0) + int(b < size)) for a, b in ends if (a, b) != (0, size)]
        return sorted(sides, key=lambda side: side[2])

    def covers(self, box: Box) -> BoolArray:
        return covers(self.codes, box)

    def moves(self, rules: RuleList) -> IntArray:
        return moves_of(self.codes, rules, self.keep)

    def supports(self, rules: RuleList) -> bool:
        """Whether enough rows stand behind every rule."""
        return supported(self.codes, self.support, self.weight, rules, self.options)

    def worth(self, rules: RuleList) -> float:
        value = self.gains[self.moves(rules), np.arange(self.gains.shape[1])].sum()
        return float(value) - sum(float(self.price[move]) * bounds_of(box, self.sizes) for move, box in rules)


def moves_of(codes: AnyArray, rules: RuleList, keep: int) -> IntArray:
    """(n,) the move of the first rule that covers each row, `keep` where none does."""
    moves = np.full(codes.shape[1], keep, dtype=np.int64)
    for move, box in reversed(rules):
        moves[covers(codes, box)] = move
    return moves


def grown_lists(table: CellTable) -> list[RuleList]:
    """The best list found of at most 1, 2, … rules."""
    table = screened(table)
    everyone = np.argsort(-table.gains[:-1].sum(axis=1), kind="stable")[: BEAM + 1]
    beam: list[tuple[float, RuleList]] = [(0.0, ()), *((0.0, ((int(move), ()),)) for move in everyone)]
    lists: list[RuleList] = []
    best: tuple[float, RuleList] = 0.0, ()
    for count in range(1, table.options.max_rules + 1):
        grown: dict[RuleList, float] = {}
        for _, rules in beam:
            if len(rules) < count:
                for place in range(len(rules) + (0 if _has_default(rules) else 1)):
                    for longer in _responses(table, rules, place, again=False):
                        grown[longer] = table.worth(longer)
            if count > 1 and table.options.clock.over():
                return lists + [best[1]] * (table.options.max_rules - len(lists))
        waiting = [item for item in beam if len(item[1]) == count]  # defaults: the next rules go in front of them
        kinds = [[item for item in grown.items() if _has_default(item[0]) is kind] for kind in (False, True)]
        ranked = [sorted(some, key=lambda item: (-item[1], item[0]))[:BEAM] for some in kinds]
        beam = [_improved(table, rules) for rules, _ in chain(*ranked)] + waiting or beam
        beam.sort(key=lambda item: (-item[0], item[1]))
        if beam[0][0] > best[0] + 1e-9 * (1 + abs(best[0])):
            best = beam[0]
        lists.append(best[1])
    return lists


def _has_default(rules: RuleList) -> bool:
    """Whether the last rule speaks about everyone whom no other rule covers."""
    return bool(rules) and rules[-1][1] == ()


def merged(
    codes: AnyArray,
    sizes: IntArray,
    gains: FloatArray,
    support: FloatArray,
    options: ListOptions,
    named: BoolArray | None = None,
) -> CellTable:
    """Rows with equal cells as one."""
    _, first, back = np.unique(codes.T, axis=0, return_index=True, return_inverse=True)
    size = len(first)
    total = [np.array([np.bincount(back.ravel(), column, size) for column in part.T]) for part in (gains, support)]
    keep = np.zeros((1, size))
    spread = np.sqrt((gains**2).sum(axis=0))
    price = np.append(options.price * spread, options.price * float(spread.max(initial=0.0)))
    return CellTable(
        codes=np.ascontiguousarray(codes[:, first]),
        sizes=sizes,
        gains=np.vstack([total[0], keep]),
        support=np.vstack([total[1], keep + np.inf]),
        weight=np.bincount(back.ravel(), minlength=size) / max(len(gains), 1),
        price=np.maximum(price, 1e-7 * float(np.abs(gains).sum(axis=0).max(initial=0.0)) / max(len(gains), 1)),
        named=np.zeros(len(sizes), dtype=np.bool_) if named is None else named,
        options=options,
        features=np.arange(len(sizes)),
        moves_tried=np.arange(gains.shape[1] + 1),
    )


def screened(table: CellTable) -> CellTable:
    """The table with the features and moves of the best boxes of two features, where triples are too many."""
    if not table.crowded:
        return table
    best = _scan(table, table.codes, table.gains[:-1], np.arange(len(table.sizes)), np.arange(table.keep), 2, {})
    features = np.sort(np.argsort(-best.max(axis=1), kind="stable")[:SCREENED])
    moves = np.sort(np.argsort(-best.max(axis=0), kind="stable")[: SCREENED // 2])
    return replace(table, features=features, moves_tried=np.append(moves, table.keep))


def _responses(table: CellTable, rules: RuleList, place: int, *, again: bool) -> list[RuleList]:
    """Lists with the best boxes at one place, the others fixed."""
    before, after = rules[:place], rules[place + int(again) :]
    if (before, after) not in table.known:
        table.known[before, after] = _best_between(table, before, after)
    return table.known[before, after]


def _best_between(table: CellTable, before: RuleList, after: RuleList) -> list[RuleList]:
    options = table.options
    if options.max_literals is not None:
        room = options.max_literals - sum(bounds_of(box, table.sizes) for _, box in (*before, *after))
        table = replace(table, options=replace(options, max_conditions=max(0, min(options.max_conditions, room))))
    reached = moves_of(table.codes, before, -1) < 0
    later = table.gains[table.moves(after), np.arange(len(reached))]
    gains = (table.gains - later)[:, reached]
    moves = len(gains) if after else table.keep
    lists = [(*before, rule, *after) for rule in best_boxes(table, reached, gains[:moves])]
    return [rules for rules in lists if not after or table.supports(rules)]


def _improved(table: CellTable, rules: RuleList) -> tuple[float, RuleList]:
    worth = table.worth(rules)
    for _ in range(SWEEPS):
        before = worth
        for place in range(len(rules)):
            for option in _responses(table, rules, place, again=True)[:1]:
                value = table.worth(option)
                if value > worth + 1e-9 * (1 + abs(worth)):
                    rules, worth = option, value
        if worth <= before or table.options.clock.over():
            break
    return worth, rules


def best_boxes(table: CellTable, reached: BoolArray, gains: FloatArray) -> list[tuple[int, Box]]:
    """The best boxes of reached cells that pay and have enough support, by gains (moves, cells), best first."""
    paying = (rule for worth, rule in ranked_boxes(table, reached, gains) if worth > 0)
    rows = table.codes[:, reached], table.support[:, reached], table.weight[reached]
    supporting = (rule for rule in paying if supported(*rows, (rule,), table.options))
    return list(islice(supporting, 2 * BEAM))


def ranked_boxes(
    table: CellTable, reached: BoolArray, gains: FloatArray, *, exact: bool = False
) -> list[tuple[float, tuple[int, Box]]]:
    """The worth of the best box of every move and feature, and of everyone; if exact, the first is the best of all."""
    codes = np.ascontiguousarray(table.codes[:, reached])
    worth: dict[tuple[int, Box], float] = {(move, ()): float(gains[move].sum()) for move in range(len(gains))}
    features, moves = table.features, table.moves_tried[table.moves_tried < len(gains)]
    if len(features) > SCREENED and not exact:
        best = _scan(table, codes, gains, features, moves, 2, worth).max(axis=1)
        features = np.sort(features[np.argsort(-best, kind="stable")[:SCREENED]])
    _scan(table, codes, gains, features, moves, 3, worth)
    return sorted(((value, rule) for rule, value in worth.items()), key=lambda item: (-item[0], item[1]))


def _scan(
    table: CellTable,
    codes: AnyArray,
    gains: FloatArray,
    features: IntArray,
    moves: IntArray,
    deepest: int,
    worth: dict[tuple[int, Box], float],
) -> FloatArray:
    """(features, moves) worth of the best boxes over some features; those that pay are also noted in `worth`."""
    from polidiff.rules.kernels import scan_boxes

    sizes = table.sizes[features]
    best, box = np.full((len(features), len(moves)), -np.inf), np.full((len(features), len(moves), 9), -1)
    room = np.zeros(((int(sizes.max(initial=1)) + 1) ** 3, len(moves)))
    sides = [table.sides(feature) for feature in features.tolist()]
    begins = np.cumsum([0, *map(len, sides)])
    options = table.price[moves], table.options.max_conditions, deepest
    inside, added = np.ascontiguousarray(codes[features]), np.ascontiguousarray(gains[moves].T)
    scan_boxes(inside, sizes, added, np.array([*chain(*sides), (0, 1, 0)]), begins, *options, room, best, box)
    for f, m in np.argwhere(best > 0).tolist():
        parts = tuple((int(features[g]), first, last) for g, first, last in _as_box(box[f, m].tolist(), sizes))
        worth[(int(moves[m]), parts)] = float(best[f, m])
    return best


def supported(codes: AnyArray, support: FloatArray, weight: FloatArray, rules: RuleList, options: ListOptions) -> bool:
    """Whether enough rows, by `support` (A + 1, n) and `weight` (n,), stand behind every rule."""
    left = np.ones(codes.shape[1], dtype=np.bool_)
    for move, box in rules:
        inside = left & covers(codes, box)
        if support[move][inside].sum() < options.min_support or weight[inside].sum() < options.min_share:
            return False
        left &= ~inside
    return True


def _as_box(parts: list[int], sizes: IntArray) -> Box:
    found = [tuple(parts[k : k + 3]) for k in (0, 3, 6)]
    return tuple((f, low, high) for f, low, high in found if high >= low and (low > 0 or high < sizes[f] - 1))


def refined(codes: AnyArray, sizes: IntArray, gains: FloatArray, rules: RuleList) -> RuleList:
    """The list with every bound moved to where it gains most, the others fixed, over the cells (d, n) of all rows.

    `gains` (n, A + 1) has a column for keeping what is done. A move of a bound changes what happens to the rows between
    its old and its new place; sums over the cells of one feature say which place is best.
    """
    for _ in range(SWEEPS):
        before = rules
        for place in range(len(rules)):
            for side in range(len(rules[place][1])):
                rules = _moved_bounds(codes, sizes, gains, rules, place, side)
        if rules == before:
            break
    return rules


def _moved_bounds(
    codes: AnyArray, sizes: IntArray, gains: FloatArray, rules: RuleList, place: int, side: int
) -> RuleList:
    """One condition with its lower, then its upper bound where they gain most."""
    move, box = rules[place]
    feature, first, last = box[side]
    rest, keep = box[:side] + box[side + 1 :], gains.shape[1] - 1
    here = covers(codes, rest) & (moves_of(codes, rules[:place], -1) < 0)
    later = moves_of(codes[:, here], rules[place + 1 :], keep)
    change = gains[here, move] - gains[here][np.arange(len(later)), later]
    sums = np.concatenate([[0.0], np.cumsum(np.bincount(codes[feature, here], change, int(sizes[feature])))])
    scale = 1e-9 * (1 + float(np.abs(change).sum()))
    if first > 0:
        lower = int(np.argmin(sums[1 : last + 1])) + 1
        first = lower if sums[lower] < sums[first] - scale else first
    if last < sizes[feature] - 1:
        upper = int(np.argmax(sums[first + 1 : -1])) + first
        last = upper if sums[upper + 1] > sums[last + 1] + scale else last
    new = (*box[:side], (feature, first, last), *box[side + 1 :])
    return (*rules[:place], (move, new), *rules[place + 1 :])


@dataclass(frozen=True)
class ProvenList:
    """A list, and what no list of as many rules is worth more than."""

    rules: RuleList
    worth: float
    bound: float


def proven_lists(table: CellTable, lists: Sequence[RuleList], nodes: int = NODES) -> list[ProvenList]:
    """Lists with bounds: one rule is the best box; more rules are gone through while there are few to go through.

    Depth first: every first rule that could still lead to more than the best list, then every second one, the last
    rule always by the scan over all boxes. What could still be reached is the worth so far and the best move of every
    cell that is left. Bounds leave support aside.
    """
    search = _Search(table, _all_rules(table), nodes)
    return [search.proven(rules, count + 1) for count, rules in enumerate(lists)]


@dataclass(eq=False)
class _Search:
    """All lists of a few rules over few cells."""

    table: CellTable
    rules: list[tuple[int, Box]] | None  # every rule there is; None: too many
    nodes: int
    best: RuleList = ()
    worth: float = 0.0
    open_bound: float = -np.inf  # of what was not gone through

    def proven(self, rules: RuleList, count: int) -> ProvenList:
        worth = self.table.worth(rules)
        if worth >= self.worth:
            self.best, self.worth = rules, worth
        self.open_bound = -np.inf
        everywhere = np.ones(self.table.gains.shape[1], dtype=np.bool_)
        self._visit((), everywhere, 0.0, count, self.nodes)
        return ProvenList(self.best, self.worth, max(self.worth, self.open_bound))

    def _visit(self, rules: RuleList, left: BoolArray, worth: float, count: int, nodes: int) -> int:
        """Go through all lists that begin with these rules; the nodes that are left."""
        table = self.table
        if table.crowded or table.options.clock.over():
            self.open_bound = max(self.open_bound, worth + float(table.gains.max(axis=0)[left].sum()))
            return nodes
        if count == 1:
            for _, rule in ranked_boxes(table, left, table.gains[:-1, left], exact=True)[:1]:
                self._offer((*rules, rule))
            return nodes - 1
        ceiling = table.gains.max(axis=0)
        if self.rules is None:
            self.open_bound = max(self.open_bound, worth + float(ceiling[left].sum()))
            return nodes
        options = []
        for move, box in self.rules:
            inside = left & table.covers(box)
            after = worth + float(table.gains[move][inside].sum()) - table.price[move] * bounds_of(box, table.sizes)
            options.append((after + float(ceiling[left & ~inside].sum()), after, move, box))
        for bound, after, move, box in sorted(options, key=lambda item: (-item[0], item[2:])):
            if bound <= self.worth + 1e-9 * (1 + abs(self.worth)):
                break
            if nodes <= 0:
                self.open_bound = max(self.open_bound, bound)
                break
            nodes = self._visit((*rules, (move, box)), left & ~table.covers(box), after, count - 1, nodes)
        return nodes

    def _offer(self, rules: RuleList) -> None:
        worth, most = self.table.worth(rules), self.table.options.max_literals
        short = most is None or sum(bounds_of(box, self.table.sizes) for _, box in rules) <= most
        if worth > self.worth and short and self.table.supports(rules):
            self.best, self.worth = rules, worth
        elif worth > self.worth:
            self.open_bound = max(self.open_bound, worth)


def _all_rules(table: CellTable) -> list[tuple[int, Box]] | None:
    """Every box with every move; None where these, times the cells, are too many."""
    sides = [[(f, a, b - 1) for a, b, _ in table.sides(f)] for f in range(len(table.sizes))]
    most = min(3, table.options.max_conditions)
    if sum(map(len, sides)) ** most * len(table.gains) * table.gains.shape[1] > MOST_LISTED:
        return None
    boxes = [box for box in all_boxes(sides, most) if bounds_of(box, table.sizes) <= table.options.max_conditions]
    return [(move, box) for move in range(len(table.gains)) for box in boxes if box or move < table.keep]
