r"""Plans that keep other outcomes within limits: one more price for each guard.

A plan with :math:`J_G \le g` returns, for any prices :math:`\lambda, \mu \ge 0`, at most

.. math:: \max_\pi\,[\,J_R - \lambda J_C - \mu^\top J_G\,] + \lambda c + \mu^\top g ,

so the branch and bound works as before on tilted rewards, and only completions that keep the guards become plans. Good
prices are the dual values of the linear program over mixed policies at a few numbers of changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from polidiff.errors import InfeasibleError
from polidiff.frontier.branch import branch_and_bound
from polidiff.frontier.completion import GUARD_TOLERANCE, Nodes, Widened, complete, family_of, keeps_guards, widen
from polidiff.frontier.hull import Hull, parametric_hull
from polidiff.frontier.local_search import local_search, neighbours
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.solve import Effort, Solved, certified
from polidiff.frontier.staircase import Archive, new_archive
from polidiff.frontier.visits import points_of
from polidiff.optimize import Clock, Program, solve
from polidiff.records.arrays import FloatArray, IntArray

EVERY_POLICY = 3e8  # policies times states cubed up to which all are evaluated
EVERY_LOOP = 3_000  # policies up to which that is done where some never end
WINDOWS = 12  # numbers of changes at which the linear program is asked for prices


@dataclass(frozen=True)
class Prices:
    """The linear program over mixed policies at one number of changes."""

    changes: float
    price: float
    tilt: FloatArray  # (guards,)


def solve_guarded(
    problem: FrontierProblem,
    texts: tuple[str, ...],
    effort: Effort,
    clock: Clock,
    budget: float | None,
    given: FrontierProblem | None = None,
) -> Solved:
    """Every non-dominated plan that keeps the guards, or the best one within a budget.

    `given` is the problem in the units of the user, for what an error says.
    """
    hull = parametric_hull(problem)
    prices = _price_grid(problem, texts, budget, given or problem)
    if can_enumerate(problem):
        archive = enumerated(problem, hull)
        solved = certified(hull, archive, None, budget, int(np.diff(problem.first).prod()), ends=False)
        if not len(solved.changes):
            raise InfeasibleError(_joint_message(texts))
        return replace(solved, method="every policy")
    wide = widen(problem, hull)
    roots = _roots(wide, prices, budget)
    archive = _first_plans(wide, hull, roots, budget)
    archive = local_search(wide.problem, archive, clock, most=effort.expansions // 4)
    search = branch_and_bound(
        wide.problem, archive, roots, clock, most=effort.most(problem.n_states), budget=budget, ends=False
    )
    if not len(search.archive) and search.open is None:
        raise InfeasibleError(_joint_message(texts))
    found = search.archive.renumbered(wide.narrow(search.archive.choices))
    solved = certified(hull, found, search.open, budget, search.nodes, ends=False)
    if not len(solved.changes):
        raise InfeasibleError(f"{_joint_message(texts)} (none was found before the limit; the search was not finished)")
    return solved


def can_enumerate(problem: FrontierProblem) -> bool:
    """Whether every policy can be evaluated in about a second; each must be looked at alone where some never end."""
    policies = float(np.diff(problem.first).astype(np.float64).prod())
    return policies * problem.n_states**3 <= EVERY_POLICY and (problem.always_ends or policies <= EVERY_LOOP)


def enumerated(problem: FrontierProblem, hull: Hull) -> Archive:
    """The non-dominated among all policies that end and keep the guards; of equals the one that changes fewest states.

    Where a guard is nearly the return itself, prices bound nothing, and on a small table this is the shorter way.
    """
    counts = np.diff(problem.first)
    every, period = np.tile(problem.first[:-1], (int(counts.prod()), 1)), 1
    for state in np.flatnonzero(counts > 1)[::-1]:  # `np.unravel_index` stops at 32 or 64 states
        every[:, state] += np.arange(len(every)) // period % counts[state]
        period *= int(counts[state])
    every = every[np.argsort((every != problem.base).sum(axis=1), kind="stable")]
    if not problem.always_ends:
        every = np.array([choice for choice in every if problem.ends(choice)])
    archive = new_archive(hull.changes, hull.returns, hull.choices)
    archive = Archive(archive.changes[:0], archive.returns[:0], every[:0], archive.tolerance)
    size = max(1, 2_000_000 // problem.n_states**2)
    for start in range(0, len(every), size):
        batch = every[start : start + size]
        points = points_of(problem, batch)
        kept = keeps_guards(problem, points[2:])
        archive = archive.with_points(points[0, kept], points[1, kept], batch[kept])
    return archive


def _price_grid(
    problem: FrontierProblem, texts: tuple[str, ...], budget: float | None, given: FrontierProblem
) -> list[Prices]:
    """Dual prices at a few numbers of changes; without a budget the last ones have no limit on changes."""
    free = _relaxed(problem, None)
    if free is None:
        raise InfeasibleError(_binding(given, texts))
    if budget is not None:
        held = _relaxed(problem, budget)
        if held is None:
            raise InfeasibleError(f"{_joint_message(texts)} within {budget:g} expected changes")
        return [held]
    grid = np.linspace(0.0, free.changes, WINDOWS + 1)[1:]
    held_all = [found for changes in grid if (found := _relaxed(problem, float(changes))) is not None]
    return [*held_all, Prices(np.inf, 0.0, free.tilt)]


def _relaxed(problem: FrontierProblem, changes: float | None) -> Prices | None:
    """Prices at the best mixed policy within a number of changes; None if no mixed policy keeps the guards."""
    most = np.inf if changes is None else changes
    rows = sparse.vstack([problem.flow, sparse.csr_array(problem.cost[None]), sparse.csr_array(problem.guards)])
    low = np.concatenate([problem.initial, np.full(1 + len(problem.limits), -np.inf)])
    high = np.concatenate([problem.initial, [most], problem.limits])
    answer = solve(Program.of(problem.reward, rows, row_low=low, row_high=high, maximise=True))
    if answer.status != "optimal" or answer.duals is None or answer.values is None:
        return None
    duals = np.maximum(answer.duals[problem.n_states :], 0.0)
    used = float(answer.values @ problem.cost) if changes is None else changes
    return Prices(used, float(duals[0]), duals[1:])


def _binding(problem: FrontierProblem, texts: tuple[str, ...]) -> str:
    """Names the first guard that no policy keeps, with the best value there is; all of them if only jointly."""
    for text, least, limit in zip(texts, _least(problem), problem.limits, strict=True):
        if least is not None and least > limit + GUARD_TOLERANCE * (1.0 + abs(limit)):
            best = _own(least, text)
            return f"no plan keeps {text!r}: the best that any allowed policy reaches is {best}. Hint: loosen it"
    return _joint_message(texts)


def best_reached(problem: FrontierProblem, texts: tuple[str, ...]) -> str:
    """The best value that any allowed policy reaches of what each guard limits, in words."""
    told = zip(texts, _least(problem), strict=True)
    return " and ".join(f"{_own(least, text)} for {text!r}" for text, least in told if least is not None)


def _least(problem: FrontierProblem) -> list[float | None]:
    """The least that any policy reaches of what each guard limits; None where the program has no answer."""
    flow, initial = problem.flow, problem.initial
    answers = [solve(Program.of(gains, flow, row_low=initial, row_high=initial)) for gains in problem.guards]
    return [answer.objective if answer.status == "optimal" else None for answer in answers]


def _own(least: float, text: str) -> str:
    """A value in the guard's own sign."""
    return f"{-least if '>' in text else least:.6g}"


