"""Which method solves a setting: by its size, its guards, and whether changed states are counted."""

from __future__ import annotations

from polidiff.frontier.clock import Clock
from polidiff.frontier.guarded import solve_guarded
from polidiff.frontier.large import solve_large
from polidiff.frontier.setting import Setting
from polidiff.frontier.solve import Effort, Solved, solve_frontier
from polidiff.frontier.states import solve_states

LARGE = 1500  # states beyond which nothing is inverted


def solve_setting(
    setting: Setting, effort: Effort, clock: Clock, budget: float | None, max_states: int | None
) -> Solved:
    """Plans of a setting with what is proven about each."""
    texts = tuple(limit.text for limit in setting.limits)
    if max_states is not None:
        return solve_states(setting.problem, max_states, effort, clock, budget, texts)
    if texts:
        return solve_guarded(setting.problem, texts, effort, clock, budget)
    if setting.problem.n_states > LARGE:
        return solve_large(setting.problem, effort, clock, budget)
    return solve_frontier(setting.problem, effort, clock, budget)
