"""Bounds placed on all rows, and literals that earn nothing removed.

The grid finds which features a rule speaks about and roughly where its bounds are. Here each bound moves to the best
gap between neighbouring samples: with the rows that satisfy all other conditions sorted by the feature, the best
interval is again a maximum-sum sub-array, now over samples instead of cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray
from polidiff.records.rule import Condition, Rule
from polidiff.rules.grid import Grid, readable_bound
from polidiff.rules.lists import Table


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one stage: what covering each of them earns (negative: costs)."""

    table: Table
    gain: FloatArray  # (n,) > 0 for positives, < 0 for negatives

    def take(self, index: AnyArray) -> Rows:
        """Some of the rows."""
        return Rows(self.table.take(index), self.gain[index])


def refine(rows: Rows, rules: Sequence[Rule], grid: Grid, *, sweeps: int = 3) -> tuple[Rule, ...]:
    """Move every bound to the best gap between samples near it, one rule at a time."""
    refined = list(rules)
    for k, rule in enumerate(refined):
        near = rows.table.inside(Rule(tuple(_widened(condition, grid) for condition in rule.conditions)))
        near = near[rows.gain[near] != 0]
        columns = [rows.table.columns[condition.column][near] for condition in rule.conditions]
        gain = rows.gain[near].copy()
        for other in (r for m, r in enumerate(refined) if m != k):
            taken = np.isin(near, rows.table.inside(other, near), assume_unique=True)
            gain[taken & (gain > 0)] = 0.0
        refined[k] = _refine_one(rule, columns, gain, sweeps)
    return tuple(refined)


def shorten_rules(rows: Rows, rules: Sequence[Rule], *, literal_cost: float) -> tuple[Rule, ...]:
    """Drop bounds and conditions that cost at least what they earn."""
    kept = list(rules)
    cover = [rows.table.covered_by(rule) for rule in kept]
    for k in range(len(kept)):
        gain = _gain_without(rows, cover, k)
        kept[k], cover[k] = _shorten(rows, kept[k], gain, literal_cost)
    return tuple(kept)


def keep_paying(rows: Rows, rules: Sequence[Rule], *, clause_cost: float, literal_cost: float) -> tuple[Rule, ...]:
    """Drop rules that cost at least what they earn."""
    kept = list(rules)
    cover = [rows.table.covered_by(rule) for rule in kept]
    for k in reversed(range(len(kept))):
        gain = _gain_without(rows, cover, k)
        if gain[cover[k]].sum() - clause_cost - literal_cost * kept[k].literals <= 0:
            del kept[k], cover[k]
    return tuple(kept)


def _gain_without(rows: Rows, cover: Sequence[BoolArray], k: int) -> FloatArray:
    gain = rows.gain.copy()
    for other in (c for m, c in enumerate(cover) if m != k):
        gain[other & (gain > 0)] = 0.0
    return gain


def _shorten(rows: Rows, rule: Rule, gain: FloatArray, literal_cost: float) -> tuple[Rule, BoolArray]:
    cover = rows.table.covered_by(rule)
    value = gain[cover].sum() - literal_cost * rule.literals
    while True:
        options = []
        for shorter in _shorter(rule):
            wider = rows.table.covered_by(shorter)
            options.append((gain[wider].sum() - literal_cost * shorter.literals, shorter, wider))
        best = max(options, key=lambda option: option[0], default=None)
        if best is None or best[0] < value:
            return rule, cover
        value, rule, cover = best


def _shorter(rule: Rule) -> list[Rule]:
    """Rules with one bound or one condition less."""
    shorter = []
    for place, condition in enumerate(rule.conditions):
        before, after = rule.conditions[:place], rule.conditions[place + 1 :]
        shorter.append(Rule(before + after))
        if condition.values is None and math.isfinite(condition.low) and math.isfinite(condition.high):
            shorter.append(Rule((*before, replace(condition, low=-math.inf), *after)))
            shorter.append(Rule((*before, replace(condition, high=math.inf), *after)))
    return shorter


def _widened(condition: Condition, grid: Grid) -> Condition:
    """The condition with its bounds two cells further out."""
    cuts = grid.axes[condition.column].cuts
    if cuts is None or condition.values is not None:
        return condition
    low = int(np.searchsorted(cuts, condition.low)) - 2
    high = int(np.searchsorted(cuts, condition.high)) + 2
    return replace(
        condition,
        low=float(cuts[low]) if low >= 0 else -math.inf,
        high=float(cuts[high]) if high < len(cuts) else math.inf,
    )


def _refine_one(rule: Rule, columns: Sequence[AnyArray], gain: FloatArray, sweeps: int) -> Rule:
    conditions = list(rule.conditions)
    inside = [condition.covers(column) for condition, column in zip(conditions, columns, strict=True)]
    movable = [
        k for k, c in enumerate(conditions) if c.values is None and (math.isfinite(c.low) or math.isfinite(c.high))
    ]
    for _ in range(sweeps):
        before = tuple(conditions)
        for k in movable:
            relevant = gain != 0
            for m, other in enumerate(inside):
                if m != k:
                    relevant &= other
            conditions[k] = best_bounds(conditions[k], columns[k][relevant], gain[relevant])
            inside[k] = conditions[k].covers(columns[k])
        if tuple(conditions) == before:
            break
    return Rule(tuple(conditions))


def best_bounds(condition: Condition, column: AnyArray, gain: FloatArray) -> Condition:
    """The condition with its finite bounds where they earn most.

    >>> x, gain = np.array([0.1, 0.21, 0.25, 0.29, 0.33]), np.array([-1.0, 1.0, 1.0, 1.0, -1.0])
    >>> best_bounds(Condition("y", 0, low=0.15, high=0.4), x, gain)
    Condition(feature='y', column=0, low=0.2, high=0.3, values=None, missing=False)
    """
    measured = ~np.isnan(column) if column.dtype.kind == "f" else np.ones(len(column), dtype=np.bool_)
    order = np.argsort(column[measured], kind="stable")
    x, g = column[measured][order].astype(np.float64), gain[measured][order]
    if not len(x):
        return condition
    starts = np.flatnonzero(np.r_[True, x[1:] > x[:-1]])
    levels, total = x[starts], np.add.reduceat(g, starts)
    first, last = _best_run(total, math.isfinite(condition.low), math.isfinite(condition.high))
    if total[first : last + 1].sum() <= 0:
        return condition
    low, high, end = condition.low, condition.high, len(levels) - 1
    if math.isfinite(low) and (first > 0 or low > levels[0]):
        low = readable_bound(float(levels[first - 1]) if first > 0 else -math.inf, float(levels[first]))
    if math.isfinite(high) and last < end:
        high = readable_bound(float(levels[last]), float(levels[last + 1]))
    elif high <= levels[end]:
        high = float(np.nextafter(levels[end], math.inf))
    return replace(condition, low=low, high=high)


def _best_run(total: FloatArray, low: bool, high: bool) -> tuple[int, int]:
    """First and last level of the best run that is open on the sides without a bound."""
    prefix = np.r_[0.0, np.cumsum(total)]
    if not low:
        return 0, int(prefix[1:].argmax())
    if not high:
        return int(prefix[:-1].argmin()), len(total) - 1
    lowest = np.minimum.accumulate(prefix[:-1])
    last = int((prefix[1:] - lowest).argmax())
    return int(np.flatnonzero(prefix[: last + 1] == lowest[last])[-1]), last
