"""Decision lists: rules with the class they tell, first match wins, a default class at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.rule import Rule
from polidiff.rules.table import Table

Label: TypeAlias = Any  # a class as the user calls it


@dataclass(frozen=True)
class DecisionList:
    """If the first rule covers a row, its class; else the second …; else the default."""

    rules: tuple[tuple[Rule, Label], ...]
    default: Label

    def __len__(self) -> int:
        return len(self.rules)

    @property
    def literals(self) -> int:
        """Comparisons that a reader makes."""
        return sum(rule.literals for rule, _ in self.rules)


def first_matches(table: Table, rules: Sequence[Rule]) -> IntArray:
    """Index of the first rule that covers each row, `len(rules)` where none does."""
    match = np.full(table.rows, len(rules), dtype=np.int64)
    for index in reversed(range(len(rules))):
        match[table.covered_by(rules[index])] = index
    return match


def shorten(
    cover: BoolArray, told: IntArray, truth: IntArray, weight: FloatArray, default: int
) -> tuple[tuple[int, ...], ...]:
    """Nested choices of 0, 1, …, R rules: drop, one at a time, the rule whose loss is felt least.

    Parameters
    ----------
    cover : ndarray of shape (R, n)
        Which rule covers which row, in the order of the list.
    told : ndarray of shape (R,)
        The class each rule tells.
    truth, weight : ndarray of shape (n,)
        The class of each row and how much it counts.
    default : int
        The class of rows that no rule covers.

    Examples
    --------
    >>> cover = np.array([[1, 1, 0, 0], [0, 0, 1, 0]], dtype=bool)
    >>> shorten(cover, np.array([1, 1]), np.array([1, 1, 1, 0]), np.ones(4), 0)
    ((), (0,), (0, 1))
    """
    kept = list(range(len(cover)))
    right = np.array([np.where(truth == label, weight, 0.0) for label in (*told, default)])
    path = [tuple(kept)]
    while kept:
        cost = _losses(cover[kept], right[[*kept, -1]])
        del kept[int(len(kept) - 1 - cost[::-1].argmin())]
        path.append(tuple(kept))
    return tuple(reversed(path))


def _losses(cover: BoolArray, right: FloatArray) -> FloatArray:
    """Weight that would no longer be told right, for each rule of a list that is dropped."""
    size, n = cover.shape
    first, second = np.full(n, size), np.full(n, size)
    for index in reversed(range(size)):
        second = np.where(cover[index], first, second)
        first = np.where(cover[index], index, first)
    rows = np.arange(n)
    loss = right[first, rows] - right[second, rows]
    return np.bincount(first, weights=loss, minlength=size + 1)[:size].astype(np.float64, copy=False)


def best_order(cover: BoolArray, told: IntArray, truth: IntArray, weight: FloatArray, default: int) -> list[int]:
    """An order of the rules that tells the most weight right: one rule at a time is moved to where it helps most.

    Rows that the same rules cover are one. Rules stay where they are while no move helps, so that lists without
    overlaps keep their order. Arguments are those of `shorten`.

    Examples
    --------
    >>> cover = np.array([[1, 1, 1, 0], [0, 1, 0, 0]], dtype=bool)
    >>> best_order(cover, np.array([1, 2]), np.array([1, 2, 1, 0]), np.ones(4), 0)
    [1, 0]
    """
    packed = np.packbits(cover, axis=0).T
    _, first, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    size, group = len(first), group.ravel()
    same = {label: np.bincount(group, weights=weight * (truth == label), minlength=size) for label in (*told, default)}
    inside, right = cover[:, first], np.array([same[label] for label in (*told, default)])
    order, least = list(range(len(cover))), 1e-12 * float(weight.sum())
    while True:
        gain, better = least, order
        now = _told_right(inside, right, order)
        for place, rule in enumerate(order):
            rest = order[:place] + order[place + 1 :]
            for other in range(len(order)):
                moved = [*rest[:other], rule, *rest[other:]]
                more = _told_right(inside, right, moved) - now
                if more > gain:
                    gain, better = more, moved
        if better is order:
            return order
        order = better


def _told_right(cover: BoolArray, right: FloatArray, order: list[int]) -> float:
    """Weight that a list tells right; `cover` (R, groups), `right` (R + 1, groups) the last for the default."""
    match = np.vstack([cover[order], np.ones((1, cover.shape[1]), dtype=np.bool_)]).argmax(axis=0)
    return float(right[[*order, -1]][match, np.arange(cover.shape[1])].sum())


def predict(table: Table, listed: DecisionList, labels: AnyArray) -> AnyArray:
    """Class of every row; `labels` holds the told classes in order, then the default."""
    return np.asarray(labels[first_matches(table, [rule for rule, _ in listed.rules])])
