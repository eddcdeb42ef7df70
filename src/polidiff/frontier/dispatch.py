"""Which method solves a setting: by its size, its guards, and whether changed states are counted."""

from __future__ import annotations

from dataclasses import replace

from polidiff.errors import InvalidOptionError
from polidiff.frontier.guarded import solve_guarded
from polidiff.frontier.large import solve_large
from polidiff.frontier.milp import best_by_program
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.scaling import scaled
from polidiff.frontier.setting import Setting
from polidiff.frontier.solve import Effort, Solved, solve_frontier
from polidiff.frontier.states import solve_states
from polidiff.optimize import Clock, Limits

LARGE = 1500  # states beyond which nothing is inverted
PROGRAM_MOST, PROGRAM_NODES = 300, 2_000  # states and nodes up to which the mixed-integer program is asked


def solve_setting(
    setting: Setting, effort: Effort, clock: Clock, budget: float | None, max_states: int | None
) -> Solved:
    """Plans of a setting with what is proven about each."""
    own = scaled(setting.problem)
    return own.back(_solve(setting, own.problem, effort, clock, budget, max_states))


def _solve(
    setting: Setting,
    problem: FrontierProblem,
    effort: Effort,
    clock: Clock,
    budget: float | None,
    max_states: int | None,
) -> Solved:
    texts = tuple(limit.text for limit in setting.limits)
    if problem.n_states > LARGE and (texts or max_states is not None):
        raise InvalidOptionError(
            f"{'keep' if texts else 'max_states'}= works on tables of at most {LARGE:,} states that decide; this one "
            f"has {problem.n_states:,}. Hint: give a budget= instead, or merge states"
        )
    if max_states is not None:
        return solve_states(problem, max_states, effort, clock, budget, texts)
    if texts:
        solved = solve_guarded(problem, texts, effort, clock, budget, setting.problem)
        return solved if budget is None or not solved.stopped else _second_opinion(problem, solved, clock, budget)
    if problem.n_states > LARGE:
        return solve_large(problem, effort, clock, budget)
    return solve_frontier(problem, effort, clock, budget)


def _second_opinion(problem: FrontierProblem, solved: Solved, clock: Clock, budget: float) -> Solved:
    """The mixed-integer program on a guarded budget that branch and bound left open: its plan if better, its bound."""
    if problem.n_states > PROGRAM_MOST or clock.over() or not problem.always_ends or (problem.base < 0).any():
        return solved
    limits = Limits(time=clock.limit(), nodes=PROGRAM_NODES)
    other = best_by_program(problem, budget=budget, start=solved.choices[-1], limits=limits)
    returns, choices, changes = solved.returns.copy(), solved.choices.copy(), solved.changes.copy()
    if other.choice is not None and other.returns > returns[-1]:
        returns[-1], choices[-1], changes[-1] = other.returns, other.choice, other.changes
    bounds = solved.bounds.copy()
    bounds[-1] = max(returns[-1], min(bounds[-1], other.bound))
    gap = float(bounds[-1] - returns[-1]) / solved.span
    method = f"{solved.method}, mixed-integer program"
    return replace(solved, returns=returns, choices=choices, changes=changes, bounds=bounds, gap=gap, method=method)
