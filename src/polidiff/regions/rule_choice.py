r"""The best few rules of many: lists of 1, 2, 3 … rules that tell a difference as well as they can.

With :math:`w(\cdot)` the weight of visits,

.. math:: F_1 = \frac{2\, w(\text{told rightly})}{w(\text{covered}) + w(\text{diverging})},

so that a rule is worth taking where its precision exceeds :math:`F_1 / 2`: a difference that is hard to tell is told
best by rules that cover more. Lists grow by the rule that adds most, first or last in the list, and a rule is exchanged
while that helps.

A sample of visits flatters rules that were fitted to it, those that cover few visits most. So there are three ways to
lists: as above; with what a rule of n visits tells rightly counted as n / (n + `DOUBT`) of it; and the leaves of trees
as they grew. Visits that made no rules decide between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.rule import Rule
from polidiff.rules.learners import Listed

DOUBT = 10  # visits of a rule that counts half


@dataclass(frozen=True, eq=False)
class Pool:
    """Rules with the labels they tell, and the visits they cover; visits that all rules cover alike are one."""

    rules: Listed
    cover: FloatArray  # (R, G) 0 or 1
    mass: FloatArray  # (G,)
    own: FloatArray  # (R, G) weight of the label that each rule tells
    diverging: float  # weight
    price: FloatArray  # (R,) of reading each rule

    @classmethod
    def of(cls, lists: Sequence[Listed], X: AnyArray, label: IntArray, weight: FloatArray, price: float) -> Pool:
        """The distinct rules of some lists on rows X (n, d); a literal costs `price`."""
        rules = tuple(dict.fromkeys(entry for listed in lists for entry in listed))
        cover = np.array([rule.covers(X) for rule, _ in rules]).reshape(len(rules), len(X))
        _, first, group = np.unique(np.packbits(cover, axis=0).T, axis=0, return_index=True, return_inverse=True)
        size, group = len(first), group.ravel()
        of_label = {k: np.bincount(group, weight * (label == k), size) for k in {told for _, told in rules}}
        inside = cover[:, first].astype(np.float64)
        own = np.array([inside[j] * of_label[told] for j, (_, told) in enumerate(rules)]).reshape(inside.shape)
        literals = np.array([rule.literals for rule, _ in rules], dtype=np.float64)
        mass = np.bincount(group, weight, size).astype(np.float64)
        return cls(rules, inside, mass, own, float(weight[label > 0].sum()), price * literals)

    def doubted(self, visits: int) -> Pool:
        """The pool of so many `visits` where rules count for less the fewer visits they cover."""
        covered = self.cover @ self.mass
        share = covered / (covered + DOUBT * self.mass.sum() / visits)
        return replace(self, own=np.rint(self.own * share[:, None] * 2**17) / 2**17)  # sums stay exact

    def told(self, chosen: Sequence[int]) -> tuple[FloatArray, BoolArray]:
        """Weight told rightly in each group of visits by a list of rules, and whether it is covered."""
        right, covered = np.zeros(len(self.mass)), np.zeros(len(self.mass), dtype=np.bool_)
        for j in reversed(chosen):
            inside = self.cover[j] > 0
            right[inside] = self.own[j][inside]
            covered |= inside
        return right, covered

    def worth(self, chosen: Sequence[int]) -> float:
        """F1 of a list, less the price of reading it."""
        right, covered = self.told(chosen)
        f1 = 2 * right.sum() / (self.mass[covered].sum() + self.diverging)
        return float(f1 - self.price[list(chosen)].sum())

    def extended(self, chosen: list[int]) -> list[int]:
        """The list with the rule that adds most, read first or last."""
        right, covered = self.told(chosen)
        reach = self.mass[covered].sum() + self.cover @ np.where(covered, 0.0, self.mass) + self.diverging
        last = right.sum() + self.own @ (~covered).astype(np.float64)
        first = right.sum() + self.own.sum(axis=1) - self.cover @ right
        worth = 2 * np.stack([last, first]) / reach - self.price
        worth[:, chosen] = -np.inf
        place, j = np.unravel_index(int(worth.argmax()), worth.shape)
        return [int(j), *chosen] if place else [*chosen, int(j)]


def best_lists(pool: Pool, known: Sequence[Listed], most: int) -> list[Listed]:
    """Lists of 0, 1, …, `most` rules: grown one by one, or a list that is `known`, whichever is worth more."""
    place = {entry: j for j, entry in enumerate(pool.rules)}
    starts = [[place[entry] for entry in listed] for listed in known]
    chosen: list[int] = []
    lists: list[Listed] = [()]
    for size in range(1, min(most, len(pool.rules)) + 1):
        options = [pool.extended(chosen), *(start for start in starts if len(start) == size)]
        chosen = _exchanged(pool, max(options, key=pool.worth))
        lists.append(tuple(pool.rules[j] for j in chosen))
    return lists


def known_lists(pool: Pool, known: Sequence[Listed], most: int) -> list[Listed]:
    """Of the lists that are `known`, the one worth most of at most 0, 1, …, `most` rules."""
    place = {entry: j for j, entry in enumerate(pool.rules)}
    worth = {listed: pool.worth([place[entry] for entry in listed]) for listed in [(), *known]}
    sizes = range(min(most, len(pool.rules)) + 1)
    return [max((listed for listed in worth if len(listed) <= size), key=worth.__getitem__) for size in sizes]


def _exchanged(pool: Pool, chosen: list[int]) -> list[int]:
    """The list while taking one rule out for the best other one helps."""
    best = pool.worth(chosen)
    while True:
        others = [pool.extended(chosen[:k] + chosen[k + 1 :]) for k in range(len(chosen))]
        better = max(others, key=pool.worth)
        if pool.worth(better) <= best + 1e-9:
            return chosen
        chosen, best = better, pool.worth(better)


def shortened(entry: tuple[Rule, int], X: AnyArray, label: IntArray, weight: FloatArray, most: int) -> tuple[Rule, int]:
    """The rule with at most `most` conditions: those are dropped without which it tells most."""
    rule, which = entry
    gain = np.where(label == which, weight, -weight / 2)
    while len(rule.conditions) > most:
        shorter = [Rule(rule.conditions[:k] + rule.conditions[k + 1 :]) for k in range(len(rule.conditions))]
        rule = max(shorter, key=lambda one: float(gain[one.covers(X)].sum()))
    return rule, which
