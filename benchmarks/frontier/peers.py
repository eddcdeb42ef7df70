"""What others would do: the published program, swept over budgets, through HiGHS; SCIP where it is installed."""

from __future__ import annotations

import time
from typing import Any

import highspy
import numpy as np
from scipy import sparse

from benchmarks.frontier.program import best_by_program, mixed_program, rounded
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.visits import max_visits
from polidiff.optimize import Limits, Program, Solution, solve
from polidiff.optimize.solver import _model

STEP = 1e-5  # by which a sweep lowers the budget; a plan nearer than that to the one before is not seen


def sweep(problem: FrontierProblem, seconds: float) -> dict[str, Any]:
    """Budget after budget from the optimum down, each by the program; points found and whether the sweep ended.

    The bounds on visits are worked out once. At the solver's own tolerance of 1e-6 some sweeps end early, with a policy
    that breaks its budget; so it is 1e-9 here.
    """
    began, points, budget, why = time.process_time(), list[tuple[float, float]](), np.inf, "time"
    most = 1.001 * max_visits(problem)[problem.state]
    while (left := seconds - (time.process_time() - began)) > 0:
        answer = solve(mixed_program(problem, most, budget=budget), limits=Limits(time=left, tolerance=1e-9))
        found = rounded(problem, answer, budget)
        if answer.status != "optimal" or found.choice is None:
            why = f"the solver says {answer.status}" if answer.status != "optimal" else "its policy breaks the budget"
            break
        if points and points[-1][1] <= found.returns + 1e-9:
            points.pop()
        points.append((found.changes, found.returns))
        if found.changes <= 1e-9:
            why = "ended"
            break
        budget = found.changes - STEP
    return {"points": points[::-1], "seconds": time.process_time() - began, "end": why}


def single(problem: FrontierProblem, budget: float, seconds: float) -> dict[str, Any]:
    """One budget by HiGHS with visits bounded per state."""
    began = time.process_time()
    found = best_by_program(problem, budget=budget, limits=Limits(time=seconds))
    value = None if found.choice is None else found.returns
    return {"seconds": time.process_time() - began, "status": found.status, "return": value}


def scip(problem: FrontierProblem, budget: float, seconds: float, most: Any = None) -> dict[str, object]:
    """One budget by SCIP with visits bounded per pair; a note if it is not installed.

    By default `most` are the visits that any policy makes, which must then end. What SCIP picks is evaluated.
    """
    try:
        from pyscipopt import Model, quicksum
    except ImportError:
        return {"note": "pyscipopt is not installed"}
    bounds = 1.001 * max_visits(problem)[problem.state] if most is None else most
    program = mixed_program(problem, bounds, budget=budget)
    model = Model()
    model.hideOutput()
    model.setParam("limits/time", seconds)
    kinds = ["B" if whole else "C" for whole in program.integer]
    variables = [model.addVar(vtype=kind, lb=0.0, ub=1.0 if kind == "B" else None) for kind in kinds]
    rows = program.matrix.tocsr()
    for i in range(rows.shape[0]):
        index = slice(rows.indptr[i], rows.indptr[i + 1])
        line = quicksum(v * variables[j] for v, j in zip(rows.data[index], rows.indices[index], strict=True))
        if program.row_low[i] == program.row_high[i]:
            model.addCons(line == program.row_low[i])
            continue
        if np.isfinite(program.row_high[i]):
            model.addCons(line <= program.row_high[i])
        if np.isfinite(program.row_low[i]):
            model.addCons(line >= program.row_low[i])
    model.setObjective(quicksum(c * x for c, x in zip(program.objective, variables, strict=True)), "maximize")
    began = time.process_time()
    model.optimize()
    facts = {"seconds": time.process_time() - began, "status": model.getStatus(), "nodes": model.getNNodes()}
    if not model.getNSols():
        return {**facts, "return": None}
    picked = Solution("feasible", np.array([model.getVal(variable) for variable in variables]))
    evaluated = rounded(problem, picked, budget)
    return {**facts, "return": model.getObjVal(), "evaluated": [evaluated.changes, evaluated.returns]}


def most_visits(problem: FrontierProblem, budget: float) -> tuple[Any, float]:
    """(pairs,) the most visits of each pair within a budget, one warm linear program each; and the seconds taken."""
    began, most = time.process_time(), np.zeros(problem.n_pairs)
    limits = sparse.vstack([problem.flow, sparse.csr_array(problem.cost[None])])
    low, high = np.append(problem.initial, -np.inf), np.append(problem.initial, budget)
    highs = highspy.Highs()
    highs.silent()
    highs.setOptionValue("threads", 1)
    highs.passModel(_model(Program.of(np.zeros(problem.n_pairs), limits, row_low=low, row_high=high, maximise=True)))
    for pair in range(problem.n_pairs):
        highs.changeColCost(pair, 1.0)
        highs.run()
        most[pair] = highs.getInfo().objective_function_value
        highs.changeColCost(pair, 0.0)
    return most, time.process_time() - began


def optimum(problem: FrontierProblem, discount: float) -> dict[str, dict[str, Any]]:
    """The unconstrained optimum by quantecon and pymdptoolbox, where they are installed: seconds and mean value."""
    rows = _closed(problem)
    found: dict[str, dict[str, Any]] = {}
    for name, solver in (("quantecon", _quantecon), ("pymdptoolbox", _mdptoolbox)):
        try:
            began = time.process_time()
            value = solver(problem, rows, discount)
            found[name] = {"seconds": round(time.process_time() - began, 3), "return": value}
        except ImportError:
            found[name] = {"note": "not installed"}
        except Exception as error:
            found[name] = {"note": f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"}
    return found


def _closed(problem: FrontierProblem) -> Any:
    """(pairs + actions, states + 1) rows that sum to 1: what one lacked leads to one more state, never left."""
    count, states = problem.transitions.shape
    ends = 1.0 - np.asarray(problem.transitions.sum(axis=1)).ravel()
    open_rows = sparse.hstack([problem.transitions, sparse.csr_matrix(ends[:, None])])
    actions = count // states
    last = sparse.csr_matrix((np.ones(actions), (np.arange(actions), np.full(actions, states))), (actions, states + 1))
    return sparse.vstack([open_rows, last]).tocsr()


def _quantecon(problem: FrontierProblem, rows: Any, discount: float) -> float:
    from quantecon.markov import DiscreteDP

    actions = problem.n_pairs // problem.n_states
    states = np.repeat(np.arange(problem.n_states + 1), actions)
    rewards = np.append(problem.reward, np.zeros(actions))
    process = DiscreteDP(rewards, rows, discount, states, np.tile(np.arange(actions), problem.n_states + 1))
    answer = process.solve(method="modified_policy_iteration", epsilon=1e-6)
    return float(problem.initial @ answer.v[:-1])


def _mdptoolbox(problem: FrontierProblem, rows: Any, discount: float) -> float:
    from mdptoolbox.mdp import PolicyIterationModified

    actions = problem.n_pairs // problem.n_states
    rewards = np.append(problem.reward, np.zeros(actions)).reshape(-1, actions)
    moves = [rows[a::actions] for a in range(actions)]
    process = PolicyIterationModified(moves, rewards, discount, epsilon=1e-6, max_iter=10_000)
    process.run()
    return float(problem.initial @ np.asarray(process.V)[:-1])
