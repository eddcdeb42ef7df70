"""Slippery grids, the paper's own family: how soon is a budget proven, beside linear programs and SCIP?

Seconds are processor seconds of one thread; ours are the median of some runs after a first one that loads what is
compiled. The peer bounds the visits of every pair by a linear program and hands the mixed-integer program to SCIP.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.frontier import instances, peers
from polidiff.frontier.hull import parametric_hull
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.solve import Effort, solve_frontier
from polidiff.frontier.table import scaled
from polidiff.progress import Clock

BUDGETS = [(8, 0.3), (10, 0.3), (12, 0.5), (16, 0.3)]
LARGE = [(32, 0.3, 60.0)]  # side, share of the optimum's changes, seconds
WHOLE = [("8x8", 60.0), ("10x10", 300.0), ("12x12", 300.0), ("FrozenLake 8x8", 1500.0)]  # and seconds
PEER = 60.0  # seconds that the peer may take
RUNS = 3


def run(smoke: bool) -> dict[str, Any]:
    """One budget on grids of several sizes, then whole frontiers."""
    solve_frontier(instances.slippery_grid(8, 0), Effort(), Clock(), 1.0)  # compiles what it compiles
    return {
        "one budget": [_budget(side, share, 5.0 if smoke else PEER) for side, share in BUDGETS[: 1 if smoke else None]],
        "one budget, large": [] if smoke else [_large(*case) for case in LARGE],
        "whole frontier": [_whole(*case) for case in WHOLE[: 1 if smoke else None]],
    }


def _budget(side: int, share: float, limit: float) -> dict[str, Any]:
    problem = instances.slippery_grid(side, 1)
    budget = round(share * float(parametric_hull(problem).changes[-1]), 6)
    seconds = []
    for _ in range(RUNS):
        own, began = instances.slippery_grid(side, 1), time.process_time()
        solved = solve_frontier(own, Effort(), Clock(), budget)
        seconds.append(time.process_time() - began)
    most, visits_seconds = peers.most_visits(problem, budget)
    peer = peers.scip(problem, budget, limit, 1.001 * most)
    return {
        "case": f"{side}x{side}, {share:.0%}",
        "states": problem.n_states,
        "budget": budget,
        "return": float(solved.returns[-1]),
        "changes": float(solved.changes[-1]),
        "proven": solved.proven[-1],
        "gap": solved.gap,
        "nodes": solved.nodes,
        "seconds": round(float(np.median(seconds)), 4),
        "seconds of all runs": [round(one, 4) for one in seconds],
        "LP + SCIP": {"seconds for visits": round(visits_seconds, 3), **peer},
    }


def _large(side: int, share: float, limit: float) -> dict[str, Any]:
    problem = instances.slippery_grid(side, 1)
    budget = round(share * float(parametric_hull(problem).changes[-1]), 6)
    return {"case": f"{side}x{side}, {share:.0%}", "budget": budget, **_solved(problem, limit, budget)}


def _whole(case: str, limit: float) -> dict[str, Any]:
    side = case.split("x")[0]
    problem = instances.slippery_grid(int(side), 1) if side.isdigit() else scaled(instances.frozen_lake()).problem
    return {"case": case, **_solved(problem, limit, None)}


def _solved(problem: FrontierProblem, limit: float, budget: float | None) -> dict[str, Any]:
    """Until the proof ends or the processor has worked for so long: on a busy machine the wall clock says little."""
    began, clock = time.process_time(), ProcessClock(limit)
    solved = solve_frontier(problem, Effort(nodes=10**9, gap=1e-3), clock, budget)
    return {
        "states": problem.n_states,
        "plans": len(solved.changes),
        "proven": int(sum(solved.proven)),
        "gap": solved.gap,
        "nodes": solved.nodes,
        "seconds": round(time.process_time() - began, 2),
        "limit": limit,
    }


@dataclass
class ProcessClock(Clock):
    """A limit in processor seconds."""

    started: float = field(default_factory=time.process_time)

    def left(self) -> float:
        """Seconds left, infinite without a limit."""
        return float("inf") if self.seconds is None else self.seconds - (time.process_time() - self.started)

    def share(self, part: float) -> Clock:
        """Part of what is left, in processor seconds too."""
        return ProcessClock(None if self.seconds is None else max(0.0, self.left() * part))
