"""Column generation for one class against the rest.

1. *Seeds*: search, take the best clause, forget the positives it covers, repeat.
2. *Rounds*: solve the master, search under its duals, first near the clauses it holds, then afresh; add every clause
   of positive reduced value.
3. *Choice*: the integer master over all clauses found; the chosen ones are polished with the others held fixed.
4. *Proof*, where the problem is small enough (:mod:`polidiff.rules.proof`).

Search for clauses with a good reduced value: a beam over histograms.

Under row prices :math:`r_i` (≥ 0 for positives, :math:`-w_i` for negatives) the value of a clause is
:math:`\\sum_{i \\in k} r_i - c_0 - c_1 |k|`. One condition of a small box in a large background has a negative value,
so a beam ranked by value never gets to the second condition. Therefore two rankings share one beam. By *enrichment*:
the negatives of a node are weighed so that the node sums to zero, the best segment is taken under these weights, and
children are ranked by FOIL's gain

.. math:: p \\left( \\log \\frac{p}{p+q} - \\log \\frac{P}{P+Q} \\right).

By *value*: the best segment under the true prices (and under a share of the negatives), ranked by the mean of value
and upper bound.

Clauses are polished by coordinate ascent under the true prices, one feature's cells at a time, the best first. For
feature j the rows that matter satisfy all other conditions; the best segment of their histogram replaces the
present cells of j. Adding, moving and dropping a condition are all this one move, and the value never falls.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from polidiff.optimize import Limits, Solution
from polidiff.progress import Clock
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.rules.grid import Problem, priced
from polidiff.rules.master import Choice, Master, choose
from polidiff.rules.proof import ProofOptions, prove

STEPS = 12  # changes of a clause while it is polished


@dataclass(frozen=True)
class BeamOptions:
    """How widely to search."""

    enriched: int = 8  # nodes kept on each level by enrichment, at least 1
    valued: int = 5  # nodes kept on each level by value
    depth: int = 6  # levels
    ratios: tuple[float, ...] = (1.0, 2.0, 0.7)  # weight of negatives in a node, relative to balance
    shares: tuple[float, ...] = (1.0, 0.3)  # weight of negatives, relative to the true prices


@dataclass(frozen=True, eq=False)
class Clauses:
    """Clauses on the grid with their values under the prices they were made for."""

    masks: BoolArray  # (K, d, width)
    values: FloatArray  # (K,)

    def best(self, count: int) -> Clauses:
        """The most valuable ones, first come first on ties."""
        order = np.argsort(-self.values, kind="stable")[:count]
        return Clauses(self.masks[order], self.values[order])


def beam(problem: Problem, prices: FloatArray, options: BeamOptions) -> Clauses:
    """All clauses that the beam kept, with their values."""
    codes, price = priced(problem, prices)
    positive = float(price[price > 0].sum())
    if positive <= 0:
        return Clauses(np.empty((0, *problem.grid.full.shape), dtype=np.bool_), np.empty(0))
    share = np.log(positive / float(np.abs(price).sum()))
    work = _Work.of(problem, share, options)
    rows = codes, (price < 0).astype(np.uint8), np.abs(price)
    level = _Level.of(problem, len(price))
    found: list[Clauses] = []
    for _ in range(options.depth):
        level, kept = _children(work, rows, level)
        if not len(kept.values):
            break
        found.append(kept)
    return Clauses(
        np.concatenate([problem.grid.full[None][:0], *(c.masks for c in found)]),
        np.concatenate([np.empty(0), *(c.values for c in found)]),
    )


@dataclass(frozen=True, eq=False)
class _Level:
    masks: BoolArray  # (K, d, width)
    known: IntArray  # (K, d) literals
    names: IntArray  # (K,) a number for each set of cells
    told: IntArray  # (K, 3) parent, feature and its literals
    picked: BoolArray  # (K, width) cells of the feature
    rows: AnyArray  # (parents, n) priced rows that each parent covers, the first `size` entries
    size: IntArray  # (parents,)

    @classmethod
    def of(cls, problem: Problem, rows: int) -> _Level:
        """All rows as the only node, as if it came from itself."""
        full = problem.grid.full
        nothing = np.zeros((1, max(3, len(full))), dtype=np.int64)
        return cls(
            full[None],
            nothing[:, : len(full)].copy(),
            nothing[:, 0].copy(),
            nothing[:, :3].copy(),
            full[:1],
            np.arange(rows, dtype=np.int32)[None],
            np.array([rows]),
        )


@dataclass(frozen=True, eq=False)
class _Work:
    """What a beam asks, and arrays to work in."""

    relative: BoolArray  # (W,) whether a weight of negatives is relative to balance
    weights: FloatArray  # (W,)
    asked: tuple[AnyArray, ...]  # axes, names of cells, costs, price of a literal per weight, ends of the two lists
    room: tuple[AnyArray, ...]  # gains and cells of each feature
    scores: FloatArray  # (2, slots) of the two lists, best first
    order: IntArray  # (2, slots) slots in that order
    slots: tuple[AnyArray, ...]  # key, (parent, feature, literals), value, cells of each slot

    @classmethod
    def of(cls, problem: Problem, share: float, options: BeamOptions) -> _Work:
        d, width = problem.grid.full.shape
        relative = np.repeat([True, False], [len(options.ratios), len(options.shares)])
        costs = np.array([problem.clause_cost, problem.literal_cost, share])
        widths = [options.enriched, options.valued] if options.valued else [options.enriched]
        most = max(widths)
        return cls(
            relative,
            np.array(options.ratios + options.shares),
            (problem.grid.layout, _names(d, width), costs, problem.literal_cost * ~relative, np.array(widths) - 1),
            (np.empty((d, width)), np.zeros((d, width), dtype=np.bool_)),
            np.empty((2, most)),
            np.arange(2 * most).reshape(2, most),
            (
                np.empty(2 * most, dtype=np.int64),
                np.empty((2 * most, 3), dtype=np.int64),
                np.empty(2 * most),
                np.zeros((2 * most, width), dtype=np.bool_),
            ),
        )

    def scales(self, hist: FloatArray) -> FloatArray:
        """Weight of the negatives of each node, for each of the weights asked for: (K, W)."""
        mass = hist[:, :, 0].cumsum(axis=-1)[:, :, -1:]
        positive, negative = mass[:, 0], mass[:, 1]
        balance = self.weights * positive / np.where(negative > 0, negative, np.inf)
        return np.where(self.relative, balance, self.weights)


def _children(work: _Work, priced: tuple[AnyArray, ...], level: _Level) -> tuple[_Level, Clauses]:
    """The best children of a level that differ."""
    from polidiff.rules.kernels import narrow, offer

    count, d, width = level.masks.shape
    rows, size = np.empty((count, level.rows.shape[1]), dtype=np.int32), np.empty(count, dtype=np.int64)
    hist = np.zeros((count, 2, d, width))
    narrow(level.rows, level.size, level.told, level.picked, priced, rows, size, hist)
    nodes = (level.masks, level.known, level.known.sum(axis=1), level.names, work.scales(hist))
    keys, told, values, picked = work.slots
    work.scores[:], keys[:] = -np.inf, -1
    offer(hist, nodes, work.asked, work.room, work.scores, work.order, work.slots)
    first: dict[int, int] = {}
    for slot in work.order[work.scores > -np.inf].tolist():
        first.setdefault(int(keys[slot]), slot)
    kept = list(first.values())
    told, picked, child = told[kept], picked[kept], np.arange(len(kept))
    masks, known = level.masks[told[:, 0]], level.known[told[:, 0]]
    masks[child, told[:, 1]] = picked
    known[child, told[:, 1]] = told[:, 2]
    return _Level(masks, known, keys[kept], told, picked, rows, size), Clauses(masks, values[kept])


@lru_cache(maxsize=16)
def _names(d: int, width: int) -> IntArray:
    """A random number for every cell; a clause is named by the sum over the cells it leaves out."""
    return np.random.default_rng(0).integers(0, 2**62, (d, width))


def polish(problem: Problem, prices: FloatArray, masks: BoolArray) -> Clauses:
    """Clauses whose value no change of a single feature improves (or `STEPS` changes later); equal ones once."""
    from polidiff.rules.kernels import ascend

    codes, price = priced(problem, prices)
    masks, (d, width) = masks.copy(), problem.grid.full.shape
    known, totals = np.ascontiguousarray(problem.grid.literals(masks)), np.empty(len(masks))
    costs = np.array([problem.literal_cost, 1e-9 * max(problem.clause_cost, 1e-3)])
    room = np.empty((d, width)), np.zeros((d, width), dtype=np.bool_), np.empty(d, dtype=np.int64)
    ascend((codes, price, problem.grid.layout, costs), masks, known, room, totals, STEPS)
    values = totals - problem.clause_cost - problem.literal_cost * known.sum(axis=1)
    kept = _first_of_equals(masks)
    return Clauses(masks[kept], values[kept])


def _first_of_equals(masks: BoolArray) -> IntArray:
    seen: dict[bytes, int] = {}
    for k, mask in enumerate(masks):
        seen.setdefault(mask.tobytes(), k)
    return np.array(list(seen.values()), dtype=np.int64)


@dataclass(frozen=True)
class GenerationOptions:
    """How hard to search."""

    max_rules: int | None = None
    rounds: int = 60  # of the master
    patience: int = 4  # fresh searches that lower the master by less than `progress`
    progress: float = 1e-4  # relative
    polished: int = 12  # clauses polished per search
    settling: int = 3  # times the chosen clauses are polished together
    nodes: int = 100  # of the integer master
    columns: int = 0  # clauses up to which the integer master is solved, unless for a proof
    beam: BeamOptions = field(default_factory=BeamOptions)
    large: BeamOptions = field(default_factory=lambda: BeamOptions(valued=0, shares=()))  # above `small` rows
    proof: ProofOptions = field(default_factory=ProofOptions)
    small: int = 5000  # distinct rows up to which clauses are ranked by value as well


def generate(problem: Problem, options: GenerationOptions, clock: Clock) -> tuple[BoolArray, float | None]:
    """Clauses (K, d, width) that describe the positives of a problem, and a bound in the unit of the weights.

    The bound is below the objective of every set of clauses on the grid; None unless proven.
    """
    master = Master(problem)
    _seed(problem, master, options, clock)
    _grow(problem, master, options, clock)
    limits = Limits(time=clock.limit(), nodes=options.nodes)
    choice = choose(master.cover(options.max_rules), master.solve(), limits=limits, columns=options.columns)
    choice = _settle(problem, master, choice, options, limits)
    bound = None
    if 0 < problem.rows <= options.proof.rows and options.proof.budget and not clock.over():
        limits = Limits(time=clock.limit(), nodes=options.proof.nodes)
        choice, bound = prove(problem, master, choice, options.proof, limits=limits, most=options.max_rules)
    return master.masks[choice.chosen], bound


def search(problem: Problem, prices: FloatArray, options: GenerationOptions) -> Clauses:
    """Clauses of positive value under the prices, from a beam, polished, best first."""
    clauses = beam(problem, prices, options.beam if problem.rows <= options.small else options.large)
    return _polished(problem, prices, clauses.best(options.polished).masks)


def _search_freely(problem: Problem, prices: FloatArray, options: GenerationOptions) -> Clauses:
    """As `search`, as if reading cost nothing until the last step: costs can hide the way to a box of many bounds."""
    free = search(replace(problem, clause_cost=0.0, literal_cost=0.0), prices, options)
    return _polished(problem, prices, free.masks)


def _polished(problem: Problem, prices: FloatArray, masks: BoolArray) -> Clauses:
    clauses = polish(problem, prices, masks)
    paying = clauses.values > 1e-7 * max(problem.clause_cost, 1e-6 * problem.weight.sum())
    return Clauses(clauses.masks[paying], clauses.values[paying]).best(len(masks))


def _seed(problem: Problem, master: Master, options: GenerationOptions, clock: Clock) -> None:
    """Greedy covers: of the clauses found take the best, forget its positives, and so on; then search again."""
    prices = problem.gain
    master.add(problem.grid.full[None])
    for turn in range(options.rounds):
        found = search(problem, prices, options)
        if not len(found.values) and turn == 0:
            found = _search_freely(problem, prices, options)
        if not len(found.values):
            return
        master.add(found.masks)
        covers = problem.covers(found.masks)
        own, cost = covers[:, : problem.positives], problem.clause_prices(found.masks)
        cost -= covers[:, problem.positives :] @ prices[problem.positives :]
        while (value := own @ prices[: problem.positives] - cost).max() > 0:
            prices[: problem.positives][own[value.argmax()]] = 0.0
        if clock.over():
            return


def _grow(problem: Problem, master: Master, options: GenerationOptions, clock: Clock) -> None:
    """Rounds of the master: polish what it holds under the new prices; search afresh when that no longer helps."""
    relaxed, stalled, fresh = master.solve(), 0, False
    for _ in range(options.rounds):
        prices = master.prices(relaxed)
        clauses = (
            search(problem, prices, options) if fresh else _polished(problem, prices, _near(master, relaxed, options))
        )
        if clock.over() or (not master.add(clauses.masks) and fresh):
            return
        before, relaxed = relaxed.objective or 0.0, master.solve()
        gained = before - (relaxed.objective or 0.0) > options.progress * max(before, 1e-12)
        stalled += fresh and not gained
        if stalled >= options.patience:
            return
        fresh = not gained


def _settle(problem: Problem, master: Master, choice: Choice, options: GenerationOptions, limits: Limits) -> Choice:
    """Polish each chosen clause with the others held fixed, and choose again, while that helps."""
    for _ in range(options.settling):
        masks, mine = master.masks[choice.chosen], slice(problem.positives)
        covers = problem.covers(masks)[:, mine]
        count = covers.sum(axis=0)
        moved = [problem.grid.full[None][:0]]
        for mask, own in zip(masks, covers, strict=True):
            prices = problem.gain
            prices[mine][count > own] = 0.0
            moved.append(polish(problem, prices, mask[None]).masks)
        if not master.add(np.concatenate(moved)):
            break
        cover = master.cover(options.max_rules)
        better = choose(cover, master.solve(), limits=limits, columns=options.columns, start=choice.chosen)
        if better.value >= choice.value:
            break
        choice = better
    return choice


def _near(master: Master, relaxed: Solution, options: GenerationOptions) -> BoolArray:
    """Clauses of the master that come nearest to a positive value."""
    assert relaxed.values is not None
    order = np.argsort(master.costs - relaxed.values @ master.member, kind="stable")
    return master.masks[order[: options.polished]]
