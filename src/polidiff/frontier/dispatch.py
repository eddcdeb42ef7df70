r"""Which method solves a setting: by its size, its guards, and whether changed states are counted.

*Units.* A problem is solved in units of its own: gains over the current policy, the largest of them about 1.

For any function :math:`V` of states, rewards :math:`r(s,a) + \sum_{s'} P(s' \mid s,a) V(s') - V(s)` give every policy
that ends the return :math:`J - p_0^\top V`. With :math:`V` the values of the current policy they are its advantages, so
that constants and the size of the rewards no longer meet the tolerances of the search: multiplying rewards, or adding
to an outcome what every policy gets, changes no plan. Outcomes that are guarded are treated the same way. Factors are
powers of two, which round nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.frontier.guarded import solve_guarded
from polidiff.frontier.hull import Hull, OutOfTimeError
from polidiff.frontier.large import solve_large
from polidiff.frontier.milp import best_within, can_cut
from polidiff.frontier.problem import FrontierProblem, contracted
from polidiff.frontier.setting import Setting
from polidiff.frontier.solve import Effort, Solved, bounded, solve_frontier
from polidiff.frontier.states import solve_states
from polidiff.frontier.visits import fundamental
from polidiff.optimize import Clock
from polidiff.records.arrays import FloatArray, IntArray

LARGE = 1500  # states beyond which nothing is inverted
DENSE_UP_TO = 1500  # states up to which values of the current policy are solved for; beyond, units alone change
NOISE = 8 * np.finfo(np.float64).eps  # a gain below this share of what it is the difference of is rounding


@dataclass(frozen=True, eq=False)
class Scaled:
    """A problem, the same in units of its own, and the way back."""

    problem: FrontierProblem
    offset: float  # return of the current policy
    unit: float  # return per unit of the scaled problem

    def back(self, solved: Solved) -> Solved:
        """An answer of the scaled problem in the units of the given one."""
        hull = solved.hull
        return replace(
            solved,
            returns=self.offset + self.unit * solved.returns,
            bounds=self.offset + self.unit * solved.bounds,
            span=self.unit * solved.span,
            hull=Hull(hull.changes, self.offset + self.unit * hull.returns, hull.choices, hull.pivots),
        )


def scaled(problem: FrontierProblem) -> Scaled:
    """The problem with gains over the current policy in place of rewards and guarded outcomes."""
    weights = np.concatenate([problem.reward[None], problem.guards])
    values = np.zeros((len(weights), problem.n_states))
    if problem.n_states <= DENSE_UP_TO:
        base = problem.ending_choice(problem.base)
        inverse = fundamental(problem, base[None])[0]
        values = weights[:, base] @ inverse.T
        weights = _gains(problem, weights, values, base)
    units = np.array([_power_of_two(float(np.abs(row).max(initial=0.0))) for row in weights])
    weights, offsets = weights / units[:, None], values @ problem.initial
    limits = (problem.limits - offsets[1:]) / units[1:]
    own = replace(problem, reward=weights[0], guards=weights[1:], limits=limits)
    return Scaled(own, float(offsets[0]), float(units[0]))


def _gains(problem: FrontierProblem, weights: FloatArray, values: FloatArray, base: IntArray) -> FloatArray:
    """(m, pairs) what a pair brings more than the current policy; what is only rounding becomes 0."""
    ahead, before = (problem.transitions @ values.T).T, values[:, problem.state]
    size = np.abs(weights) + (problem.transitions @ np.abs(values).T).T + np.abs(before)
    gains = weights + ahead - before
    gains[np.abs(gains) <= NOISE * size] = 0.0
    gains[:, base] = 0.0
    return np.asarray(gains)


def _power_of_two(size: float) -> float:
    """The power of two next below a size; 1 for nothing."""
    return float(2.0 ** np.floor(np.log2(size))) if size > 0 else 1.0


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
        return solve_states(problem, max_states, effort, clock, budget, texts, setting.problem)
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
