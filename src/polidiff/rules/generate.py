"""Column generation for one class against the rest.

1. *Seeds*: search, take the best clause, forget the positives it covers, repeat.
2. *Rounds*: solve the master, search under its duals, first near the clauses it holds, then afresh; add every clause
   of positive reduced value.
3. *Choice*: the integer master over all clauses found; the chosen ones are polished with the others held fixed.
4. *Proof*, where the problem is small enough (:mod:`polidiff.rules.proof`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from polidiff.optimize import Clock, Limits, Solution
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.rules.master import Choice, Master, choose
from polidiff.rules.pricing import BeamOptions, Clauses, beam, polish
from polidiff.rules.problem import Problem
from polidiff.rules.proof import ProofOptions, prove


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


@dataclass(frozen=True, eq=False)
class Generated:
    """Clauses found for one problem and the ones chosen, in the unit of the weights."""

    pool: BoolArray  # (clauses, d, width)
    chosen: BoolArray  # (K, d, width)
    objective: float
    bound: float | None  # below the objective of every set of clauses on the grid; None unless proven


def generate(problem: Problem, options: GenerationOptions, clock: Clock) -> Generated:
    """Clauses that describe the positives of a problem."""
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
    return Generated(master.masks, master.masks[choice.chosen], choice.value, bound)


def search(problem: Problem, prices: FloatArray, options: GenerationOptions) -> Clauses:
    """Clauses of positive value under the prices, from a beam, polished, best first."""
    found = beam(problem, prices, options.beam if problem.rows <= options.small else options.large)
    return _polished(problem, prices, found.best(options.polished).masks)


def _search_freely(problem: Problem, prices: FloatArray, options: GenerationOptions) -> Clauses:
    """As `search`, as if reading cost nothing until the last step: costs can hide the way to a box of many bounds."""
    free = search(replace(problem, clause_cost=0.0, literal_cost=0.0), prices, options)
    return _polished(problem, prices, free.masks)


def _polished(problem: Problem, prices: FloatArray, masks: BoolArray) -> Clauses:
    found = polish(problem, prices, masks)
    kept = found.values > 1e-7 * max(problem.clause_cost, 1e-6 * problem.weight.sum())
    return Clauses(found.masks[kept], found.values[kept]).best(len(masks))


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
        found = (
            search(problem, prices, options) if fresh else _polished(problem, prices, _near(master, relaxed, options))
        )
        if clock.over() or (not master.add(found.masks) and fresh):
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
