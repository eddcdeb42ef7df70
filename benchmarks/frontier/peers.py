"""What others would do: the published program, swept over budgets, through HiGHS; SCIP where it is installed."""

from __future__ import annotations

import time

import numpy as np

from polidiff.frontier.milp import best_by_program, mixed_program
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.values import max_visits
from polidiff.optimize import Limits


def sweep(problem: FrontierProblem, seconds: float) -> dict[str, object]:
    """Budget after budget from the optimum down, each by the program; points found and whether the sweep ended."""
    began, points, budget = time.process_time(), [], np.inf
    while time.process_time() - began < seconds:
        found = best_by_program(problem, budget=budget, limits=Limits(time=seconds))
        if found.choice is None:
            return {"points": points[::-1], "seconds": time.process_time() - began, "ended": False}
        if points and points[-1][1] <= found.returns + 1e-9:
            points.pop()
        points.append((found.changes, found.returns))
        if found.changes <= 1e-9:
            return {"points": points[::-1], "seconds": time.process_time() - began, "ended": True}
        budget = found.changes - 1e-5
    return {"points": points[::-1], "seconds": time.process_time() - began, "ended": False}


def single(problem: FrontierProblem, budget: float, seconds: float) -> dict[str, object]:
    """One budget by HiGHS with visits bounded per state."""
    began = time.process_time()
    found = best_by_program(problem, budget=budget, limits=Limits(time=seconds))
    return {"seconds": time.process_time() - began, "status": found.status, "return": found.returns}


def scip(problem: FrontierProblem, budget: float, seconds: float) -> dict[str, object]:
    """One budget by SCIP with visits bounded per state; a note if it is not installed."""
    try:
        from pyscipopt import Model, quicksum
    except ImportError:
        return {"note": "pyscipopt is not installed"}
    program = mixed_program(problem, 1.001 * max_visits(problem), budget=budget)
    model = Model()
    model.hideOutput()
    model.setParam("limits/time", seconds)
    kinds = ["B" if whole else "C" for whole in program.integer]
    variables = [model.addVar(vtype=kind, lb=0.0, ub=1.0 if kind == "B" else None) for kind in kinds]
    rows = program.matrix.tocsr()
    for i in range(rows.shape[0]):
        index = slice(rows.indptr[i], rows.indptr[i + 1])
        line = quicksum(v * variables[j] for v, j in zip(rows.data[index], rows.indices[index], strict=True))
        if np.isfinite(program.row_high[i]):
            model.addCons(line <= program.row_high[i])
        if np.isfinite(program.row_low[i]):
            model.addCons(line >= program.row_low[i])
    model.setObjective(quicksum(c * x for c, x in zip(program.objective, variables, strict=True)), "maximize")
    began = time.process_time()
    model.optimize()
    value = model.getObjVal() if model.getNSols() else None
    return {"seconds": time.process_time() - began, "status": model.getStatus(), "return": value}