def _joint_message(texts: tuple[str, ...]) -> str:
    if len(texts) == 1:
        return f"no plan keeps {texts[0]!r}. Hint: loosen it, or allow more actions"
    return f"no plan keeps {' and '.join(map(repr, texts))} together. Hint: loosen one, or allow more actions"


def _roots(wide: Widened, prices: list[Prices], budget: float | None) -> Nodes:
    """One node per window of changes, completed at its prices."""
    problem, count = wide.problem, len(prices)
    price = np.array([p.price for p in prices])
    tilt = np.array([p.tilt for p in prices])
    start = np.repeat(wide.number[wide.narrower.ending_choice(wide.narrower.base)][None], count, axis=0)
    fixed = np.zeros((count, problem.n_states), dtype=np.bool_)
    active = np.ones((count, problem.n_pairs), dtype=np.bool_)
    family = family_of(problem, start, price, tilt)
    done = complete(problem, family, np.arange(count), start.copy(), price, tilt, fixed, active)
    high = np.array([p.changes for p in prices])
    low = np.concatenate([[-2.0], high[:-1]])
    if budget is not None:
        high = np.array([budget])
    visits = np.repeat(problem.initial[None], count, axis=0)
    return Nodes(done.choice, price, tilt, done.total, fixed, active, low, high, visits)


def _first_plans(wide: Widened, hull: Hull, roots: Nodes, budget: float | None) -> Archive:
    """Plans among the hull, the roots and their neighbours that keep the guards."""
    problem = wide.problem
    seeds = np.unique(np.concatenate([wide.number[hull.choices], roots.choice]), axis=0)
    scale = new_archive(hull.changes, hull.returns, wide.number[hull.choices])
    archive = Archive(np.zeros(0), np.zeros(0), seeds[:0], scale.tolerance)
    size = max(1, 2_000_000 // problem.n_states**2)
    for start in range(0, len(seeds), size):
        batch = seeds[start : start + size]
        around = neighbours(problem, batch)
        archive = archive.with_points(
            around.own_changes[around.own_valid], around.own_returns[around.own_valid], batch[around.own_valid]
        )
        plan, pair = np.nonzero(around.valid)
        choices: IntArray = batch[plan]
        choices[np.arange(len(plan)), problem.state[pair]] = pair
        archive = archive.with_points(around.changes[plan, pair], around.returns[plan, pair], choices)
    return archive
