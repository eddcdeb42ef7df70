"""How far does the proof of a frontier go, and how much faster is it than the published program?

Seconds are processor seconds of one thread, so that a shared machine does not blur them.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.frontier import instances, peers
from polidiff.frontier.clock import Clock
from polidiff.frontier.hull import parametric_hull
from polidiff.frontier.large import SparseSolver, solve_large
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.solve import Effort, Solved, solve_frontier
from polidiff.frontier.states import solve_states

SWEEPS = [(10, 4, 1), (20, 2, 1), (15, 4, 1), (30, 2, 1)]
WHOLE = [(30, 4, 1), (30, 4, 2), (80, 2, 1), (100, 2, 1), (50, 4, 1)]
SINGLE = [(100, 2, 1), (100, 4, 1), (300, 2, 1), (300, 4, 1)]
STATES = [(30, 4, 6), (100, 4, 5)]
HULLS = [(300, 4, 1), (1000, 4, 1)]
LARGE = [(10_000, 1e-2, 60), (10_000, 1e-3, 120), (100_000, 2e-2, 200)]


def run(smoke: bool) -> dict[str, Any]:
    """All questions; the smallest case of each in a smoke run."""
    take = slice(0, 1) if smoke else slice(None)
    return {
        "whole frontier against the sweep": [_against_sweep(*case, 5.0 if smoke else 60.0) for case in SWEEPS[take]],
        "whole frontier": [_whole(*case, 5.0 if smoke else 200.0) for case in WHOLE[take]],
        "single budget": [_single(*case, 1.0 if smoke else 20.0) for case in SINGLE[take]],
        "hull": [_hull(*case) for case in HULLS[take]],
        "changed states": [_states(*case) for case in STATES[take]],
        "certified": [_certified(*case) for case in ([(3000, 0.05, 5)] if smoke else LARGE)],
        "other tables": [_other(name, 5.0 if smoke else 40.0) for name in (OTHERS[:1] if smoke else OTHERS)],
    }


def _timed(function: Any, *arguments: Any) -> tuple[Any, float]:
    began = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - began


def _facts(problem: FrontierProblem, solved: Solved, seconds: float) -> dict[str, Any]:
    return {
        "states": problem.n_states,
        "pairs": problem.n_pairs,
        "plans": len(solved.changes),
        "proven": int(sum(solved.proven)),
        "gap": solved.gap,
        "hull vertices": len(solved.hull.changes),
        "pivots": solved.hull.pivots,
        "nodes": solved.nodes,
        "seconds": round(seconds, 4),
    }


def _against_sweep(n_states: int, n_actions: int, seed: int, limit: float) -> dict[str, Any]:
    problem = instances.random_sparse(n_states, n_actions, seed)
    solved, seconds = _timed(solve_frontier, problem, Effort(), Clock())
    naive = peers.sweep(problem, limit)
    ours = np.column_stack([solved.changes, solved.returns])
    same = bool(naive["ended"]) and len(naive["points"]) == len(ours) and np.allclose(naive["points"], ours, atol=1e-4)
    return {
        "case": f"{n_states} x {n_actions}",
        **_facts(problem, solved, seconds),
        "sweep seconds": round(float(naive["seconds"]), 2),
        "sweep ended": naive["ended"],
        "sweep points": len(naive["points"]),
        "same points": bool(same),
        "ratio": round(float(naive["seconds"]) / seconds, 1),
    }


def _whole(n_states: int, n_actions: int, seed: int, limit: float) -> dict[str, Any]:
    problem = instances.random_sparse(n_states, n_actions, seed)
    effort = Effort(nodes=10**9, gap=1e-3)
    solved, seconds = _timed(solve_frontier, problem, effort, Clock(limit))
    return {"case": f"{n_states} x {n_actions}", "seed": seed, **_facts(problem, solved, seconds)}


def _single(n_states: int, n_actions: int, seed: int, limit: float) -> dict[str, Any]:
    problem = instances.random_sparse(n_states, n_actions, seed)
    budget = float(parametric_hull(problem).changes[-1]) / 2
    solved, seconds = _timed(solve_frontier, problem, Effort(nodes=10**9), Clock(4 * limit), budget)
    highs = peers.single(problem, budget, limit)
    return {
        "case": f"{n_states} x {n_actions}",
        **_facts(problem, solved, seconds),
        "return": float(solved.returns[-1]),
        "HiGHS": highs,
        "SCIP": peers.scip(problem, budget, limit),
        "ratio to HiGHS": round(float(highs["seconds"]) / seconds, 1),
    }


def _hull(n_states: int, n_actions: int, seed: int) -> dict[str, Any]:
    problem = instances.random_sparse(n_states, n_actions, seed)
    hull, seconds = _timed(parametric_hull, problem)
    return {
        "case": f"{n_states} x {n_actions}",
        "vertices": len(hull.changes),
        "pivots": hull.pivots,
        "seconds": round(seconds, 3),
    }


def _states(n_states: int, n_actions: int, most: int) -> dict[str, Any]:
    problem = instances.random_sparse(n_states, n_actions, 1)
    solved, seconds = _timed(solve_states, problem, most, Effort(), Clock(), 1e9)
    return {"case": f"{n_states} x {n_actions}, {most} states", **_facts(problem, solved, seconds)}


def _certified(n_states: int, gap: float, limit: float) -> dict[str, Any]:
    problem = instances.random_sparse(n_states, 4, 1, starts=n_states)
    solver = SparseSolver(problem)
    _, optimum = _timed(lambda: solver.best(0.0, solver.cheapest()))
    solved, seconds = _timed(solve_large, problem, Effort(gap=gap), Clock(limit))
    return {
        "case": f"{n_states} x 4 to {gap:g}",
        "optimum seconds": round(optimum, 3),
        "optimum rounds": solver.rounds,
        **_facts(problem, solved, seconds),
    }


OTHERS = ["machine replacement", "inventory", "grid", "FrozenLake 8x8", "ICU-Sepsis"]


def _other(name: str, limit: float) -> dict[str, Any]:
    problem = {
        "machine replacement": lambda: instances.machine_replacement(40, 0),
        "inventory": lambda: instances.inventory(60, 0),
        "grid": lambda: instances.grid(8, 0),
        "FrozenLake 8x8": instances.frozen_lake,
        "ICU-Sepsis": instances.icu_sepsis,
    }[name]()
    hull, hull_seconds = _timed(parametric_hull, problem)
    budget = float(hull.changes[-1]) / 10
    one, one_seconds = _timed(solve_frontier, problem, Effort(nodes=10**9), Clock(limit), budget)
    solved, seconds = _timed(solve_frontier, problem, Effort(nodes=10**9, gap=1e-3), Clock(limit))
    return {
        "case": name,
        **_facts(problem, solved, seconds),
        "hull seconds": round(hull_seconds, 3),
        "one budget": {"proven": one.proven[-1], "nodes": one.nodes, "seconds": round(one_seconds, 3)},
    }
