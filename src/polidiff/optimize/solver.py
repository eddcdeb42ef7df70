"""The one file that calls a solver (HiGHS): `solve` for a whole program, `GrowingProgram` for one that grows.

One thread and no clock unless asked for, so that the same program gives the same answer everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import highspy
import numpy as np
import numpy.typing as npt
from scipy import sparse

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, read_only

Numbers: TypeAlias = npt.ArrayLike  # one number, or one per row or column
Matrix: TypeAlias = Any  # whatever scipy makes a sparse matrix from
_STATUS: dict[object, Status] = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kInfeasible: "infeasible",
    highspy.HighsModelStatus.kUnbounded: "unbounded",
    highspy.HighsModelStatus.kModelEmpty: "optimal",
}
Status: TypeAlias = Literal["optimal", "feasible", "infeasible", "unbounded", "unsolved"]


def solve(program: Program, *, start: AnyArray | None = None, limits: Limits | None = None) -> Solution:
    """Best values of a linear or mixed-integer program.

    Parameters
    ----------
    program : Program
        What to optimise.
    start : ndarray of shape (n,), optional
        A feasible point: the answer is never worse than it. NaN leaves a variable to the solver.
    limits : Limits, optional
        When to stop early; the answer then has status "feasible" or "unsolved".

    Examples
    --------
    >>> knapsack = Program.of([5.0, 4.0, 3.0], [[2.0, 3.0, 1.0]], row_high=4.0, high=1.0, integer=True, maximise=True)
    >>> answer = solve(knapsack)
    >>> answer.status, answer.values, answer.objective, answer.bound
    ('optimal', array([1., 0., 1.]), 8.0, 8.0)
    >>> solve(Program.of([1.0], [[1.0]], row_low=2.0, high=1.0)).status
    'infeasible'
    """
    limits = limits or Limits()
    whole = bool(program.integer.any())
    highs = _quiet(limits, whole)
    highs.passModel(_model(program))
    if start is not None and whole:
        highs.setSolution(_start(start))
    highs.run()
    answer = _integer_solution(highs, program) if whole else _linear_solution(highs)
    if start is not None and not np.isnan(start).any() and _loses_to(answer, program, np.asarray(start)):
        point = np.asarray(start, dtype=np.float64)
        bound = _beyond(answer.bound, program.value(point), program.maximise)
        return Solution("feasible", point, program.value(point), bound, nodes=answer.nodes)
    return answer


class GrowingProgram:
    """A linear program that gains rows and columns between solves; each solve starts from the last basis.

    >>> master = GrowingProgram(maximise=True)
    >>> master.add_columns([1.0, 1.0], low=0.0, high=[2.0, 2.0])
    >>> master.solve().objective
    4.0
    >>> master.add_rows([[1.0, 1.0]], row_high=3.0)
    >>> answer = master.solve()
    >>> answer.objective, answer.duals
    (3.0, array([1.]))
    """

    def __init__(self, *, maximise: bool = False, limits: Limits | None = None) -> None:
        self._highs = _quiet(limits or Limits(), whole=False)
        sense = highspy.ObjSense.kMaximize if maximise else highspy.ObjSense.kMinimize
        self._highs.changeObjectiveSense(sense)

    def add_columns(self, objective: Numbers, *, low: Numbers, high: Numbers, matrix: Matrix | None = None) -> None:
        """New variables with their coefficients in the present rows: `matrix` of shape (rows, new variables)."""
        costs = np.asarray(objective, dtype=np.float64)
        size = len(costs)
        shape = (self._highs.getNumRow(), size)
        entries = _dense(matrix.T) if isinstance(matrix, np.ndarray) else None
        if entries is None:
            entries = _entries(sparse.csc_array(shape if matrix is None else matrix, dtype=np.float64))
        self._highs.addCols(size, costs, _full(low, size), _full(high, size), *entries)

    def add_rows(self, matrix: Matrix, *, row_low: Numbers = -np.inf, row_high: Numbers = np.inf) -> None:
        """New rows over the present variables: `matrix` of shape (new rows, variables)."""
        rows = matrix if isinstance(matrix, np.ndarray) else sparse.csr_array(matrix, dtype=np.float64)
        entries = _dense(rows) if isinstance(rows, np.ndarray) else _entries(rows)
        size = rows.shape[0]
        self._highs.addRows(size, _full(row_low, size), _full(row_high, size), *entries)

    def set_bounds(self, columns: AnyArray, *, low: Numbers, high: Numbers) -> None:
        """Other bounds for the named variables."""
        index = np.asarray(columns, dtype=np.int32)
        self._highs.changeColsBounds(len(index), index, _full(low, len(index)), _full(high, len(index)))

    def solve(self, seconds: float | None = None) -> Solution:
        """The optimum as the program stands; unsolved where that takes longer."""
        if seconds is not None:  # the solver counts the seconds of all its solves
            self._highs.setOptionValue("time_limit", self._highs.getRunTime() + seconds)
        self._highs.run()
        status = self._highs.getModelStatus()
        if (
            _STATUS.get(status) is None and status != highspy.HighsModelStatus.kTimeLimit
        ):  # the basis it starts from may be at fault
            self._highs.clearSolver()
            self._highs.run()
        return _linear_solution(self._highs)


def _quiet(limits: Limits, whole: bool) -> highspy.Highs:
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    if limits.time is not None:
        highs.setOptionValue("time_limit", float(max(limits.time, 0.0)))
    if limits.tolerance is not None:
        for which in ("primal", "dual", "mip"):
            highs.setOptionValue(f"{which}_feasibility_tolerance", float(limits.tolerance))
    if whole:
        highs.setOptionValue("mip_rel_gap", float(limits.gap))
        highs.setOptionValue("mip_abs_gap", 0.0)
        if limits.nodes is not None:
            highs.setOptionValue("mip_max_nodes", int(limits.nodes))
    return highs


def _model(program: Program) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.objective), program.matrix.shape[0]
    lp.col_cost_ = program.objective
    lp.col_lower_, lp.col_upper_ = _full(program.low, lp.num_col_), _full(program.high, lp.num_col_)
    lp.row_lower_, lp.row_upper_ = _full(program.row_low, lp.num_row_), _full(program.row_high, lp.num_row_)
    lp.sense_ = highspy.ObjSense.kMaximize if program.maximise else highspy.ObjSense.kMinimize
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = program.matrix.indptr.astype(np.int32)
    lp.a_matrix_.index_ = program.matrix.indices.astype(np.int32)
    lp.a_matrix_.value_ = program.matrix.data
    if program.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(whole)] for whole in program.integer]
    return lp


def _start(start: AnyArray) -> highspy.HighsSolution:
    point = highspy.HighsSolution()
    point.col_value = [highspy.kHighsInf if np.isnan(value) else float(value) for value in start]
    return point


def _integer_solution(highs: highspy.Highs, program: Program) -> Solution:
    status = _STATUS.get(highs.getModelStatus())
    info = highs.getInfo()
    nodes = max(int(info.mip_node_count), 0)
    bound = float(info.mip_dual_bound)
    proven = bound if np.isfinite(bound) and abs(bound) < highspy.kHighsInf else None
    if status in ("infeasible", "unbounded"):
        return Solution(status, nodes=nodes)
    values = np.array(highs.getSolution().col_value, dtype=np.float64)
    if len(values) != len(program.objective) or info.primal_solution_status != highspy.kSolutionStatusFeasible:
        return Solution("unsolved", bound=proven, nodes=nodes)
    values = np.where(program.integer, np.round(values), values)
    value = program.value(values)
    return Solution(status or "feasible", values, value, _beyond(proven, value, program.maximise), nodes=nodes)


def _beyond(bound: float | None, value: float, maximise: bool) -> float | None:
    """A bound that a feasible value does not contradict; a solver that fails may leave one of 0 behind."""
    if bound is None or (bound - value if maximise else value - bound) < -1e-6 * max(1.0, abs(value)):
        return None
    return bound


def _linear_solution(highs: highspy.Highs) -> Solution:
    status = _STATUS.get(highs.getModelStatus(), "unsolved")
    if status != "optimal":
        return Solution(status)
    point = highs.getSolution()
    objective = float(highs.getInfo().objective_function_value)
    return Solution(
        "optimal",
        np.array(point.col_value, dtype=np.float64),
        objective,
        objective,
        duals=np.array(point.row_dual, dtype=np.float64),
    )


def _loses_to(answer: Solution, program: Program, start: AnyArray) -> bool:
    if answer.status in ("infeasible", "unbounded") or program.violation(start) > 1e-6:
        return False
    if answer.objective is None:
        return True
    better = program.value(start) - answer.objective
    return (better if program.maximise else -better) > 1e-9 * max(1.0, abs(answer.objective))


def _entries(matrix: Matrix) -> tuple[int, AnyArray, AnyArray, AnyArray]:
    return matrix.nnz, matrix.indptr[:-1].astype(np.int32), matrix.indices.astype(np.int32), matrix.data


def _dense(matrix: AnyArray) -> tuple[int, AnyArray, AnyArray, AnyArray]:
    """As `_entries`, of a small array row by row, without the detour over a sparse matrix."""
    row, column = np.nonzero(matrix)
    starts = np.searchsorted(row, np.arange(len(matrix))).astype(np.int32)
    return len(row), starts, column.astype(np.int32), matrix[row, column].astype(np.float64)


def _full(value: Numbers, size: int) -> FloatArray:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(value, dtype=np.float64), (size,)))


# "feasible": a limit was hit with a solution in hand; "unsolved": a limit was hit, or the solver gave up, without one.


@dataclass(frozen=True, eq=False)
class Program:
    """min (or max) objective · x, subject to row_low ≤ matrix · x ≤ row_high and low ≤ x ≤ high."""

    objective: FloatArray  # (n,)
    matrix: sparse.csr_array  # (m, n)
    row_low: FloatArray  # (m,) -inf when open
    row_high: FloatArray  # (m,) +inf when open
    low: FloatArray  # (n,)
    high: FloatArray  # (n,)
    integer: BoolArray  # (n,) which variables must be whole numbers
    maximise: bool = False

    @classmethod
    def of(
        cls,
        objective: AnyArray,
        matrix: Any,
        *,
        row_low: AnyArray | float = -np.inf,
        row_high: AnyArray | float = np.inf,
        low: AnyArray | float = 0.0,
        high: AnyArray | float = np.inf,
        integer: AnyArray | bool = False,
        maximise: bool = False,
    ) -> Program:
        """A program from anything that has the right shape; scalars are repeated.

        >>> Program.of([1.0, 1.0], [[1.0, 2.0]], row_low=3.0).row_high
        array([inf])
        """
        costs = np.asarray(objective, dtype=np.float64)
        rows = sparse.csr_array(matrix, dtype=np.float64)
        if rows.shape[1] != len(costs):
            raise ValueError(f"the matrix has {rows.shape[1]} columns for {len(costs)} variables")

        def spread(value: AnyArray | float, size: int) -> FloatArray:
            return np.asarray(read_only(np.broadcast_to(np.asarray(value, dtype=np.float64), (size,))))

        return cls(
            objective=costs,
            matrix=rows,
            row_low=spread(row_low, rows.shape[0]),
            row_high=spread(row_high, rows.shape[0]),
            low=spread(low, len(costs)),
            high=spread(high, len(costs)),
            integer=np.broadcast_to(np.asarray(integer, dtype=np.bool_), (len(costs),)),
            maximise=maximise,
        )

    def value(self, x: AnyArray) -> float:
        """Objective of a point, whether or not it is feasible."""
        return float(self.objective @ x)

    def violation(self, x: AnyArray) -> float:
        """Largest amount by which a point breaks a row, a bound or integrality.

        >>> Program.of([1.0], [[2.0]], row_high=1.0, integer=True).violation(np.array([1.0]))
        1.0
        """
        rows = self.matrix @ x
        parts = [self.row_low - rows, rows - self.row_high, self.low - x, x - self.high]
        parts.append(np.abs(x - np.round(x))[self.integer])
        return max([0.0, *(float(part.max()) for part in parts if len(part))])


@dataclass(frozen=True)
class Limits:
    """When a solver may stop early. Wall-clock time is outside the promise "same input, same answer"."""

    time: float | None = None  # seconds
    nodes: int | None = None  # of branch and bound
    gap: float = 1e-6  # relative, at which an integer solution counts as optimal
    tolerance: float | None = None  # by which rows, bounds and integrality may be broken; the solver's 1e-6 by default


@dataclass(frozen=True, eq=False)
class Solution:
    """What the solver proved. `bound` is on the proven side of the optimum (below it when minimising)."""

    status: Status
    values: FloatArray | None = None  # (n,)
    objective: float | None = None  # of `values`
    bound: float | None = None
    duals: FloatArray | None = None  # (m,) change of the optimum per unit of each row's side; linear programs only
    nodes: int = 0
