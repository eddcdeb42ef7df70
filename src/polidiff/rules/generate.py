"""Column generation for one class against the rest.

1. *Seeds*: search, take the best clause, forget the positives it covers, repeat.
2. *Rounds*: solve the master, search under its duals, add every clause of positive reduced value.
3. *Choice*: the integer master over all clauses found.
4. *Proof*, where the problem is small enough (:mod:`polidiff.rules.proof`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from polidiff.optimize import Limits
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.rules.choice import choose
from polidiff.rules.master import Master
from polidiff.rules.polish import polish
from polidiff.rules.pricing import BeamOptions, Clauses, beam
from polidiff.rules.problem import Problem
from polidiff.rules.proof import ProofOptions, prove


@dataclass(frozen=True)
class GenerationOptions:
    """How hard to search."""

    max_rules: int | None = None
    rounds: int = 60  # of the master
    patience: int = 4  # rounds in a row that lower the master by less than `progress`
    progress: float = 1e-4  # relative
    polished: int = 6  # clauses polished per search
    nodes: int = 100  # of the integer master
    columns: int = 40  # clauses up to which the integer master is solved, unless for a proof
    enrichment: BeamOptions = field(default_factory=BeamOptions)
    value: BeamOptions = field(default_factory=lambda: BeamOptions(width=5, depth=5, ratios=(1.0, 0.3), by_value=True))
    proof: ProofOptions = field(default_factory=ProofOptions)
    small: int = 5000  # distinct rows up to which the value beam runs as well


@dataclass(frozen=True)
class Clock:
    """Seconds left before `end`; no end when None."""

    end: float | None = None

    @classmethod
    def starting_now(cls, seconds: float | None) -> Clock:
        """A clock that ends `seconds` from now."""
        return cls(None if seconds is None else time.monotonic() + seconds)

    @property
    def left(self) -> float | None:
        """Seconds left, at least 0."""
        return None if self.end is None else max(0.0, self.end - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether time is up."""
        return self.end is not None and time.monotonic() >= self.end


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
    relaxed = master.solve()
    best, stalled = relaxed.objective or 0.0, 0
    for _ in range(options.rounds):
        if clock.over or not _add(master, search(problem, master.prices(relaxed), options)):
            break
        relaxed = master.solve()
        value = relaxed.objective or 0.0
        stalled = stalled + 1 if value > best - options.progress * max(best, 1e-12) else 0
        best = min(best, value)
        if stalled >= options.patience:
            break
    return _finish(problem, master, options, clock)


def search(problem: Problem, prices: FloatArray, options: GenerationOptions) -> Clauses:
    """Polished clauses of positive value under the prices, best first."""
    least = 1e-7 * max(problem.clause_cost, 1e-6 * problem.weight.sum())
    beams = [options.enrichment, *([options.value] if problem.rows <= options.small else [])]
    found = [beam(problem, prices, each).best(options.polished) for each in beams]
    masks = np.concatenate([clauses.masks for clauses in found])
    polished = polish(problem, prices, Clauses(masks, np.empty(0)))
    kept = polished.values > least
    return Clauses(polished.masks[kept], polished.values[kept]).best(int(kept.sum()))


def _seed(problem: Problem, master: Master, options: GenerationOptions, clock: Clock) -> None:
    prices = problem.gain
    master.add(problem.grid.full)
    for _ in range(options.rounds):
        found = search(problem, prices, options)
        if not len(found.values):
            return
        _add(master, found)
        prices[: problem.positives][problem.covers(found.masks[0])[: problem.positives]] = 0.0
        if clock.over:
            return


def _add(master: Master, clauses: Clauses) -> int:
    return sum([master.add(mask) for mask in clauses.masks])


def _finish(problem: Problem, master: Master, options: GenerationOptions, clock: Clock) -> Generated:
    shape = (-1, *problem.grid.full.shape)
    pool = np.array(master.masks, dtype=np.bool_).reshape(shape)
    if not len(pool):
        return Generated(pool, pool, float(problem.weight[: problem.positives].sum()), None)
    limits = Limits(time=clock.left, nodes=options.nodes)
    choice = choose(master.cover(options.max_rules), master.solve(), limits=limits, columns=options.columns)
    bound = None
    if 0 < problem.rows <= options.proof.rows and options.proof.budget and not clock.over:
        limits = Limits(time=clock.left, nodes=options.proof.nodes)
        choice, bound = prove(problem, master, choice, options.proof, limits=limits, most=options.max_rules)
    pool = np.array(master.masks, dtype=np.bool_).reshape(shape)
    return Generated(pool, pool[choice.chosen], choice.value, bound)
