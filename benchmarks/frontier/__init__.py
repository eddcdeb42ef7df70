"""How far does the proof of a frontier go, and how much faster is it than the published program?

Seconds are processor seconds of one thread, so that a shared machine does not blur them.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.frontier import instances, peers
from polidiff.frontier.hull import parametric_hull
from polidiff.frontier.large import solve_large
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.solve import Effort, Solved, solve_budgets, solve_frontier
from polidiff.frontier.sparse_solver import SparseSolver
from polidiff.frontier.states import solve_states
from polidiff.progress import Clock

SWEEPS = [(10, 4, 101), (10, 4, 102), (20, 2, 101), (20, 2, 102), (30, 2, 101), (30, 2, 102), (15, 4, 101)]
SWEEPS += [(15, 4, 102), (20, 3, 101), (40, 2, 101), (20, 4, 101)]
WHOLE = [(30, 4, 101), (30, 4, 102), (100, 2, 101), (100, 2, 102), (50, 4, 101), (50, 4, 102)]
WHOLE += [(100, 4, 101), (100, 4, 102), (100, 4, 103)]
SINGLE = [(100, 2, 101), (100, 4, 101), (300, 2, 101), (300, 4, 101)]
STATES = [(30, 4, 6), (100, 4, 5)]
HULLS = [(300, 4, 101), (1000, 4, 101)]
LARGE = [(10_000, 1e-2, 60), (10_000, 1e-3, 120), (100_000, 2e-2, 200), (100_000, 1e-2, 200), (1_000_000, 5e-2, 900)]
OTHERS = ["machine replacement", "inventory", "grid", "FrozenLake 8x8", "ICU-Sepsis"]
RUNS = 7  # of the unconstrained optimum
BUDGETS = 40  # of ICU-Sepsis
FIRST = ["20 x 2", "300 x 4", "3000 x 4"]  # tables of a first call


def run(smoke: bool) -> dict[str, Any]:
    """All questions; the smallest case of each in a smoke run."""
    take = slice(0, 1) if smoke else slice(None)
    return {
        "whole frontier against the sweep": [_against_sweep(*case, 5.0 if smoke else 600.0) for case in SWEEPS[take]],
        "whole frontier": [_whole(*case, 5.0 if smoke else 200.0) for case in WHOLE[take]],
        "single budget": [_single(*case, 1.0 if smoke else 20.0) for case in SINGLE[take]],
        "single budget, large": [] if smoke else [_large_budget(1000, 4, 101, 60.0)],
        "hull": [_hull(*case) for case in HULLS[take]],
        "changed states": [_states(*case) for case in STATES[take]],
        "certified": [_certified(*case) for case in ([(3000, 0.05, 5)] if smoke else LARGE)],
        "unconstrained optimum": [_optimum(3000 if smoke else 100_000, discount) for discount in (0.99, 1.0)],
        "other tables": [_other(name, 2.0 if smoke else 8.0) for name in (OTHERS[:1] if smoke else OTHERS)],
        "ICU-Sepsis": [] if smoke else [_icu_budgets(BUDGETS), _icu_certified(120.0)],
        "first call": [first_call(case) for case in (["20 x 2"] if smoke else FIRST)],
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
        "seconds": round(seconds, 5),
    }


def _against_sweep(n_states: int, n_actions: int, seed: int, limit: float) -> dict[str, Any]:
    naive = peers.sweep(instances.random_sparse(n_states, n_actions, seed), limit)
    return {"case": f"{n_states} x {n_actions}", "seed": seed, **beside_sweep(n_states, n_actions, seed, naive)}


def beside_sweep(n_states: int, n_actions: int, seed: int, naive: dict[str, Any]) -> dict[str, Any]:
    """Ours right after a sweep: the median of as many runs as fit into a second, each from the table's arrays."""
    solve_frontier(instances.random_sparse(n_states, n_actions, seed + 1), Effort(), Clock())
    times: list[float] = []
    while sum(times) < 1.0:
        problem = instances.random_sparse(n_states, n_actions, seed)
        solved, seconds = _timed(solve_frontier, problem, Effort(), Clock())
        times.append(seconds)
    ours = np.column_stack([solved.changes, solved.returns])
    skipped = np.append(np.diff(ours[:, 0]) < peers.STEP, False)
    shown = ours[~skipped]
    same = len(naive["points"]) == len(shown) and np.allclose(naive["points"], shown, atol=1e-4)
    return {
        **_facts(problem, solved, float(np.median(times))),
        "spread of seconds": [round(float(q), 5) for q in np.quantile(times, [0.1, 0.9])],
        "runs": len(times),
        "sweep seconds": round(float(naive["seconds"]), 2),
        "sweep end": naive["end"],
        "sweep points": len(naive["points"]),
        "points nearer than the sweep's step": int(skipped.sum()),
        "same points": bool(same),
        "ratio": round(float(naive["seconds"]) / float(np.median(times)), 1),
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


def _large_budget(n_states: int, n_actions: int, seed: int, limit: float) -> dict[str, Any]:
    problem = instances.random_sparse(n_states, n_actions, seed)
    budget = float(parametric_hull(problem).changes[-1]) / 2
    solved, seconds = _timed(solve_frontier, problem, Effort(nodes=10**9), Clock(limit), budget)
    return {"case": f"{n_states} x {n_actions}", **_facts(problem, solved, seconds)}


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
    solve_states(instances.random_sparse(10, n_actions, 1), 3, Effort(), Clock(), 1e9)  # compiles what it compiles
    solved, seconds = _timed(solve_states, problem, most, Effort(), Clock(), 1e9)
    return {"case": f"{n_states} x {n_actions}, {most} states", **_facts(problem, solved, seconds)}


def _certified(n_states: int, gap: float, limit: float) -> dict[str, Any]:
    problem = instances.random_sparse(n_states, 4, 101, starts=n_states)
    SparseSolver(instances.random_sparse(1000, 4, 101)).optimum()  # compiles what it compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    solved, seconds = _timed(solve_large, problem, Effort(gap=gap), Clock(limit))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "case": f"{n_states} x 4 to {gap:g}",
        "transitions": int(problem.transitions.nnz),
        "peak megabytes before and after": [before // 1024, after // 1024],
        **_facts(problem, solved, seconds),
    }


def _optimum(n_states: int, discount: float) -> dict[str, Any]:
    open_ended = instances.random_sparse(n_states, 4, 101, starts=n_states)
    problem = replace(open_ended, transitions=discount * open_ended.transitions)
    small = instances.random_sparse(1000, 4, 101, starts=1000)
    _, cold = _timed(lambda: SparseSolver(small).optimum())
    peers.optimum(small, 0.99)  # compiles what they compile
    runs = []
    for _ in range(RUNS):  # side by side, so that a shared machine slows both
        solver, built = _timed(SparseSolver, problem)
        (_, values), solved = _timed(solver.optimum)
        runs.append((built + solved, peers.optimum(open_ended, discount)))
    seconds = float(np.median([run[0] for run in runs]))
    others = runs[0][1]
    for name in (name for name, other in others.items() if "seconds" in other):
        others[name]["seconds"] = float(np.median([run[1][name]["seconds"] for run in runs]))
    return {
        "case": f"{n_states} x 4, discount {discount:g}",
        "seconds": round(seconds, 4),
        "seconds of all runs": [round(run[0], 4) for run in runs],
        "seconds of the first call in the process": round(cold, 3),
        "return": float(problem.initial @ values),
        "rounds": solver.rounds,
        **others,
        "ratios": {name: round(o["seconds"] / seconds, 1) for name, o in others.items() if "seconds" in o},
    }


def _icu_budgets(count: int) -> dict[str, Any]:
    problem = instances.icu_sepsis()
    budgets = [float(b) for b in np.linspace(0.005, 0.995, count) * parametric_hull(problem).changes[-1]]
    solved, seconds = _timed(solve_budgets, problem, budgets, Effort(nodes=10**9), Clock(600))
    return {
        "case": f"{count} budgets",
        "proven": sum(one.proven[-1] for one in solved),
        "nodes": sum(one.nodes for one in solved),
        "seconds": round(seconds, 2),
    }


def _icu_certified(limit: float) -> dict[str, Any]:
    problem = instances.icu_sepsis()
    solved, seconds = _timed(solve_frontier, problem, Effort(nodes=10**9, gap=1e-3), Clock(limit))
    return {"case": f"whole frontier to 0.1 % in {limit:g} s", **_facts(problem, solved, seconds)}


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


def first_call(case: str) -> dict[str, Any]:
    """Wall seconds of the first frontier of a process, with nothing compiled before and then with kernels on disk."""
    states, actions = (int(part) for part in case.split(" x "))
    code = (
        "import time; from benchmarks.frontier import instances; from polidiff.progress import Clock; "
        "from polidiff.frontier.solve import Effort, solve_frontier; from polidiff.frontier.large import solve_large; "
        f"problem = instances.random_sparse({states}, {actions}, 101, starts={states}); "
        "effort, began = Effort(nodes=200, expansions=20, gap=0.05), time.perf_counter(); "
        f"{'solve_large' if states > 1500 else 'solve_frontier'}(problem, effort, Clock()); "
        "print(time.perf_counter() - began)"
    )
    with tempfile.TemporaryDirectory() as folder:
        kept = {**os.environ, "NUMBA_CACHE_DIR": folder}
        runs = [
            subprocess.run([sys.executable, "-c", code], env=kept, capture_output=True, text=True, check=True)
            for _ in range(2)
        ]
    cold, warm = (float(run.stdout) for run in runs)
    return {"case": case, "cold": round(cold, 3), "warm": round(warm, 3), "more": round(cold - warm, 3)}
