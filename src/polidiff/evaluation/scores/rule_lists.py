r"""Lists of at most K rules that gain most on scores: first match wins, no match keeps the current decision.

.. math:: \max_{\text{list}} \; \sum_i g_{i, \text{move}(i)} - \lambda \cdot \#\text{bounds}, \qquad
          g_{ia} = s_{ia} - s_{i, \text{current}}

The best single box is exact over the cells. Lists grow by the best insertion at every place and then improve rule by
rule, each replaced by the best box given the others, until no replacement helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray

Box: TypeAlias = tuple[tuple[int, int, int], ...]  # (feature, first cell, last cell)
RuleList: TypeAlias = tuple[tuple[int, Box], ...]  # (move, box); the move after the last action keeps
SWEEPS = 3
BEAM = 2


@dataclass(frozen=True)
class ListOptions:
    """How long rules may be, what must stand behind them, what a bound costs."""

    max_rules: int = 4
    max_conditions: int = 3
    min_support: float = 10.0  # logged rows that took the action where the rule acts
    price: float = 0.0  # of a bound, in standard deviations of a sum over all rows


@dataclass(frozen=True, eq=False)
class _Table:
    """Rows with equal cells as one."""

    codes: AnyArray  # (d, n)
    sizes: IntArray  # (d,)
    gains: FloatArray  # (A + 1, n); the last move keeps
    support: FloatArray  # (A + 1, n) logged rows that took each action
    price: FloatArray  # (A + 1,)
    options: ListOptions

    @property
    def keep(self) -> int:
        return len(self.gains) - 1

    def covers(self, box: Box) -> BoolArray:
        return covers(self.codes, box)

    def moves(self, rules: RuleList) -> IntArray:
        return moves_of(self.codes, rules, self.keep)

    def worth(self, rules: RuleList) -> float:
        value = self.gains[self.moves(rules), np.arange(self.gains.shape[1])].sum()
        return float(value) - sum(float(self.price[move]) * bounds_of(box, self.sizes) for move, box in rules)


def covers(codes: AnyArray, box: Box) -> BoolArray:
    """(n,) rows of codes (d, n) in a box."""
    inside = np.ones(codes.shape[1], dtype=np.bool_)
    for feature, first, last in box:
        inside &= (codes[feature] >= first) & (codes[feature] <= last)
    return inside


def moves_of(codes: AnyArray, rules: RuleList, keep: int) -> IntArray:
    """(n,) the move of the first rule that covers each row, `keep` where none does."""
    moves = np.full(codes.shape[1], keep, dtype=np.int64)
    for move, box in reversed(rules):
        moves[covers(codes, box)] = move
    return moves


def bounds_of(box: Box, sizes: IntArray) -> int:
    """Comparisons in a box."""
    return sum(int(first > 0) + int(last < sizes[feature] - 1) for feature, first, last in box)


def best_lists(
    codes: AnyArray, sizes: IntArray, gains: FloatArray, support: FloatArray, options: ListOptions
) -> list[RuleList]:
    """The best list found of at most 1, 2, … rules, for cells (d, n), gains (n, A) and logged rows (n, A)."""
    table = _merged(codes, sizes, gains, support, options)
    beam: list[tuple[float, RuleList]] = [(0.0, ()), *((0.0, ((move, ()),)) for move in range(table.keep))]
    found: list[RuleList] = []
    best = 0.0, tuple[tuple[int, Box], ...]()
    for count in range(1, options.max_rules + 1):
        grown: dict[RuleList, float] = {}
        for _, rules in beam:
            if len(rules) < count:
                for place in range(len(rules) + (0 if _has_default(rules) else 1)):
                    for option in _responses(table, rules, place, replace=False):
                        grown[option] = table.worth(option)
        waiting = [
            (worth, rules) for worth, rules in beam if len(rules) == count
        ]  # defaults, of which no list is short
        options_by_kind = [[item for item in grown.items() if _has_default(item[0]) is kind] for kind in (False, True)]
        ranked = [sorted(some, key=lambda item: (-item[1], item[0]))[:BEAM] for some in options_by_kind]
        beam = [_improved(table, rules) for rules, _ in chain(*ranked)] + waiting or beam
        beam.sort(key=lambda item: (-item[0], item[1]))
        if beam[0][0] > best[0] + 1e-9 * (1 + abs(best[0])):
            best = beam[0]
        found.append(best[1])
    return found


def _has_default(rules: RuleList) -> bool:
    """Whether the last rule speaks about everyone whom no other rule covers."""
    return bool(rules) and rules[-1][1] == ()


def _merged(codes: AnyArray, sizes: IntArray, gains: FloatArray, support: FloatArray, options: ListOptions) -> _Table:
    _, first, back = np.unique(codes.T, axis=0, return_index=True, return_inverse=True)
    size = len(first)
    total = [np.array([np.bincount(back.ravel(), column, size) for column in part.T]) for part in (gains, support)]
    keep = np.zeros((1, size))
    spread = np.sqrt((gains**2).sum(axis=0))
    price = np.append(options.price * spread, options.price * float(spread.max(initial=0.0)))
    return _Table(
        np.ascontiguousarray(codes[:, first]), sizes, np.vstack([total[0], keep]), np.vstack([total[1], keep + np.inf]),
        np.maximum(price, 1e-7 * float(np.abs(gains).sum(axis=0).max(initial=0.0)) / max(len(gains), 1)), options,
    )  # fmt: skip


def _responses(table: _Table, rules: RuleList, place: int, *, replace: bool) -> list[RuleList]:
    """Lists with the best boxes at one place, the others fixed."""
    before, after = rules[:place], rules[place + int(replace) :]
    reached = moves_of(table.codes, before, -1) < 0
    later = table.gains[table.moves(after), np.arange(len(reached))]
    gains = (table.gains - later)[:, reached]
    support = table.support[:, reached]
    moves = len(gains) if after else table.keep
    boxes = best_boxes(table, np.ascontiguousarray(table.codes[:, reached]), gains[:moves], support[:moves])
    return [(*before, (move, box), *after) for move, box in boxes]


def _improved(table: _Table, rules: RuleList) -> tuple[float, RuleList]:
    worth = table.worth(rules)
    for _ in range(SWEEPS):
        before = worth
        for place in range(len(rules)):
            for option in _responses(table, rules, place, replace=True)[:1]:
                value = table.worth(option)
                if value > worth + 1e-9 * (1 + abs(worth)):
                    rules, worth = option, value
        if worth <= before:
            break
    return worth, rules


def best_boxes(table: _Table, codes: AnyArray, gains: FloatArray, support: FloatArray) -> list[tuple[int, Box]]:
    """The best boxes over all moves, each with a feature of its own: exact for the first; only with enough support."""
    from polidiff.evaluation.scores.box_kernels import scan_boxes

    d, m, width = len(codes), len(gains), int(table.sizes.max(initial=1)) + 1
    best, box = np.full((d, m), -np.inf), np.full((d, m, 9), -1, dtype=np.int64)
    scan_boxes(codes, table.sizes, np.ascontiguousarray(gains), table.price[:m], table.options.max_conditions,
               np.zeros(width**3), best, box)  # fmt: skip
    ranked: dict[tuple[int, Box], float] = {(move, ()): float(gains[move].sum()) for move in range(m)}
    for feature in range(d):
        for move in range(m):
            if np.isfinite(best[feature, move]):
                ranked[(move, _as_box(box[feature, move], table.sizes))] = float(best[feature, move])
    useful = [
        (worth, rule) for rule, worth in ranked.items() if worth > 0 and _supported(codes, support, rule, table.options)
    ]
    return [rule for _, rule in sorted(useful, key=lambda item: (-item[0], item[1]))[: 2 * BEAM]]


def _supported(codes: AnyArray, support: FloatArray, rule: tuple[int, Box], options: ListOptions) -> bool:
    return float(support[rule[0]][covers(codes, rule[1])].sum()) >= options.min_support


def _as_box(parts: IntArray, sizes: IntArray) -> Box:
    found = [(int(f), int(low), int(high)) for f, low, high in parts.reshape(3, 3) if high >= low]
    return tuple(part for part in found if part[1] > 0 or part[2] < sizes[part[0]] - 1)


def cells_of(x: FloatArray, cuts: Sequence[FloatArray]) -> AnyArray:
    """(d, n) cell of every value: how many cuts lie at or below it."""
    return np.array(
        [np.searchsorted(c, column, side="right") for c, column in zip(cuts, x.T, strict=True)], dtype=np.uint8
    )


def cuts_of(x: FloatArray, most: int = 12) -> tuple[FloatArray, ...]:
    """Cuts of each feature: between all values if they are few, else at quantiles."""
    found = []
    for column in x.T:
        values = np.unique(column)
        if len(values) <= most + 1:
            found.append((values[1:] + values[:-1]) / 2)
        else:
            found.append(np.unique(np.quantile(column, np.arange(1, most + 1) / (most + 1))))
    return tuple(found)
