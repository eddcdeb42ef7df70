"""Which method solves a setting: by its size, its guards, and whether changed states are counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.frontier.guarded import solve_guarded
from polidiff.frontier.hull import OutOfTimeError
from polidiff.frontier.large import solve_large
from polidiff.frontier.problem import FrontierProblem, contracted
from polidiff.frontier.scaling import scaled
from polidiff.frontier.setting import Setting
from polidiff.frontier.solve import Effort, Solved, bounded, solve_frontier
from polidiff.frontier.states import solve_states
from polidiff.frontier.visit_cuts import best_within, can_cut
from polidiff.optimize import Clock

LARGE = 1500  # states beyond which nothing is inverted


def solve_setting(
    setting: Setting, effort: Effort, clock: Clock, budget: float | None, max_states: int | None
) -> Solved:
    """Plans of a setting with what is proven about each."""
    less = contracted(setting.problem) if max_states is None else None
    own = scaled(setting.problem if less is None else less.problem)
    solved = own.back(_solve(setting, own.problem, effort, clock, budget, max_states))
    if less is None:
        return solved
    hull = replace(solved.hull, choices=less.back(solved.hull.choices))
    return replace(solved, choices=less.back(solved.choices), hull=hull)


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
    try:
        return solve_frontier(problem, effort, clock, budget)
    except OutOfTimeError:  # prices by bisection stop anywhere
        return solve_large(problem, effort, clock, budget)


def _second_opinion(problem: FrontierProblem, solved: Solved, clock: Clock, budget: float) -> Solved:
    """Cuts on visits for a guarded budget that branch and bound left open: their plan if better, their bound."""
    if clock.over() or not can_cut(problem):
        return solved
    start = solved.choices[-1].astype(np.int64)
    other = best_within(problem, budget, start, float(solved.returns[-1]), clock)
    if other.choice is not None and other.returns > solved.returns[-1]:
        returns, choices, changes = solved.returns.copy(), solved.choices.copy(), solved.changes.copy()
        returns[-1], choices[-1], changes[-1] = other.returns, other.choice, other.changes
        solved = replace(solved, returns=returns, choices=choices, changes=changes)
    return bounded(solved, other.bound)
