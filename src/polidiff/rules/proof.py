"""A bound below every set of clauses on the grid, and the best set where it can be reached.

The restricted master is not a bound: clauses that were never generated may lower it. It becomes one when exact pricing
finds no clause of positive value. Then every clause of an optimal set has a reduced cost of at most the distance
between the best set known and the master, so an integer program over those clauses proves the optimum.

When exact pricing has to stop and no clause is worth more than δ, the duals divided by
:math:`1 + \\delta / c_{\\min}` are feasible for all clauses (Farley), and

.. math:: \\frac{z_{LP}}{1 + \\delta / c_{\\min}} \\le z^*, \\quad c_{\\min} = \\text{the price of the cheapest clause}.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polidiff.optimize import Limits, Solution
from polidiff.rules.choice import Choice, choose
from polidiff.rules.exact import Enumerated, enumerate_clauses
from polidiff.rules.master import Master
from polidiff.rules.problem import Problem


@dataclass(frozen=True)
class ProofOptions:
    """How much work a proof may take."""

    budget: int = 20_000  # partial clauses with their segments, per level of the enumeration
    rows: int = 2_000  # distinct rows, above which no proof is tried
    rounds: int = 100  # of exact pricing
    added: int = 20  # clauses taken in per round
    columns: int = 5_000  # clauses in the last integer program
    nodes: int = 500  # of that program


def prove(
    problem: Problem, master: Master, choice: Choice, options: ProofOptions, *, limits: Limits, most: int | None
) -> tuple[Choice, float | None]:
    """The choice, improved where exact pricing finds better clauses, and a bound below every choice (None: none)."""
    solution = master.solve()
    grown = False
    for _ in range(options.rounds):
        found = _price(problem, master, solution, 1e-7 * max(problem.clause_cost, 1e-6 * problem.weight.sum()), options)
        if found.open is not None:
            return choice, _farley(problem, solution, found.open)
        if not len(found.values):
            break
        best = np.argsort(-found.values, kind="stable")[: options.added]
        grown |= master.add(found.masks[best]) > 0
        solution = master.solve()
    else:
        return choice, None
    if grown:
        choice = choose(master.cover(most), solution, limits=limits, columns=options.columns, start=choice.chosen)
    return _close(problem, master, choice, solution, options, limits, most)


def _close(
    problem: Problem,
    master: Master,
    choice: Choice,
    solution: Solution,
    options: ProofOptions,
    limits: Limits,
    most: int | None,
) -> tuple[Choice, float]:
    """Take in every clause that a better choice could use, and choose among them."""
    relaxed = solution.objective or 0.0
    slack = choice.value - relaxed
    if slack <= 1e-7 * max(choice.value, 1.0):
        return choice, min(relaxed, choice.value)
    found = _price(problem, master, solution, -slack - 1e-7 * max(choice.value, 1.0), options)
    if found.open is not None or len(found.values) > options.columns:
        return choice, relaxed
    master.add(found.masks)
    closed = choose(master.cover(most), master.solve(), limits=limits, columns=options.columns, start=choice.chosen)
    return closed, min(max(relaxed, closed.bound), closed.value)


def _price(problem: Problem, master: Master, solution: Solution, threshold: float, options: ProofOptions) -> Enumerated:
    return enumerate_clauses(problem, master.prices(solution), threshold=threshold, budget=options.budget)


def _farley(problem: Problem, solution: Solution, worth: float) -> float:
    negative = float(problem.weight[problem.positives :].sum())
    cheapest = problem.clause_cost + min(problem.literal_cost, negative)
    scale = 1.0 + max(worth, 0.0) / cheapest if cheapest > 0 else np.inf
    return float((solution.objective or 0.0) / scale)
