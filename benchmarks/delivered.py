"""What does `improve` take beside the solver alone, and how does it grow with the table?

The random tables of the frontier benchmark as worlds: certified to 1 % at 10,000 states, and plan by plan from 25
to 200 states of three actions. Seconds are processor seconds of one thread; all code has been compiled before. The
exponent is the slope of log seconds over log states, by least squares.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.frontier import instances
from polidiff import TabularMDP, improve
from polidiff.frontier.large import solve_large
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.solve import Effort
from polidiff.progress import Clock

GAP = 0.01
LARGE = (10_000,)
SMALL = (25, 50, 100, 200)
RUNS = 3  # of the large table, solver and `improve` in turn


def run(smoke: bool) -> dict[str, Any]:
    """Both questions; small tables in a smoke run."""
    improve(*_world(instances.random_sparse(1600, 4, 1)), gap=0.2)  # compiles what it compiles
    certified = [_certified(size, 1 if smoke else RUNS) for size in ((2000,) if smoke else LARGE)]
    proven = [_proven(size) for size in (SMALL[:2] if smoke else SMALL)]
    slope = np.polyfit(np.log([p["states"] for p in proven]), np.log([p["seconds"] for p in proven]), 1)[0]
    return {"certified": certified, "proven": proven, "exponent": round(float(slope), 2)}


def _world(problem: FrontierProblem) -> tuple[TabularMDP, Any]:
    """A problem in which every state offers every action, as a world with one absorbing state; the current actions."""
    size, moves = problem.n_states, problem.transitions
    ends = sparse.csr_array(1.0 - np.asarray(moves.sum(axis=1)).reshape(-1, 1))
    full = sparse.csr_array(sparse.hstack([moves, ends]))
    last = sparse.csr_array(([1.0], ([0], [size])), shape=(1, size + 1))
    actions = problem.n_pairs // size
    rows = [sparse.csr_array(sparse.vstack([full[a::actions], last])) for a in range(actions)]
    rewards = np.append(problem.reward.reshape(size, actions), np.zeros((1, actions)), axis=0)
    world = TabularMDP(rows, rewards, np.append(problem.initial, 0.0), absorbing=[size])
    return world, np.append(problem.action[problem.base], 0)


def _certified(size: int, runs: int) -> dict[str, Any]:
    """The same table certified by the solver alone and by `improve`, in turn."""
    problem = instances.random_sparse(size, 4, 101, starts=size)
    (world, current), alone, whole = _world(problem), list[float](), list[float]()
    for _ in range(runs):
        began = time.process_time()
        solve_large(problem, Effort(gap=GAP), Clock())
        alone.append(time.process_time() - began)
        began = time.process_time()
        frontier = improve(world, current, gap=GAP)
        whole.append(time.process_time() - began)
    return {
        "states": size,
        "actions": 4,
        "plans": len(frontier),
        "gap": frontier.gap,
        "seconds of the solver": round(float(np.median(alone)), 2),
        "seconds of improve": round(float(np.median(whole)), 2),
        "ratio": round(float(np.median(whole) / np.median(alone)), 2),
        "peak megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _proven(size: int) -> dict[str, Any]:
    world, current = _world(instances.random_sparse(size, 3, 101))
    began = time.process_time()
    frontier = improve(world, current)
    seconds = round(time.process_time() - began, 2)
    return {"states": size, "actions": 3, "plans": len(frontier), "gap": frontier.gap, "seconds": seconds}
